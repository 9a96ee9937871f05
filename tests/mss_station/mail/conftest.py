"""A station's mail without a station: a real store, service, desk and door; the loop and the sockets are fakes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from roamcast.middleware.delivery_log import Logged
from roamcast.middleware.membership.view import Ending, View
from roamcast.middleware.station_frames import StationFrame
from roamcast.mss_station.mail_desk import MailDesk
from roamcast.mss_station.mail_door import MailDoor, Offer
from roamcast.mss_station.mail_service import MailService
from roamcast.mss_station.store import StationIdentity, Store
from roamcast.mss_station.tally import Tally
from roamcast.transport.station_codec import decode_peer
from roamcast.transport.station_files import StationCard


class Directory:
    """Who is in the group, and what is set."""

    def __init__(self, slots: int) -> None:
        self.states = {f"s{slot}": "active" for slot in range(1, slots + 1)}
        self.values: dict[str, int] = {}

    def value(self, name: str) -> int | None:
        return self.values.get(name)

    def record(self, id: str) -> Any:
        return next((record for record in self.members() if record.id == id), None)

    def members(self) -> list[Any]:
        return [SimpleNamespace(id=id, slot=int(id[1:]), state=state) for id, state in self.states.items()]

    def peer(self, id: str) -> Any:
        record = self.record(id)
        return record if record is not None and record.state in ("active", "retiring") else None


class Peers:
    """The DEALERs: frames go through the codec."""

    def __init__(self) -> None:
        self.sent: list[tuple[int, StationFrame]] = []
        self.unlinked: set[int] = set()
        self.links = SimpleNamespace(is_linked=lambda slot: slot not in self.unlinked)

    def send(self, slot: int, data: bytes) -> bool:
        self.sent.append((slot, decode_peer(data)))
        return True

    def take(self) -> list[tuple[int, StationFrame]]:
        sent, self.sent = self.sent, []
        return sent


class Loop:
    """The station's loop as station mail sees it, in the test's hands: `tick` closes a tick."""

    def __init__(self, own: int, slots: int, store: Store) -> None:
        self.now = 0
        self.store = store
        self.clock = SimpleNamespace(now=lambda: self.now, wall=lambda: 1_000_000 + self.now)
        self.guard = SimpleNamespace(state="open", reason=None)
        self.is_linked = True
        self.peers = Peers()
        fifo = SimpleNamespace(peers=[slot for slot in range(1, slots + 1) if slot != own])
        ledger = SimpleNamespace(view=View(tuple(range(1, slots + 1))), fifo=fifo)
        self.obstacles: tuple[str, ...] = ()
        heir = SimpleNamespace(set_elsewhere=lambda obstacles: setattr(self, "obstacles", obstacles))
        self.core = SimpleNamespace(ledger=ledger, newcomer=None, heir=heir)
        self.ended: list[Exception] = []
        self.logged: list[Logged] = []
        self.is_open = False
        self._then: list[Callable[[bool], None]] = []
        self.mail: MailService
        self.desk: MailDesk

    def open_tick(self) -> None:
        if not self.is_open:
            self.is_open = True
            self.mail.begin(self.now)

    def then(self, action: Callable[[bool], None]) -> None:
        self._then.append(action)

    def end(self, error: Exception) -> None:
        self.ended.append(error)

    def tick(self, fails: bool = False) -> None:
        """As Server does: serve, close the tick in one transaction, then what stands behind it."""
        self.desk.serve(self.now)
        self.open_tick()
        self.mail.tell_obstacles()
        writes, logged = self.mail.flush()
        self.is_open = False
        then, self._then = self._then, []
        if not fails:
            self.store.commit(writes)
            self.logged += logged
            self.mail.committed()
        for action in then:
            action(not fails)
        if fails:
            self.mail.start_again()


class Station:
    """Station `own` of s1, s2, ... with a life on its store."""

    def __init__(self, home: Path, own: int = 1, slots: int = 3) -> None:
        self.own, self.slots = own, slots
        self.card = StationCard(f"s{own}", own, "g", 7, "tcp://h:1", "tcp://h:2", "k" * 40, "0" * 64)
        self.identity = StationIdentity(f"s{own}", own, 7)
        self.home = home
        home.mkdir()
        Store.create(home, self.identity)
        self.directory = Directory(slots)
        self.view = View(tuple(range(1, slots + 1)))
        self.store: Store | None = None
        self.start()

    def start(self) -> None:
        """A life begins; one before ends as by a crash."""
        if self.store is not None:
            self.store.close()
        self.store = Store.open(self.home, self.identity, durability="process")
        self.loop, self.door, self.tally = Loop(self.own, self.slots, self.store), MailDoor(), Tally()
        self.loop.core.ledger.view = self.view
        directory: Any = self.directory
        server: Any = self.loop
        self.mail = MailService(self.card, directory, server, self.store, self.door, self.tally)
        self.desk = MailDesk(self.mail, server, self.door)
        self.loop.mail, self.loop.desk = self.mail, self.desk
        self.door.open(lambda: None)
        self.door._thread = None  # the test is the program's thread and the station's
        self.loop.tick()

    def send(self, to: str, body: bytes) -> None:
        self.loop.open_tick()
        self.mail.send(to, body)
        self.loop.tick()

    def hear(self, slot: int, frame: Any) -> None:
        self.loop.open_tick()
        self.mail.receive(slot, frame)

    def sent(self, kind: type) -> list[tuple[int, Any]]:
        """What has left of this kind since this was last asked; the rest is forgotten."""
        return [(slot, frame) for slot, frame in self.loop.peers.take() if isinstance(frame, kind)]

    def offered(self) -> list[Offer]:
        return list(self.door._offers)

    def close_station(self, slot: int, final: bool = False) -> None:
        """The group's view: the station has ended."""
        view = self.loop.core.ledger.view
        view = replace(view, closed={**view.closed, slot: (0, ())})
        if final:
            view = replace(view, final={**view.final, slot: Ending(0, 0, ())})
        self.view = self.loop.core.ledger.view = view

    def logged(self, event: str) -> list[tuple[Any, ...]]:
        return [tuple(each.values) for each in self.loop.logged if each.event == event]

    def close(self) -> None:
        assert self.store is not None
        self.store.close()


@pytest.fixture
def make_station(tmp_path: Path) -> Any:
    made: list[Station] = []

    def make(own: int = 1, slots: int = 3) -> Station:
        made.append(Station(tmp_path / f"s{own}", own, slots))
        return made[-1]

    yield make
    for station in made:
        station.close()


@pytest.fixture
def station(make_station: Any) -> Station:
    made: Station = make_station()
    return made
