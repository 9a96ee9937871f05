"""Stations as real processes on loopback, made and run by the same commands that an operator types.

A `Cluster` lives in one directory: ``s1/ s2/ ...`` are the stations' own directories, ``s1.log ...`` what they print,
``hosts/NAME.toml`` the credentials. With a relay every link has a gate of its own: `host_gates[host, station]` and
`station_gates[from, to]`; the credentials name the gates, and so do the routes in each station.toml and, for what a
station tells its hosts later, in ``hosts/NAME.routes`` (worker.py). Stations that join later have their gates already.
"""

from __future__ import annotations

import contextlib
import io
import itertools
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from demo.founding import found_group
from demo.interrupts import shielded
from demo.relay import Gate, Relay, free_port

from roamcast.mss_station.asking import look
from roamcast.mss_station.cli import main as mss_station_main
from roamcast.mss_station.control import ControlError, ask

GROUP = "demo"
READY_S_MAX = 20.0


class CommandFailed(Exception):
    """A command of the set-up failed, or a station did not come up; the text holds what it said."""


def program(name: str) -> str:
    """Path of a console script of this installation."""
    beside = Path(sys.executable).with_name(name)
    found = str(beside) if beside.exists() else shutil.which(name)
    if found is None:
        raise CommandFailed(f"{name} is not installed beside {sys.executable}")
    return found


