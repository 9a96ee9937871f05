"""The configuration's topics as operators change them while everything runs, and when a station comes to know.

Each version is the whole of it. A station that is up hears of it after a while, one that starts hears of the newest:
so for some time stations obey different rights.
"""

from __future__ import annotations

from collections.abc import Container, Iterable
from random import Random
from typing import TYPE_CHECKING

from roamcast.middleware.rows import PRESENCE
from roamcast.middleware.simulator.scenario import Options, stream
from roamcast.middleware.topics import PRESENCE_PREFIX, Topic, Topics

if TYPE_CHECKING:
    from roamcast.middleware.simulator.run import Simulation
    from roamcast.middleware.simulator.station_node import StationNode

NEVER = 1 << 62
Key = tuple[str, str, str]
"""(host, topic, 'send' or 'receive')."""


class AllBut(Container[int]):
    """Every host, also those that come later, but these."""

    def __init__(self, hosts: Iterable[int]) -> None:
        self._hosts = frozenset(hosts)

    def __contains__(self, host: object) -> bool:
        return host not in self._hosts


class Rights:
    """Truth about rights, and since when everybody obeys it."""

    def __init__(self, simulation: Simulation, seed: int, options: Options) -> None:
        self._sim = simulation
        self._rng = stream(seed, "rights spread")
        self.names = tuple(f"t{i}" for i in range(1, options.topics + 1))
        self.presence = options.presence
        self.spread_max = options.rights_spread
        self._denied: dict[Key, None] = {}
        self._since: dict[Key, int] = {}
        """When it was changed last."""
        self._joined: dict[str, int] = {}
        self._version = 0
        self.ever_denied: set[tuple[str, str]] = set()
        """(host, topic) whose right to receive was ever taken."""

    def all_topics(self) -> list[str]:
        """Names that a host may subscribe to."""
        about = [f"{PRESENCE_PREFIX}{host.name}" for host in self._sim.hosts] if self.presence else []
        return [*self.names, *about]

    def number(self, name: str) -> int:
        """The topic's number; 0: there is none."""
        if name.startswith(PRESENCE_PREFIX):
            numbers = (host.number for host in self._sim.hosts if host.name == name.removeprefix(PRESENCE_PREFIX))
            return next((PRESENCE | number for number in numbers), 0)
        return self.names.index(name) + 1 if name in self.names else 0

    def topics(self) -> Topics:
        """As the configuration has them now."""
        found = []
        for number, name in enumerate(self.names, start=1):
            send, receive = (
                AllBut(h.number for h in self._sim.hosts if (h.name, name, what) in self._denied)
                for what in ("send", "receive")
            )
            found.append(Topic(number, name, send, receive))
        return Topics(found, presence=self.presence)

    def toggle(self, rng: Random) -> None:
        """An operator gives or takes a right."""
        host, name = rng.choice(self._sim.hosts).name, rng.choice(self.names)
        what = rng.choice(("receive", "receive", "send"))
        key = (host, name, what)
        if key in self._denied:
            del self._denied[key]
        else:
            self._denied[key] = None
            if what == "receive":
                self.ever_denied.add((host, name))
        self._since[key] = self._sim.world.now
        self._sim.trace.note("rights", *key, key in self._denied)
        self._sim.trace.tell("rights", host, name, what)
        self.publish()

    def joined(self, host: str) -> None:
        """A host was enrolled: every station comes to know it, and what it may."""
        self._joined[host] = self._sim.world.now + self._sim.options.duration // 4
        self.publish()

    def tell(self, station: StationNode) -> None:
        """A newcomer has the configuration from the start."""
        station.obey(self._version, self.topics())

    def publish(self) -> None:
        """Every station comes to know, sooner or later."""
        self._version += 1
        topics = self.topics()
        for station in self._sim.stations.values():
            delay = self._rng.randint(0, self.spread_max) if self.spread_max else 0
            self._sim.world.after(delay, station.obey, self._version, topics)

    def at_once(self) -> None:
        """Hosts have come, or the faults have ended: who is up knows."""
        self._version += 1
        topics = self.topics()
        for station in self._sim.stations.values():
            station.obey(self._version, topics)

    def certain(self, host: str, topic: str, what: str) -> tuple[bool, int]:
        """(whether it is allowed now, since when every station obeys that)."""
        joined = self._joined.get(host, NEVER)
        if topic.startswith(PRESENCE_PREFIX):
            other = self._joined.get(topic.removeprefix(PRESENCE_PREFIX), NEVER)
            return (self.presence and what == "receive"), max(joined, other) + self.spread_max + 1
        key = (host, topic, what)
        allowed = topic in self.names and key not in self._denied
        return allowed, max(self._since.get(key, 0), joined) + self.spread_max + 1

    def known(self, host: str, topic: str, what: str) -> bool | None:
        """Whether a request made now is taken (True), refused (False), or either."""
        allowed, since = self.certain(host, topic, what)
        return allowed if self._sim.world.now >= since else None
