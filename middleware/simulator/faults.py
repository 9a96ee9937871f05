"""The fault phase: load, moves and mishaps, each drawn from a random stream of its own."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from random import Random
from typing import TYPE_CHECKING, Any

from roamcast.middleware.errors import LocalProtocolError
from roamcast.middleware.mobile_host.core import AgentCore
from roamcast.middleware.simulator.composite.faults import ClusterFaults
from roamcast.middleware.simulator.live_clocks import COMPARED, OFF_MAX, LiveClocks
from roamcast.middleware.simulator.live_traffic import LiveLoad
from roamcast.middleware.simulator.scenario import Options, stream

if TYPE_CHECKING:
    from roamcast.middleware.simulator.host_node import HostNode
    from roamcast.middleware.simulator.run import Simulation
    from roamcast.middleware.simulator.station_node import StationNode


class Adversary:
    """Schedules everything that happens to a simulation between its start and the end of the fault phase."""

    def __init__(self, simulation: Simulation, seed: int, options: Options) -> None:
        self._sim = simulation
        self._seed = seed
        self._options = options
        self._end = 0
        self._sent = 0

    def begin(self) -> None:
        """From now on for `options.duration`."""
        options, world = self._options, self._sim.world
        self._end = world.now + options.duration
        self._repeat("load", options.messages, self._send)
        self._repeat("live", options.live, LiveLoad(self._sim).send)
        if options.live_steps:
            clocks = LiveClocks(self._sim)
            clocks.begin(self._end + OFF_MAX + COMPARED)
            self._repeat("clock steps", options.live_steps, clocks.step)
        clusters = ClusterFaults(self._sim, self._later)
        self._repeat("gateways", options.gateways_count, clusters.crash_gateway)
        self._repeat("layouts", options.layouts_count, clusters.relayout)
        self._repeat("hops", options.hops_count, self._hop)
        self._repeat("cuts", options.cuts_count, self._cut)
        self._repeat("partitions", options.partitions_count, self._partition)
        self._repeat("crashes", options.crashes_count, self._crash)
        self._repeat("freezes", options.freezes_count, self._freeze)
        self._repeat("kills", options.kills_count, self._kill)
        self._repeat("naps", options.naps_count, self._nap)
        self._repeat("wipes", options.wipes_count, self._wipe)
        self._repeat("leaves", options.leaves_count, self._leave)
        self._repeat("enrolments", options.late_hosts, self._enrol)
        self._repeat("changes", options.changes_count, self._change)
        self._repeat("rights", options.rights_count, self._sim.rights.toggle)
        self._repeat("joins", options.added_count, self._sim.operators.join)
        self._repeat("retirements", options.retired_count, self._sim.operators.retire)
        self._repeat("losses", options.lost_count, self._sim.operators.lose)

    def _repeat(self, name: str, count: int, action: Callable[[Random], None]) -> None:
        """`action` about `count` times in the phase, at random moments."""
        if count:
            self._next(stream(self._seed, f"do {name}"), self._options.duration / count, action)

    def _next(self, rng: Random, mean: float, action: Callable[[Random], None]) -> None:
        time = self._sim.world.now + int(rng.expovariate(1 / mean))
        if time < self._end:
            self._sim.world.at(time, self._do, rng, mean, action)

    def _do(self, rng: Random, mean: float, action: Callable[[Random], None]) -> None:
        action(rng)
        self._next(rng, mean, action)

    def _later(self, delay: int, action: Callable[..., None], *arguments: Any) -> None:
        """The end of a mishap; none once the network heals, which ends them all."""
        self._sim.world.after(delay, self._unless_calm, action, arguments)

    def _unless_calm(self, action: Callable[..., None], arguments: tuple[Any, ...]) -> None:
        if not self._sim.calm:
            action(*arguments)

    # ---- load ----

    def _send(self, rng: Random) -> None:
        burst = rng.randint(2, 10) if rng.random() < self._options.burst else 1
        host = rng.choice(self._sim.hosts)
        for _ in range(burst):
            self._sent += 1
            label = f"m{self._sent}"
            to: str | None = None
            if rng.random() < self._options.mail:
                to = rng.choice(self._sim.hosts).name
                if rng.random() < self._options.unknown:
                    to = "nobody"
            if self._options.on_topic and rng.random() < self._options.on_topic:
                self._send_on_topic(rng, host, label)
                continue
            padding = rng.randint(0, self._options.padding)
            host.submit(label, label.encode() + b" " + bytes(padding), to, self._sim.is_known(to))

    def _send_on_topic(self, rng: Random, host: HostNode, label: str) -> None:
        names = self._sim.rights.names
        topic = "nothing" if rng.random() < 0.02 else rng.choice(names)
        known = self._sim.rights.known(host.name, topic, "send")
        retain = rng.random() < self._options.retain
        cleared = retain and rng.random() < self._options.clear
        body = b"" if cleared else label.encode() + b" " + bytes(rng.randint(0, self._options.padding))
        host.publish(label, "retain" if retain else "send", topic, body, known)

    def _change(self, rng: Random) -> None:
        self._sent += 1
        host = rng.choice(self._sim.hosts)
        topic = rng.choice(self._sim.rights.all_topics())
        host.publish(f"m{self._sent}", rng.choice(("sub", "sub", "unsub")), topic, b"", True)

    # ---- hosts ----

    def _hop(self, rng: Random) -> None:
        host = rng.choice(self._sim.hosts)
        host.act(_mover(rng.choice(self._sim.slots)))
        at = self._sim.world.now
        while rng.random() < self._options.storm:
            at += rng.randint(0, 4 * self._options.radio_delay)
            self._later(at - self._sim.world.now, host.act, _mover(rng.choice(self._sim.slots)))

    def _cut(self, rng: Random) -> None:
        host = rng.choice(self._sim.hosts)
        if host.connection is not None:
            self._sim.radio.break_(host.connection)
        if rng.random() < 0.3:
            host.act(AgentCore.network_changed)

    def _kill(self, rng: Random) -> None:
        host = rng.choice(self._sim.hosts)
        if rng.random() < 0.5:
            host.kill_in = rng.randint(0, 12)
        else:
            host.kill()
        self._later(rng.randint(0, self._options.duration // 4), self._revive, host)

    def _revive(self, host: HostNode) -> None:
        if host.core is None:
            host.start()

    def _nap(self, rng: Random) -> None:
        host = rng.choice(self._sim.hosts)
        until = rng.randint(0, self._options.duration // 2)
        how = rng.randint(0, 3)
        if how == 0:
            host.act(AgentCore.suspend)
            self._later(until, host.act, AgentCore.resume)
        elif how == 1:
            host.act(AgentCore.detach)
            self._later(until, host.act, AgentCore.resume)
        elif how == 2:
            if host.frozen_until <= self._sim.world.now:  # one freeze at a time keeps what waits for its end in order
                host.frozen_until = self._sim.world.now + until
        else:
            host.set_radio(False)
            self._later(until, host.set_radio, True)

    def _wipe(self, rng: Random) -> None:
        host = rng.choice(self._sim.hosts)
        host.wipe()
        self._later(rng.randint(0, self._options.duration // 4), self._revive, host)

    def _leave(self, rng: Random) -> None:
        rng.choice(self._sim.hosts).leave()

    def _enrol(self, rng: Random) -> None:
        if self._sim.enrolled < self._options.hosts + self._options.late_hosts:
            serving = [slot for slot in self._sim.slots if self._sim.stations[slot].serves()] or self._sim.slots
            self._sim.enrol(rng.choice(serving), rng.randint(0, self._options.duration // 4))

    # ---- stations ----

    def _station(self, rng: Random) -> StationNode:
        return self._sim.stations[rng.choice(self._sim.slots)]

    def _crash(self, rng: Random) -> None:
        station = self._station(rng)
        if rng.random() < 0.7:
            station.crash_in = rng.randint(0, 20)
        elif station.up:
            station.fall()

    def _freeze(self, rng: Random) -> None:
        self._station(rng).frozen_until = self._sim.world.now + rng.randint(0, self._options.duration // 3)

    def _partition(self, rng: Random) -> None:
        one, other = rng.choice(self._sim.slots), rng.choice(self._sim.slots)
        if one != other:
            self._sim.wired.partition(one, other, self._sim.world.now + rng.randint(0, self._options.duration // 2))


def _mover(slot: int) -> Callable[[AgentCore], None]:
    def call(core: AgentCore) -> None:
        with suppress(LocalProtocolError):  # a station that the host has not heard of
            core.move(slot)

    return call