def run_command(name: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    """Run a console script to its end; its exit code and what it printed are in the result."""
    return subprocess.run([program(name), *map(str, arguments)], capture_output=True, text=True, timeout=60)


def must(name: str, *arguments: object) -> str:
    """Run a console script that has to succeed; returns what it printed. Raises CommandFailed."""
    done = run_command(name, *arguments)
    if done.returncode:
        raise CommandFailed(
            f"{name} {' '.join(map(str, arguments))}: exit {done.returncode}\n{done.stdout}{done.stderr}"
        )
    return done.stdout


def station_command(*arguments: object) -> str:
    """The command ``mss-station``, by its entry point: the dozens of commands of a run cost no process each.

    Returns what it printed. Raises CommandFailed unless it succeeds.
    """
    said = io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        code = mss_station_main([*map(str, arguments)])
    if code:
        raise CommandFailed(f"mss-station {' '.join(map(str, arguments))}: exit {code}\n{said.getvalue()}")
    return said.getvalue()


class Station:
    """One station: its directory, its two endpoints and, while it runs, its process."""

    def __init__(self, home: Path, slot: int) -> None:
        """`home` is the cluster's directory. Nothing is made yet; see `init`."""
        self.id = f"s{slot}"
        self.slot = slot
        self.directory = home / self.id
        self.log = home / f"{self.id}.log"
        self.hosts, self.stations = (f"tcp://127.0.0.1:{free_port()}" for _ in range(2))
        self.routes: dict[str, str] = {}
        """By the id of another station: where this one is to reach it."""
        self.process: subprocess.Popen[bytes] | None = None
        self.over = False
        """The group has ended its membership: it is not started any more."""
        self._joining: subprocess.Popen[bytes] | None = None

    def init(self) -> None:
        """Make keys, settings and an empty store."""
        where = ("--hosts", self.hosts, "--stations", self.stations)
        station_command("init", self.directory, "--id", self.id, "--slot", self.slot, "--group", GROUP, *where)
        self._write_routes()

    def join(self, token: str) -> None:
        """Begin to join the group of the token, in a process of its own; see `is_made`."""
        names = ("--id", self.id, "--hosts", self.hosts, "--stations", self.stations)
        with self.log.open("ab") as log, shielded():
            self._joining = subprocess.Popen(
                [program("mss-station"), "join", str(self.directory), "-", *names],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        assert self._joining.stdin is not None
        with self._joining.stdin as asking:
            asking.write(token.encode())

    def is_made(self, wait_s: float = 0.0) -> bool:
        """Whether its `join` is done, within `wait_s`; true of one that was not joined. Raises CommandFailed."""
        if self._joining is None:
            return True
        try:
            code = self._joining.wait(wait_s)
        except subprocess.TimeoutExpired:
            return False
        if code:
            raise CommandFailed(f"{self.id} could not join: exit {code}\n{self.text()[-4000:]}")
        self._joining = None
        self._write_routes()
        return True

    def _write_routes(self) -> None:
        if self.routes:
            lines = [f'{id} = "{endpoint}"\n' for id, endpoint in self.routes.items()]
            with (self.directory / "station.toml").open("a") as file:
                file.write("\n[routes]\n" + "".join(lines))

    @property
    def running(self) -> bool:
        """Whether the process is there (stopped by a signal counts as there)."""
        return self.process is not None and self.process.poll() is None

    def start(self, *options: str, kill_point: str = "") -> None:
        """Start the process; `kill_point` as in the station's own test hook. Does not wait; see `wait_ready`."""
        environment = dict(os.environ)
        if kill_point:
            environment["ROAMCAST_KILL_POINT"] = kill_point
        with self.log.open("ab") as log, shielded():
            self.process = subprocess.Popen(
                [program("mss-station"), "run", str(self.directory), *options],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=environment,
                start_new_session=True,
            )

    def wait_ready(self) -> None:
        """Wait until it answers. Raises CommandFailed with its log when it ends, or does not come up in time."""
        end = time.monotonic() + READY_S_MAX
        while self.status() is None:
            if not self.running or time.monotonic() > end:
                raise CommandFailed(f"{self.id} did not come up:\n{self.text()[-4000:]}")
            time.sleep(0.02)

    def status(self) -> dict[str, Any] | None:
        """What ``mss-station status --json`` tells, without a process for it; None when it does not run."""
        try:
            status: dict[str, Any] = ask(self.directory, {"command": "status"})["status"]
            return status
        except ControlError:
            return None

    def serves(self) -> bool:
        """Whether it runs and takes hosts."""
        status = self.status()
        return status is not None and bool(status["group"]["serving"])

    def text(self) -> str:
        """All that it has printed in all its lives."""
        return self.log.read_text(errors="replace") if self.log.exists() else ""

    def signal(self, number: int) -> None:
        """Send a signal to the process, if there is one."""
        if self.process is not None and self.running:
            self.process.send_signal(number)

    def kill(self) -> None:
        """SIGKILL, and wait for the end."""
        self.signal(signal.SIGKILL)
        self.wait_end()

    def stop(self) -> int:
        """SIGTERM, and wait for the end; returns the exit code."""
        self.signal(signal.SIGTERM)
        return self.wait_end()

    def wait_end(self, timeout_s: float = 20.0) -> int:
        """Wait until the process has ended; returns the exit code (negative: the signal)."""
        if self.process is None:
            return 0
        return self.process.wait(timeout_s)

    def close(self) -> None:
        """End its processes, whatever state they are in, and wait for them."""
        self.thaw()
        self.signal(signal.SIGTERM)
        if self._joining is not None:
            self._joining.kill()
            self._joining.wait()
        try:
            self.wait_end(5)
        except subprocess.TimeoutExpired:
            self.kill()

    def freeze(self) -> None:
        """SIGSTOP: it stands still and says nothing."""
        self.signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """SIGCONT."""
        self.signal(signal.SIGCONT)


class Cluster:
    """Stations that know each other, those that may join them, and the credentials of their hosts."""

    def __init__(self, home: Path, count: int, relay: Relay | None = None, later: int = 0) -> None:
        """Make the directories of `count` stations that know each other; `later` more may `join`. Nothing runs yet."""
        self.home = home
        self.relay = relay
        self.host_gates: dict[tuple[str, str], Gate] = {}
        self.station_gates: dict[tuple[str, str], Gate] = {}
        self.credentials: dict[str, Path] = {}
        (home / "hosts").mkdir(parents=True, exist_ok=True)
        everyone = [Station(home, slot) for slot in range(1, count + later + 1)]
        self.stations, self.newcomers = everyone[:count], everyone[count:]
        if relay is not None:
            for source, target in itertools.permutations(everyone, 2):
                gate = self.station_gates[source.id, target.id] = relay.gate(target.stations)
                source.routes[target.id] = gate.endpoint
        for station in self.stations:
            station.init()
        if count > 1:
            found_group([station.directory for station in self.stations])

    def station(self, name: str) -> Station:
        """The station with this id."""
        return next(station for station in self.stations if station.id == name)

    def join(self, sponsor: Station) -> Station:
        """Let the next newcomer begin to join by a token of `sponsor`. It is started by `start`, or when it is made."""
        newcomer = self.newcomers.pop(0)
        self.stations.append(newcomer)
        newcomer.join(station_command("invite", sponsor.directory))
        return newcomer

    def enrol(self, names: Sequence[str]) -> None:
        """Enrol hosts, round the stations. `credentials` has their files afterwards; all that run know them."""
        for i, name in enumerate(names):
            self._enrol(self.stations[i % len(self.stations)], name)
        self._wait_known()

    def _enrol(self, station: Station, name: str) -> None:
        file = self.home / "hosts" / f"{name}.toml"
        station_command("hosts", "enrol", station.directory, name, "--out", file)
        self.credentials[name] = file
        if self.relay is None:
            return
        text, routes = file.read_text(), {}
        for each in (*self.stations, *self.newcomers):
            gate = self.host_gates[name, each.id] = self.relay.gate(each.hosts)
            if each in self.stations:
                text = replaced(text, each.hosts, gate.endpoint)
            routes[each.hosts] = gate.endpoint
        file.write_text(text)
        file.with_suffix(".routes").write_text(json.dumps(routes))

    def _wait_known(self) -> None:
        """Wait until every station that runs knows all hosts that were enrolled at one that runs."""
        running = [station for station in self.stations if station.running]
        end = time.monotonic() + READY_S_MAX
        while True:
            known = [host_names(station) for station in running]
            missing = [set().union(*known) - names for names in known]
            if not any(missing):
                return
            if time.monotonic() > end:
                raise CommandFailed(f"not all stations learn of all hosts: {missing}")
            time.sleep(0.02)

    def wait_topics(self, names: Iterable[str]) -> None:
        """Wait until all stations know these topics. Raises CommandFailed when they do not in time."""
        end = time.monotonic() + READY_S_MAX
        wanted = set(names)
        for station in self.stations:
            while wanted - set(look(station.directory)[2].book.names()):
                if time.monotonic() > end:
                    raise CommandFailed(f"{station.id} does not learn of the topics")
                time.sleep(0.02)

    def start(self) -> None:
        """Start all members that do not run and wait until they answer, and know each other's hosts."""
        members = [station for station in self.stations if not station.over]
        for station in members:
            if station.is_made(READY_S_MAX) and not station.running:
                station.start()
        for station in members:
            station.wait_ready()
        self._wait_known()

    def wait_serving(self) -> None:
        """Wait until all members take hosts. Raises CommandFailed when they do not in time."""
        end = time.monotonic() + READY_S_MAX
        while waiting := [station.id for station in self.stations if not (station.over or station.serves())]:
            if time.monotonic() > end:
                raise CommandFailed(f"these stations take no hosts: {', '.join(waiting)}")
            time.sleep(0.02)

    def close(self) -> None:
        """End all processes, the frozen ones too, and wait for them."""
        for station in self.stations:
            station.signal(signal.SIGCONT)
            station.signal(signal.SIGTERM)
        for station in self.stations:
            station.close()


def host_names(station: Station) -> set[str]:
    """Names of all hosts that the station knows, the revoked ones too."""
    directory = look(station.directory)[2]
    return {card.name for card in (*directory.hosts(), *directory.revoked())}


def replaced(text: str, endpoint: str, gate: str) -> str:
    """`text` with one endpoint put in another's place. Raises CommandFailed if it does not name it."""
    if f'"{endpoint}"' not in text:
        raise CommandFailed(f"expected {endpoint} in:\n{text}")
    return text.replace(f'"{endpoint}"', f'"{gate}"')
