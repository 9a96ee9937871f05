"""What an operator does while hosts send and roam: one more station joins, rights and a setting change, one retires."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from demo.cluster import READY_S_MAX, Cluster, CommandFailed, Station, station_command
from demo.progress import Progress
from demo.sites import Sites

OPEN_TOPICS, CREW = ("road", "weather"), "crew"
"""Topics that everybody may send and receive on, and one for the hosts of a group of the same name."""

PAUSE_S = 1.5
"""How long a right is gone."""

SETTING, VALUE = "settings/away-max", "14d"
"""What is changed while a station is down."""

RETIRE_OF = 3
"""So many stations there must be if one of them is to be retired."""


@dataclass(frozen=True, slots=True)
class Awaited:
    """Something that is to come by itself, and what is done then."""

    what: str
    has_come: Callable[[], bool]
    then: Callable[[], None]
    of_load: bool
    """It comes only while the load lasts; otherwise the run does not end well without it."""


class Operator:
    """Types the commands. `tell` gets a line for each thing that happens."""

    def __init__(self, cluster: Cluster, progress: Progress, rng: random.Random, tell: Callable[[str], None]) -> None:
        self.cluster = cluster
        self.founders: list[Station] = []
        """The stations that are there when the load begins."""
        self.joined = 0
        self.retired = 0
        self._progress = progress
        self._rng = rng
        self._tell = tell
        self._awaited: list[Awaited] = []
        self._loaded = True
        self._slept = False
        """The others were told that the sleeper is away."""

    @property
    def members(self) -> list[Station]:
        """The stations of the group, those that join or are down too."""
        return [station for station in self.cluster.stations if not station.over]

    @property
    def awaited(self) -> list[str]:
        """What has not come yet and must."""
        return [one.what for one in self._awaited if not one.of_load]

    def at_rest(self) -> bool:
        """Whether all stations serve, and nothing is awaited that must come."""
        return not self.awaited and all(station.serves() for station in self.members)

    def look(self) -> None:
        """Go on with what has come by now."""
        for one in [one for one in self._awaited if one.has_come()]:
            self._awaited.remove(one)
            one.then()

    def end_load(self) -> None:
        """Hosts do not move any more."""
        self._loaded = False
        self._awaited = [one for one in self._awaited if not one.of_load]

    def found(self) -> None:
        """Start the first station and let the others join it, all but one: that one comes later, by `join`."""
        self.cluster.start()
        for _ in self.cluster.newcomers[1:]:
            self.cluster.join(self.cluster.stations[0])
            self.cluster.start()
            self.cluster.wait_serving()
        self.founders = self.cluster.stations[:]

    def make_topics(self, crew: Sequence[str]) -> None:
        """Make the topics and the group, and have the stations say who is there."""
        first = self.cluster.stations[0].directory
        station_command("config", "set", first, "settings/presence", "on")
        station_command("config", "set", first, "settings/presence-grace", "2s")
        station_command("groups", "set", first, CREW, *crew)
        station_command("topics", "add", first, CREW, "--send", f"@{CREW}", "--receive", f"@{CREW}")
        for topic in OPEN_TOPICS:
            station_command("topics", "add", first, topic)
        self.cluster.wait_topics((CREW, *OPEN_TOPICS))

    def join(self) -> None:
        """One more station, by the invitation of any that serves."""
        if not self.cluster.newcomers:
            return
        sponsor = self._rng.choice(self.members)
        newcomer = self.cluster.join(sponsor)
        self._tell(f"{newcomer.id} is invited by {sponsor.id} and asks to be counted in")

        def start() -> None:
            if not newcomer.running:
                newcomer.start()
            self._await(f"{newcomer.id} serves", newcomer.serves, serves)

        def serves() -> None:
            self.joined += 1
            self._tell(f"{newcomer.id} has joined and takes hosts, which hear of it where they attach next")
            self._await(f"a host at {newcomer.id}", lambda: newcomer.id in self._progress.first_at, first, of_load=True)

        def first() -> None:
            self._tell(f"{self._progress.first_at[newcomer.id]} is the first host at {newcomer.id}")

        self._await(f"{newcomer.id} is counted in", newcomer.is_made, start)

    def split(self) -> Sites:
        """Make two sites of the founders."""
        sites = Sites(self.founders)
        sites.set()
        end = time.monotonic() + READY_S_MAX
        while not all((station.status() or {}).get("clusters") for station in self.founders):
            if time.monotonic() > end:
                raise CommandFailed("not all stations learn of the clusters")
            time.sleep(0.02)
        return sites

    def follow_takeover(self, sites: Sites, then: Callable[[], None]) -> None:
        """See that the standby forwards by itself while the gateway is down."""

        def taken() -> None:
            self._tell(f"{sites.standby.id} forwards between the sites in the place of {sites.gateway.id}")
            then()

        self._await(f"{sites.standby.id} forwards", sites.taken_over, taken)

    def follow_return(self, sites: Sites) -> None:
        """See that it leaves that to the gateway when that is back."""
        gateway, standby = sites.gateway.id, sites.standby.id
        told = f"{gateway} forwards again, {standby} stands by"
        self._await(f"{gateway} forwards again", lambda: not sites.taken_over(), lambda: self._tell(told))

    def change_setting(self, down: Station) -> None:
        """Change a setting at another station while `down` is down; that one must learn of it when it is back."""
        others = [station for station in self.members if station is not down and station.serves()]
        if not others:
            return
        station = self._rng.choice(others)
        station_command("config", "set", station.directory, SETTING, VALUE)
        self._tell(f"{SETTING} is set to {VALUE} at {station.id}, while {down.id} is down")

        def learnt() -> bool:
            return down.serves() and station_command("config", "get", down.directory, SETTING).split()[0] == VALUE

        self._await(
            f"{down.id} learns of {SETTING}",
            learnt,
            lambda: self._tell(f"`config get` at {down.id} says {VALUE} too"),
        )

    def take_right(self, host: str, subscribe: Callable[[], None]) -> None:
        """Take a host out of the crew, and back in later; then it must `subscribe` anew."""
        told = self._progress.changes.setdefault((host, CREW), [])
        before = len(told)
        station = self._rng.choice([station for station in self.members if station.serves()])
        self._note("revoke", host)
        station_command("groups", "drop", station.directory, CREW, host)
        self._tell(f"{host} is taken out of the {CREW} at {station.id}: it may not send or receive on that topic now")

        def ended() -> None:
            self._tell(f"{host} is told that its subscription to {CREW} has {told[-1]}")
            end = time.monotonic() + PAUSE_S
            self._await(f"{host} is back in the {CREW}", lambda: time.monotonic() >= end, back)

        def back() -> None:
            station_command("groups", "add", station.directory, CREW, host)
            again()

        def again() -> None:
            """A station that has not learnt of it yet refuses."""
            asked = len(told)
            subscribe()
            self._await(
                f"{host} is subscribed to {CREW}",
                lambda: len(told) > asked,
                lambda: subscribed() if told[-1] == "subscribed" else again(),
            )

        def subscribed() -> None:
            self._tell(f"{host} may again, has subscribed anew, and is given the last value of {CREW}")

        self._await(f"{host} is told of the right", lambda: len(told) > before and told[-1] != "subscribed", ended)

    def follow_sleep(self, host: str) -> None:
        """See that the others are told of a host that has fallen asleep."""
        away = self._progress.away

        def told() -> None:
            self._tell(f"the others are told that {host} is away")
            self._slept = True

        self._await(f"{host} is said to be away", lambda: away.get(host, False), told, of_load=True)

    def follow_wake(self, host: str) -> None:
        """See that the others are told that it is back, if they were told that it was away."""
        if self._slept:
            self._await(f"{host} is said to be back", lambda: not self._progress.away[host], lambda: None)

    def _note(self, event: str, host: str) -> None:
        """For the judge: what begins now."""
        line = {"event": event, "host": host, "topic": CREW, "t": time.monotonic_ns() // 1_000}
        with (self.cluster.home / "logs" / "operator.jsonl").open("a") as log:
            log.write(json.dumps(line) + "\n")

    def retire(self) -> None:
        """One station ends in order; the others take over its hosts."""
        if len(self.members) < RETIRE_OF:
            return
        leaver = self._rng.choice(self.founders)
        station = self._rng.choice([station for station in self.members if station is not leaver])
        told = json.loads(station_command("stations", "retire", station.directory, leaver.id, "--json"))
        leaver.over = True
        self._tell(f"{leaver.id} is being retired in order: its hosts move, {told['heir']} is its heir")

        def ended() -> None:
            if leaver.wait_end():
                raise CommandFailed(f"{leaver.id} did not retire in order:\n{leaver.text()[-4000:]}")
            self.retired += 1
            self._tell(f"{leaver.id} has handed over everything and has ended by itself")

        self._await(f"{leaver.id} has ended", lambda: not leaver.running, ended)

    def _await(self, what: str, has_come: Callable[[], bool], then: Callable[[], None], of_load: bool = False) -> None:
        if self._loaded or not of_load:
            self._awaited.append(Awaited(what, has_come, then, of_load))
