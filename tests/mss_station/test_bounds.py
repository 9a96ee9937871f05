"""What must not grow: item bytes in memory, the drop list, log lines; and the kill points of the tests."""

from __future__ import annotations

import logging
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from roamcast.middleware.effects import Reject
from roamcast.middleware.rows import Kind, Row
from roamcast.middleware.writes import PutRow, PutStart
from roamcast.mss_station.buckets import Buckets
from roamcast.mss_station.disk_share import LOG_BYTES_LEAST, log_limit
from roamcast.mss_station.drop_list import DropList
from roamcast.mss_station.item_budget import ROW_BYTES, ItemBudget
from roamcast.mss_station.kill_points import KillPoint
from roamcast.mss_station.tally import KEYS_MAX, Tally


def row(n: int, size: int, kind: Kind = Kind.BROADCAST) -> Row:
    return Row(1, n, (), 0, kind, 1, 1, n, (1, 0), 0, b"x" * size, size)


def test_the_oldest_committed_items_give_up_their_bytes() -> None:
    budget = ItemBudget(bytes_max=2 * (40 + ROW_BYTES) + 20)
    rows = [row(n, 40) for n in range(1, 6)]
    budget.committed([*(PutRow(one) for one in rows), PutStart(1)])
    assert [one.item is None for one in rows] == [True, True, True, False, False]
    assert [one.size for one in rows] == [40] * 5
    assert budget.bytes_held == 2 * (40 + ROW_BYTES)


def test_an_item_without_bytes_is_kept() -> None:
    budget = ItemBudget(bytes_max=10)
    empty = row(1, 0, Kind.LEAVE)
    budget.committed([PutRow(empty), PutRow(row(2, 10)), PutRow(row(3, 10))])
    assert empty.item == b""


def test_a_row_too_large_for_the_budget_is_dropped_at_once() -> None:
    budget, large = ItemBudget(bytes_max=10), row(1, 50)
    budget.hold(large)
    assert large.item is None and budget.bytes_held == 0


def test_the_drop_list_keeps_the_newest() -> None:
    dropped = DropList(channels_max=3)
    for name in (b"a", b"b", b"c", b"a", b"d"):
        dropped.add(name, answer=name == b"d")
    assert [name in dropped for name in (b"a", b"b", b"c", b"d")] == [True, False, True, True]
    assert len(dropped) == 3
    assert [dropped.take_answer(b"d"), dropped.take_answer(b"d"), dropped.take_answer(b"a")] == [True, False, False]


def test_the_log_leaves_a_tenth_of_the_disk_free(tmp_path: Path) -> None:
    total = shutil.disk_usage(tmp_path).total
    assert log_limit(tmp_path, 0, 1) == 1
    assert log_limit(tmp_path, 0, 2 * total) <= max(LOG_BYTES_LEAST, 0.91 * total)
    assert log_limit(tmp_path, total, 3 * total) >= total - total // 10
    assert log_limit(tmp_path, -2 * total, total) == min(total, LOG_BYTES_LEAST)


def test_a_flood_of_one_event_makes_one_line(caplog: pytest.LogCaptureFixture) -> None:
    tally = Tally()
    with caplog.at_level(logging.INFO, "roamcast.station"):
        for i in range(1_000):
            tally.line(logging.WARNING, "rejected", f"number {i}", "bad-frame")
        tally.line(logging.WARNING, "rejected", "another kind", "rate")
    assert [record.getMessage() for record in caplog.records] == ["rejected: number 0", "rejected: another kind"]


def test_no_line_tells_the_id_of_a_channel(caplog: pytest.LogCaptureFixture) -> None:
    tally = Tally()
    for channel in (b"\0abcd", b"\0abce"):
        tally.reject(Reject(channel, f"bad-{channel[-1]}", "text"))
    first, second = (record.getMessage() for record in caplog.records)
    assert b"abc".hex() not in first and first.rpartition("channel ")[2] != second.rpartition("channel ")[2]


def test_a_bucket_fills_up_again_and_is_nobody_elses() -> None:
    buckets = Buckets()
    assert [buckets.take("ann", 0, 2, 10) for _ in range(3)] == [True, True, False]
    assert buckets.take("bob", 0, 2, 10)
    assert [buckets.take("ann", now, 2, 10) for now in (9, 10, 15, 20)] == [False, True, False, True]
    assert [buckets.take("ann", 1_000, 2, 10) for _ in range(3)] == [True, True, False]


def test_the_memory_of_lines_is_bounded() -> None:
    tally = Tally()
    for i in range(3 * KEYS_MAX):
        tally.line(logging.DEBUG, "event", "", i)
    assert len(tally._lines) <= KEYS_MAX


def test_the_p99_of_commits() -> None:
    tally = Tally()
    assert tally.commit_p99_ms() is None
    for ms in range(1, 101):
        tally.committed(ms / 1_000)
    assert tally.commit_p99_ms() == 99.0
    assert tally.counters == {"commits": 100}


@pytest.mark.parametrize("text", ["x:1", "before-commit", "before-commit:0", "before-commit:x", ":1"])
def test_a_wrong_kill_point_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="ROAMCAST_KILL_POINT"):
        KillPoint(text)


def test_a_kill_point_kills_at_its_count() -> None:
    program = (
        "from roamcast.mss_station.kill_points import KillPoint\n"
        "kill = KillPoint('after-commit:2')\n"
        "for name in ('before-commit', 'after-commit', 'after-commit'): kill.reached(name); print(name, flush=True)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == -signal.SIGKILL
    assert done.stdout.split() == ["before-commit", "after-commit"]


def test_without_a_name_nothing_is_killed() -> None:
    KillPoint("").reached("")
