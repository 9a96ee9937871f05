"""What an operator does while hosts send and roam: one more station joins, a setting is changed, one is retired."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from dataclasses import dataclass

from demo.cluster import Cluster, CommandFailed, Station, station_command
from demo.progress import Progress

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
