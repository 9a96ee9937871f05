"""The agent: one host's session with one station after another, sans-IO.

Theory of operation. The host counts its attachment attempts (epoch e). An attempt is a fresh connection and a HELLO; a
session begins with the WELCOME of the present attempt and ends with the connection, with silence, or with anything that
shows that a frame was lost. The next attempt says what the application has, (le, c), and the stations replay the rest;
what the stations lack of ours is sent again after WELCOME, which says `lastseq`.

Every fact that a frame claims is durable before the frame leaves: `flush` puts one `Save` in front of all else.
Phases: OFF (not started, suspended, detached), PAUSED (back-off), ATTACHING, OPEN, ENDED (for good).

A station that is lost for good takes along what it knew of its hosts. The host's next station asks (ASK) and is told
(SEEN) what the host itself knows, all of it durable; what became of its own messages it learns from WELCOME and FATES.

Reports: attached, session-ended, bad-frame (an alarm: one ended the session; not said again for the same reason),
attempt-failed, paused, state-lost, replaced (an alarm: someone else holds this identity), ended, stations (a new list),
live-refused (a live message was not taken, or dropped: code, text).

Source: overview section 7, causal-broadcast.md 'MH rules', P10, P11, one-order.md O-3, composition.md L1-L8.
"""

from __future__ import annotations

import random
from collections.abc import Sequence, Set
from typing import Any

from roamcast.middleware.host_frames import (
    JOINED_AT,
    PROTOCOL_VERSION,
    Ask,
    Detach,
    DownFrame,
    Left,
    Move,
    Msg,
    NoSession,
    Pong,
    Refused,
    Replaced,
    Reset,
    Stale,
    Wait,
    Welcome,
)
from roamcast.middleware.mobile_host.attachment import Attachment, Phase
from roamcast.middleware.mobile_host.effects import AgentEffect, Ended, Given, Receipt
from roamcast.middleware.mobile_host.errors import AgentEnded
from roamcast.middleware.mobile_host.identity import Identity
from roamcast.middleware.mobile_host.journal import Journal
from roamcast.middleware.mobile_host.session import Session
from roamcast.middleware.mobile_host.settings import AgentSettings
from roamcast.middleware.mobile_host.state import AgentImage, Station
from roamcast.middleware.rows import Kind

FINAL_CODES = ("version", "name", "gone", "revoked")
"""Codes of REFUSED after which no attempt can succeed."""

MUTANTS = (
    "number_late", "welcome_late", "c_late", "own_not_dropped", "prev_ignored", "msg_before_welcome", "hand_kept",
    "given_forgotten", "late_ack_lost", "epoch_late", "seen_not_saved", "value_unheld", "end_not_saved",
    "live_last", "live_age",
)  # fmt: skip
"""Faults that tests may switch on, to see that they are caught."""


