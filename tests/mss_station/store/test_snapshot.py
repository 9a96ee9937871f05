"""A newcomer takes a snapshot: parts, interruptions, another sponsor, and the last part as a whole or not at all."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from roamcast.middleware.membership.view import View
from roamcast.middleware.settings import Settings
from roamcast.middleware.station.core import StationCore
from roamcast.middleware.writes import DropRows, DropSnapshot, DurableState, PutRow, PutStreams, PutView, Stream
from roamcast.mss_station.store import StationIdentity, Store
from roamcast.transport.serving_codec import encode_item

CHILD = Path(__file__).parent / "children" / "snapshot.py"
STATEMENTS = 20
"""Of the last part, BEGIN and COMMIT among them."""

JOINING = View((1, 2), serving=False, sponsor=2)


def core_over(image: DurableState) -> StationCore:
    return StationCore(slot=1, founders=(1, 2), settings=Settings(), image=image, encode_item=encode_item)


def test_an_unfinished_snapshot_is_taken_up_where_it_ended(
    directory: Path, identity: StationIdentity, make_row: Any
) -> None:
    """Its rows do not begin behind a floor, and positions have holes: no counter fits yet."""
    with Store.open(directory, identity) as store:
        store.commit([PutView(JOINING)])
        store.commit([PutRow(make_row(n, slot=2), 10 * n) for n in (70, 71)])
        store.commit([PutRow(make_row(9, slot=3), 720)])
    with Store.open(directory, identity) as store:
        image = store.load()
        assert sorted(image.rows) == [(2, 70), (2, 71), (3, 9)] and image.view == JOINING
        newcomer = core_over(image).newcomer
        assert newcomer is not None
        store.commit(
            [
                PutRow(make_row(10, slot=3), 730),
                PutStreams(((2, 71, 71, 69), (3, 10, 10, 8)), 731, 5),
                PutView(View((1, 2, 3), serving=False)),
            ]
        )
        core = core_over(store.load())
        assert core.newcomer is None
        assert [core.ledger.table.row_at(p) is not None for p in (700, 710, 720, 730, 731)] == [True] * 4 + [False]
        assert core.ledger.table.last_position == 731 and core.ledger.hlc == 5


def test_counters_of_a_snapshot_replace_those_that_rows_have_made(
    directory: Path, identity: StationIdentity, make_row: Any
) -> None:
    """Also lower ones; and what comes behind them in the same tick counts on from there."""
    with Store.open(directory, identity) as store:
        store.commit([PutRow(make_row(9, slot=2), 900)])
        assert store.load().hlc == 1_000_009
        counters = PutStreams(((2, 12, 11, 8),), 5, 7)
        store.commit([PutRow(make_row(10, slot=2), 901), counters, PutRow(make_row(13, slot=2))])
        image = store.load()
        assert image.streams == {2: Stream(13, 11, 8)} and image.last_position == 5 and image.hlc == 1_000_013
        assert sorted(image.rows) == [(2, 9), (2, 10), (2, 13)]


def test_another_sponsor_begins_with_nothing(directory: Path, identity: StationIdentity, make_row: Any) -> None:
    """Rows, positions and numbers come again, though some of the first ones were being removed little by little."""
    with Store.open(directory, identity) as store:
        store.commit([PutRow(make_row(n, slot=2), n) for n in range(1, 2501)])
        store.commit([DropRows(2, 2400)])
        new = [PutRow(make_row(n, slot=2, item=b"new"), n) for n in range(1, 2001)]
        store.commit([DropSnapshot(), PutView(JOINING), *new])
        while store.remove_dropped():
            pass
        store.commit([PutRow(make_row(1, slot=3), 2001)])
        image = store.load()
        assert len(image.rows) == 2001 and image.streams[2] == Stream(2000, 2000, 0)
        assert store.load_item(2, 1) == b"new" and store.load_item(2, 2450) is None
        assert image.last_position == 2001 and image.view == JOINING


def test_a_floor_that_came_with_a_snapshot_is_not_worked_through(
    directory: Path, identity: StationIdentity, make_row: Any
) -> None:
    """The rows below it were never here."""
    floor = 1 << 39
    with Store.open(directory, identity) as store:
        store.commit([PutRow(make_row(floor + 1, slot=2), 7), PutStreams(((2, floor + 1, floor + 1, floor),), 7, 7)])
        assert not store.remove_dropped()
        assert sorted(store.load().rows) == [(2, floor + 1)]


@pytest.mark.parametrize("statement", range(1, STATEMENTS + 2))
def test_killed_inside_the_last_part(directory: Path, identity: StationIdentity, statement: int) -> None:
    """Before it, or after it: never counters without their rows, nor a member without its counters."""
    run = subprocess.run([sys.executable, str(CHILD), str(directory), str(statement)], timeout=60)
    done = statement > STATEMENTS
    assert run.returncode == (0 if done else -signal.SIGKILL), "one statement more, or one less"
    with Store.open(directory, identity) as store:
        image = store.load()
        if image.view == JOINING:
            assert not done
            assert sorted(image.rows) == [(2, 5)] and image.streams == {2: Stream(5, 5, 0)} and not image.hosts
            assert list(image.last) == [6] and list(image.items) == [(2, 2)]
        else:
            assert image.view == View((1, 2), serving=False)
            assert sorted(image.rows) == [(2, 8), (2, 9)] and image.streams == {2: Stream(9, 9, 7)}
            assert list(image.last) == [7] and list(image.items) == [(2, 3)]
            assert list(image.hosts) == [7] and image.last_position == 4 and image.hlc == 3
            assert core_over(image).newcomer is None
