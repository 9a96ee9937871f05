"""What a running station and a command at a stopped one both open: the store, and a core over it."""

from __future__ import annotations

from pathlib import Path
from typing import cast

from roamcast.middleware.station.core import StationCore
from roamcast.middleware.writes import DurableState, PutStart
from roamcast.mss_station.directory import Directory
from roamcast.mss_station.errors import StoreFull
from roamcast.mss_station.store import Durability, StationIdentity, Store
from roamcast.transport.host_codec import encode_item
from roamcast.transport.station_files import StationConfig


def open_store(path: Path, config: StationConfig) -> Store:
    """The store of the station in `path`; the caller holds the directory's lock. Raises StoreError."""
    identity = StationIdentity(config.card.id, config.card.slot, config.card.generation)
    return Store.open(path, identity, durability=cast(Durability, config.durability))


def count_start(store: Store, image: DurableState) -> int:
    """Make this start durable, before anything is said to peers; returns its number. May need the reserve."""
    starts = image.starts + 1
    try:
        store.commit((PutStart(starts),))
    except StoreFull:
        if not store.release_reserve():
            raise
        store.commit((PutStart(starts),))
    return starts


def make_core(directory: Directory, slot: int, image: DurableState) -> StationCore:
    """A core over what the store holds, with the directory's members and settings."""
    members = sorted([slot, *(card.slot for card in directory.stations())])
    return StationCore(slot=slot, members=members, settings=directory.settings(), image=image, encode_item=encode_item)


def greet(directory: Directory, core: StationCore) -> None:
    """Inputs of a core's first tick: names of all hosts, and who was revoked."""
    for card in [*directory.hosts(), *directory.revoked()]:
        core.learn_host(card.number, card.name)
    for card in directory.revoked():
        core.revoke(card.number)
