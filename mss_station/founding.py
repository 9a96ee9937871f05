"""The first content of a station's store: a founder of a group knows itself, a newcomer what its sponsor has told."""

from __future__ import annotations

import secrets
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from roamcast.middleware.lan_update.records import Entry, PutEntry, PutHistory, Version
from roamcast.middleware.membership.view import View
from roamcast.middleware.writes import PutView, Write
from roamcast.mss_station import schema
from roamcast.mss_station.errors import StoreExists
from roamcast.mss_station.lock import DirectoryLock
from roamcast.mss_station.own_record import wanted_record
from roamcast.mss_station.signing import Signer
from roamcast.mss_station.store import StationIdentity, Store
from roamcast.transport.station_files import StationCard, read_signing_key, read_station


def own_entry(path: Path, wall: int) -> Entry:
    """The record of the station in `path`, signed by itself. wall: UTC microseconds. Raises KeyFileError."""
    card = read_station(path).card
    value = schema.station_value(wanted_record(path, card, None))
    entry = Entry(schema.station_key(card.id), Version(wall, 0, card.id, secrets.randbits(64)), value)
    return replace(entry, signature=Signer(read_signing_key(path), card.group).sign(entry))


def found(path: Path, wall: int) -> None:
    """Make the store of the station in `path`, the first one of its group.

    Raises:
        KeyFileError: the directory is not that of a station.
        StoreError: there is a store already, or it cannot be made.
    """
    card = read_station(path).card
    with DirectoryLock(path):
        Store.create(path, _identity(card))
        _put(path, card, _news((own_entry(path, wall),), wall))


def fill(path: Path, card: StationCard, sponsor_slot: int, entries: tuple[Entry, ...], wall: int) -> None:
    """Make the store of a newcomer, or take up one that an interrupted join has made. The caller holds the lock.

    Args:
        card: the newcomer.
        entries: the records of all stations.

    Raises:
        StoreError: it cannot be made, or is another station's.
    """
    with suppress(StoreExists):  # the generation in it shows whose it is
        Store.create(path, _identity(card))
    view = View(members=tuple(sorted((sponsor_slot, card.slot))), serving=False, sponsor=sponsor_slot)
    _put(path, card, [*_news(entries, wall), PutView(view)])


def _identity(card: StationCard) -> StationIdentity:
    return StationIdentity(card.id, card.slot, card.generation)


def _news(entries: tuple[Entry, ...], wall: int) -> list[Write]:
    return [write for entry in entries for write in (PutEntry(entry), PutHistory(entry, wall))]


def _put(path: Path, card: StationCard, writes: list[Write]) -> None:
    with Store.open(path, _identity(card)) as store:
        store.commit(writes)
