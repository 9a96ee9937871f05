"""What one seed draws for the many-key LAN update layer. Every option has a random stream of its own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from roamcast.middleware.lan_update.settings import LanSettings
from roamcast.middleware.simulator.scenario import stream

STORIES = ("plain", "clocks", "many", "partition", "backup", "night", "join", "mixed")
"""What a run is about; `mixed` may be about all of it at once."""
LEGS = 4
"""Sums, versions, wants, entries: an update crosses in so many packets."""
NEVER = 1 << 60


@dataclass(frozen=True, slots=True, kw_only=True)
class KeysOptions:
    """What one seed draws. Times in microseconds, shares from 0 to 1."""

    story: str
    kind: str
    """Of the schedule."""
    nodes: int
    joiners: int
    """Come later, by way of one sponsor each."""
    sponsor_writes: bool
    """The sponsor makes their membership entries; else they do, at their first start."""
    removals: int
    timeout: int
    """Tw."""
    share: float
    """Nodes of a chain run together for this share of the bound of theorem 1; such windows must be enough."""
    days: int
    keys: int
    entries_max: int
    kept_max: int
    updates: int
    deletes: float
    doubles: float
    """Share of updates that come twice at once, here or at two nodes."""
    crashes: int
    crash_per_effect: float
    slow: bool
    """Every send takes Tw."""
    unsure: float
    skew: int
    """Clocks are up to this far off until the end of the schedule."""
    guarded: bool
    """Nodes whose clocks are off take no updates."""
    steps: int
    """Times that a clock steps within `skew`."""
    partitions: int
    old_backups: int
    """Restored when what they do not know of has been purged."""
    young_backups: int
    clock_back: bool
    """A young backup comes back with its clock (not across a night: who was away too long cannot know it then)."""
    night: bool
    """Once, all are off for longer than A."""
    purges: bool

    @property
    def population(self) -> int:
        """All nodes that there will ever be."""
        return self.nodes + self.joiners

    @property
    def bound(self) -> int:
        """k Tw of theorem 1, just above; computing and storing take no time here."""
        packets = -(-(self.keys + self.population) // self.entries_max)
        return (2 * (LEGS + packets) + 1) * self.timeout + 1

    @property
    def window(self) -> int:
        """How long two nodes run together that one may tell the other."""
        return int(self.share * self.bound)

    @property
    def is_theorem(self) -> bool:
        """Whether theorem 1 may be demanded: nobody is cut off, goes back in time, is stale, or comes new."""
        disturbed = self.partitions or self.old_backups or self.young_backups or self.night
        return not (disturbed or self.joiners or self.removals or self.guarded or self.kept_max < self.keys)

    def settings(self, day: int) -> LanSettings:
        """The nodes' settings; `day`: the time for one pass of the schedule."""
        stale_after = 3 * day + 20 * self.timeout if self.purges or self.night else NEVER
        return LanSettings(
            packet_timeout=self.timeout + 1,
            exchange_interval=10 * self.timeout,
            entries_max=self.entries_max,
            kept_max=self.kept_max,
            stale_after=stale_after,
            purge_after=2 * stale_after if self.purges else NEVER,
            skew_max=2 * self.timeout if self.guarded else NEVER,
        )

    def banner(self) -> str:
        """All options on one line."""
        return " ".join(f"{name}={value}" for name, value in asdict(self).items())


def draw_keys(seed: int, overrides: Mapping[str, Any] | None = None) -> KeysOptions:
    """The options of a seed. Raises ValueError for an unknown option or story."""
    wanted = dict(overrides or {})
    if unknown := wanted.keys() - {field.name for field in fields(KeysOptions)}:
        raise ValueError(f"no option {min(unknown)!r}")

    def pick(name: str, *choices: Any) -> Any:
        return wanted.get(name, stream(seed, name).choice(choices))

    def between(name: str, low: int, high: int) -> Any:
        return wanted.get(name, stream(seed, name).randint(low, high))

    story = pick("story", "plain", "plain", *STORIES)
    if story not in STORIES:
        raise ValueError(f"no story {story!r}; there are {', '.join(STORIES)}")

    def about(name: str, *choices: Any, idle: Any) -> Any:
        """Drawn if the run is about `name`, and in one mixed run of three."""
        mixed = story == "mixed" and stream(seed, f"mixed {name}").random() < 0.3
        return stream(seed, name).choice(choices) if story == name or mixed else idle

    timeout = 1_000
    keys = about("many", 20, 40, 60, idle=between("keys", 1, 8))
    backup = about("backup", "old", "young", "young", idle="")
    night = about("night", True, idle=False)
    joiners = about("join", 0, 1, 2, idle=0)
    skew = 0 if night or backup else about("clocks", timeout, 1_000_000, idle=0)
    drawn = {
        "kind": pick("kind", "chain", "chain", "random", "always"),
        "nodes": between("nodes", 3 if story in ("backup", "join", "mixed") else 2, 6),
        "joiners": joiners,
        "sponsor_writes": pick("sponsor_writes", True, False),
        "removals": 1 if story == "join" and not joiners else about("join", 0, 1, idle=0),
        "timeout": timeout,
        "share": 1.0,
        "days": between("days", 3, 5),
        "entries_max": about("many", 1, 3, 10, idle=pick("entries_max", 3, 100)),
        "kept_max": pick("kept_max", 10_000, 10_000, 10_000, 1, 5),
        "updates": between("updates", 5, 30) * (2 if keys > 8 else 1),
        "deletes": pick("deletes", 0.25, 0.5) if backup else pick("deletes", 0.0, 0.25, 0.5),
        "doubles": pick("doubles", 0.0, 0.2),
        "crashes": pick("crashes", 0, 0, 2, 6),
        "crash_per_effect": pick("crash_per_effect", 0.0, 0.0, 0.002, 0.02),
        "slow": pick("slow", False, False, False, True),
        "unsure": pick("unsure", 0.0, 0.1, 0.5),
        "guarded": bool(skew) and pick("guarded", False, False, True),
        "steps": pick("steps", 0, 2) if skew else 0,
        "partitions": about("partition", 1, 2, 3, idle=0),
        "old_backups": pick("old_backups", 1, 1, 2) if backup == "old" else 0,
        "young_backups": pick("young_backups", 1, 2) if backup == "young" else 0,
        "clock_back": not night and pick("clock_back", True, False),
        "night": night,
        "purges": skew == 0 and (backup == "old" or pick("purges", True, False)),
    }
    own = {"story": story, "keys": keys, "skew": skew}
    return KeysOptions(**{**drawn, **own, **wanted})
