"""Stations as real processes on loopback, made and run by the same commands that an operator types.

A `Cluster` lives in one directory: ``s1/ s2/ ...`` are the stations' own directories, ``s1.log ...`` what they print,
``hosts/NAME.toml`` the credentials. With a relay every link has a gate of its own: `host_gates[host, station]` and
`station_gates[from, to]`; the credentials and the stations' public files that others get name the gates.
"""

from __future__ import annotations

import contextlib
import io
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from demo.relay import Gate, Relay, free_port

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


def station_command(*arguments: object) -> None:
    """The command ``mss-station``, by its entry point: the dozens of commands of a set-up cost no process each.

    Raises CommandFailed unless it succeeds.
    """
    said = io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        code = mss_station_main([*map(str, arguments)])
    if code:
        raise CommandFailed(f"mss-station {' '.join(map(str, arguments))}: exit {code}\n{said.getvalue()}")


class Station:
    """One station: its directory, its two endpoints and, while it runs, its process."""

    def __init__(self, home: Path, slot: int) -> None:
        """`home` is the cluster's directory. Nothing is made yet; see `init`."""
        self.id = f"s{slot}"
        self.slot = slot
        self.directory = home / self.id
        self.log = home / f"{self.id}.log"
        self.hosts, self.stations = (f"tcp://127.0.0.1:{free_port()}" for _ in range(2))
        self.process: subprocess.Popen[bytes] | None = None

    def init(self) -> None:
        """Make keys, settings and an empty store."""
        where = ("--hosts", self.hosts, "--stations", self.stations)
        station_command("init", self.directory, "--id", self.id, "--slot", self.slot, "--group", GROUP, *where)

    @property
    def running(self) -> bool:
        """Whether the process is there (stopped by a signal counts as there)."""
        return self.process is not None and self.process.poll() is None

    def start(self, *options: str, kill_point: str = "") -> None:
        """Start the process; `kill_point` as in the station's own test hook. Does not wait; see `wait_ready`."""
        environment = dict(os.environ)
        if kill_point:
            environment["ROAMCAST_KILL_POINT"] = kill_point
        with self.log.open("ab") as log:
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

    def freeze(self) -> None:
        """SIGSTOP: it stands still and says nothing."""
        self.signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """SIGCONT."""
        self.signal(signal.SIGCONT)


class Cluster:
    """Stations that know each other, and the credentials of their hosts."""

    def __init__(self, home: Path, count: int, relay: Relay | None = None) -> None:
        """Make the stations' directories and introduce them to each other. Nothing runs yet."""
        self.home = home
        self.relay = relay
        self.host_gates: dict[tuple[str, str], Gate] = {}
        self.station_gates: dict[tuple[str, str], Gate] = {}
        self.credentials: dict[str, Path] = {}
        (home / "hosts").mkdir(parents=True, exist_ok=True)
        self.stations = [Station(home, slot) for slot in range(1, count + 1)]
        for station in self.stations:
            station.init()
        for station in self.stations:
            self._introduce(station)

    def station(self, name: str) -> Station:
        """The station with this id."""
        return next(station for station in self.stations if station.id == name)

    def _introduce(self, station: Station) -> None:
        files = []
        for peer in self.stations:
            if peer is not station:
                text = (peer.directory / "station.pub").read_text()
                file = self.home / f"{peer.id}-for-{station.id}.pub"
                if self.relay is not None:
                    gate = self.relay.gate(peer.stations)
                    self.station_gates[station.id, peer.id] = gate
                    text = replaced(text, peer.stations, gate.endpoint)
                file.write_text(text)
                files.append(file)
        if files:
            station_command("peers", "add", station.directory, *files)

    def enrol(self, names: Sequence[str]) -> None:
        """Enrol hosts, round the stations, and make them known at all. `credentials` has their files afterwards."""

        for i, name in enumerate(names):
            self._enrol(self.stations[i % len(self.stations)], name)

    def _enrol(self, station: Station, name: str) -> None:
        file = self.home / "hosts" / f"{name}.toml"
        station_command("hosts", "enrol", station.directory, name, "--out", file)
        for other in self.stations:
            if other is not station:
                station_command("hosts", "import", other.directory, station.directory / "hosts" / f"{name}.pub")
        text = file.read_text()
        for each in self.stations:
            if self.relay is not None:
                gate = self.relay.gate(each.hosts)
                self.host_gates[name, each.id] = gate
                text = replaced(text, each.hosts, gate.endpoint)
        file.write_text(text)
        self.credentials[name] = file

    def start(self) -> None:
        """Start all stations that do not run and wait until they answer."""
        for station in self.stations:
            if not station.running:
                station.start()
        for station in self.stations:
            station.wait_ready()

    def close(self) -> None:
        """End all processes, the frozen ones too, and wait for them."""
        for station in self.stations:
            station.signal(signal.SIGCONT)
            station.signal(signal.SIGTERM)
        for station in self.stations:
            try:
                station.wait_end(5)
            except subprocess.TimeoutExpired:
                station.kill()


def replaced(text: str, endpoint: str, gate: str) -> str:
    """`text` with one endpoint put in another's place. Raises CommandFailed if it does not name it."""
    if f'"{endpoint}"' not in text:
        raise CommandFailed(f"expected {endpoint} in:\n{text}")
    return text.replace(f'"{endpoint}"', f'"{gate}"')
