"""A credential, and the other end of its link: a CURVE ROUTER on loopback that says what the test tells it to say."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import zmq

from roamcast.mh_agent import Agent
from roamcast.middleware.host_frames import PROTOCOL_VERSION, Hello, Msg, Welcome
from roamcast.middleware.rows import Item, Kind
from roamcast.transport.curve import generate
from roamcast.transport.host_codec import encode_down
from roamcast.transport.serving_codec import decode_up

PATIENCE_S = 10.0


class StationEnd:
    """A station, by itself `north` in slot 1. Keeps every frame that was not asked for yet, in order."""

    def __init__(self, context: zmq.Context[Any], queue: int = 1_000) -> None:
        keys = generate()
        self.key = keys.public
        self.socket = context.socket(zmq.ROUTER)
        self.socket.curve_server = True
        self.socket.curve_secretkey = keys.secret.encode()
        self.socket.linger = 0
        self.socket.rcvhwm = queue
        self.port = self.socket.bind_to_random_port("tcp://127.0.0.1")
        self.channel = b""
        self.heard: list[Any] = []

    def expect(self, kind: type, patience_s: float = PATIENCE_S) -> Any:
        """The next frame of this kind; others before it are dropped."""
        end = time.monotonic() + patience_s
        while time.monotonic() < end:
            if self.socket.poll(int(1_000 * max(0.0, end - time.monotonic()))):
                channel, data = self.socket.recv_multipart()
                frame = decode_up(data)
                self.heard.append(frame)
                if isinstance(frame, kind):
                    self.channel = channel
                    return frame
        raise AssertionError(f"no {kind.__name__} within {patience_s} s")

    def say(self, *frames: Any) -> None:
        for frame in frames:
            self.socket.send_multipart([self.channel, encode_down(frame)])

    def listed(self, name: str, slot: int) -> tuple[str, int, str, bytes]:
        """This station in a list of stations."""
        return name, slot, f"tcp://127.0.0.1:{self.port}", self.key.encode()

    def welcome(self, at: int = 0, lastseq: int = 0, gap: bool = False, **more: Any) -> Hello:
        hello: Hello = self.expect(Hello)
        self.say(Welcome(PROTOCOL_VERSION, hello.e, lastseq, gap, at, 256 << 10, 512, **more))
        return hello

    def deliver(self, prev: int, *bodies: bytes) -> None:
        """Messages of host bob at the positions behind `prev`, with the numbers of these positions."""
        items = [(i, Item(2, i, "bob", 7, i, Kind.BROADCAST, body)) for i, body in enumerate(bodies, prev + 1)]
        self.say(Msg(prev, prev + len(bodies), tuple(items)))


@pytest.fixture
def make_station() -> Iterator[Callable[..., StationEnd]]:
    ends: list[StationEnd] = []
    with zmq.Context() as context:

        def make(**options: int) -> StationEnd:
            ends.append(StationEnd(context, **options))
            return ends[-1]

        yield make
        for end in ends:
            end.socket.close()


@pytest.fixture
def station(make_station: Callable[..., StationEnd]) -> StationEnd:
    return make_station()


@pytest.fixture
def make_credential(tmp_path: Path, station: StationEnd) -> Callable[..., Path]:
    def make(key: str | None = None) -> Path:
        keys = generate()
        file = tmp_path / "ada.toml"
        file.touch(mode=0o600)
        file.write_text(
            f'format = 1\ngroup = "demo"\nname = "ada"\npublic = "{keys.public}"\nsecret = "{keys.secret}"\nlast = 1\n'
            f'[[stations]]\nid = "north"\nslot = 1\nendpoint = "tcp://127.0.0.1:{station.port}"\n'
            f'key = "{key or station.key}"\n'
        )
        return file

    return make


@pytest.fixture
def credential(make_credential: Callable[..., Path]) -> Path:
    return make_credential()


@pytest.fixture
def make_agent(credential: Path) -> Iterator[Callable[..., Agent]]:
    agents: list[Agent] = []

    def make(**options: Any) -> Agent:
        agents.append(Agent(credential, **options))
        return agents[-1]

    yield make
    for agent in agents:
        agent.close()
