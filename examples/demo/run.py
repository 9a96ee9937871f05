"""The demo's run: load, roaming, faults and changes of the group by a seed; then heal, wait for the rest, and judge."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from demo import interrupts
from demo.auditing import audit, upload
from demo.checker import judge
from demo.cluster import Cluster, Station
from demo.crew import Worker
from demo.history import load
from demo.operating import CREW, OPEN_TOPICS, Operator
from demo.progress import Progress
from demo.relay import Gate, Relay
from demo.report import table
from demo.sites import Sites

from roamcast.mh_agent import Presence

WORKERS = 3
RATE = 4.0
"""Messages a second of each host."""
MAIL = 0.4
"""Share of them that is mail to one host ..."""
TOPICAL = 0.2
"""... and that is on a topic; the rest are broadcasts."""
TUNE_S = 4.0
"""Mean time between two calls of a host that subscribe to an open topic, or unsubscribe."""
ROAM_S = 4.0
"""Mean time a host stays at a station."""
CUT_S = 0.8
"""Mean time between two faults of links."""
DOWN_S = 4.0
"""How long the killed station stays down."""
SET_S = 1.5
"""How long it is down when a setting is changed elsewhere."""
REMARK = """  A host moves while its former station is up or back again: the slowest handoffs, and the latencies behind
  them, waited for the killed station. The host that slept is not counted in the times."""
HEAL_S_MAX = 40.0
STEP_S = 0.05
ASK_S = 0.2
"""How often the stations are asked whether all is at rest, by what waits for that."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What a run is made of; see the command's help."""

    seed: int
    stations: int
    hosts: int
    seconds: float
    audit: str | None = None
    """The engine that audits the delivery logs at the end; None: they are not audited."""
    clusters: bool = False
    """Two sites, joined by a gateway with a standby."""


@dataclass(slots=True)
class Faults:
    """What was done to the run, counted."""

    cuts: int = 0
    black_holes: int = 0
    slowed: int = 0
    station_crashes: int = 0
    agent_crashes: int = 0

    def rows(self) -> dict[str, int]:
        """For the table."""
        return {
            "cuts": self.cuts,
            "black holes": self.black_holes,
            "slowed links": self.slowed,
            "station crashes": self.station_crashes,
            "agent crashes": self.agent_crashes,
        }


@dataclass(slots=True)
class Later:
    """Things to do at a time of the run."""

    at: list[tuple[float, int, Callable[[], None]]] = field(default_factory=list)
    count: int = 0

    def add(self, when: float, action: Callable[[], None]) -> None:
        """Do `action` at `when` (monotonic seconds)."""
        self.count += 1
        self.at.append((when, self.count, action))
        self.at.sort(key=lambda entry: entry[:2])

    def run(self, now: float) -> None:
        """Do all that is due."""
        while self.at and self.at[0][0] <= now:
            self.at.pop(0)[2]()

    def clear(self) -> None:
        """Forget the rest."""
        self.at.clear()


