"""What one seed draws for the causal unicast. Every option has a random stream of its own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from roamcast.middleware.causal_unicast.settings import MailSettings
from roamcast.middleware.settings import MS
from roamcast.middleware.simulator.scenario import stream
from roamcast.middleware.simulator.unicast.patterns import PATTERNS

STORIES = ("plain", "crashes", "down", "limits", "join", "lost", "backup", "mixed")
"""What a run is about; `mixed` may be about all of it at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UnicastOptions:
    """What one seed draws. Times in microseconds, shares from 0 to 1."""

    story: str
    stations: int
    pattern: str
    messages: int
    """Occasions at which somebody sends, while faults last."""
    duration: int
    """Of the fault phase."""
    reply: float
    """Chance that mail is answered when it is read."""
    own: float
    """Chance that mail is to the sender itself."""
    delay: int
    """A frame takes up to this, and from a tenth of it on."""
    slow: float
    """Share of frames that take up to ten times as long."""
    loss: float
    repeat: float
    crashes: int
    crash_per_effect: float
    down: bool
    """One station is down from soon after the start until all is healed."""
    lazy: float
    """Share of stations whose application reads slowly."""
    padding: int
    """Bytes that a body has at most beyond its label."""
    joiners: int
    lost: int
    """Stations that burn down."""
    hearsay: int
    """Stations hear of a change of the group within this, each at its own time."""
    backup: str
    """'' | 'empty' | 'older': what one station starts again from."""
    outbox_bytes_max: int
    held_bytes_max: int
    inbox_bytes_max: int
    window_mails: int
    window_bytes: int

    def settings(self) -> MailSettings:
        """The stations' settings."""
        return MailSettings(
            body_bytes_max=4_096, outbox_bytes_max=self.outbox_bytes_max, held_bytes_max=self.held_bytes_max,
            inbox_bytes_max=self.inbox_bytes_max, window_mails=self.window_mails, window_bytes=self.window_bytes,
        )  # fmt: skip

    def banner(self) -> str:
        """All options on one line."""
        return " ".join(f"{name}={value}" for name, value in asdict(self).items())


def draw_unicast(seed: int, overrides: Mapping[str, Any] | None = None) -> UnicastOptions:
    """The options of a seed. Raises ValueError for an unknown option, story or pattern."""
    wanted = dict(overrides or {})
    if unknown := wanted.keys() - {field.name for field in fields(UnicastOptions)}:
        raise ValueError(f"no option {min(unknown)!r}")

    def pick(name: str, *choices: Any) -> Any:
        return wanted.get(name, stream(seed, name).choice(choices))

    def between(name: str, low: int, high: int) -> Any:
        return wanted.get(name, stream(seed, name).randint(low, high))

    story = pick("story", "plain", *STORIES)
    pattern = pick("pattern", *PATTERNS)
    for word, words in [(story, STORIES), (pattern, PATTERNS)]:
        if word not in words:
            raise ValueError(f"no {word!r}; there are {', '.join(words)}")

    def about(name: str, option: str, *choices: Any, idle: Any) -> Any:
        """Drawn if the run is about `name`, and in one mixed run of three."""
        mixed = story == "mixed" and stream(seed, f"mixed {name}").random() < 0.35
        return stream(seed, option).choice(choices) if story == name or mixed else idle

    plenty = 1 << 26
    lost = about("lost", "lost", 1, 1, 2, idle=0)
    drawn = {
        "stations": between("stations", 4 if lost else 2, 8),
        "messages": between("messages", 10, 80),
        "duration": between("duration", 200, 3_000) * MS,
        "reply": pick("reply", 0.0, 0.0, 0.3, 0.7),
        "own": pick("own", 0.0, 0.0, 0.1),
        "delay": pick("delay", 20, 50, 200) * MS,
        "slow": pick("slow", 0.0, 0.1, 0.3),
        "loss": pick("loss", 0.0, 0.0, 0.1, 0.3),
        "repeat": pick("repeat", 0.0, 0.1, 0.3),
        "crashes": about("crashes", "crashes", 3, 6, 12, idle=0),
        "crash_per_effect": about("crashes", "crash_per_effect", 0.0, 0.005, 0.03, idle=0.0),
        "down": about("down", "down", True, idle=False),
        "lazy": about("limits", "lazy", 0.0, 0.5, 1.0, idle=pick("lazy", 0.0, 0.0, 0.3)),
        "padding": pick("padding", 0, 0, 100, 1_000),
        "joiners": about("join", "joiners", 1, 2, idle=0),
        "hearsay": pick("hearsay", 5, 50, 500) * MS,
        "backup": "" if lost else about("backup", "backup", "empty", "older", "older", idle=""),
        "outbox_bytes_max": about("limits", "outbox_bytes_max", 2_000, 10_000, plenty, idle=plenty),
        "held_bytes_max": about("limits", "held_bytes_max", 0, 1_000, 5_000, plenty, idle=plenty),
        "inbox_bytes_max": about("limits", "inbox_bytes_max", 100, 1_000, 5_000, plenty, idle=plenty),
        "window_mails": about("limits", "window_mails", 1, 3, 64, idle=pick("window_mails", 4, 64)),
        "window_bytes": about("limits", "window_bytes", 1, 2_000, 1 << 20, idle=1 << 20),
    }
    own = {"story": story, "pattern": pattern, "lost": lost}
    return UnicastOptions(**{**drawn, **own, **wanted})
