"""What a running station and a command at a stopped one both open: the store, the directory and a core over it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from roamcast.middleware.membership.view import View
from roamcast.middleware.station.core import StationCore
from roamcast.middleware.writes import DurableState, PutStart, PutView, Write
from roamcast.mss_station.clock import Clock
from roamcast.mss_station.directory import Directory, LanDirectory
from roamcast.mss_station.errors import StoreFull
from roamcast.mss_station.group_settings import SETTINGS, Plain
from roamcast.mss_station.log.heads import read_heads
from roamcast.mss_station.log.writer import DeliveryLog
from roamcast.mss_station.signing import Signer
from roamcast.mss_station.store import Durability, StationIdentity, Store
from roamcast.mss_station.tally import Tally
from roamcast.mss_station.topic_updates import past_topics
from roamcast.transport.serving_codec import encode_item
from roamcast.transport.station_files import StationCard, StationConfig


@dataclass(slots=True)
class Opened:
    """The store of a station and what was in it."""

    store: Store
    image: DurableState
    directory: LanDirectory


@contextmanager
def open_store(path: Path, config: StationConfig) -> Iterator[Opened]:
    """Open the store of the station in `path`; the caller holds the directory's lock. Raises StoreError."""
    identity = StationIdentity(config.card.id, config.card.slot, config.card.generation)
    with Store.open(path, identity, durability=cast(Durability, config.durability or "power")) as store:
        image = store.load()
        directory = LanDirectory(config.card, image.lan.entries, past_topics(path))
        if config.durability is None:
            store.set_durability(cast(Durability, group_value(directory, "durability")))
        yield Opened(store, image, directory)


def group_value(directory: LanDirectory, name: str) -> Plain:
    """What the group has set `name` to, or its default."""
    value = directory.value(name)
    return SETTINGS[name].default if value is None else value


def count_start(opened: Opened, slot: int) -> int:
    """Make this start durable, before anything is said to peers; returns its number. May need the reserve.

    With the first one it becomes durable who has founded the group: from then on the view decides who belongs to it.
    """
    store, image = opened.store, opened.image
    starts = image.starts + 1
    writes: list[Write] = [PutStart(starts)]
    if image.view is None:
        image.view = View(_founders(opened.directory, slot))
        writes.append(PutView(image.view))
    try:
        store.commit(writes)
    except StoreFull:
        if not store.release_reserve():
            raise
        store.commit(writes)
    return starts


def _founders(directory: Directory, slot: int) -> tuple[int, ...]:
    return tuple(sorted({slot, *(record.slot for record in directory.members())}))


def make_core(directory: Directory, slot: int, image: DurableState) -> StationCore:
    """A core over what the store holds, with the directory's settings.

    As long as the store has no view of the group, all stations that the directory knows are members.
    """
    return StationCore(
        slot=slot,
        founders=_founders(directory, slot),
        settings=directory.settings(),
        image=image,
        encode_item=encode_item,
    )


def make_log(path: Path, card: StationCard, signer: Signer, opened: Opened, clock: Clock, tally: Tally) -> DeliveryLog:
    """The delivery log of the station in `path`, where its last life has left it. Raises OSError, StoreError."""
    return DeliveryLog(path, card, signer, opened.store.load_tail(), read_heads(opened.image.lan.entries), clock, tally)


def greet(directory: Directory, core: StationCore) -> None:
    """Inputs of a core's first tick: names of all hosts, who was revoked, the topics, the clusters."""
    for card in [*directory.hosts(), *directory.revoked()]:
        core.learn_host(card.number, card.name)
    for card in directory.revoked():
        core.revoke(card.number)
    core.set_topics(directory.topics())
    core.set_layout(directory.layout())
