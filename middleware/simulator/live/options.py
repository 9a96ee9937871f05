"""What one seed draws for live messages. Every option has a random stream of its own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from roamcast.middleware.delta_causal.settings import LiveSettings, Rule
from roamcast.middleware.simulator.scenario import stream

STORIES = ("plain", "loss", "skew", "leaps", "restarts", "timers", "delta", "mixed")
"""What a run is about; `mixed` may be about all of it at once."""
UNBOUNDED = -1
DAY = 86_400_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveOptions:
    """What one seed draws. Times in ticks of every clock, which may be few to a delta; shares from 0 to 1."""

    story: str
    stations: int
    rule: str
    entries_max: int
    """-1: all."""
    differ: bool
    """Half of the stations list one entry more."""
    delta: int
    messages: int
    """Occasions at which somebody sends."""
    duration: int
    reply: float
    """Chance that a message is answered, or told to others, when it is delivered."""
    broadcast: float
    """Share of messages to all others; the rest goes to some."""
    delay: int
    """A message takes up to this."""
    tail: float
    """Share of messages that take up to two delta."""
    loss: float
    repeat: float
    spread: int
    """Clocks are ahead of the true time by up to this, each by its own."""
    allowance: int
    """Stamps that may run ahead of the clocks: what the setting `skew` has beyond `spread`."""
    wander: int
    """Times at which some clock changes within the spread."""
    leaps: int
    """Times at which some clock leaps by up to three delta, forward and back again or the other way round."""
    mad: bool
    """One clock is a day ahead, for a while."""
    restarts: int
    late: int
    """Timers fire late by up to this."""
    changes: int
    """Times at which delta is changed, of which stations hear within two delta."""

    def settings(self, slot: int, delta: int) -> LiveSettings:
        """The settings of one station."""
        bound = None if self.entries_max == UNBOUNDED else self.entries_max + (self.differ and slot % 2)
        return LiveSettings(delta=delta, skew=self.spread + self.allowance, entries_max=bound, rule=Rule(self.rule))

    def banner(self) -> str:
        """All options on one line."""
        return " ".join(f"{name}={value}" for name, value in asdict(self).items())


def draw_live(seed: int, overrides: Mapping[str, Any] | None = None) -> LiveOptions:
    """The options of a seed. Raises ValueError for an unknown option, story or rule."""
    wanted = dict(overrides or {})
    if unknown := wanted.keys() - {field.name for field in fields(LiveOptions)}:
        raise ValueError(f"no option {min(unknown)!r}")

    def pick(name: str, *choices: Any) -> Any:
        return wanted.get(name, stream(seed, name).choice(choices))

    story, rule = pick("story", "plain", *STORIES), pick("rule", "horizon", "horizon", "horizon", "paper")
    for word, words in [(story, STORIES), (rule, [rule.value for rule in Rule])]:
        if word not in words:
            raise ValueError(f"no {word!r}; there are {', '.join(words)}")

    def about(names: str, option: str, *choices: Any, idle: Any) -> Any:
        """Drawn if the run is about one of `names`, and in one mixed run of two."""
        mixed = story == "mixed" and stream(seed, f"mixed {names}").random() < 0.5
        return pick(option, *choices) if story in names or mixed else wanted.get(option, idle)

    least = int(rule == Rule.PAPER.value)
    delta = pick("delta", 8, 30, 30, 100, 1_000)
    messages = wanted.get("messages", stream(seed, "messages").randint(10, 80))
    restarts = about("restarts", "restarts", 2, 4, 8, idle=0)
    steady = not restarts  # a start trusts its clock: docs/protocols/delta-causal.md
    changes = about("delta", "changes", 1, 2, 3, idle=0)
    drawn = {
        "stations": wanted.get("stations", stream(seed, "stations").randint(2, 7)),
        "entries_max": pick("entries_max", least, 1, 2, 4, 8, UNBOUNDED),
        "differ": not least and pick("differ", False, True),
        "delta": delta,
        "messages": messages,
        "duration": pick("duration", *(delta * times for times in (2, 4, 8, 16))),
        "reply": pick("reply", 0.0, 0.3, 0.6),
        "broadcast": pick("broadcast", 0.0, 0.3, 0.8, 1.0),
        "delay": pick("delay", 2, max(2, delta // 5), delta, delta),
        "tail": pick("tail", 0.0, 0.1, 0.3),
        "loss": about("loss", "loss", 0.1, 0.2, 0.4, idle=pick("loss", 0.0, 0.0, 0.05)),
        "repeat": about("loss", "repeat", 0.1, 0.3, idle=pick("repeat", 0.0, 0.05)),
        "spread": about("skew restarts leaps", "spread", 1, delta // 8, delta // 2, idle=pick("spread", 0, 0, 3)),
        "allowance": pick("allowance", 0, 3, 100_000 if steady and not changes else delta),
        "wander": about("skew restarts", "wander", 5, 20, idle=0),
        "leaps": about("leaps", "leaps", 1, 3, 6, idle=0) if steady else 0,
        "mad": bool(about("leaps", "mad", False, True, idle=False) and steady),
        "late": about("timers", "late", 2, delta // 2, 2 * delta, idle=0),
    }
    own = {"story": story, "rule": rule, "restarts": restarts, "changes": changes}
    return LiveOptions(**{**drawn, **own, **wanted})
