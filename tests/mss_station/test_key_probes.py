"""Who lets a new key in, asked over real sockets."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
import zmq

from roamcast.middleware.settings import SECOND
from roamcast.mss_station.key_probes import PAUSE, KeyProbes
from roamcast.transport import curve
from roamcast.transport.sockets import new_context
from roamcast.transport.station_sockets import bind_stations
from roamcast.transport.zap import TRY_LATER, ZapResponder


class Peers:
    """Two peers behind one ZAP, told apart by the name of their domain's socket; and the probes of a third station."""

    def __init__(self, context: zmq.Context[zmq.Socket[bytes]]) -> None:
        self.new = curve.generate()
        self.door: str | None = None
        """What ZAP answers to the new key."""
        self.asked = 0
        self._zap = ZapResponder(context, self._allow, lambda *report: None)
        self._keys = [curve.generate(), curve.generate()]
        self._routers = [bind_stations(context, "tcp://127.0.0.1:*", keys) for keys in self._keys]
        self.probes = KeyProbes(context, self.new)
        self.now = 0
        self.addresses = {name: self.address(index) for index, name in enumerate(("dale", "glen"))}

    def address(self, index: int) -> tuple[str, str]:
        return self._routers[index].getsockopt_string(zmq.LAST_ENDPOINT), self._keys[index].public

    def _allow(self, domain: str, key: str, address: str) -> str | None:
        assert (domain, key) == ("stations", self.new.public)
        self.asked += 1
        return self.door

    def look(self) -> list[str]:
        return self.probes.look(self.addresses, self.now)

    def turn(self, done: Callable[[], object], waiting: list[str], passing: int = 0) -> None:
        """Look until `done` and just these are waited for; each time `passing` microseconds later."""
        for _ in range(2_000):
            self._zap.socket.poll(5)
            self._zap.answer()
            self.now += passing
            left = self.look()
            if done() and left == waiting:
                return
        raise AssertionError(f"asked {self.asked} times, still waiting for {left}")


@pytest.fixture
def peers() -> Iterator[Peers]:
    context = new_context()
    peers = Peers(context)
    yield peers
    peers.probes.close()
    context.destroy(0)


def test_all_peers_are_waited_for_until_they_let_the_key_in(peers: Peers) -> None:
    peers.turn(lambda: peers.asked == 2, ["dale", "glen"])
    peers.door = "station:hill"
    peers.turn(lambda: True, [], PAUSE)
    asked = peers.asked
    peers.now += 10 * PAUSE
    assert peers.look() == [] and peers.asked == asked, "who has let it in is not asked any more"


@pytest.mark.parametrize("door", [None, TRY_LATER])
def test_a_peer_that_refuses_is_asked_again_after_a_pause(peers: Peers, door: str | None) -> None:
    peers.door = door
    del peers.addresses["glen"]
    for times in range(1, 4):
        before = peers.now
        peers.turn(lambda times=times: peers.asked == times, ["dale"], SECOND)
        assert times == 1 or peers.now - before >= PAUSE


def test_a_peer_that_is_not_there_is_waited_for(peers: Peers) -> None:
    peers.door = "station:hill"
    there, peers.addresses["dale"] = peers.addresses["dale"], ("tcp://127.0.0.1:1", curve.generate().public)
    peers.turn(lambda: True, ["dale"])
    peers.addresses["dale"] = there
    peers.turn(lambda: True, [], PAUSE)


def test_members_come_and_go_while_it_waits(peers: Peers) -> None:
    glen = peers.addresses.pop("glen")
    peers.look()
    peers.addresses = {"glen": glen}
    peers.door = "station:hill"
    peers.turn(lambda: True, [])
    peers.addresses["dale"] = peers.address(0)
    assert peers.look() == ["dale"]
    peers.turn(lambda: True, [], PAUSE)


def test_a_station_without_peers_waits_for_nobody(peers: Peers) -> None:
    assert peers.probes.look({}, 0) == []
