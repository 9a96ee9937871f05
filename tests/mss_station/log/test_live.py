"""What a station's delivery log keeps of live messages: bounded, never synced for their sake, no part of the tail."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from log_life import Life, verify

from roamcast.middleware.delivery_log import CLOSED, HANDED, HOST, LIVE, MISSED, UNTOLD, Logged
from roamcast.middleware.settings import SECOND
from roamcast.mss_station.log.files import segment_path, segments
from roamcast.mss_station.log.live import PER_SECOND
from roamcast.transport.segment import read_segment, scan
from roamcast.transport.tail_codec import decode_tail

HOST_NUMBER = 3 << 32 | 1


class LiveLife(Life):
    """With ticks that tell of live messages."""

    def start(self) -> None:
        super().start()
        self.log.name_of = lambda number: "ann"

    def told(self, *events: Logged, commits: bool = False, committed: bool = True) -> None:
        writes = self.log.take(events, commits)
        if committed:
            self._commit(writes)
        self.log.closed(committed, commits)

    def logged(self) -> list[int]:
        return [number for seq in segments(self.directory) for number in self.columns(CLOSED, seq)["slot"]]

    def columns(self, event: str, seq: int = 1) -> dict[str, list[Any]]:
        segment = read_segment(segment_path(self.directory, seq).read_bytes(), verify)
        assert segment.status in ("closed", "open")
        return {name: list(values) for name, values in segment.columns(event).items() if values is not None}


def handed(stamp: int) -> Logged:
    return Logged(HANDED, (2, stamp, 7, stamp + 5, 1))


def taken(stamp: int) -> Logged:
    return Logged(LIVE, (stamp, HOST_NUMBER, 9, 1, 0, 0, 0, 500, 400, 10, 0, [2, stamp - 1], [1, 4, 3, 2]))


@pytest.fixture
def life(tmp_path: Path) -> LiveLife:
    return LiveLife(tmp_path)


@pytest.fixture
def syncs(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    made: list[int] = []
    real = os.fsync
    monkeypatch.setattr(os, "fsync", lambda file: (made.append(file), real(file))[1])
    return made


def test_it_goes_behind_what_is_durable_and_into_no_tail(life: LiveLife) -> None:
    life.told(taken(50), handed(49), Logged(CLOSED, (1, 0, 0)), commits=True)
    assert [event[0].event for part in life.tail for event in decode_tail(part.events).events] == [CLOSED]
    life.time += SECOND
    life.log.look()
    assert life.columns(CLOSED)["seq"] == [0]
    assert life.columns(HOST)["name"] == ["ann"]
    assert life.columns(LIVE)["past"] == [2, 49]
    assert life.columns(LIVE)["floor"] == [1, 4, 3, 2]
    assert life.columns(HANDED)["stamp"] == [49]
    life.log.close()
    assert life.logged() == [1]


def test_nothing_is_synced_or_committed_for_its_sake(life: LiveLife, syncs: list[int]) -> None:
    life.tick(1)
    life.time += SECOND
    life.log.look()
    before, tail = len(syncs), list(life.tail)
    for stamp in range(1, 4):
        life.told(taken(stamp), handed(stamp))
        assert life.log.next_deadline() == life.time + SECOND
        life.time += SECOND
        life.log.look()
    assert life.columns(HANDED)["stamp"] == [1, 2, 3]
    assert len(syncs) == before
    assert life.tail == tail
    life.tick(2)
    life.time += SECOND
    life.log.look()
    assert len(syncs) == before + 1
    life.log.close()
    assert life.logged() == [1, 2]


@pytest.mark.parametrize("with_tail", [False, True])
def test_a_machine_that_loses_unsynced_blocks_loses_no_fact(
    life: LiveLife, with_tail: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """The tail says of facts where they were to stand: behind what is lost."""
    life.tick(1)
    life.time += SECOND
    life.log.look()
    path = segment_path(life.directory, 1)
    synced = path.stat().st_size
    life.tick()  # what is synced goes from the tail
    life.told(taken(5), handed(4))
    life.time += SECOND
    life.log.look()
    assert path.stat().st_size > synced
    if with_tail:
        life.tick(2)
        life.tick(3)
    os.truncate(path, synced)
    life.start()
    assert "log_incomplete" not in caplog.text
    life.tick(4)
    for _ in range(2):  # crashes before and behind the block
        life.start()
        life.tick()
        life.time += SECOND
        life.log.look()
    life.log.close()
    assert life.logged() == [1, *([2, 3] if with_tail else []), 4]


def test_a_log_that_was_cut_below_what_is_synced_is_told(life: LiveLife, caplog: pytest.LogCaptureFixture) -> None:
    life.tick(1)
    life.time += SECOND
    life.log.look()
    life.told(handed(4))
    life.time += SECOND
    life.log.look()
    life.tick(2)
    path = segment_path(life.directory, 1)
    ends = [end for _, end, _ in scanned(path)]
    os.truncate(path, ends[0])
    life.start()
    assert "events 0 to 1 are not here any more" in caplog.text
    life.tick(3)
    life.log.close()


def scanned(path: Path) -> Sequence[tuple[int, int, int]]:
    return list(scan(path.read_bytes()))


def test_a_flood_is_counted(life: LiveLife) -> None:
    for stamp in range(3 * PER_SECOND):
        life.told(handed(stamp), Logged(MISSED, (6, 2, 1)), Logged(MISSED, (11, 0, 2)))
    life.time += SECOND
    life.log.look()
    assert life.columns(HANDED)["stamp"] == list(range(PER_SECOND))
    assert life.columns(UNTOLD)["handed"] == [2 * PER_SECOND]
    assert life.columns(MISSED)["cause"] == [6, 11]
    assert life.columns(MISSED)["count"] == [3 * PER_SECOND, 6 * PER_SECOND]
    assert segment_path(life.directory, 1).stat().st_size < 60 * PER_SECOND
    life.told(handed(1))
    life.log.close()
    assert life.columns(HANDED)["stamp"] == [*range(PER_SECOND), 1]
    assert life.columns(UNTOLD)["handed"] == [2 * PER_SECOND]


def test_what_a_tick_told_that_was_rolled_back_does_not_count(life: LiveLife) -> None:
    life.told(handed(1), Logged(CLOSED, (1, 0, 0)), commits=True, committed=False)
    life.told(handed(2))
    life.log.close()
    assert life.columns(HANDED)["stamp"] == [2]


def test_a_disk_that_takes_no_block_stops_nothing(life: LiveLife, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.write

    def full(file: int, data: bytes) -> int:
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr(os, "write", full)
    for second in range(10):
        for stamp in range(PER_SECOND + 100):
            life.told(handed(second * 10_000 + stamp))
        life.time += SECOND
        life.log.look()
    assert life.log.problem and life.log.shut is None
    monkeypatch.setattr(os, "write", real)
    life.time += 10 * SECOND
    life.log.look()
    there, lacking = life.columns(HANDED)["stamp"], life.columns(UNTOLD)["handed"]
    assert len(there) + lacking[0] == 10 * (PER_SECOND + 100)
    assert len(there) <= 4 * PER_SECOND
    assert life.log.problem is None
