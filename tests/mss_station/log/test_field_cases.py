"""What has happened to logs of others: ends cut off, read while written, rotated under load, cut by other tools."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from log_life import CARD, SECRET, Life, verify

from roamcast.middleware.settings import SECOND
from roamcast.mss_station.log import writer as writing
from roamcast.mss_station.log.files import segment_path, segments
from roamcast.mss_station.log.upload import upload
from roamcast.mss_station.log.verify import Verdict, verify_log
from roamcast.mss_station.log.writer import SEGMENT_AGE
from roamcast.transport import segment_writer
from roamcast.transport.segment import read_segment, scan
from roamcast.transport.segment_files import end_of
from roamcast.transport.tail_codec import decode_tail

PUBLIC = SECRET.public_key().public_bytes_raw()


@pytest.fixture
def life(tmp_path: Path) -> Life:
    return Life(tmp_path)


def verdicts(life: Life) -> list[Verdict]:
    """What `mss-station logs verify` says now."""
    reach = max((decode_tail(each.events).reach for each in life.tail[:1]), default=(0, 0))
    return list(verify_log(life.directory, CARD, [PUBLIC], life.heads.get(3), reach, lambda _: None))


def problems(life: Life) -> dict[int, str]:
    return {one.seq: one.problem for one in verdicts(life) if one.problem}


def blocks(life: Life, *numbers: int) -> None:
    """Each number a block of its own; and a commit without events behind it."""
    for number in numbers:
        life.tick(number)
        life.time += 2 * SECOND
        life.log.look()
    life.tick()


def stop(life: Life) -> None:
    """As a station ends: the log is closed, and the store told how far it has come."""
    life._commit(life.log.close())


def without_last(data: bytes, count: int) -> bytes:
    """A file without its last data blocks."""
    ends = [end for _, end, _ in scan(data)]
    return data[: ends[-1 - count]]


# ---- BL-69 ----


@pytest.mark.parametrize("gone", [1, 10, 20])
@pytest.mark.parametrize("goes_on", [False, True])
def test_the_last_entries_of_a_killed_station_are_missed(life: Life, gone: int, goes_on: bool) -> None:
    """The last 1, 10, all blocks of the segment that was open; seen by the store, and then by everybody."""
    blocks(life, *range(20))
    path = segment_path(life.directory, 1)
    if gone == 20:
        path.unlink()
    else:
        path.write_bytes(without_last(path.read_bytes(), gone))
    if not goes_on:
        told = {1: "the file is not here"} if gone == 20 else {1: f"events {20 - gone} to 19 are not here any more"}
        assert problems(life) == told
        return
    life.start()
    assert life.tally.counters["notice.log_incomplete"] == 1
    life.tick(100)
    life.time += 2 * SECOND
    life.log.look()
    second = read_segment(segment_path(life.directory, 2).read_bytes(), verify)
    assert second.header.note == f"segment 1: events {20 - gone} to 19 are not here any more"
    if gone < 20:
        assert problems(life)[1].startswith("it has no end: whole up to byte")
    assert list(second.columns("closed")["slot"]) == [100] and set(problems(life)) <= {1, 2}


@pytest.mark.parametrize("gone", [1, 10, 20])
@pytest.mark.parametrize("goes_on", [False, True])
def test_the_last_segments_of_a_stopped_station_are_missed(life: Life, gone: int, goes_on: bool) -> None:
    """Also those of which the others have not heard."""
    for number in range(20):
        life.tick(number)
        stop(life)
        life.start()
    stop(life)
    for seq in range(21 - gone, 21):
        segment_path(life.directory, seq).unlink()
    if goes_on:
        life.start()
        life.tick(100)
        stop(life)
        assert segments(life.directory)[-1] == 21
    if gone == 20 and goes_on:
        assert problems(life) == {21: "it follows none, though 20 came before it"}
    else:
        assert problems(life) == dict.fromkeys(range(21 - gone, 21), "the file is not here")
    assert life.tally.counters.get("notice.log_incomplete", 0) == goes_on


def test_a_segment_that_ended_by_its_age_is_missed_too(life: Life) -> None:
    blocks(life, 1)
    life.time += SEGMENT_AGE
    life.log.look()
    life.tick()
    segment_path(life.directory, 1).unlink()
    assert problems(life) == {1: "the file is not here"}


# ---- BL-71 ----


def test_a_log_that_is_written_killed_or_started_again_is_never_called_damaged(life: Life, tmp_path: Path) -> None:
    (tmp_path / "to").mkdir()

    def fine() -> list[str]:
        told = verdicts(life)
        assert not [one for one in told if one.problem], told
        states = [one.state for one in upload(life.directory, CARD, str(tmp_path / "to"), "{}", lambda _: None)]
        assert all((one.status == "closed") == (state != "not closed") for one, state in zip(told, states, strict=True))
        return [one.status for one in told]

    blocks(life, 1, 2)
    assert fine() == ["open"] and verdicts(life)[0].note.startswith("incomplete: whole up to byte ")
    path = segment_path(life.directory, 1)
    whole = path.read_bytes()
    for cut in (1, 5, 9, 40):  # killed within a block
        path.write_bytes(whole + whole[-50 : -50 + cut])
        assert fine() in (["torn"], ["open"]) and "incomplete" in verdicts(life)[0].note
    life.start()
    assert fine() == ["open"]
    blocks(life, 3)
    stop(life)
    assert fine() == ["closed"]
    life.start()
    blocks(life, 4)
    stop(life)
    assert fine() == ["closed", "closed"] and life.logged() == [1, 2, 3, 4]
    segment_path(life.directory, 3).write_bytes(b"")  # killed before it wrote anything
    assert fine() == ["closed", "closed", "torn"]
    life.start()
    blocks(life, 5)
    assert fine() == ["closed", "closed", "open"]


# ---- BL-72 ----


def test_fifty_rotations_at_a_high_rate(life: Life, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segment_writer, "SEGMENT_BYTES", 4_000)
    monkeypatch.setattr(writing, "BLOCK_EVENTS", 64)
    number = 0
    while len(segments(life.directory)) < 51:
        life.tick(*range(number, number + 100))
        number += 100
        life.time += 1_000
        life.log.look()
    stop(life)
    assert life.logged() == list(range(number)) and number > 10_000
    assert not problems(life)


def copy_and_truncate(path: Path) -> None:
    shutil.copy(path, path.with_name(path.name + ".1"))
    os.truncate(path, 0)


def cut_a_bit(path: Path) -> None:
    os.truncate(path, path.stat().st_size - 7)


def move_away(path: Path) -> None:
    path.rename(path.with_name("old"))


def replace(path: Path) -> None:
    data = path.read_bytes()
    path.unlink()
    path.write_bytes(data)


@pytest.mark.parametrize("tool", [copy_and_truncate, cut_a_bit, move_away, replace])
@pytest.mark.parametrize("waiting", [False, True])
def test_a_tool_that_cuts_the_file_that_is_written(life: Life, tool: Callable[[Path], None], waiting: bool) -> None:
    """It is told, the station goes on in a new segment, nothing that waits is lost, and no file has a hole."""
    blocks(life, 1, 2)
    if waiting:
        life.tick(3)
    path = segment_path(life.directory, 1)
    tool(path)
    life.time += 2 * SECOND
    life.log.look()
    if waiting:
        assert segments(life.directory) in ([1], []) and life.log.next_deadline() is None
        assert decode_tail(life.tail[0].events)[0] == 1
        life.tick()  # what waits is durable under its new number before the file is there
        assert [decode_tail(each.events)[:2] for each in life.tail] == [(2, 0)]
        life.log.look()
    blocks(life, 4)
    stop(life)
    assert life.tally.counters["notice.log_incomplete"] == 1
    second = read_segment(segment_path(life.directory, 2).read_bytes(), verify)
    assert second.status == "closed" and "was cut or replaced by something else" in second.header.note
    assert list(second.columns("closed")["slot"]) == ([3, 4] if waiting else [4])
    if path.exists():
        data = path.read_bytes()
        assert not data or end_of(data)[1] or data.count(0) != len(data)
        assert 1 in problems(life)
    life.start()
    blocks(life, 5)
    assert read_segment(segment_path(life.directory, 3).read_bytes(), verify).header.prev == second.end


def test_what_a_tool_appends_is_cut_off_again(life: Life) -> None:
    blocks(life, 1)
    with segment_path(life.directory, 1).open("ab") as file:
        file.write(b"rotated\n")
    blocks(life, 2)
    stop(life)
    assert life.logged() == [1, 2] and not problems(life)


def test_a_crash_between_the_new_tail_and_the_new_file(life: Life) -> None:
    blocks(life, 1)
    life.tick(2)
    copy_and_truncate(segment_path(life.directory, 1))
    life.time += 2 * SECOND
    life.log.look()
    life.tick(3)
    life.start()
    life.time += 2 * SECOND
    life.log.look()
    second = read_segment(segment_path(life.directory, 2).read_bytes(), verify)
    assert list(second.columns("closed")["slot"]) == [2, 3]
