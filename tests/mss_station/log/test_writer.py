"""The writer of the delivery log: what the store holds is logged once, whatever dies, and nothing else is."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from log_life import MIDNIGHT, WALL, Life, verify

from roamcast.middleware.delivery_log import ACK, CLOSED, Logged
from roamcast.middleware.settings import DAY, SECOND
from roamcast.mss_station.log import writer as writing
from roamcast.mss_station.log.files import segment_path, segments
from roamcast.mss_station.log.writer import BLOCK_EVENTS
from roamcast.mss_station.schema import LogHead
from roamcast.transport.segment import read_segment


class Died(BaseException):
    """The process is gone."""


@pytest.fixture
def life(tmp_path: Path) -> Life:
    return Life(tmp_path)


def test_a_block_is_written_after_a_second_and_the_tail_goes_with_the_next_commit(life: Life) -> None:
    life.tick(1, 2)
    life.log.look()
    assert not segments(life.directory) and len(life.tail) == 1
    life.time = SECOND
    life.log.look()
    assert life.logged() == [1, 2] and len(life.tail) == 1
    life.tick(3)
    assert len(life.tail) == 1


def test_a_log_is_new_until_something_was_logged(life: Life) -> None:
    """A newcomer commits its snapshot, and is made anew, before its log begins."""
    life.tick()
    assert life.log.is_new
    life.tick(1)
    assert not life.log.is_new
    life.start()
    assert not life.log.is_new


def test_many_events_do_not_wait(life: Life) -> None:
    life.tick(*range(BLOCK_EVENTS))
    life.log.look()
    assert life.logged() == list(range(BLOCK_EVENTS))


def test_an_end_within_a_tick_logs_nothing_of_it(life: Life) -> None:
    """The store has failed for good: whether the tick was committed is for its tail to say."""
    life.tick(1)
    life.time = SECOND
    life.log.look()
    for committed in (False, True):
        number = life.logged()[-1] + 1
        writes = life.log.take([Logged(CLOSED, (number, 0, 0))], True)
        assert life.log.close() == []
        if committed:
            life._commit(writes)
        life.start()
        life.log.close()
        assert life.logged() == list(range(1, number + committed))


def test_what_was_rolled_back_is_not_logged(life: Life) -> None:
    life.tick(1)
    life.tick(2, committed=False)
    life.tick(3)
    life.log.close()
    assert life.logged() == [1, 3]


def test_an_end_closes_the_segment_and_the_next_life_begins_another(life: Life) -> None:
    life.tick(1)
    life.log.close()
    assert read_segment(segment_path(life.directory, 1).read_bytes(), verify).status == "closed"
    life.start()
    life.tick(2)
    life.log.close()
    assert life.logged() == [1, 2] and segments(life.directory) == [1, 2]


def test_segments_end_with_their_time_and_with_the_day(life: Life) -> None:
    closed = []
    for time in (0, 899 * SECOND, 901 * SECOND, MIDNIGHT - 5 * SECOND, MIDNIGHT):
        life.time = time
        if time != MIDNIGHT:
            life.tick(time)
            life.time += SECOND
        life.log.look()
        closed.append(life.log.head and life.log.head[0])
    assert closed == [None, None, 1, 1, 2]
    assert len(life.logged()) == 4


def test_a_day_without_events_leaves_a_segment(life: Life) -> None:
    """Also the day of a start, if the last life ended before it; a log that never held anything proves nothing."""
    life.log.look()
    life.time = MIDNIGHT
    life.log.look()
    assert not segments(life.directory)
    life.tick(1)
    life.time += SECOND
    life.log.look()
    for day in (1, 2, 3):
        for after in (0, 1, DAY // 2):
            life.time = MIDNIGHT + day * DAY + after
            life.log.look()
        assert life.log.head is not None and life.log.head[0] == day
    life.log.close()
    life.time += DAY
    life.start()
    life.log.look()
    life.log.look()
    found = [read_segment(segment_path(life.directory, seq).read_bytes(), verify) for seq in segments(life.directory)]
    assert [(one.events, one.trailer and (one.trailer.closed - WALL - MIDNIGHT) // DAY) for one in found] == [
        (1, 1), (0, 2), (0, 3), (0, 4),
    ]  # fmt: skip
    assert life.logged() == [1]


def test_a_full_disk_at_midnight_delays_the_segment(life: Life, monkeypatch: pytest.MonkeyPatch) -> None:
    life.tick(1)
    life.time = SECOND
    life.log.look()
    life.time = MIDNIGHT
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", lambda _: (_ for _ in ()).throw(OSError(28, "No space left on device")))
        life.log.look()
        assert life.log.problem and life.log.head is None
    life.time += writing.RETRY
    life.log.look()
    assert life.log.problem is None and life.log.head is not None and life.logged() == [1]


def test_old_segments_go_and_the_newest_stays(life: Life) -> None:
    for number in range(3):
        life.tick(number)
        life.log.close()
        life.start()
    for seq in segments(life.directory):
        os.utime(segment_path(life.directory, seq), (1, 1))
    life.time = writing.PRUNE_INTERVAL
    life.log.look()
    assert segments(life.directory) == [3]


def test_a_full_disk_keeps_all_and_is_told_once(life: Life, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", full)
        for number in range(3):
            life.tick(number)
            life.time += 10 * SECOND
            life.log.look()
        assert life.log.status()["problem"] == "No space left on device"
        assert life.tally.counters["notice.log_failed"] == 1
        patch.setattr(writing, "WAITING_MAX", 3)
        assert life.log.shut == "the delivery log cannot be written: No space left on device"
    assert len(life.tail) == 3
    life.time += 10 * SECOND
    life.log.look()
    assert life.logged() == [0, 1, 2] and life.log.shut is None


@pytest.mark.parametrize("count", [0, 10, 150])
def test_what_was_cut_off_by_somebody_is_told(life: Life, count: int) -> None:
    """BL-69, BL-72: the whole file, or its end, after the head was told to all."""
    life.tick(1)
    life.log.close()
    assert life.log.head is not None
    life.heads[3] = LogHead(3, 77, *life.log.head)
    path = segment_path(life.directory, 1)
    if count:
        os.truncate(path, path.stat().st_size - count)
    else:
        path.unlink()
    life.start()
    life.tick(2)
    life.log.close()
    last = read_segment(segment_path(life.directory, segments(life.directory)[-1]).read_bytes(), verify)
    assert last.header.note or last.header.seq == 1


def test_any_deaths_and_rollbacks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was committed is logged once, in order; what was told without a commit at most once."""
    seed = random.SystemRandom().randrange(1 << 32)
    print("seed", seed)
    write = os.write
    doomed: list[random.Random] = []

    def dying(file: int, data: bytes) -> int:
        if not doomed:
            return write(file, data)
        write(file, data[: doomed[0].randint(0, len(data))])
        raise Died

    monkeypatch.setattr(os, "write", dying)
    for round_ in range(40):
        rng = random.Random(seed + round_)
        (tmp_path / str(round_)).mkdir()
        life = Life(tmp_path / str(round_))
        committed: list[int] = []
        told: list[int] = []
        number = 0
        for _ in range(60):
            life.time += rng.randint(0, 2 * SECOND)
            numbers = list(range(number, number + rng.randint(0, 4)))
            number += len(numbers)
            commits, done = rng.random() < 0.7, rng.random() < 0.9
            life.tick(*numbers, commits=commits, committed=done or not commits)
            told += numbers if done or not commits else []
            if commits and done:
                committed = list(told)
            doomed[:] = [rng] if rng.random() < 0.1 else []
            try:
                life.log.look()
                if rng.random() < 0.05:
                    life.log.close()
                    raise Died
            except Died:
                doomed.clear()
                life.start()
                kept = set(committed)
                told = [each for each in told if each in kept or each in life.logged()]
        doomed.clear()
        life.log.close()
        logged = life.logged()
        assert logged == sorted(set(logged)), f"seed {seed + round_}"
        assert set(committed) <= set(logged) <= set(told), f"seed {seed + round_}"


def test_a_segment_is_signed_by_the_key_that_it_names(life: Life) -> None:
    """One that another key would have to close stays open."""
    life.tick(1)
    life.log.cut()
    life.tick(2)
    life.time += SECOND
    life.log.look()
    life.log._signer.renew(Ed25519PrivateKey.from_private_bytes(bytes(32)))
    life.log.close()
    found = [read_segment(segment_path(life.directory, seq).read_bytes(), verify).status for seq in (1, 2)]
    assert found == ["closed", "open"]
    life.start()
    life.tick(3)
    life.log.close()
    assert life.logged() == [1, 2, 3]


def test_hosts_are_named_before_they_are_mentioned(life: Life) -> None:
    life.log.name_of = {7: "ann"}.get
    for c in (1, 2):
        writes = life.log.take([Logged(ACK, (7, 1, 1, c))], True)
        life._commit(writes)
        life.log.closed(True, True)
    life.log.close()
    segment = read_segment(segment_path(life.directory, 1).read_bytes())
    assert segment.columns("host")["name"] == ["ann"]
    assert list(segment.columns(ACK)["c"]) == [1, 2]
