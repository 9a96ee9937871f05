"""Getting to a station: connection, HELLO, the attempt's timeout, the pause after a failed round.

The session itself is not known here; `session` is asked for its claim (le, c) when a HELLO is made.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from enum import Enum

from roamcast.middleware.host_frames import PROTOCOL_VERSION, Hello
from roamcast.middleware.mobile_host.effects import Connect, Disconnect
from roamcast.middleware.mobile_host.journal import Journal
from roamcast.middleware.mobile_host.liveness import FAR
from roamcast.middleware.mobile_host.roaming import Roaming
from roamcast.middleware.mobile_host.session import Session
from roamcast.middleware.mobile_host.settings import AgentSettings
from roamcast.middleware.mobile_host.state import AgentImage, Station, Stations
from roamcast.middleware.settings import SECOND

EPOCH_LEAP_MAX = 1 << 32
"""An epoch further above the own one than this is nobody's."""


class Phase(Enum):
    """Where the agent stands."""

    OFF = "off"
    PAUSED = "paused"
    ATTACHING = "attaching"
    OPEN = "open"
    ENDED = "ended"


class Attachment:
    """The present connection and attempt. The owner sets `phase` to OPEN at WELCOME, and to OFF or ENDED."""

    def __init__(
        self,
        name: str,
        stations: Sequence[Station],
        image: AgentImage,
        settings: AgentSettings,
        journal: Journal,
        session: Session,
        rng: random.Random,
        ephemeral: bool,
    ) -> None:
        self.phase = Phase.OFF
        self.epoch = image.epoch
        self.last = image.last
        """Station of the last session."""
        self.station = 0
        """Station of the present connection."""
        self.problem: str | None = None
        """Why the last attempt failed, or what else keeps the host from attaching; None once it is attached."""
        self.deaf = False
        """The connection was given up in this tick: what still comes in it is of the old one."""
        self.roaming = Roaming(stations, image.stations, settings, rng)
        self._name = name
        self._settings = settings
        self._journal = journal
        self._session = session
        self._ephemeral = ephemeral
        self._stales = 0
        self._attempt_by = FAR
        self._resume_at = FAR
        self._held_until = 0

    @property
    def now(self) -> int:
        """Monotonic microseconds, of the present tick."""
        return self._session.now

    def start_round(self, *first: int) -> None:
        """Try the stations, those of `first` before the others; not before a hold has passed."""
        if self.now < self._held_until:
            self.problem = "another holder of this identity has attached"
            self._pause_for(self._held_until - self.now, self.problem)
            return
        self.roaming.begin_round(*first)
        self._next_attempt()

    def pause(self, reason: str) -> None:
        """A round has failed, or a station has refused: back off."""
        self._pause_for(self.roaming.pause_after_round(), reason)

    def after_session(self, age: int) -> None:
        """The session was lost at this age, microseconds: attach again."""
        pause = self.roaming.pause_after_session(age)
        if pause:
            self._pause_for(pause, "the last session was short")
        else:
            self.start_round(self.last)

    def hold(self) -> None:
        """Another holder of this identity has attached: leave it alone for a while."""
        self._held_until = self.now + self.roaming.hold()
        self.start_round(self.last)

    def failed(self, reason: str) -> None:
        """The present attempt has failed."""
        self.problem = reason
        self._journal.report("attempt-failed", station=self.station, reason=reason)
        self._next_attempt()

    def stale(self, highest: int) -> None:
        """An attempt of a former life, or of another holder, had this epoch: go above it, on the same connection."""
        self._stales += 1
        if highest > self.epoch + EPOCH_LEAP_MAX:
            self.failed("bad frame: an epoch out of range")
            return
        self.epoch = highest
        if self._stales > self._settings.stale_max:
            self.failed("stale")
        else:
            self._hello()

    def learn(self, stations: tuple[Station, ...]) -> None:
        """A station tells which stations serve hosts; () = no news."""
        if stations and stations != self.roaming.stations:
            self.roaming.stations = stations
            self._journal.save(Stations(stations))
            self._journal.report("stations", stations=[name for name, *_ in stations])

    def sent_away(self, was_open: bool, age: int) -> None:
        """The station has said MOVE, to a session of this age (microseconds) or, with age 0, to an attempt."""
        self.problem = "the station sends its hosts to the other ones"
        if self.roaming.sent_away(self.station, age):
            self.start_round(self.last)
        elif was_open:
            self.after_session(age)
        else:
            self.failed(self.problem)

    def disconnect(self, polite: bool = False) -> None:
        """Close the connection, if any."""
        self._session.live.stop_waiting()
        self._journal.emit(Disconnect(polite))
        self.deaf = True

    def expire(self) -> None:
        """Do what is due."""
        deadline = self.next_deadline()
        if deadline is None or self.now < deadline:
            return
        if self.phase is Phase.ATTACHING:
            self.failed("no answer")
        else:
            self.start_round(self.last)

    def next_deadline(self) -> int | None:
        """When the attempt or the pause is over; None in other phases."""
        if self.phase is Phase.ATTACHING:
            return max(self._attempt_by, self._session.live.wait_until)
        return self._resume_at if self.phase is Phase.PAUSED else None

    def _next_attempt(self) -> None:
        station = self.roaming.next_station()
        if station is None:
            self.pause("no station answered")
            return
        _, self.station, endpoint, key = station
        self.phase = Phase.ATTACHING
        self._stales = 0
        self._session.live.stop_waiting()
        self._journal.emit(Connect(self.station, endpoint, key))
        self.deaf = True
        self._hello()

    def _hello(self) -> None:
        self.epoch += 1
        self._attempt_by = self.now + self._settings.attach_timeout
        session = self._session
        le, c = session.claim()
        self._journal.send(
            Hello(
                version=PROTOCOL_VERSION,
                name=self._name,
                incarnation=session.incarnation,
                ephemeral=self._ephemeral,
                e=self.epoch,
                last=self.last,
                le=le,
                c=c,
                una=session.outbox.una,
                ping_s=self._settings.ping_idle // SECOND,
            )
        )

    def _pause_for(self, duration: int, reason: str) -> None:
        self.phase = Phase.PAUSED
        self._resume_at = self.now + duration
        self.disconnect()
        self._journal.report("paused", reason=reason, microseconds=duration)