class AgentCore:
    """The protocol of one host. A tick: `begin`, any inputs and calls, `expire`, `flush`.

    Args:
        name: the host's name.
        stations: those of its credential; a list that a station told later is in the image and goes before.
        enrolled_at: slot of the station that enrolled it.
        image: its durable state; read here, never changed.
        rng: draws the incarnation, the order of stations, pauses.
        ephemeral: its record may go 60 s after its channel is lost.
        mutants: names of MUTANTS; tests only.
    """

    def __init__(
        self,
        *,
        name: str,
        stations: Sequence[Station],
        enrolled_at: int,
        image: AgentImage,
        settings: AgentSettings,
        rng: random.Random,
        ephemeral: bool = False,
        mutants: Set[str] = frozenset(),
    ) -> None:
        self._settings = settings
        self._mutants = mutants
        self._now = 0
        self._end: Ended | None = None
        self._leaving = False
        self._bad_frame = ""
        """The last reason of this kind that ended a session."""
        self._at_bad_frame = False
        """No frame was taken since then: it may be met again and again."""
        self._journal = Journal(image, mutants)
        self._session = Session(name, image, settings, self._journal, mutants)
        self._link = Attachment(name, stations, image, settings, self._journal, self._session, rng, ephemeral)
        self._identity = Identity(enrolled_at, self._journal, self._session, self._link, rng)
        if image.incarnation == 0:
            self._identity.draw(lost=False)

    # ---- the tick ----

    def begin(self, now: int) -> None:
        """Open a tick at `now`, monotonic microseconds. A long freeze makes the link suspect (cases BL-39, BL-42)."""
        session, before = self._session, self._now
        self._now = session.now = now
        if session.is_open and now - max(before, session.live.next_deadline()) > self._settings.freeze:
            session.live.restart(now, bool(session.outbox))
            session.ping(self._settings.suspect_timeout)

    def expire(self) -> None:
        """Do all that is due."""
        if self._link.phase is Phase.OPEN:
            reason = self._session.expire()
            if reason is not None:
                self._session_over(reason)
        else:
            self._link.expire()

    def next_deadline(self) -> int | None:
        """When `expire` is to be called next, monotonic microseconds; None: only on input."""
        return self._session.live.next_deadline() if self._link.phase is Phase.OPEN else self._link.next_deadline()

    def flush(self) -> list[AgentEffect]:
        """Close the tick. Returns the ordered effects: one Save of all new facts first, then the rest."""
        self._session.flush()
        self._link.deaf = False
        return self._journal.flush(self._link.epoch)

    # ---- commands ----

    def start(self) -> None:
        """Attach, unless that is under way."""
        if self._link.phase is Phase.OFF:
            self._link.start_round(self._link.last)

    def resume(self) -> None:
        """Attach again after `suspend` or `detach`."""
        self.start()

    def suspend(self) -> None:
        """Close the connection and stop all timers, until `resume`."""
        if self._link.phase not in (Phase.OFF, Phase.ENDED):
            self._stop(Phase.OFF, "suspended")

    def network_changed(self) -> None:
        """The present connection is worth nothing: reconnect at once."""
        if self._link.phase not in (Phase.OFF, Phase.ENDED):
            self._close("network changed")
            self._link.roaming.forget_failures()
            self._link.start_round(self._link.last)

    def move(self, station: int | str) -> None:
        """Attach at the station with this slot, or id, first. Raises LocalProtocolError for an unknown one."""
        link = self._link
        slot = link.roaming.wanted(station)
        there = link.station == slot and link.phase in (Phase.OPEN, Phase.ATTACHING)
        if link.phase is not Phase.ENDED and not there:
            self._close("moved")
            link.start_round(slot, link.last)

    def detach(self) -> None:
        """Say all acknowledgements, tell the station that the host is away now, and stop until `resume`."""
        if self._link.phase is not Phase.OPEN:
            self.suspend()
            return
        if self._session.inbox.unsaid:
            self._session.say_ack()
        self._journal.send(Detach(self._link.epoch))
        self._stop(Phase.OFF, "detached", polite=True)

    def leave(self) -> None:
        """End the membership; nothing can be sent any more. Repeated in every session until it is answered."""
        self._leaving = True
        if self._link.phase is Phase.OPEN:
            self._session.say_leave()

    def probe(self) -> None:
        """Ping now, unless an answer is due, to learn whether all has been fetched (`drained`)."""
        if self._link.phase is Phase.OPEN and not self._session.live.awaits_pong:
            self._session.ping()

    # ---- the application ----

    def submit(self, body: bytes, to: str | None = None, kind: Kind = Kind.BROADCAST) -> int:
        """Queue a message to all, or to the host `to`. Returns its own number.

        kind: MAIL: `to` names a host. TOPIC, RETAINED, SUB or UNSUB: a message on the topic `to`, its last value (an
            empty body clears that), or a change of the own subscription. In one order with all else that is submitted.

        Raises: OutboxFull, MessageTooLarge, BadAddressee, TypeError, AgentEnded; nothing has changed then.
        """
        self._check_member()
        return self._session.submit(body, to, int(kind))

    def send_live(
        self, body: bytes, deadline: float, to: str | None = None, kind: Kind = Kind.BROADCAST, room: bool = True
    ) -> Receipt:
        """Send a live message to all, or to the host or topic `to`: given within `deadline` microseconds, or never.

        It follows all that was sent and given before. Nothing is kept and nothing repeated. Returns the receipt, under
        a number below 0, of this process alone: sent; or dropped, being not-attached, or congested: the driver has no
        `room`. Another one may follow: dropped. Raises as `submit`, and ValueError: it makes no sense.
        """
        self._check_member()
        return self._session.send_live(body, to, kind, deadline, room)

    def drop_live(self, number: int, reason: str) -> Receipt:
        """The driver could not send it after all. Returns the receipt; no tick is needed."""
        return self._session.drop_live(number, reason)

    def _check_member(self) -> None:
        if self._end is not None or self._leaving:
            raise AgentEnded(self._end.text if self._end is not None else "the host is leaving")

    def take(self) -> Given | None:
        """The next for the application, which is given it thereby; None: nothing now. At the end: Ended, each time."""
        return self._session.inbox.take(self._now) or self._end

    def ack(self, token: int) -> None:
        """The application has everything up to `token`; durable with the next flush. Raises LocalProtocolError."""
        self._session.ack(token)

    @property
    def session(self) -> Session:
        """What is known of the present or last session, for who looks on; not to be changed."""
        return self._session

    @property
    def drained(self) -> bool:
        """All own messages are stored, and two answers in a row said that the station owes nothing more.

        Two, since the first may have been on its way before the acknowledgement opened the window.
        """
        session = self._session
        return session.is_open and session.quiet >= 2 and not session.outbox and not session.inbox.unacknowledged

    def status(self) -> dict[str, Any]:
        """What an application may show; plain values. Stations by their ids."""
        session, link = self._session, self._link
        wait = session.live.waiting if self._now < session.live.wait_until else None
        name = link.roaming.name_of
        return {
            "state": link.phase.value,
            "station": name(link.station) if link.phase in (Phase.OPEN, Phase.ATTACHING) else None,
            "stations": [known for known, *_ in link.roaming.stations],
            "waiting": {"reason": wait.reason, "station": name(wait.station), "since": wait.since} if wait else None,
            "problem": link.problem or (self._bad_frame if self._at_bad_frame else None),
            "outbox": len(session.outbox),
            "in_hand": session.inbox.in_hand,
            "unacknowledged": session.inbox.unacknowledged,
            "live": session.live_counts,
            "epoch": link.epoch,
            "incarnation": f"{session.incarnation & 0xFFFFFFFF:08x}",
        }

    # ---- the link ----

    def link_lost(self, reason: str) -> None:
        """The present connection broke, or could not be made."""
        if self._link.deaf:
            return
        if self._link.phase is Phase.OPEN:
            self._session_over(reason)
        elif self._link.phase is Phase.ATTACHING:
            self._link.failed(reason)

    def receive(self, frame: DownFrame) -> None:
        """A frame from the present connection. Before the WELCOME of the attempt only answers to HELLO count."""
        link = self._link
        if link.deaf or link.phase not in (Phase.ATTACHING, Phase.OPEN):
            return
        match frame:
            case Welcome():
                if link.phase is Phase.ATTACHING and frame.e == link.epoch:
                    self._welcomed(frame)
            case Stale(highest):
                if link.phase is Phase.ATTACHING and highest >= link.epoch:
                    link.stale(highest)
            case Reset(e):
                if e == link.epoch:
                    self._lose_state("unknown to the stations")
            case Replaced(e):
                self._replaced(e)
            case Refused(code, text):
                self._refused(code, text)
            case NoSession():
                self.link_lost("no session")
            case Left():
                if self._leaving:
                    self._finish("left", "the host has left")
            case Wait():
                self._session.live.wait(frame, self._now)
            case Ask(e):
                if e == link.epoch:
                    self._asked(e)
            case Move(stations):
                self._sent_away(stations)
            case _ if link.phase is Phase.OPEN:
                reason = self._session.receive(frame)
                if reason is not None:
                    self._session_over(reason)
                elif isinstance(frame, (Msg, Pong)):  # in turn: there is nothing before it that cannot be taken
                    self._at_bad_frame = False
            case Msg() if "msg_before_welcome" in self._mutants:
                self._session.inbox.position = frame.prev
                self._session.take_frame(frame)

    def _welcomed(self, frame: Welcome) -> None:
        link = self._link
        if frame.version[0] != PROTOCOL_VERSION[0]:
            self._finish("version", f"the station speaks version {frame.version[0]}.{frame.version[1]}")
        elif self._session.outbox.went_back(frame.lastseq):
            self._lose_state("the own state went back in time")
        else:
            link.phase = Phase.OPEN
            link.last = link.station
            link.problem = None
            joined = frame.at == JOINED_AT and self._session.inbox.le == 0  # there was an older incarnation
            self._session.open(frame, link.station, self._leaving, lost=joined and not self._identity.renewed)
            self._identity.renewed = False
            self._journal.report("attached", station=link.station, epoch=link.epoch, gap=frame.gap)
            link.learn(frame.stations)

    def _asked(self, e: int) -> None:
        """ASK: the station works on it, so an attempt waits as for WAIT."""
        if self._link.phase is Phase.ATTACHING:
            self._session.live.wait(Wait("a station is lost; another one finds out what is owed", 0, 0), self._now)
        self._session.say_seen(e)

    def _sent_away(self, stations: tuple[Station, ...]) -> None:
        """MOVE: over without fault, all that is queued goes with the host."""
        session = self._session
        was_open, age = session.is_open, self._now - session.opened_at if session.is_open else 0
        self._close("sent to another station")
        self._link.learn(stations)
        self._link.sent_away(was_open, age)

    # ---- endings ----

    def _close(self, reason: str) -> None:
        if self._session.is_open:
            self._session.close()
            self._journal.report("session-ended", station=self._link.station, reason=reason)

    def _stop(self, phase: Phase, reason: str, polite: bool = False) -> None:
        self._close(reason)
        self._link.phase = phase
        self._link.disconnect(polite)

    def _session_over(self, reason: str) -> None:
        self._close(reason)
        if reason.startswith("bad frame"):
            if reason != self._bad_frame:
                self._journal.report("bad-frame", station=self._link.station, reason=reason)
            self._bad_frame, self._at_bad_frame = reason, True
        self._link.after_session(self._now - self._session.opened_at)

    def _replaced(self, e: int) -> None:
        if e == 0:
            self._finish("replaced", "a newer incarnation of this host has joined")
        elif e == self._link.epoch:
            self._close("replaced")
            self._journal.report("replaced", station=self._link.station)
            self._link.hold()

    def _refused(self, code: str, text: str) -> None:
        if code == "gone" and self._leaving:
            self._finish("left", "the host has left")
        elif code in FINAL_CODES:
            self._finish(code, text)
        else:
            self._close(f"refused: {code}")
            self._link.problem = f"refused: {code}: {text}"
            self._link.pause(self._link.problem)

    def _lose_state(self, reason: str) -> None:
        self._close(reason)
        self._identity.lose(reason)

    def _finish(self, code: str, text: str) -> None:
        self._stop(Phase.ENDED, code)
        self._end = Ended(code, text)
        self._link.problem = f"{code}: {text}"
        self._journal.report("ended", code=code, text=text)
