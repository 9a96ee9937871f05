"""Stations in threads of the test's process, and hosts that say exactly what a test wants."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, TypeVar

import pytest
from demo.founding import found_group
from demo.relay import free_port

from roamcast.middleware.host_frames import Data, DownFrame, Hello, Msg, UpFrame, Welcome
from roamcast.middleware.rows import Item
from roamcast.mss_station import Station
from roamcast.mss_station.asking import look
from roamcast.mss_station.cli import main
from roamcast.mss_station.control import ask
from roamcast.transport.credential import read_credential
from roamcast.transport.host_codec import decode_down, encode_up
from roamcast.transport.sockets import connect_host, new_context
from roamcast.transport.station_files import StationCard

F = TypeVar("F")
PATIENCE_S = 20.0


class RawHost:
    """One connection of a host to one station: sends frames, waits for frames."""

    def __init__(self, credential: Path, slot: int, where: StationCard | None = None) -> None:
        """where: the station, if the credential does not know it."""
        card = read_credential(credential)
        known = {station.slot: (station.endpoint, station.key) for station in card.stations}
        endpoint, key = known[slot] if where is None else (where.hosts, where.key)
        self.name, self._enrolled_at = card.name, card.last
        self._context = new_context()
        self._socket, self.monitor = connect_host(self._context, endpoint, card.keys, key)

    def say(self, frame: UpFrame) -> None:
        """Send one frame, as soon as the handshake is done."""
        self.say_bytes(encode_up(frame))

    def say_bytes(self, data: bytes) -> None:
        self._socket.setsockopt(28, int(1_000 * PATIENCE_S))  # SNDTIMEO
        self._socket.send(data)

    def hello(self, e: int = 1, name: str | None = None, le: int = 0, c: int = 0, last: int | None = None) -> None:
        last = self._enrolled_at if last is None else last
        self.say(Hello((1, 0), name or self.name, 77, False, e, last, le, c, 1, 5))

    def hear(self, kind: type[F], timeout_s: float = PATIENCE_S) -> F:
        """The next frame of this kind; others before it are passed over."""
        end = time.monotonic() + timeout_s
        heard: list[DownFrame] = []
        while self._socket.poll(max(0, int(1_000 * (end - time.monotonic())))):
            frame = decode_down(self._socket.recv())
            if isinstance(frame, kind):
                return frame
            heard.append(frame)
        raise AssertionError(f"no {kind.__name__} within {timeout_s:g} s; heard {heard}")

    def given(self) -> tuple[tuple[int, Item], ...]:
        """Entries of the next MSG that has any."""
        while not (entries := self.hear(Msg).entries):
            pass
        return entries

    def attach(self, e: int = 1, **words: Any) -> Welcome:
        self.hello(e, **words)
        return self.hear(Welcome)

    def broadcast(self, number: int, body: bytes, e: int = 1) -> None:
        self.say(Data(e, number, 0, None, body))

    def close(self) -> None:
        self.monitor.close()
        self._context.destroy(0)


class Group:
    """Directories of the stations s1, s2, ... that know each other, and what runs on them."""

    def __init__(self, home: Path, stations: int, stack: ExitStack) -> None:
        self._home = home
        self._stack = stack
        self.names = [f"s{i}" for i in range(1, stations + 1)]
        self.running: dict[str, Running] = {}
        for slot, name in enumerate(self.names, start=1):
            hosts, peers = (f"tcp://127.0.0.1:{free_port()}" for _ in range(2))
            made = ["--id", name, "--slot", str(slot), "--group", "g", "--hosts", hosts, "--stations", peers]
            assert main(["init", str(self.path(name)), *made]) == 0
        found_group([self.path(name) for name in self.names])

    def path(self, name: str) -> Path:
        return self._home / name

    def enrol(self, name: str, at: str = "s1") -> Path:
        """Enrol a host; returns its credential."""
        credential = self._home / f"{name}.toml"
        assert main(["hosts", "enrol", str(self.path(at)), name, "--out", str(credential)]) == 0
        return credential

    def knows(self, name: str, host: str) -> bool:
        """Whether the station `name` knows a host."""
        return look(self.path(name))[2].named(host) is not None

    def start(self, name: str, **options: Any) -> Running:
        self.running[name] = Running(self.path(name), **options)
        self._stack.callback(self.running[name].stop)
        return self.running[name]

    def host(self, credential: Path, slot: int, where: StationCard | None = None) -> RawHost:
        host = RawHost(credential, slot, where)
        self._stack.callback(host.close)
        return host


class Running:
    """A station in a thread."""

    def __init__(self, path: Path, **options: Any) -> None:
        self.path = path
        self.station = Station(path, **options)
        self.error: BaseException | None = None
        self._thread = threading.Thread(target=self._run)
        self._thread.start()
        until(lambda: self.station.ready.is_set() or self.error)
        assert self.station.ready.is_set(), f"the station of {path} ended before it served: {self.error!r}"

    def _run(self) -> None:
        try:
            self.station.run()
        except BaseException as error:
            self.error = error
        finally:
            self.station.close()

    def status(self) -> dict[str, Any]:
        answer: dict[str, Any] = ask(self.path, {"command": "status"})["status"]
        return answer

    def execute(self, statement: str) -> int:
        """Run SQL on the station's own connection, in its thread; returns the first value."""
        server, found, done = self.station._running, [0], threading.Event()
        house = server._house

        def once() -> None:
            server._house = house
            found[0] = self.station._store._connection.execute(statement).fetchone()[0]
            done.set()

        server._house = once
        assert done.wait(PATIENCE_S)
        return found[0]

    def join(self) -> BaseException | None:
        """Wait for its end; returns the error that ended it."""
        self._thread.join(PATIENCE_S)
        assert not self._thread.is_alive()
        return self.error

    def stop(self) -> None:
        self.station.stop()
        self.join()


def until(condition: Callable[[], Any], timeout_s: float = PATIENCE_S) -> Any:
    """The first true value of `condition`, which is asked again and again."""
    end = time.monotonic() + timeout_s
    while not (value := condition()):
        assert time.monotonic() < end, "the condition did not come true"
        time.sleep(0.02)
    return value


@pytest.fixture(name="until")
def until_fixture() -> Callable[..., Any]:
    return until


@pytest.fixture
def make_group(tmp_path: Path) -> Iterator[Callable[[int], Group]]:
    with ExitStack() as stack:
        yield lambda stations: Group(tmp_path, stations, stack)
