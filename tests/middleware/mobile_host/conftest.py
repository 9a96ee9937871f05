"""A rig that drives one AgentCore: applies its Saves to a disk, keeps what it sends, can crash and restart it."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

from roamcast.middleware.host_frames import PROTOCOL_VERSION, Hello, Msg, Welcome
from roamcast.middleware.mobile_host.core import AgentCore
from roamcast.middleware.mobile_host.effects import Connect, Delivered, Ended, Receipt, Report, Save, SendUp
from roamcast.middleware.mobile_host.settings import AgentSettings
from roamcast.middleware.mobile_host.state import AgentImage, Station
from roamcast.middleware.rows import Item, Kind

HOME = 1
KEY = b"k" * 40


def station(slot: int, name: str | None = None, key: bytes = KEY) -> Station:
    """As a station's list names it: `s` and its slot."""
    name = name or f"s{slot}"
    return name, slot, f"tcp://{name}:7001", key


def item(slot, n, sender="other", incarnation32=7, number=1, kind=Kind.BROADCAST) -> Item:
    """A message; its body is its id."""
    return Item(slot, n, sender, incarnation32, number, kind, b"%d.%d" % (slot, n))


class Rig:
    """One host `me`, stations s1, s2, s3 with the slots 1, 2, 3, enrolled at 1."""

    def __init__(self, mutants: frozenset[str] = frozenset(), **settings: int) -> None:
        self.settings = AgentSettings(**settings)
        self.mutants = mutants
        self.disk = AgentImage()
        self.credential = (station(1), station(2), station(3))
        self.now = 1_000_000_000
        self.seed = 0
        self.effects: list[Any] = []
        self.core = self.start_core()

    def start_core(self) -> AgentCore:
        self.seed += 1
        return AgentCore(
            name="me", stations=self.credential, enrolled_at=HOME, image=self.disk, settings=self.settings,
            rng=random.Random(self.seed), mutants=self.mutants,
        )  # fmt: skip

    def tick(self, *calls: Callable[[AgentCore], Any], after: int = 0, crash_at: int | None = None) -> list[Any]:
        """One tick `after` microseconds later. `crash_at`: only so many effects are performed."""
        self.now += after
        self.core.begin(self.now)
        for call in calls:
            call(self.core)
        self.core.expire()
        self.effects = self.core.flush()
        if crash_at is not None:
            self.effects = self.effects[:crash_at]
        for effect in self.effects:
            if isinstance(effect, Save):
                for fact in effect.facts:
                    self.disk.apply(fact)
        return self.effects

    def hear(self, *frames: Any, after: int = 0) -> list[Any]:
        return self.tick(*[lambda core, frame=frame: core.receive(frame) for frame in frames], after=after)

    def crash(self) -> None:
        """The process dies and starts again on what the disk holds."""
        self.core = self.start_core()
        self.tick(AgentCore.start)

    # ---- the last tick ----

    def of(self, kind: type) -> list[Any]:
        return [effect for effect in self.effects if isinstance(effect, kind)]

    def sent(self, kind: type | None = None) -> list[Any]:
        frames = [effect.frame for effect in self.of(SendUp)]
        return frames if kind is None else [frame for frame in frames if isinstance(frame, kind)]

    @property
    def hello(self) -> Hello:
        return self.sent(Hello)[-1]

    @property
    def connects(self) -> list[int]:
        return [effect.slot for effect in self.of(Connect)]

    @property
    def reports(self) -> list[str]:
        return [effect.event for effect in self.of(Report)]

    @property
    def receipts(self) -> list[tuple[int, str]]:
        return [(effect.number, effect.state) for effect in self.of(Receipt)]

    # ---- short cuts ----

    @property
    def epoch(self) -> int:
        return self.core.status()["epoch"]

    def welcome(self, at: int = 0, lastseq: int = 0, gap: bool = False, window: int = 512, **more: Any) -> Welcome:
        return Welcome(PROTOCOL_VERSION, self.epoch, lastseq, gap, at, 256 << 10, window, **more)

    def attach(self, **said: Any) -> list[Any]:
        """Start if need be, and be welcomed. Returns the effects of the WELCOME's tick."""
        if self.core.status()["state"] == "off":
            self.tick(AgentCore.start)
        return self.hear(self.welcome(**said))

    def reattach(self, **said: Any) -> list[Any]:
        """The link breaks in a settled session, and the next attempt is welcomed."""
        self.tick(lambda core: core.link_lost("cut"), after=self.settings.settled)
        return self.attach(**said)

    def msg(self, prev: int, last: int, *entries: tuple[int, Item]) -> list[Any]:
        return self.hear(Msg(prev, last, entries))

    def take(self) -> Any:
        return self.core.take()

    def take_all(self) -> list[Any]:
        taken = []
        while (given := self.core.take()) is not None and not isinstance(given, Ended):
            taken.append(given)
        return taken

    def bodies(self) -> list[bytes]:
        return [given.body for given in self.take_all() if isinstance(given, Delivered)]

    def ack(self, given: Any, after: int = 0) -> list[Any]:
        return self.tick(lambda core: core.ack(given.token), after=after)

    def submit(self, body: bytes = b"x", to: str | None = None) -> int:
        numbers: list[int] = []
        self.tick(lambda core: numbers.append(core.submit(body, to)))
        return numbers[0]

    # ---- topics ----

    def on(self, slot, n, kind, sender="other", number=1, topic="t", body=None, hlc=0) -> Item:
        """An item on a topic; of this host itself if the sender is `me`."""
        low = self.disk.incarnation & 0xFFFFFFFF if sender == "me" else 7
        return Item(slot, n, sender, low, number, kind, b"%d.%d" % (slot, n) if body is None else body, topic, hlc)

    def sub(self, slot=1, n=5, number=1, kind=Kind.SUB, topic="t", body=b"") -> Item:
        """A change of the own subscription, as it comes back."""
        return self.on(slot, n, kind, "me", number, topic, body)

    def submit_on(self, kind: Kind, topic="t", body=b"") -> int:
        numbers: list[int] = []
        self.tick(lambda core: numbers.append(core.submit(body, topic, kind)))
        return numbers[0]

    def saved(self, kind: type) -> list[Any]:
        """Facts saved in the last tick."""
        return [fact for save in self.of(Save) for fact in save.facts if isinstance(fact, kind)]


@pytest.fixture
def make_rig() -> type[Rig]:
    return Rig


@pytest.fixture
def rig() -> Rig:
    return Rig()


@pytest.fixture
def make_item() -> Callable[..., Item]:
    return item


@pytest.fixture
def make_station() -> Callable[..., Station]:
    return station


@pytest.fixture
def subscribed(rig) -> Rig:
    """A rig that has asked for topic t, as own number 1; a station has said where it stands."""
    rig.attach(passed=((9, 0),))
    rig.submit_on(Kind.SUB)
    return rig


@pytest.fixture
def shape() -> Callable[[list[Any]], list[Any]]:
    """(kind, id, retained) of what is given; of a notice its type."""
    return lambda given: [(g.kind, g.id, g.retained) if isinstance(g, Delivered) else type(g) for g in given]
