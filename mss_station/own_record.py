"""What the group's record of this station must say, and that it does, after a start at another address or new keys."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from roamcast.middleware.effects import Notice
from roamcast.middleware.lan_update.errors import LanRefused
from roamcast.middleware.lan_update.records import Version
from roamcast.middleware.membership.view import View
from roamcast.mss_station import rotation, schema
from roamcast.mss_station.errors import StationRetired
from roamcast.mss_station.schema import StationRecord
from roamcast.mss_station.tally import Tally
from roamcast.transport.station_files import StationCard

Put = Callable[[str, bytes], Version]
"""Writes an entry in an open tick; raises LanRefused."""


def check_membership(card: StationCard, record: StationRecord | None, view: View | None = None) -> None:
    """Raise StationRetired if the station `card` must not run, as its record and what it knows of the group say.

    One that was retired in order runs, and serves nobody, until it was heard by another one.
    """
    if view is not None and card.slot in view.closed:
        state = record.state if record is not None and record.state in schema.ENDED else "no member any more"
        raise StationRetired(_over(card, state))
    if record is None:
        return
    if (record.slot, record.generation) != (card.slot, card.generation):
        raise StationRetired(
            f"the group knows {card.id} in slot {record.slot} under another generation than this directory has: two "
            "stations have joined under one id, and the other one has it. This one can join under another id: "
            "mss-station join DIR TOKEN --rejoin"
        )
    unheard = record.state == schema.RETIRED and view is not None and view.handing
    if record.state in schema.ENDED and not unheard:
        raise StationRetired(_over(card, record.state))


def _over(card: StationCard, state: str) -> str:
    return (
        f"the group has ended the membership of {card.id}: it is {state}. It can join under another id, without what "
        "it has stored: mss-station join DIR TOKEN --rejoin"
    )


def wanted_record(path: Path, card: StationCard, record: StationRecord | None) -> StationRecord:
    """What the record of the station in `path` must be, where it is `record` now. Raises KeyFileError."""
    host_key = rotation.read_host_keys(path).public
    if record is None:
        keys, signing = (card.key,), (card.signing_key,)
        record = StationRecord(card.id, card.slot, card.generation, card.hosts, card.stations, keys, signing)
    moved = replace(record, hosts=card.hosts, stations=card.stations, host_key=host_key)
    return rotation.announced(moved, card, rotation.pending(path))


class OwnRecord:
    """Puts the record of this station whenever it is not what it must be.

    Args:
        path: the station's directory.
        card: this station, with the keys in use.
        read: the present value, and what it says; (None, None): there is none.
        open_tick: to be called before `put`.
    """

    def __init__(
        self,
        path: Path,
        card: StationCard,
        read: Callable[[], tuple[bytes | None, StationRecord | None]],
        open_tick: Callable[[], None],
        put: Put,
        tally: Tally,
    ) -> None:
        self._path = path
        self.card = card
        """Its keys may change."""
        self._read = read
        self._open_tick = open_tick
        self._put = put
        self._tally = tally
        self.due = True
        """It may differ: `publish` looks."""

    def announce(self) -> None:
        """Something that it says has changed."""
        self.due = True

    def publish(self) -> None:
        """If it is due: compare, and put what must be. Where that is refused now, it is due again."""
        if not self.due:
            return
        value, record = self._read()
        wanted = wanted_record(self._path, self.card, record)
        if wanted != record:
            self._open_tick()
            try:
                self._put(schema.station_key(self.card.id), schema.station_value(wanted, value))
            except LanRefused as error:
                self._tally.notice(Notice("warning", "own_record_not_published", {"reason": str(error)}))
                return
        self.due = False
