"""The first content of a store: a founder knows itself, a newcomer what it was told and whose snapshot it waits for."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from roamcast.middleware.membership.view import View
from roamcast.mss_station.errors import StoreExists, StoreIdentity
from roamcast.mss_station.founding import fill, found, own_entry
from roamcast.mss_station.lock import DirectoryLock
from roamcast.mss_station.opening import open_store
from roamcast.mss_station.store import read_history, read_lan
from roamcast.transport.station_files import StationConfig, create_station

WALL = 1_764_300_000_000_000


def station(path: Path, id: str, slot: int) -> StationConfig:
    return create_station(path, id=id, slot=slot, group="g", hosts=f"tcp://{id}:1", stations=f"tcp://{id}:2")


def test_a_founder_knows_itself_and_waits_for_nobody(tmp_path: Path) -> None:
    config = station(tmp_path, "s1", 1)
    found(tmp_path, WALL)
    assert list(read_lan(tmp_path).entries) == ["stations/s1"]
    with DirectoryLock(tmp_path), open_store(tmp_path, config) as opened:
        assert opened.image.view is None and opened.directory.own_record() is not None
    with pytest.raises(StoreExists):
        found(tmp_path, WALL)


def test_a_newcomer_knows_all_records_and_takes_up_what_was_begun(tmp_path: Path) -> None:
    config = station(tmp_path / "s4", "s4", 4)
    station(tmp_path / "s7", "s7", 7)
    entries = tuple(own_entry(tmp_path / name, WALL) for name in ("s4", "s7"))
    for told in (entries[:1], entries):
        fill(tmp_path / "s4", config.card, 7, told, WALL)
    assert read_lan(tmp_path / "s4").entries == {entry.key: entry for entry in entries}
    assert len(read_history(tmp_path / "s4", "stations/s7")) == 1
    with DirectoryLock(tmp_path / "s4"), open_store(tmp_path / "s4", config) as opened:
        assert opened.image.view == View((4, 7), serving=False, sponsor=7)
    with pytest.raises(StoreIdentity):
        fill(tmp_path / "s4", replace(config.card, generation=config.card.generation ^ 1), 7, entries, WALL)
