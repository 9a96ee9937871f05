"""One run: set-up, fault phase, away phase (logs must drain), return phase (all owed must arrive; then quiet)."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from typing import Any

from roamcast.middleware.fifo_broadcast.layout import FLAT, Layout
from roamcast.middleware.membership.view import View
from roamcast.middleware.mobile_host.core import AgentCore
from roamcast.middleware.mobile_host.state import AgentImage
from roamcast.middleware.settings import MS, SECOND
from roamcast.middleware.simulator.audiences.ending import shown, subscriptions_differ, values_differ
from roamcast.middleware.simulator.audiences.rights import Rights
from roamcast.middleware.simulator.checkers import Judge, Violation
from roamcast.middleware.simulator.composite.drawing import draw_layout
from roamcast.middleware.simulator.composite.node import ClusterStationNode, unstable
from roamcast.middleware.simulator.counting import counts
from roamcast.middleware.simulator.disk import Disk, copy_state, disk_faults
from roamcast.middleware.simulator.faults import Adversary
from roamcast.middleware.simulator.habits import Habits, apply_facts, copy_image
from roamcast.middleware.simulator.links import RadioNet, WiredNet
from roamcast.middleware.simulator.live_order import LiveOrder
from roamcast.middleware.simulator.live_traffic import LiveHost
from roamcast.middleware.simulator.losses import Losses
from roamcast.middleware.simulator.operators import Operators
from roamcast.middleware.simulator.quiescence import Meter, undrained, unsettled
from roamcast.middleware.simulator.result import Playable, Result
from roamcast.middleware.simulator.same_rows import SameRows
from roamcast.middleware.simulator.scenario import Options, draw, stream
from roamcast.middleware.simulator.station_faults import StationFaults
from roamcast.middleware.simulator.world import Trace, World
from roamcast.middleware.writes import DurableState

EVENTS_MAX = 1_500_000
"""More events than this in one run are a storm."""
SETUP_MAX = 20 * SECOND
AWAY_MAX = 240 * SECOND
RETURN_MAX = 240 * SECOND
QUIET_TRIES = 5
"""A cut that nobody noticed may still be found out in the first of them."""
STEP = 100 * MS
"""Virtual time between two looks at whether a phase has reached its end."""


class Simulation:
    """The world of one seed, and its phases."""

    def __init__(self, seed: int, options: Options, mutants: frozenset[str]) -> None:
        self.options = options
        self.world = World()
        expiring = bool(options.expiry or options.spool_bytes_max)
        self.judge = Judge(gaps_allowed=expiring, losses=Losses(self) if options.lost_count else None)
        self.live = LiveOrder(options.live_skew)
        listen = self.live.listener(self.judge.observe) if options.live else self.judge.observe
        self.trace = Trace(self.world, listen)
        self.ended: dict[int, int] = {}
        """Stations that the configuration calls ended -> heir; 0: lost."""
        self.stations: dict[int, ClusterStationNode] = {}
        self._rows = SameRows(self.stations)
        self.layout = FLAT
        self._version = 0
        self.hosts: list[LiveHost] = []
        self.named: dict[str, LiveHost] = {}
        self._seed = seed
        self._mutants = mutants | {"lean_blind"} if options.lean_blind else mutants
        self.calm = False
        self.enrolled = 0
        """Hosts whose enrolment was asked for, so far."""
        self._away_rng = stream(seed, "who is away")
        model = options.link_model()
        self.radio = RadioNet(self.world, self.trace, model, stream(seed, "radio"))
        self.wired = WiredNet(self.world, model, stream(seed, "wired"), self.stations)
        founders = tuple(range(1, options.stations + 1))
        if options.clusters:
            self.layout = draw_layout(stream(seed, "clusters"), founders)
        for slot in founders:
            self.stations[slot] = self._station(slot, founders, DurableState())
        self.operators = Operators(self, seed)
        self.rights = Rights(self, seed, options)
        self.judge.topics.rights = self.rights
        self.rights.at_once()
        for station in self.stations.values():
            station.told = self.operators.effect
            station.live_loss, station.live_slow = options.live_loss, options.live_slow
        self.publish()

    @property
    def slots(self) -> tuple[int, ...]:
        """Stations that have not ended."""
        return tuple(slot for slot, node in self.stations.items() if not node.ended and slot not in self.ended)

    def _station(self, slot: int, founders: tuple[int, ...], state: DurableState) -> ClusterStationNode:
        rng = stream(self._seed, f"station {slot}")
        faults = disk_faults(sorted(self._mutants), "station")
        disk = Disk(state, self._rows.apply, copy_state, stream(self._seed, f"disk {slot}"), faults)
        options = self.options
        node = ClusterStationNode(
            self.world, self.trace, self.radio, self.wired, slot, founders, options.settings(), disk,
            StationFaults(), rng, rng.randint(-options.skew, options.skew), self._mutants,
        )  # fmt: skip
        node.begin(self.stations, self.layout, options.clusters)
        return node

    def add_station(self, slot: int, sponsor: int) -> None:
        """A newcomer whose JOIN was answered starts for the first time."""
        if slot in self.stations:
            raise Violation("slot given twice", [f"station {sponsor} lets another one in as {slot}"])
        view = View((*sorted((sponsor, slot)),), serving=False, sponsor=sponsor)
        node = self.stations[slot] = self._station(slot, (), DurableState(view=view))
        node.live_loss, node.live_slow = self.options.live_loss, self.options.live_slow
        node.told, node.known = self.operators.effect, {host.number: host.name for host in self.hosts}
        node.faults = self._faults()
        self.rights.tell(node)
        for ended, heir in self.ended.items():
            node.order("close_station", ended, heir)
        self.trace.note("joins", slot, sponsor)
        node.start()
        self.publish()

    def publish(self) -> None:
        """The configuration's list of stations, which hosts are told."""
        for station in self.stations.values():
            station.order("set_stations", self.listed())

    def listed(self) -> tuple[tuple[str, int, str, bytes], ...]:
        """The stations that have not ended, as hosts are told."""
        return tuple((f"s{slot}", slot, "", b"") for slot in self.slots)

    def relayout(self, layout: Layout, rng: Random) -> None:
        """The configuration has these clusters now; each station hears of it after a while."""
        self.layout = layout
        self._version += 1
        for station in self.stations.values():
            delay = rng.randint(0, 10 * self.options.wired_delay)
            self.world.after(delay, station.relayout, self._version, layout)

    # ---- people ----

    def enrol(self, slot: int, import_delay: int) -> None:
        """`hosts enrol` at a station; the others import the host, and it starts, up to `import_delay` later."""
        self.enrolled += 1
        counter = self.enrolled
        name, number = f"h{counter}", slot << 32 | counter
        rng = stream(self._seed, f"host {name}")
        options = self.options
        habits = Habits()
        if rng.random() < options.lazy:
            habits = Habits(
                take_max=rng.randint(1, 4), take_gap=rng.randint(0, 20 * MS), lag=rng.randint(0, 6),
                ack_delay=rng.randint(1, 50 * MS),
            )  # fmt: skip
        faults = disk_faults(sorted(self._mutants), "agent")
        disk = Disk(AgentImage(), apply_facts, copy_image, stream(self._seed, f"disk {name}"), faults)
        host = LiveHost(
            self.world, self.trace, self.radio, self.stations, name, number, options.agent_settings(),
            habits, disk, rng, self._mutants,
        )  # fmt: skip

        def done() -> None:
            self.trace.tell("member", name)
            self.hosts.append(host)
            self.named[name] = host
            host.peers = self.named
            self.rights.joined(name)
            for other in self.stations:
                if other != slot:
                    self.world.after(rng.randint(0, import_delay), self.stations[other].learn, number, name)
            self.world.after(rng.randint(0, import_delay), self._first_start, host)

        self.stations[slot].enrol(number, name, done)

    def _first_start(self, host: LiveHost) -> None:
        if host.core is None and host.life == 0 and not self.calm:
            host.start()

    def is_known(self, name: str | None) -> bool | None:
        """Whether a name is a member's (True), nobody's (False), or on its way to some station (None)."""
        if name is None:
            return True
        numbers = [host.number for host in self.hosts if host.name == name]
        if not numbers:
            return False
        return True if all(numbers[0] in station.known for station in self.stations.values()) else None

    # ---- phases ----

    def run(self) -> None:
        """All phases. Raises Violation."""
        self._set_up()
        adversary = Adversary(self, self._seed, self.options)
        options = self.options
        for station in self.stations.values():
            station.faults = self._faults()
        for host in self.hosts:
            host.habits.kill_per_effect = options.kill_per_effect
        adversary.begin()
        self._advance(options.duration)
        self._heal()
        self._away()
        self._return()

    def _faults(self) -> StationFaults:
        options = self.options
        if self.calm:
            return StationFaults(options.one_by_one, tick_spacing=options.claims_tick // 4)
        return StationFaults(
            one_by_one=options.one_by_one, crash_per_effect=options.crash_per_effect,
            full_per_write=options.full_per_write, tick_spacing=options.claims_tick // 4,
            down_time=(0, options.duration // 4),
        )  # fmt: skip

    def _advance(self, duration: int) -> None:
        if not self.world.run_until(self.world.now + duration, EVENTS_MAX):
            raise Violation("storm", [f"more than {EVENTS_MAX} events by {self.world.now} us"])

    def _set_up(self) -> None:
        options = self.options
        model = self.radio.model
        losses = (model.radio_loss, model.wired_loss)
        model.radio_loss = model.wired_loss = 0.0
        for station in self.stations.values():
            station.start()
        rng = stream(self._seed, "homes")
        for _ in range(options.hosts):
            self.enrol(rng.choice(self.slots), 0)
            self._advance(2 * MS)
        limit = self.world.now + SETUP_MAX
        while len(self.hosts) < options.hosts:
            self._advance(10 * MS)
            if self.world.now > limit:
                raise Violation("set-up", [f"only {len(self.hosts)} hosts are enrolled after {SETUP_MAX} us"])
        self._advance(rng.choice((0, 10 * MS, 300 * MS)))
        model.radio_loss, model.wired_loss = losses

    def _heal(self) -> None:
        """No more faults: links whole, stations up, applications eager."""
        self.calm = True
        model = self.radio.model
        model.radio_loss = model.wired_loss = model.wired_repeat = model.wired_slow = 0.0
        model.queue_max = 1_000
        self.wired.heal()
        for station in self.stations.values():
            station.faults = self._faults()
            station.crash_in = None
            if station.ended:
                continue
            if station.up:
                station.thaw()
            else:
                station.start()
        if self.options.release:
            self.operators.release()
        self.operators.remind()
        self.rights.at_once()
        self.trace.note("healed")

    def _away(self) -> None:
        """Some hosts stay away; nobody sends; every log must drain."""
        rng, options = self._away_rng, self.options
        for host in self.hosts:
            host.habits = Habits()
            host.kill_in = None
            if rng.random() < options.away:
                if rng.random() < 0.3:
                    host.kill()
                host.set_radio(False)
            else:
                self._bring_back(host)
        if options.vanish:
            host = rng.choice(self.hosts)
            host.kill()
            host.vanished = True
        guarded = bool(self.operators.lost) and not options.release
        self._wait(
            "logs do not drain",
            AWAY_MAX,
            lambda: self.operators.unfinished() or (not guarded and undrained(self)) or shown(self),
        )
        if options.restart_empty and not guarded:
            station = self.stations[rng.choice(self.slots)]
            station.crash()
            station.start()
            self._advance(STEP)

    def _bring_back(self, host: LiveHost) -> None:
        host.set_radio(True)
        if not host.known_stations() & set(self.slots):  # all that it knew have ended while it was away
            host.provision(self.listed())
        if host.core is None:
            host.start()
        else:
            host.act(AgentCore.resume)

    def _return(self) -> None:
        """All that live come back: everything owed arrives, then there is quiet."""
        living = [host for host in self.hosts if not host.vanished]
        for host in living:
            self._bring_back(host)
        living = [host for host in living if not host.left]
        names = [host.name for host in living]

        def missing() -> list[str]:
            found = self.judge.missing(names)
            return ["{} waits for {}".format(*found)] if found else []

        def waiting() -> list[str]:
            if left := missing():
                return left
            self.operators.release()
            untold = self.judge.untold(names)
            late = ([untold] if untold else []) + undrained(self) + unsettled(self, living)
            late = late or (unstable(self.stations, self.slots) if self.options.clusters else [])
            late = late or shown(self) or values_differ(self, names) or subscriptions_differ(self, names)
            if not late:
                self.judge.look_again()
            return late or missing()

        try:
            self._wait("no rest", RETURN_MAX, waiting)
        except Violation as violation:
            if violation.rule == "no rest":
                self.judge.finish(names)  # it says more of what is missing
            raise
        self.judge.finish(names)
        for _ in range(QUIET_TRIES):
            meter = Meter(self)
            self._advance(3 * SECOND)
            noise = meter.noise()
            if not noise:
                break
        else:
            raise Violation("not quiet", noise[:5])
        left = undrained(self) + unsettled(self, living)
        if left:
            raise Violation("rest does not last", left)

    def _wait(self, rule: str, limit: int, what_is_left: Any) -> None:
        end = self.world.now + limit
        step = STEP // 4
        while left := what_is_left():
            if self.world.now >= end:
                raise Violation(rule, [f"after {limit / SECOND:.0f} s without faults:", *left])
            self._advance(step)
            step = min(2 * step, SECOND)

    def counts(self) -> dict[str, int]:
        """What the run did, for the campaign's table."""
        return counts(self)


def run(
    scenario: str, seed: int, mutants: frozenset[str] = frozenset(), overrides: Mapping[str, Any] | None = None
) -> Result:
    """Run one seed and judge it. `mutants`: faults built in on purpose, for tests.

    Raises ValueError for an unknown scenario or option. Whatever the cores raise is a broken promise, not an error.
    """
    return play(scenario, seed, Simulation(seed, draw(scenario, seed, overrides), mutants))


def play(scenario: str, seed: int, simulation: Playable) -> Result:
    """Run one simulation to its end and judge it."""
    rule, witness = "", []
    try:
        simulation.run()
    except Violation as violation:
        rule, witness = violation.rule, violation.witness
    except Exception as error:  # any exception out of a core is the finding
        rule, witness = "exception", _where(error)
    trace = simulation.trace
    tail = trace.tail(40) if rule else []
    return Result(scenario, seed, simulation.options, trace.sha256(), simulation.counts(), rule, witness, tail)


def _where(error: Exception) -> list[str]:
    """The error and the innermost places that raised it."""
    places = []
    traceback = error.__traceback__
    while traceback is not None:
        code = traceback.tb_frame.f_code
        places.append(f"{code.co_filename.rpartition('/')[2]}:{traceback.tb_lineno} {code.co_name}")
        traceback = traceback.tb_next
    return [f"{type(error).__name__}: {error}", *reversed(places[-6:])]
