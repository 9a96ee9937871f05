"""Stations of the causal unicast in memory; a test decides which frame arrives when."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from roamcast.middleware.causal_unicast.effects import Arrived, MailEffect, MailPersist, SendMail
from roamcast.middleware.causal_unicast.records import Mail, MailAcks, MailFrame, MailImage
from roamcast.middleware.causal_unicast.rules import Rules
from roamcast.middleware.causal_unicast.settings import MailSettings
from roamcast.middleware.causal_unicast.station import MailStation

Flight = tuple[int, int, MailFrame]
"""(sender, receiver, frame)."""


class Office:
    """Stations 0, 1, 2, ... Mail that is sent waits in `mails` under its body; acknowledgements wait in `acks`."""

    def __init__(
        self, stations: int, rules: Rules | None = None, mutants: frozenset[str] = frozenset(), **settings: int
    ) -> None:
        self.rules = rules
        self.mutants = mutants
        self.settings = MailSettings(**settings)
        self.now = 1_000
        self.slots = list(range(stations))
        self.images = {slot: MailImage() for slot in self.slots}
        """What is durable."""
        self.up: dict[int, MailStation] = {}
        self.sent: list[Flight] = []
        """Every frame, in the order in which it was sent."""
        self.mails: dict[bytes, Mail] = {}
        self.acks: list[Flight] = []
        """Not arrived yet."""
        self.told: dict[int, list[MailEffect]] = {slot: [] for slot in self.slots}
        """Everything but writes and frames."""
        self.effects: list[MailEffect] = []
        """Of the last tick."""
        self.doom: dict[int, int] = {}
        """Station -> effects that it still performs before it dies."""
        for slot in self.slots:
            self.start(slot)

    # ---- lives ----

    def start(self, slot: int, image: MailImage | None = None) -> None:
        """A start on what is stored, or on `image` instead."""
        if image is not None:
            self.images[slot] = image
        peers = [other for other in self.slots if other != slot]
        self.up[slot] = MailStation(
            slot, peers, self.images[slot].copy(), self.settings, self.rules, self.mutants
        )  # fmt: skip
        self.tick(slot)

    def crash(self, slot: int) -> None:
        del self.up[slot]

    def tick(self, slot: int, method: Callable[..., Any] | None = None, *arguments: Any) -> Any:
        """One tick with at most one input."""
        station = self.up[slot]
        station.begin(self.now)
        result = method(station, *arguments) if method is not None else None
        self.effects = station.flush()
        for effect in self.effects:
            if slot in self.doom:
                self.doom[slot] -= 1
                if self.doom[slot] < 0:
                    del self.doom[slot]
                    self.crash(slot)
                    break
            self._perform(slot, effect)
        return result

    def _perform(self, slot: int, effect: MailEffect) -> None:
        match effect:
            case MailPersist(writes):
                for write in writes:
                    self.images[slot].apply(write)
            case SendMail(peer, frame):
                self.sent.append((slot, peer, frame))
                if isinstance(frame, Mail):
                    self.mails[frame.body] = frame
                else:
                    self.acks.append((slot, peer, frame))
            case _:
                self.told[slot].append(effect)

    # ---- what a test does ----

    def send(self, source: int, target: int, body: bytes) -> Mail:
        """Returns the mail that has left."""
        self.tick(source, MailStation.send, target, body)
        return self.mails.get(body) or Mail(source, target, (), (), body)

    def arrive(self, *bodies: bytes) -> None:
        """These mails arrive, in this order."""
        for body in bodies:
            mail = self.mails[body]
            self.tick(mail.dst, MailStation.receive, mail.src, mail)

    def hand(self, source: int, target: int, frame: MailFrame) -> None:
        self.tick(target, MailStation.receive, source, frame)

    def acknowledge(self) -> None:
        """Acknowledgements that wait arrive, at stations that are up."""
        waiting, self.acks = self.acks, []
        for source, target, frame in waiting:
            if target in self.up:
                self.hand(source, target, frame)

    def settle(self, slot: int, other: int) -> None:
        """All mail of `slot` to `other` arrives and is acknowledged."""
        for mail in list(self.images[slot].outgoing.get(other, {}).values()):
            self.hand(slot, other, mail)
        self.acknowledge()

    def run(self, duration: int) -> None:
        """Time passes and timers run; frames stay where they are."""
        end = self.now + duration
        while True:
            dues = {slot: due for slot, station in self.up.items() if (due := station.next_deadline()) is not None}
            if not dues or min(dues.values()) > end:
                break
            self.now = max(self.now, min(dues.values()))
            for slot, due in dues.items():
                if due <= self.now:
                    self.tick(slot)
        self.now = end

    # ---- what a test looks at ----

    def got(self, slot: int) -> list[bytes]:
        """Bodies that the application was told of, in order."""
        return [effect.item.body for effect in self.told[slot] if isinstance(effect, Arrived)]

    def inbox(self, slot: int) -> list[bytes]:
        """Bodies in the stored inbox."""
        return [item.body for item in self.images[slot].inbox.values()]

    def held(self, slot: int) -> list[bytes]:
        return [mail.body for mail in self.images[slot].held.values()]

    def records(self, slot: int) -> dict[tuple[int, int], int]:
        return self.images[slot].records

    def rejected(self, slot: int) -> list[str]:
        return [effect.code for effect in self.told[slot] if hasattr(effect, "code")]

    def acked(self, source: int, target: int) -> list[int]:
        """Numbers that `source` has acknowledged to `target`."""
        return [
            number
            for sender, receiver, frame in self.sent
            if isinstance(frame, MailAcks) and (sender, receiver) == (source, target)
            for number in frame.numbers
        ]


@pytest.fixture
def office() -> type[Office]:
    return Office
