"""New stations on their way into a group: the command in this process, in a thread of it, or in one that dies."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from functools import partial
from pathlib import Path
from typing import Any

from demo.cluster import Station, must, program
from demo.relay import free_port
from harness import Bench

from roamcast.middleware.errors import Error
from roamcast.mss_station.control import ask
from roamcast.mss_station.founding import fill
from roamcast.mss_station.join_client import Names, Rejoin, join
from roamcast.transport.station_files import StationConfig

DYING = Path(__file__).with_name("dying.py")
MINUTE_US = 60_000_000
PATIENCE_S = 60.0


def invite(group: Any, at: str = "s1", valid_us: int = 60 * MINUTE_US) -> str:
    """A token of a running station."""
    answer = ask(group.path(at), {"command": "invite", "valid": valid_us})
    assert answer["ok"], answer
    return str(answer["token"])


class Newcomer:
    """A directory that is to become the station `name`."""

    def __init__(self, group: Any, name: str, folder: str = "") -> None:
        self.name = name
        self.path: Path = group.path(folder or name)
        self.hosts, self.stations = (f"tcp://127.0.0.1:{free_port()}" for _ in range(2))
        self.told: list[str] = []
        self.error: Error | None = None
        self.config: StationConfig | None = None
        self._thread: threading.Thread | None = None

    def options(self) -> list[str]:
        """Of the command, behind directory and token."""
        return ["--id", self.name, "--hosts", self.hosts, "--stations", self.stations]

    def join(self, token: str, rejoin: bool = False) -> Newcomer:
        """Join at once; an error is in `error`."""
        who = Rejoin() if rejoin else Names(self.name, self.hosts, self.stations)
        wall = time.time_ns() // 1_000
        try:
            self.config = join(
                self.path,
                token,
                who,
                fill=partial(fill, self.path, wall=wall),
                wall=wall,
                tell=self.told.append,
                timeout_s=PATIENCE_S,
            )
        except Error as error:
            self.error = error
        return self

    def begin(self, token: str) -> Newcomer:
        """Join in a thread."""
        self._thread = threading.Thread(target=self.join, args=(token,))
        self._thread.start()
        return self

    def done(self) -> StationConfig:
        """The station, once it is counted in."""
        if self._thread is not None:
            self._thread.join(PATIENCE_S)
            assert not self._thread.is_alive(), self.told
        assert self.error is None and self.config is not None, self.error
        return self.config

    def die(self, token: str, stage: str) -> None:
        """Run the command in a process that is killed at a stage (see dying.py)."""
        command = [sys.executable, str(DYING), stage, "join", str(self.path), "-", *self.options()]
        done = subprocess.run(command, input=token.encode(), capture_output=True, timeout=PATIENCE_S)
        assert done.returncode == -9, done.stderr.decode()


# ---- beside a bench, as processes ----


def newcomer_of(bench: Bench, slot: int) -> Station:
    """A further station, not made yet; the bench starts and ends it with the others from now on."""
    station = Station(bench.cluster.home, slot)
    bench.cluster.stations.append(station)
    return station


def begin_join(station: Station, token: str) -> subprocess.Popen[str]:
    """The command, with the token on its standard input; what it tells is behind what the station will print."""
    named = ["--id", station.id, "--hosts", station.hosts, "--stations", station.stations]
    with station.log.open("ab") as log:
        command = subprocess.Popen(
            [program("mss-station"), "join", str(station.directory), "-", *named],
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=log,
            text=True,
        )
    assert command.stdin is not None
    command.stdin.write(token)
    command.stdin.close()
    return command


def let_in(station: Station, sponsor: Station) -> str:
    """Count a newcomer in; returns the token, which is used."""
    token = must("mss-station", "invite", sponsor.directory)
    assert begin_join(station, token).wait(PATIENCE_S) == 0, station.text()
    return token


def serves(station: Station) -> bool:
    """Whether the station runs and takes hosts."""
    status = station.status()
    return status is not None and bool(status["group"]["serving"])
