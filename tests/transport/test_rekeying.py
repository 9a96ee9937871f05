"""Other keys for sockets in use, on loopback: old connections end, new ones stand, the endpoint stays."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
import zmq

from roamcast.transport import curve
from roamcast.transport.errors import CannotBind
from roamcast.transport.rekeying import rekey_dealer, rekey_router
from roamcast.transport.sockets import UNKNOWN_KEY, UP, WRONG_KEY, new_context
from roamcast.transport.station_sockets import bind_stations, connect_peer
from roamcast.transport.zap import ZapResponder

Context = zmq.Context[zmq.Socket[bytes]]


class Pair:
    """A station's ROUTER, and a peer's DEALER to it."""

    def __init__(self, context: Context) -> None:
        self.old, self.new = curve.generate(), curve.generate()
        self.peer, self.other = curve.generate(), curve.generate()
        self.allowed = {self.peer.public}
        self._zap = ZapResponder(
            context, lambda _, key, __: "station:dale" if key in self.allowed else None, lambda *report: None
        )
        self.router = bind_stations(context, "tcp://127.0.0.1:*", self.old)
        self.endpoint = self.router.getsockopt_string(zmq.LAST_ENDPOINT)
        self.dealer, self.monitor = connect_peer(context, self.endpoint, self.peer, self.old.public)

    def until(self, change: str) -> None:
        seen: list[str] = []
        self._turn(lambda: seen.extend(self.monitor.changes()) or change in seen)

    def passes(self, data: bytes) -> None:
        """What the DEALER sends arrives."""
        self.dealer.send(data, zmq.NOBLOCK)
        self._turn(lambda: self.router.poll(0))
        _, part = self.router.recv_multipart(copy=False)
        assert part.bytes == data and part.get("User-Id") == "station:dale"

    def _turn(self, done: Callable[[], object]) -> None:
        for _ in range(2_000):
            if done():
                return
            self._zap.socket.poll(5)
            self._zap.answer()
            self.router.poll(0)  # libzmq ends old connections when their socket is used
            self.dealer.poll(0)
        raise AssertionError("nothing came")


@pytest.fixture
def pair() -> Iterator[Pair]:
    context = new_context()
    pair = Pair(context)
    pair.until(UP)
    yield pair
    pair.monitor.close()
    context.destroy(0)


def test_a_router_under_a_new_key_lets_in_only_who_knows_it(pair: Pair) -> None:
    pair.passes(b"before")
    rekey_router(pair.router, pair.new)
    pair.until(WRONG_KEY)
    rekey_dealer(pair.dealer, pair.endpoint, pair.peer, pair.new.public)
    pair.until(UP)
    pair.passes(b"after")


def test_a_dealer_takes_another_pair_of_its_own(pair: Pair) -> None:
    pair.allowed = {pair.other.public}
    rekey_dealer(pair.dealer, pair.endpoint, pair.other, pair.old.public)
    pair.until(UP)
    pair.passes(b"under the other key")


def test_a_dealer_that_was_refused_comes_in_when_it_is_connected_anew(pair: Pair) -> None:
    pair.allowed = set()
    rekey_dealer(pair.dealer, pair.endpoint, pair.peer, pair.old.public)
    pair.until(UNKNOWN_KEY)
    pair.allowed = {pair.peer.public}
    rekey_dealer(pair.dealer, pair.endpoint, pair.peer, pair.old.public)
    pair.until(UP)
    pair.passes(b"let in")


def test_an_endpoint_that_another_one_has_taken_is_told(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between the end of the old listener and the new one: any program may have come in there."""
    monkeypatch.setattr("roamcast.transport.rekeying.BIND_TRIES", 3)
    context = new_context()
    taken = context.socket(zmq.ROUTER)
    first = type(pair.router).unbind

    def unbind_slowly(socket: zmq.Socket[bytes], endpoint: str) -> None:
        first(socket, endpoint)
        for _ in range(1_000):
            try:
                taken.bind(endpoint)
            except zmq.ZMQError:
                pair.monitor.socket.poll(1)
            else:
                return

    monkeypatch.setattr(type(pair.router), "unbind", unbind_slowly)
    with pytest.raises(CannotBind, match="does not become free"):
        rekey_router(pair.router, pair.new)
    context.destroy(0)
