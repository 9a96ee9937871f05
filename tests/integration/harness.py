"""The test bench: stations and agent processes as the demo runs them, a relay on every link, and the judge."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from demo.checker import judge
from demo.cluster import Cluster, Station
from demo.crew import Worker
from demo.history import History, load
from demo.progress import Progress
from demo.relay import Gate, Relay
from demo.verdict import Verdict

STEP_S = 0.02
SETTLE_S = 45.0


def until(condition: Callable[[], Any], what: str, timeout_s: float = 20.0) -> Any:
    """Poll until `condition` returns something true, and return it. Fails the test with `what` otherwise."""
    end = time.monotonic() + timeout_s
    while not (value := condition()):
        assert time.monotonic() < end, f"not within {timeout_s:g} s: {what}"
        time.sleep(STEP_S)
    return value


class Bench:
    """One directory with a cluster behind a relay. Stations are made, not started; hosts come by `host`."""

    def __init__(self, home: Path, stations: int, seed: int) -> None:
        home.mkdir(parents=True)
        self.home = home
        self.seed = seed
        self.rng = random.Random(seed)
        self.relay = Relay()
        self.cluster = Cluster(home, stations, self.relay)
        self.workers: dict[str, Worker] = {}
        self._of: dict[str, Worker] = {}
        self.exempt: set[str] = set()
        """Hosts whose losses and repeats the test judges itself."""

    # ---- stations and links ----

    def station(self, name: str) -> Station:
        """A station by its id."""
        return self.cluster.station(name)

    def host_gate(self, host: str, station: str) -> Gate:
        """The link from a host to a station."""
        return self.cluster.host_gates[host, station]

    def station_gate(self, source: str, target: str) -> Gate:
        """The link on which `source` sends to `target`."""
        return self.cluster.station_gates[source, target]

    # ---- hosts ----

    def hosts(self, placed: dict[str, str], workers: int = 2, **options: Any) -> None:
        """Enrol hosts, start the stations, open the hosts in `workers` processes attach each where `placed` says."""
        names = list(placed)
        self.cluster.enrol(names)
        self.cluster.start()
        for i in range(1, workers + 1):
            self.worker(f"w{i}").start()
        for i, name in enumerate(names):
            self.open(name, f"w{i % workers + 1}", **options)
        for name, station in placed.items():
            self.move(name, station)
        for name, station in placed.items():
            self.wait_attached(name, station)

    def worker(self, name: str) -> Worker:
        """An agent process by name, made at first use, not started."""
        return self.workers.setdefault(name, Worker(self.home, name))

    def open(self, host: str, worker: str, **options: Any) -> None:
        """Open an enrolled host's agent in a running process."""
        self._of[host] = self.worker(worker)
        self._of[host].open(host, self.cluster.credentials[host], seed=self.seed, **options)

    def ask(self, host: str, do: str, **fields: Any) -> dict[str, Any]:
        """A command to a host; see worker.py."""
        return self._of[host].ask(do, host, **fields)

    def send(self, host: str, count: int = 1, to: str | None = None, size: int = 64) -> None:
        """Queue messages at the application of `host`."""
        self.ask(host, "send", count=count, to=to, size=size)

    def move(self, host: str, *stations: str) -> None:
        """Move, one call right after the other."""
        self.ask(host, "move", stations=list(stations))

    def load(
        self,
        hosts: Sequence[str],
        *,
        rate: float = 20.0,
        mail: float = 0.4,
        roam_s: float = 0.0,
        among: Sequence[str] = (),
    ) -> None:
        """Random load until `quiet`; who roams does so `among` these stations (all)."""
        stations = among or [station.id for station in self.cluster.stations]
        for host in hosts:
            others = [other for other in self._of if other != host]
            fields = {"rate": rate, "mail": mail if others else 0, "to": others, "roam_s": roam_s}
            self.ask(host, "load", stations=list(stations), until=600, **fields)

    def quiet(self) -> None:
        """End the load of all hosts."""
        for host in self._of:
            self.ask(host, "quiet")

    def status(self, host: str) -> dict[str, Any]:
        """The status of a host's agent."""
        return self._of[host].status(host)

    def wait_attached(self, host: str, station: str | None = None, timeout_s: float = 20.0) -> None:
        """Wait for an open session, at a certain station if one is named."""

        def attached() -> bool:
            status = self.status(host)
            return status["state"] == "open" and station in (None, status["station"])

        until(attached, f"{host} attached at {station or 'any station'}", timeout_s)

    # ---- time and verdict ----

    def run_for(self, seconds: float, each_step: Callable[[], None] | None = None) -> None:
        """Let the load run, doing something between short steps."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if each_step is not None:
                each_step()
            time.sleep(STEP_S)

    def progress(self) -> Progress:
        """What the logs say now."""
        progress = Progress(self.home / "logs", [host for host in self._of if host not in self.exempt])
        progress.read()
        return progress

    def wait_delivered(self, timeout_s: float = SETTLE_S) -> None:
        """Wait until everything sent has been acknowledged by everyone who is owed it."""
        progress = self.progress()

        def all_here() -> bool:
            progress.read()
            return progress.missing() == 0

        end = time.monotonic() + timeout_s
        while not all_here():
            if time.monotonic() > end:
                raise AssertionError(self._what_is_missing(progress, timeout_s))
            time.sleep(STEP_S)

    def _what_is_missing(self, progress: Progress, timeout_s: float) -> str:
        text = [f"seed {self.seed}: not delivered within {timeout_s:g} s:"]
        for host in self._of:
            if host not in self.exempt and (missing := sorted(progress.missing_at(host))):
                text.append(f"  {host} misses {len(missing)}: {', '.join(missing[:5])} ...; {self.status(host)}")
        return "\n".join(text)

    def settle(self, timeout_s: float = SETTLE_S) -> Verdict:
        """Heal everything, wait for all deliveries, close the agents, judge; the verdict must be good."""
        self.quiet()
        for gate in self.relay.gates:
            gate.heal()
        for station in self.cluster.stations:
            station.thaw()
        self.cluster.start()
        self.wait_delivered(timeout_s)
        for worker in self.workers.values():
            worker.close()
        verdict = self.verdict()
        assert verdict.good, "\n".join([f"seed {self.seed}: {verdict.line()}", *verdict.witnesses])
        print(f"seed {self.seed}: {verdict.messages} messages, {verdict.deliveries} deliveries: {verdict.line()}")
        return verdict

    def history(self) -> History:
        """All application logs."""
        return load((self.home / "logs").glob("*.jsonl"))

    def verdict(self) -> Verdict:
        """Judge what the logs hold now."""
        history = self.history()
        for host in self.exempt:
            history.events[host] = [event for event in history.events[host] if event.kind in ("call", "sent", "failed")]
        return judge(history, [host for host in self._of if host not in self.exempt])

    def close(self) -> None:
        """End all processes, whatever state they are in."""
        for worker in self.workers.values():
            worker.kill()
        self.cluster.close()
        self.relay.close()
