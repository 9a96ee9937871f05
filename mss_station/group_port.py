"""What the configuration says of stations goes to the core; what the core has settled of them goes back.

The configuration says who is being retired, has been retired, or is lost; the core is told all of it at every start and
at every change, and takes what is news to it. Only the station itself says that it has been retired: when its core has
handed over everything. It goes on until another one answers that it knows. That it was told is kept in the store: a
later start ends at once. Ground: docs/protocols/membership.md.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from roamcast.middleware.effects import GroupEffect, Halt, HandedOver, Notice, Renew, SlotGiven
from roamcast.middleware.lan_update.errors import LanRefused
from roamcast.middleware.writes import PutView
from roamcast.mss_station import schema
from roamcast.mss_station.control import Json
from roamcast.mss_station.directory import LanDirectory
from roamcast.mss_station.errors import RetirementDone, StationRetired
from roamcast.mss_station.schema import ACTIVE, ENDED, LOST, RETIRED, RETIRING, StationRecord
from roamcast.mss_station.server import Server
from roamcast.mss_station.tally import Tally
from roamcast.transport.station_files import StationCard

OBSTACLES_SHOWN: Final = 100


class GroupPort:
    """Between the configuration and the membership rules of the core.

    Args:
        own: this station.
        slot_given: lets the newcomer in whose slot all stations have confirmed.
    """

    def __init__(
        self,
        own: StationCard,
        directory: LanDirectory,
        server: Server,
        slot_given: Callable[[SlotGiven], None],
        tally: Tally,
    ) -> None:
        self._id, self._slot = own.id, own.slot
        self._directory = directory
        self._server = server
        self._slot_given = slot_given
        self._tally = tally
        self._handed_to: int | None = None
        """Slot of the heir that holds all that this station had."""

    # ---- from the core ----

    def compare_clock(self, slot: int, ahead: int) -> None:
        """By how much the clock of a peer is ahead of the own one, microseconds, as was just found."""
        self._server.open_tick()
        self._server.core.peer_clock(slot, ahead)

    def perform(self, effect: GroupEffect) -> None:
        """What the core asks for, once its tick is durable."""
        match effect:
            case Renew():
                self._server.renew()
            case Halt(text):
                self._server.end(self.ended(text))
            case SlotGiven():
                self._slot_given(effect)
            case HandedOver(heir):
                self._handed_to = heir
                self._publish()

    def ended(self, text: str) -> StationRetired:
        """Why the process must end, now that this station was told `text`; kept for its later starts if that goes."""
        server = self._server
        view, own = server.core.ledger.view, self._directory.own_record()
        over = replace(view, closed={**view.closed, self._slot: (view.retiring, ())})
        server.guard.commit((PutView(over),), server.clock.now())
        if own is not None and own.state == RETIRED:
            return RetirementDone(f"{self._id} has been retired; station {own.heir} has taken its place")
        return StationRetired(text)

    # ---- to the core ----

    def greet(self) -> None:
        """Tell a core in its first tick."""
        self._handed_to = None
        self.tell()

    def tell(self) -> None:
        """Tell the core, in an open tick, what the configuration says; it takes what is news to it."""
        core = self._server.core
        core.set_stations(self._stations())
        for record in self._directory.ended():
            if core.reservation.reserved.get(record.slot, record.generation) != record.generation:
                continue  # the slot is not that of this station
            if record.state == LOST:
                core.close_station(record.slot, 0)
                if record.released:
                    core.release_station(record.slot)
            elif (heir := self._directory.record(record.heir or "")) is not None:
                core.close_station(record.slot, heir.slot)
        own = self._directory.own_record()
        if own is not None and own.state == RETIRING and core.newcomer is None:
            able = self._able(own.heir)
            if able is not None:
                core.retire(able.slot)

    def look(self) -> None:
        """Once a second: what has changed by time, or by the words of other stations."""
        server = self._server
        if server.guard.state == "closed":
            return
        if self._stations() != server.core.ledger.stations:
            server.open_tick()
            server.core.set_stations(self._stations())
        for record in self._directory.ended():
            if self._is_overdue(record):
                server.open_tick()
                server.core.release_station(record.slot)
        self._publish()
        self._repeat_ends()

    def _stations(self) -> tuple[tuple[str, int, str, bytes], ...]:
        """The stations that serve hosts, by slot, as hosts are told; of one that was not heard yet: as if it served."""
        ledger = self._server.core.ledger
        view, heard = ledger.view, ledger.fifo.words.views
        serving = {slot for slot, said in heard.items() if said.serving} | {
            card.slot for card in self._directory.stations() if card.slot not in heard
        }
        if view.serving and not view.retiring:
            serving.add(self._slot)
        return tuple(
            (record.id, record.slot, record.hosts, record.key_for_hosts.encode())
            for record in self._directory.members()
            if record.state == ACTIVE and record.slot in serving and record.slot not in view.closed
        )

    def _able(self, id: str | None) -> StationRecord | None:
        """The station `id`, if it can be an heir."""
        record = self._directory.record(id or "")
        able = record is not None and record.state == ACTIVE and self._directory.peer(record.id) is not None
        return record if able else None

    def _is_overdue(self, record: StationRecord) -> bool:
        """Whether the hosts of a lost station have been waited for long enough, by a wall clock that is settled."""
        server = self._server
        ledger, settings = server.core.ledger, server.settings
        if record.state != LOST or record.slot not in ledger.view.closed or record.slot in ledger.view.released:
            return False
        lost_at = server.lan.entries[schema.station_key(record.id)].version.time
        settled = server.clock.now() - ledger.clock_jumped_at >= settings.clock_settle
        return settled and server.clock.wall() - lost_at >= settings.away_max

    # ---- to the configuration ----

    def _publish(self) -> None:
        """Put right what the group's record of this station says of its retirement."""
        own = self._directory.own_record()
        if own is not None and (wanted := self._wanted(own)) != own:
            self._put(wanted)

    def _wanted(self, own: StationRecord) -> StationRecord:
        """What the record must say where it says `own` now. What the core has begun goes before what was written."""
        if own.state in ENDED:
            return own
        if self._handed_to is not None:
            return replace(own, state=RETIRED, heir=self._name(self._handed_to))
        begun = self._server.core.ledger.view.retiring
        if own.state == ACTIVE and begun:
            own = replace(own, state=RETIRING, heir=self._name(begun))
        if own.state == RETIRING and self._able(own.heir) is None:
            heirs = [card.id for card in self._directory.stations() if self._able(card.id) is not None]
            return replace(own, heir=heirs[0]) if heirs else own
        return own

    def _repeat_ends(self) -> None:
        """An end that is settled is said again where a record was written by a station that had not heard of it yet."""
        view = self._server.core.ledger.view
        if self._slot != min(view.living):
            return
        for card in self._directory.stations():
            end, record = view.final.get(card.slot), self._directory.record(card.id)
            if end is not None and record is not None:
                how = (RETIRED, self._name(end.heir)) if end.heir else (LOST, None)
                self._put(replace(record, state=how[0], heir=how[1]))

    def _put(self, record: StationRecord) -> None:
        """Write a station's record; refused now, it is tried again."""
        lan, key = self._server.lan, schema.station_key(record.id)
        self._server.open_tick()
        try:
            lan.put(key, schema.station_value(record, lan.entries[key].value))
        except LanRefused as error:
            self._tally.notice(Notice("warning", "record_not_published", {"id": record.id, "reason": str(error)}))

    def _name(self, slot: int) -> str:
        """Id of the station in `slot`."""
        return next((record.id for record in self._directory.members() if record.slot == slot), f"slot {slot}")

    # ---- status ----

    def status(self) -> Json:
        """What an operator wants to know of the group; plain data."""
        core = self._server.core
        view, newcomer = core.ledger.view, core.newcomer
        held = [self._name(origin) for origin, _ in core.ledger.held.values()]
        return {
            "members": list(view.members),
            "serving": view.serving and not view.retiring,
            "told_to_hosts": [name for name, _, _, _ in core.ledger.stations],
            "joining": newcomer and {"sponsor": self._name(view.sponsor), "rows": newcomer.rows},
            "retiring": {
                "heir": self._name(view.retiring),
                "handing": view.handing,
                "obstacles": _shortened(core.heir.obstacles()),
            }
            if view.retiring
            else None,
            "held": {name: held.count(name) for name in dict.fromkeys(held)},
            "ended": [self._ended(slot) for slot in sorted(view.closed)],
        }

    def _ended(self, slot: int) -> Json:
        ledger = self._server.core.ledger
        view, final = ledger.view, ledger.view.final.get(slot)
        heir = view.closed[slot][0] if final is None else final.heir
        said = ledger.fifo.words.views
        waits = [
            self._name(peer)
            for peer in ledger.fifo.peers
            if peer not in said or slot not in [closing.slot for closing in said[peer].closings]
        ]
        return {
            "slot": slot,
            "id": self._name(slot),
            "heir": self._name(heir) if heir else None,
            "cut": None if final is None else final.cut,
            "waits_for": [] if final is not None else waits or [f"messages of {self._name(slot)}"],
            "released": slot in view.released,
            "guarded": slot not in view.dropped,
        }


def _shortened(lines: list[str]) -> list[str]:
    more = len(lines) - OBSTACLES_SHOWN
    return [*lines[:OBSTACLES_SHOWN], f"{more} more"] if more > 0 else lines
