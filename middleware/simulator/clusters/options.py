"""What one seed draws for composite clusters. Every option has a random stream of its own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from roamcast.middleware.clusters.settings import ClusterSettings
from roamcast.middleware.settings import MS
from roamcast.middleware.simulator.clusters.layouts import SHAPES, Layout, layout
from roamcast.middleware.simulator.scenario import stream

STORIES = ("plain", "loss", "overrun", "restarts", "removal", "takeover", "addition", "stopped", "mixed")
"""What a run is about; `mixed` may be about all of it at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterOptions:
    """What one seed draws. Times in microseconds, shares from 0 to 1."""

    story: str
    shape: str
    size: int
    """Stations of a cluster, on average."""
    unequal: bool
    rows: int
    """That somebody wants to enter, in all."""
    duration: int
    delay: int
    """A frame takes up to this from 500 us on."""
    slow: float
    """Share of frames that take up to ten times as long, and are overtaken."""
    loss: float
    repeat: float
    service: int
    """Time that an element needs for a frame; 0: none."""
    queue: int
    """Frames that wait for it; more are lost."""
    window: int
    relay_window: int
    tick: int
    restarts: int
    """Stations that stop and come back."""
    removals: int
    """Stations that crash for good, or are taken for crashed."""
    takeovers: int
    """Gateways that crash, or are taken for crashed; all have standbys then."""
    additions: int
    suspicion: bool
    """Who is removed lives on."""
    stopped: bool
    """One station stands still for most of the run."""

    def settings(self) -> ClusterSettings:
        """Of every element."""
        return ClusterSettings(
            claims_tick=self.tick, nack_timeout=3 * self.tick, poll_timeout=12 * self.tick,
            send_window=self.window, relay_window=self.relay_window, out_of_order_max=32, rows_max=8,
            heartbeat=1_000 * MS, down_after=3_000 * MS,
        )  # fmt: skip

    def layout(self, seed: int) -> Layout:
        """Who is where."""
        clusters, lines = SHAPES[self.shape]
        rng = stream(seed, "sizes")
        size = self.size
        sizes = [rng.randint(1, 2 * size - 1) if self.unequal else size for _ in range(clusters)]
        if clusters == 1:
            sizes = [max(2, sizes[0])]
        return layout(clusters, lines, sizes, bool(self.takeovers))

    def banner(self) -> str:
        """All options on one line."""
        return " ".join(f"{name}={value}" for name, value in asdict(self).items())


def draw_clusters(seed: int, overrides: Mapping[str, Any] | None = None) -> ClusterOptions:
    """The options of a seed. Raises ValueError for an unknown option, story or shape."""
    wanted = dict(overrides or {})
    if unknown := wanted.keys() - {field.name for field in fields(ClusterOptions)}:
        raise ValueError(f"no option {min(unknown)!r}")

    def pick(name: str, *choices: Any) -> Any:
        return wanted.get(name, stream(seed, name).choice(choices))

    story, shape = pick("story", *STORIES), pick("shape", *SHAPES, "two", "three-3", "four-4")
    for word, words in ((story, STORIES), (shape, tuple(SHAPES))):
        if word not in words:
            raise ValueError(f"no {word!r}; there are {', '.join(words)}")

    def about(names: str, option: str, *choices: Any, idle: Any) -> Any:
        """Drawn if the run is about one of `names`, and in one mixed run of three."""
        mixed = story == "mixed" and stream(seed, f"mixed {names}").random() < 0.35
        return pick(option, *choices) if story in names or mixed else wanted.get(option, idle)

    clusters = SHAPES[shape][0]
    removals = about("removal", "removals", 1, 1, 2, idle=0)
    both = story == "takeover" and stream(seed, "both").random() < 0.5
    removals = max(removals, wanted.get("removals", int(both)))
    drawn = {
        "size": pick("size", *((3, 5, 7) if clusters == 1 else (1, 2, 3, 4) if clusters < 7 else (1, 2))),
        "unequal": pick("unequal", False, True),
        "rows": wanted.get("rows", stream(seed, "rows").randint(5, 60 if clusters < 7 else 25)),
        "duration": pick("duration", 50 * MS, 300 * MS, 1_000 * MS),
        "delay": pick("delay", 1 * MS, 3 * MS, 20 * MS),
        "slow": pick("slow", 0.0, 0.05, 0.3),
        "loss": about("loss", "loss", 0.1, 0.2, 0.4, idle=pick("loss", 0.0, 0.05, 0.2)),
        "repeat": about("loss", "repeat", 0.1, 0.3, idle=pick("repeat", 0.0, 0.1)),
        "service": about("overrun", "service", 200, 400, idle=0),
        "queue": pick("queue", 5, 10, 30),
        "window": pick("window", 1, 2, 8, 32),
        "relay_window": pick("relay_window", 1, 4, 64),
        "tick": pick("tick", 2 * MS, 5 * MS, 10 * MS),
        "restarts": about("restarts", "restarts", 1, 2, 5, idle=0),
        "removals": removals,
        "takeovers": about("takeover", "takeovers", 1, 1, 2, idle=0) if 1 < clusters < 7 else 0,
        "additions": about("addition", "additions", 1, 2, idle=0) if not removals else 0,
        "suspicion": pick("suspicion", False, True),
        "stopped": bool(about("stopped", "stopped", True, idle=False)),
    }
    return ClusterOptions(**{**drawn, "story": story, "shape": shape, **wanted})