class Run:
    """One run in the directory `home`. `say` gets the lines for the person who watches."""

    def __init__(self, home: Path, options: Options, say: Callable[[str], None]) -> None:
        self.home = home
        self.options = options
        self.say = say
        self.rng = random.Random(options.seed)
        self.names = [f"h{i:02}" for i in range(1, options.hosts + 1)]
        self.sleeper = self.names[-1]
        self.outcast = self.names[1]
        """Who is taken out of the crew for a while; not in the process that is killed, so that it hears of refusals."""
        self.relay = Relay()
        self.cluster = Cluster(home, 1, self.relay, later=options.stations - 1)
        self.workers = [Worker(home, f"w{i}") for i in range(1, min(WORKERS, options.hosts) + 1)]
        self.faults = Faults()
        self.later = Later()
        self.progress = Progress(home / "logs", self.names)
        self.operator = Operator(self.cluster, self.progress, self.rng, self._tell)
        self.sites: Sites | None = None
        self.slept = False
        self._begun = 0.0

    def close(self) -> None:
        """End every process and the relay, whatever state they are in."""
        for worker in self.workers:
            worker.kill()
        self.cluster.close()
        self.relay.close()

    def perform(self) -> bool:
        """The whole run; prints its story and returns whether all is well.

        Raises CommandFailed or WorkerFailed when it cannot be run.
        """
        self._set_up()
        self._begun = time.monotonic()
        self._load()
        self._heal()
        self._wait_delivered()
        for worker in self.workers:
            worker.close()
        history = load((self.home / "logs").glob("*.jsonl"))
        verdict = judge(history, self.names)
        done = self.faults.rows() | {"stations joined": self.operator.joined, "stations retired": self.operator.retired}
        self.say("")
        self.say(table(verdict, history, done, [self.sleeper] if self.slept else []))
        self.say(REMARK)
        for story in verdict.witnesses:
            self.say(f"  {story}")
        self.say("")
        clean = self._audit()
        self.say(verdict.line())
        return verdict.good and not self.operator.awaited and clean

    def _audit(self) -> bool:
        """Audit the delivery logs, if that was asked for; tell its verdict and where the page is."""
        if self.options.audit is None:
            return True
        uploaded = self.home / "uploaded"
        self.say(upload(self.cluster.stations, self._journals(), uploaded))
        found, page = audit(uploaded, self.home / "audit", self.options.audit, self.say)
        self.say("")
        self.say(f"page of the audit: {page}")
        self.say(f"verdict of the audit, from the logs alone: {found}")
        self.say("verdict of the judge, from what the applications saw:")
        return found == "clean"

    def _journals(self) -> Path:
        return self.home / "journals"

    # ---- phases ----

    def _set_up(self) -> None:
        options = self.options
        self.say(
            f"seed {options.seed}: {options.stations} stations, {options.hosts} hosts in {len(self.workers)} processes"
        )
        self.operator.found()
        self.operator.make_topics(self.names)
        if options.clusters:
            self.sites = self.operator.split()
            self.say(self.sites.story())
        first, *joined = self._stations()
        self.cluster.enrol(self.names)
        for worker in self.workers:
            worker.start()
        for i, name in enumerate(self.names):
            worker = self._worker(i)
            journal = {"journal": str(self._journals() / name)} if options.audit else {}
            worker.open(name, self.cluster.credentials[name], seed=options.seed, **journal)
        made = f"{first.id} is made by init" + (f", {len(joined)} more by invite and join" if joined else "")
        self.say(f"{made}; hosts are enrolled; the load begins")

    def _worker(self, i: int) -> Worker:
        return self.workers[i % len(self.workers)]

    def _load(self) -> None:
        begun, seconds = self._begun, self.options.seconds
        self._subscribe()
        self.later.add(begun + 0.07 * seconds, self._take_right)
        self._send_and_roam(self.workers)
        end = begun + seconds
        self.later.add(begun + 0.05 * seconds, self._fall_asleep)
        early, late = self.operator.join, self._kill_station
        if self.sites is not None:
            early, late = late, early
        self.later.add(begun + 0.10 * seconds, early)
        self.later.add(begun + 0.30 * seconds, lambda: self._when_at_rest(late))
        self.later.add(begun + 0.60 * seconds, self._kill_agents)
        self._plan_fault(begun + 1.0, end)
        self._follow(lambda: time.monotonic() >= end)

    def _when_at_rest(self, action: Callable[[], None]) -> None:
        """Do `action` now, or as soon as no station is down, joins, or has yet to learn of a setting."""
        if self.operator.at_rest():
            action()
        else:
            self.later.add(time.monotonic() + ASK_S, lambda: self._when_at_rest(action))

    def _subscribe(self) -> None:
        """All are on the crew's topic, and follow the presence of the sleeper and of one more."""
        for i, name in enumerate(self.names):
            for host in {self.sleeper, self.names[i - 1]} - {name}:
                self._worker(i).ask("subscribe", name, topic=Presence.topic(host))
            self._worker(i).ask("subscribe", name, topic=CREW)

    def _take_right(self) -> None:
        if self.outcast != self.sleeper:
            worker = self._worker(self.names.index(self.outcast))
            self.operator.take_right(self.outcast, lambda: worker.tell("subscribe", self.outcast, topic=CREW))

    def _send_and_roam(self, workers: list[Worker]) -> None:
        left = self.options.seconds
        talk = {"topics": [*OPEN_TOPICS, CREW], "topical": TOPICAL, "tunes": OPEN_TOPICS, "tune_s": TUNE_S}
        for worker in workers:
            for name in worker.hosts:
                others = [other for other in self.names if other != name]
                worker.ask(
                    "load", name, rate=RATE, mail=MAIL if others else 0, to=others, roam_s=ROAM_S, stations=None,
                    until=left, **talk,
                )  # fmt: skip

    def _heal(self) -> None:
        self.later.clear()
        for gate in self.relay.gates:
            gate.heal()
        self.cluster.start()
        self.operator.end_load()
        for worker in self.workers:
            for name in worker.hosts:
                worker.tell("quiet", name)
        self._wake_up()
        for i, name in enumerate(
            self.names
        ):  # who is given this has been given all that it is owed before, on topics too
            self._worker(i).ask("send", name, count=1, to=None, size=64)
        self.say("the load ends; all links are healed, everybody is awake, and broadcasts once more")

    def _wait_delivered(self) -> None:
        healed = time.monotonic()
        quiet_since = healed

        def done() -> bool:
            nonlocal quiet_since
            now = time.monotonic()
            if self.progress.missing() or self.operator.awaited:
                quiet_since = now
            return now - quiet_since > 1.0 or now - healed > HEAL_S_MAX

        self._follow(done)
        if self.progress.missing():
            self.say(f"not delivered within {HEAL_S_MAX:.0f} s of healing: {self.progress.missing()}")
        for what in self.operator.awaited:
            self.say(f"within {HEAL_S_MAX:.0f} s of healing it has not come: {what}")

    def _follow(self, done: Callable[[], bool]) -> None:
        """Do what is due and tell once a second how things are, until `done`."""
        told = int(time.monotonic() - self._begun)
        while not done():
            time.sleep(STEP_S)
            interrupts.check()
            now = time.monotonic()
            self.later.run(now)
            self.progress.read()
            self.operator.look()
            if now - self._begun >= told + 1:
                told = int(now - self._begun)
                self.say(f"{told:4} s  {self._state()}")

    def _tell(self, text: str) -> None:
        """Something has happened."""
        self.say(f"{time.monotonic() - self._begun:4.1f} s  - {text}")

    def _state(self) -> str:
        progress = self.progress
        asleep = frozenset({self.sleeper}) if self.slept else frozenset[str]()
        text = (
            f"sent {progress.sent:>6,}  delivered {progress.delivered:>8,}  under way {progress.missing(asleep):>5,}  "
            f"moves {progress.moves:>4}  cuts {self.faults.cuts:>3}"
        )
        down = [station.id for station in self.operator.members if station.process and not station.running]
        if down:
            text += f"  down: {', '.join(down)}"
        if self.slept:
            text += f"  {self.sleeper} is owed {len(progress.missing_at(self.sleeper)):,}{self._spooled()}"
        return text

    def _spooled(self) -> str:
        """How much of what the sleeper is owed has gone into its station's spool."""
        for station in self._stations():
            records = (station.status() or {"records": []})["records"]
            for record in records:
                if record["host"] == self.sleeper and record["spooled"]:
                    return f" ({record['spooled']:,} in the spool at {station.id})"
        return ""

    # ---- faults ----

    def _stations(self) -> list[Station]:
        return self.cluster.stations

    def _plan_fault(self, when: float, end: float) -> None:
        def fault() -> None:
            self._hurt_a_link(end)
            self._plan_fault(time.monotonic() + self.rng.expovariate(1 / CUT_S), end)

        if when < end:
            self.later.add(when, fault)

    def _hurt_a_link(self, end: float) -> None:
        gates = [gate for gate in self.relay.gates if gate.connections]
        if not gates:
            return
        gate: Gate = self.rng.choice(gates)
        kind = self.rng.choices(["cut", "black hole", "slow"], [6, 1, 1])[0]
        if kind == "cut":
            self.faults.cuts += gate.cut()
            return
        if kind == "black hole":
            self.faults.black_holes += 1
            up, down = self.rng.choice([(True, True), (True, False), (False, True)])
            gate.swallow(up=up, down=down)
        else:
            self.faults.slowed += 1
            gate.slow(delay_s=self.rng.uniform(0.05, 0.5))
        self.later.add(min(end, time.monotonic() + self.rng.uniform(1, 4)), gate.heal)

    def _kill_station(self) -> None:
        sites = self.sites
        station = self.rng.choice(self.operator.founders) if sites is None else sites.gateway
        station.kill()
        self.faults.station_crashes += 1
        until = "" if sites is None else ", if the standby forwards by then"
        self._tell(f"{station.id} is killed (SIGKILL) under load; it comes back in {DOWN_S:.0f} s{until}")

        def back() -> None:
            station.start()
            self._tell(f"{station.id} is started again on its store")
            if sites is not None:
                self.operator.follow_return(sites)
            retirement = self._begun + 0.75 * self.options.seconds
            self.later.add(retirement, lambda: self._when_at_rest(self.operator.retire))

        end = time.monotonic() + DOWN_S
        self.later.add(time.monotonic() + SET_S, lambda: self.operator.change_setting(station))
        if sites is None:
            self.later.add(end, back)
        else:
            self.operator.follow_takeover(sites, lambda: self.later.add(end, back))

    def _kill_agents(self) -> None:
        worker = self.workers[0]
        worker.kill()
        self.faults.agent_crashes += len(worker.hosts)
        self._tell(f"the agent process of {', '.join(worker.hosts)} is killed and started again")
        worker.start()
        self._send_and_roam([worker])

    def _fall_asleep(self) -> None:
        if len(self.names) < 2:
            return
        self.slept = True
        worker = self._worker(len(self.names) - 1)
        worker.tell("quiet", self.sleeper)
        worker.tell("suspend", self.sleeper)
        self._tell(f"{self.sleeper} falls asleep; what it is owed waits in its station's spool")
        self.operator.follow_sleep(self.sleeper)

    def _wake_up(self) -> None:
        if self.slept:
            self._worker(len(self.names) - 1).ask("resume", self.sleeper)
            self.operator.follow_wake(self.sleeper)
