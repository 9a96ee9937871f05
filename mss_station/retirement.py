"""What `mss-station stations retire` may write, and when. What follows from it: docs/protocols/membership.md."""

from __future__ import annotations

from dataclasses import replace

from roamcast.mss_station import schema
from roamcast.mss_station.control import Json
from roamcast.mss_station.directory import LanDirectory
from roamcast.mss_station.errors import WrongUse
from roamcast.mss_station.schema import ACTIVE, LOST, RETIRED, RETIRING, StationRecord
from roamcast.mss_station.server import Server
from roamcast.mss_station.updates import Put


class Retirement:
    """The command, at a running station.

    Args:
        slot: own slot.
        put: writes an entry; raises an Error if that is refused now.
    """

    def __init__(self, slot: int, directory: LanDirectory, server: Server, put: Put) -> None:
        self._slot = slot
        self._directory = directory
        self._server = server
        self._put = put

    def retire(self, id: str, heir: str | None) -> Json:
        """A station is to end in order; heir None: the first that serves and is linked. Raises WrongUse."""
        record = self._record(id)
        if record.state != ACTIVE:
            raise WrongUse(f"{id} is {record.state} already" + (f", with heir {record.heir}" if record.heir else ""))
        heirs = [one.id for one in self._directory.members() if one.state == ACTIVE and one.id != id]
        if not heirs:
            raise WrongUse(f"{id} is the last station of the group: nobody could take its place")
        if heir is None:
            heir = self._first_heir(id)
        elif heir not in heirs:
            raise WrongUse(f"{heir!r} cannot take the place of {id}; these can: {', '.join(heirs)}")
        self._write(replace(record, state=RETIRING, heir=heir))
        linked, parts = self._is_there(record), self._parts(record.slot)
        return {"id": id, "state": RETIRING, "heir": heir, "linked": linked, "parts": parts}

    def _first_heir(self, id: str) -> str:
        for name, slot, _, _ in self._server.core.ledger.stations:
            if name != id and (slot == self._slot or self._server.peers.links.is_linked(slot)):
                return name
        raise WrongUse(f"no station is linked here that could take the place of {id}; name one with --heir")

    def give_up(self, id: str, release: bool, force: bool) -> Json:
        """A station is lost for good; release: its hosts are not waited for. Raises WrongUse."""
        record = self._record(id)
        if record.slot == self._slot:
            raise WrongUse(f"{id} is this station, and it runs; give it up at another one, or retire it in order")
        if record.state == RETIRED or (record.state == LOST and (record.released or not release)):
            more = "; its hosts are not waited for" if record.released else ""
            raise WrongUse(f"{id} is {record.state} already{more}")
        if record.state != LOST and self._is_there(record) and not force:
            raise WrongUse(
                f"{id} is linked with this station, so it lives: retire it in order, without --lost, or stop it first; "
                "--force gives it up all the same"
            )
        self._write(replace(record, state=LOST, heir=None, released=release or None))
        parts = self._parts(record.slot)
        return {"id": id, "state": LOST, "slot": record.slot, "released": release, "parts": parts}

    def _parts(self, slot: int) -> bool:
        """Whether two clusters have no gateway any more when this station has ended."""
        fifo = self._server.core.ledger.fifo
        living = tuple(other for other in fifo.words.view.living if other != slot)
        return not fifo.place.parted and fifo.layout.parted(living)

    def _record(self, id: str) -> StationRecord:
        record = self._directory.record(id)
        if record is None:
            raise WrongUse(f"there is no station {id!r}; `mss-station stations list` shows all")
        return record

    def _is_there(self, record: StationRecord) -> bool:
        """Whether the station is linked, and was heard lately: a machine that lost its power does not hang up."""
        server = self._server
        live = server.core.ledger.fifo.is_live(record.slot, server.clock.now())
        return record.slot == self._slot or (server.peers.links.is_linked(record.slot) and live)

    def _write(self, record: StationRecord) -> None:
        key = schema.station_key(record.id)
        self._put(key, schema.station_value(record, self._server.lan.entries[key].value))
