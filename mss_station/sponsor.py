"""This station as a sponsor: gives out invitations, and lets newcomers in (docs/protocols/membership.md, Added).

What a newcomer is told is durable here before: that the invitation is its own, then, in one commit, its record and that
it is counted. Nothing else is kept of a join: who was not answered asks again, and is given the same slot.
"""

from __future__ import annotations

from dataclasses import dataclass

from roamcast.middleware.effects import SlotGiven
from roamcast.middleware.lan_update.errors import LanRefused
from roamcast.middleware.membership.frames import Join, Joined, JoinRefused
from roamcast.middleware.membership.invitations import InvitationWrite
from roamcast.mss_station import schema
from roamcast.mss_station.directory import LanDirectory
from roamcast.mss_station.invitations import CannotInvite, Invitations, record_of, refusal
from roamcast.mss_station.schema import StationRecord
from roamcast.mss_station.server import Server
from roamcast.transport.join_token import Token
from roamcast.transport.station_files import StationCard


@dataclass(frozen=True, slots=True)
class _Asking:
    """A newcomer that is not counted yet."""

    channel: bytes
    """On which it has asked last."""
    key: str
    """Of its invitation."""
    join: Join


class Sponsor:
    """Joins at this station.

    Args:
        own: this station, with the keys in use; its keys may change.
    """

    def __init__(self, own: StationCard, directory: LanDirectory, server: Server, invitations: Invitations) -> None:
        self.own = own
        self._directory = directory
        self._server = server
        self._invitations = invitations
        self._asking: dict[int, _Asking] = {}
        """By generation."""

    # ---- invitations ----

    def invite(self, valid: int) -> Token:
        """A new token; it may be shown once the open tick is committed. valid: microseconds. Raises CannotInvite."""
        server = self._server
        reason = self._hindered() or server.guard.reason
        if reason is not None:
            raise CannotInvite(f"{self.own.id} cannot invite now: {reason}")
        server.open_tick()
        ledger, reserved = server.core.ledger, server.core.reservation.reserved
        highest = max(*ledger.view.members, *reserved, *(record.slot for record in self._directory.members()))
        token, writes = self._invitations.issue(self.own, highest, server.clock.wall(), valid)
        ledger.persist(*writes)
        return token

    def _hindered(self) -> str | None:
        """Why nobody may join here."""
        view = self._server.core.ledger.view
        if view.retiring:
            return "it is being retired; ask another station of the group"
        return None if view.serving else "it is about to join itself"

    def look(self) -> None:
        """Once a second: end the invitations whose time is over, or whose newcomer is there."""
        server = self._server
        if server.guard.state == "closed":
            return
        linked = [card.generation for card in self._directory.stations() if server.peers.links.is_linked(card.slot)]
        wall = server.clock.wall()
        self._persist((*self._invitations.expire(wall), *self._invitations.arrived(linked)))
        for generation, asking in list(self._asking.items()):
            if not self._invitations.admits(asking.key, wall):
                del self._asking[generation]

    def _persist(self, writes: tuple[InvitationWrite, ...]) -> None:
        if writes:
            self._server.open_tick()
            self._server.core.ledger.persist(*writes)

    # ---- joins ----

    def join(self, channel: bytes, key: str, join: Join) -> None:
        """A newcomer under the one-time key `key` asks to be counted in, perhaps again."""
        server = self._server
        refused = self._refusal(key, join)
        if refused is not None:
            server.peers.joins.answer(channel, refused)
            return
        if self._record(join.generation) is None:
            self._asking[join.generation] = _Asking(channel, key, join)
            server.open_tick()
            self._persist(self._invitations.use(key, join))
            server.core.reserve(join.id, join.generation)
        server.then(lambda committed: self._tell(channel, join) if committed else None)

    def slot_given(self, given: SlotGiven) -> None:
        """Every station has confirmed the slot: count the newcomer in, publish it, and tell it once that is durable."""
        server = self._server
        asking = self._asking.pop(given.generation, None)
        if asking is None:
            return  # it asks again
        refused = self._refusal(asking.key, asking.join)
        if refused is None:
            server.open_tick()
            try:
                value = schema.station_value(record_of(asking.join, given.slot))
                server.lan.put(schema.station_key(given.id), value)
            except LanRefused as error:
                refused = JoinRefused("not-now", f"{self.own.id}: {error}", True)
        if refused is not None:
            server.peers.joins.answer(asking.channel, refused)
            return
        server.core.add_station(given.slot)
        server.then(lambda committed: self._tell(asking.channel, asking.join) if committed else None)

    def _refusal(self, key: str, join: Join) -> JoinRefused | None:
        server = self._server
        if server.guard.state == "closed":
            return JoinRefused("store", f"{self.own.id} cannot write its store: {server.guard.reason}", True)
        hindered = self._hindered()
        if hindered is not None:
            return JoinRefused("sponsor", f"{self.own.id} lets nobody in: {hindered}", False)
        refused = self._invitations.judge(key, join, server.clock.wall())
        return refused or refusal(join, self._directory.members())

    def _tell(self, channel: bytes, join: Join) -> None:
        """What is durable: that the newcomer is counted in, or, as long as the slot is not given, who is missing."""
        answer: Joined | JoinRefused
        record = self._record(join.generation)
        if record is not None:
            entries = self._server.lan.entries
            told = [entry for name, entry in sorted(entries.items()) if name.startswith(schema.STATIONS)]
            answer = Joined(record.slot, self.own.group, tuple(told))
        elif missing := self._missing(join.generation):
            answer = JoinRefused("confirming", _confirming(missing), True)
        else:
            return  # the slot was given in this tick, and what follows from it is in the next
        self._server.peers.joins.answer(channel, answer)

    def _record(self, generation: int) -> StationRecord | None:
        return next((one for one in self._directory.members() if one.generation == generation), None)

    def _missing(self, generation: int) -> dict[str, bool]:
        """Who has not confirmed the slot; and whether it is linked."""
        slots = self._server.core.reservation.waits_for(generation)
        names = {record.slot: record.id for record in self._directory.members()}
        return {names.get(slot, f"slot {slot}"): self._server.peers.links.is_linked(slot) for slot in slots}

    def status(self) -> dict[str, object]:
        """Open invitations, and who asks to be counted in and waits for whom; plain data."""
        asking = [
            {"id": asking.join.id, "waits_for": list(self._missing(generation))}
            for generation, asking in sorted(self._asking.items())
        ]
        return {"invitations": self._invitations.status(), "newcomers": asking}


def _confirming(missing: dict[str, bool]) -> str:
    named = ", ".join(id if linked else f"{id} (not linked)" for id, linked in missing.items())
    text = f"waiting for {named} to confirm the slot"
    if all(missing.values()):
        return text
    return f"{text}; one that will never come back is given up with: mss-station stations retire DIR ID --lost"
