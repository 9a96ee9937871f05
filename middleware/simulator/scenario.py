"""From a seed to a scenario: every option is drawn from a random stream of its own, named after it.

So one option can be overridden without shifting the others, and a new one changes no old run's draws.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from random import Random
from typing import Any

from roamcast.middleware.mobile_host.settings import AgentSettings
from roamcast.middleware.settings import DAY, MS, SECOND, Settings
from roamcast.middleware.simulator.links import LinkModel

SCENARIOS = ("mixed", "few", "long", "group", "topics", "mixed-live", "composite")
FLAVOURS = ("mixed", "mixed", "mixed", "few", "few", "group")
"""What the scenarios `topics` and `mixed-live` are beside having topics, and live messages: drawn."""


def stream(seed: int, name: str) -> Random:
    """The random stream `name` of a seed."""
    return Random(f"{seed}/{name}")


@dataclass(frozen=True, slots=True)
class Options:
    """What one seed draws. Times in microseconds, shares from 0 to 1; `*_count` = expected events while faults last."""

    stations: int
    hosts: int
    late_hosts: int
    """Enrolled while everything runs."""
    messages: int
    duration: int
    """Of the fault phase."""
    mail: float
    unknown: float
    """Share of mail that goes to a name nobody has."""
    burst: float
    padding: int
    """Bytes that a body has at most beyond its label."""
    hops_count: int
    storm: float
    """Share of hops that are followed by others within one round trip."""
    cuts_count: int
    radio_delay: int
    radio_loss: float
    wired_delay: int
    wired_loss: float
    wired_repeat: float
    wired_slow: float
    partitions_count: int
    one_by_one: bool
    crash_per_effect: float
    crashes_count: int
    freezes_count: int
    full_per_write: float
    kills_count: int
    kill_per_effect: float
    naps_count: int
    """Times a host is out of coverage, or suspended, for a while."""
    wipes_count: int
    leaves_count: int
    """Hosts that end their membership."""
    vanish: bool
    """One host never comes back."""
    away: float
    """Share of hosts that stay away in the away phase."""
    restart_empty: bool
    """A station is restarted once its log has been collected."""
    lazy: float
    """Share of hosts whose application takes slowly and acknowledges late."""
    window_entries: int
    window_bytes: int
    frame_bytes: int
    spool_part_bytes: int
    send_window: int
    out_of_order_max: int
    nack_rows_max: int
    claims_tick: int
    spool_grace: int
    spool_behind_rows: int
    collect_interval: int
    collect_rows: int
    handoff_retry: int
    expiry: int
    """Time after which an absent host expires; 0 = never."""
    spool_bytes_max: int
    """0 = no limit."""
    queue_max: int
    added_count: int
    """Stations that join."""
    retired_count: int
    """Stations that are retired in order."""
    lost_count: int
    """Stations that are given up for lost."""
    lost_alive: bool
    """... although they live."""
    release: bool
    """The hosts of lost stations are not waited for, once the faults have ended."""
    copies: int
    """Stations that must have a message before it counts as stored."""
    lean_bytes: int
    """Mail of so many bytes and more has its body only where it is needed; 0: none."""
    lean_blind: bool
    """... and nobody guesses where that is."""
    skew: int
    """Clocks of the stations are up to this far off."""
    topics: int
    """0: no topics."""
    on_topic: float
    """Share of messages that are sent on a topic, and of these ..."""
    retain: float
    """... those that are retained."""
    clear: float
    """Share of the retained ones that clear the last value."""
    changes_count: int
    """Subscriptions, and ends of them."""
    rights_count: int
    """Rights that are given or taken."""
    rights_spread: int
    """Stations hear of new rights so late at most."""
    presence: bool
    presence_grace: int
    live: int
    """Live messages, or groups of them; 0: none."""
    live_delta: int
    live_skew: int
    live_entries: int
    live_loss: float
    """Share of live frames that are lost, and ..."""
    live_slow: float
    """... that come later by up to delta."""
    live_steps: int
    """Times that a station's clock is set wrong, and right again."""
    clusters: bool
    """Stations are in clusters."""
    gateways_count: int
    """Times that an active gateway crashes."""
    layouts_count: int
    """Times that the clusters change."""
    heartbeat: int

    def link_model(self) -> LinkModel:
        """How the links behave in the fault phase."""
        return LinkModel(
            radio_delay=(self.radio_delay // 10, self.radio_delay), radio_loss=self.radio_loss,
            radio_late=20 * self.radio_delay, queue_max=self.queue_max, notice_max=10 * self.radio_delay,
            wired_delay=(self.wired_delay // 10, self.wired_delay), wired_loss=self.wired_loss,
            wired_repeat=self.wired_repeat, wired_slow=self.wired_slow,
        )  # fmt: skip

    def settings(self) -> Settings:
        """The stations' settings, scaled down to the delays of the links."""
        expires = self.expiry or 30 * DAY
        return Settings(
            window_entries=self.window_entries, window_bytes=self.window_bytes, frame_bytes=self.frame_bytes,
            claims_tick=self.claims_tick, nack_timeout=3 * self.claims_tick + 2 * self.wired_delay,
            poll_timeout=6 * self.claims_tick + 2 * self.wired_delay, poll_timeout_max=SECOND,
            copies=self.copies, lean_bytes=self.lean_bytes,
            send_window=self.send_window, out_of_order_max=self.out_of_order_max, nack_rows_max=self.nack_rows_max,
            nack_bytes_max=40 * self.nack_rows_max + 60,
            heartbeat=self.heartbeat, down_after=3 * self.heartbeat,
            presence_grace=self.presence_grace, spool_grace=self.spool_grace, spool_behind_rows=self.spool_behind_rows,
            spool_behind_time=10 * self.spool_grace, spool_bytes_max=self.spool_bytes_max or 256 << 20,
            away_max=expires, ephemeral_away_max=min(expires, 60 * SECOND),
            collect_interval=self.collect_interval, collect_rows=self.collect_rows,
            handoff_retry=self.handoff_retry, handoff_retry_max=max(self.handoff_retry, 500 * MS),
            pull_retry=self.handoff_retry, pull_retry_max=max(self.handoff_retry, 500 * MS),
            custody_retry=2 * self.handoff_retry, custody_retry_max=2 * SECOND,
            spool_part_bytes=self.spool_part_bytes, spool_parts_per_answer=1 + self.spool_part_bytes % 4,
            wait_interval=300 * MS, attach_interval=5 * MS, attach_burst=20, takeovers_max=1_000_000,
            silence_slack=500 * MS,
            live_delta=self.live_delta, live_skew=self.live_skew, live_entries=self.live_entries,
            clock_settle=200 * MS if self.expiry else 3_600 * SECOND,
        )  # fmt: skip

    def agent_settings(self) -> AgentSettings:
        """The agents' settings, scaled down likewise."""
        round_trip = 2 * self.radio_delay + 4 * self.wired_delay
        return AgentSettings(
            ack_entries=max(1, self.window_entries // 4), ack_delay=5 * self.radio_delay,
            ping_active=SECOND, ping_idle=SECOND, answer_timeout=max(500 * MS, 5 * round_trip), freeze=500 * MS,
            suspect_timeout=max(100 * MS, 2 * round_trip), wait_grace=SECOND,
            attach_timeout=max(50 * MS, 3 * round_trip), backoff=20 * MS, backoff_max=300 * MS, settled=300 * MS,
            hold_min=100 * MS, hold_max=300 * MS,
        )  # fmt: skip

    def banner(self) -> str:
        """All options on one line."""
        return " ".join(f"{name}={value}" for name, value in asdict(self).items())


def draw(scenario: str, seed: int, overrides: Mapping[str, Any] | None = None) -> Options:
    """The options of a seed. Raises ValueError for an unknown scenario or option."""
    if scenario not in SCENARIOS:
        raise ValueError(f"no scenario {scenario!r}; there are {', '.join(SCENARIOS)}")
    flavour = stream(seed, "flavour").choice(FLAVOURS) if scenario in ("topics", "mixed-live") else scenario
    flavour = "group" if scenario == "composite" else flavour
    drawn = _draw(flavour, seed) | _draw_operators(flavour, seed) | _draw_topics(scenario, seed)
    drawn |= _draw_live(scenario, seed) | _draw_clusters(scenario, seed)
    known = {field.name for field in fields(Options)}
    for name, value in (overrides or {}).items():
        if name not in known:
            raise ValueError(f"no option {name!r}")
        drawn[name] = value
    return Options(**drawn)


def _draw(scenario: str, seed: int) -> dict[str, Any]:
    few, long, group = scenario == "few", scenario == "long", scenario == "group"

    def pick(name: str, *choices: Any) -> Any:
        return stream(seed, name).choice(choices)

    def between(name: str, low: int, high: int) -> int:
        return stream(seed, name).randint(low, high)

    messages = between("messages", 150, 400) if long else between("messages", 8, 50)
    pace = pick("pace", 500, 2 * MS, 8 * MS, 30 * MS)
    duration = min(max(messages * pace, 200 * MS), 20 * SECOND if long else 3 * SECOND)
    effort = 4 if long else 1
    expiry = 0 if group else pick("expiry", 0, 0, 0, 0, 0, 0, 50 * MS, 300 * MS)
    return {
        "stations": between("stations", 1, 4)
        if group
        else between("stations", 2, 4)
        if few
        else between("stations", 2, 6),
        "hosts": between("hosts", 1, 3) if few else between("hosts", 1, 12),
        "late_hosts": pick("late_hosts", 0, 0, 1, 2),
        "messages": messages,
        "duration": duration,
        "mail": pick("mail", 0.0, 0.3, 0.6, 0.9),
        "unknown": pick("unknown", 0.0, 0.0, 0.1),
        "burst": pick("burst", 0.0, 0.1, 0.5),
        "padding": pick("padding", 0, 20, 200),
        "hops_count": between("hops", 10, 60) if few else effort * between("hops", 0, 30),
        "storm": pick("storm", 0.0, 0.3, 0.7),
        "cuts_count": effort * between("cuts", 0, 12),
        "radio_delay": pick("radio_delay", MS, 4 * MS, 15 * MS),
        "radio_loss": pick("radio_loss", 0.0, 0.0, 0.01, 0.1),
        "wired_delay": pick("wired_delay", MS, 5 * MS, 20 * MS),
        "wired_loss": pick("wired_loss", 0.0, 0.05, 0.3),
        "wired_repeat": pick("wired_repeat", 0.0, 0.05, 0.3),
        "wired_slow": pick("wired_slow", 0.0, 0.05, 0.2),
        "partitions_count": effort * pick("partitions", 0, 0, 1, 3),
        "one_by_one": pick("one_by_one", True, False),
        "crash_per_effect": pick("crash_per_effect", 0.0, 0.0, 0.002, 0.01),
        "crashes_count": effort * pick("crashes", 0, 1, 3, 6),
        "freezes_count": effort * pick("freezes", 0, 0, 2),
        "full_per_write": pick("full_per_write", 0.0, 0.0, 0.0, 0.01),
        "kills_count": effort * pick("kills", 0, 0, 2, 5),
        "kill_per_effect": pick("kill_per_effect", 0.0, 0.0, 0.005),
        "naps_count": effort * pick("naps", 0, 1, 4),
        "wipes_count": pick("wipes", 0, 0, 0, 0, 1, 2),
        "leaves_count": pick("leaves", 0, 0, 0, 0, 0, 1),
        "vanish": between("vanish", 0, 9) == 0,
        "away": pick("away", 0.0, 0.3, 0.6, 1.0),
        "restart_empty": pick("restart_empty", True, False),
        "lazy": pick("lazy", 0.0, 0.3, 1.0),
        "window_entries": pick("window_entries", 1, 2, 4, 8, 512, 512),
        "window_bytes": pick("window_bytes", 300, 2_000, 1 << 20, 1 << 20),
        "frame_bytes": pick("frame_bytes", 100, 400, 48 << 10),
        "spool_part_bytes": pick("spool_part_bytes", 50, 300, 1_001),
        "send_window": pick("send_window", 1, 2, 8, 1_024, 1_024),
        "out_of_order_max": pick("out_of_order_max", 1, 3, 8, 1_024),
        "nack_rows_max": pick("nack_rows_max", 1, 3, 256),
        "claims_tick": pick("claims_tick", MS, 5 * MS, 20 * MS),
        "spool_grace": pick("spool_grace", 10 * MS, 60 * MS, 400 * MS),
        "spool_behind_rows": pick("spool_behind_rows", 2, 10, 100),
        "collect_interval": pick("collect_interval", 10 * MS, 80 * MS, 400 * MS),
        "collect_rows": pick("collect_rows", 3, 20, 1_000),
        "handoff_retry": pick("handoff_retry", 15 * MS, 60 * MS),
        "expiry": expiry,
        "spool_bytes_max": 0 if group else pick("spool_bytes_max", *[0] * 15, 400),
        "queue_max": pick("queue_max", 3, 1_000, 1_000, 1_000),
        "skew": pick("skew", 0, 50 * MS, 5 * SECOND),
    }


def _draw_operators(scenario: str, seed: int) -> dict[str, Any]:
    def pick(name: str, *choices: Any) -> Any:
        return stream(seed, name).choice(choices)

    group = scenario == "group"
    return {
        "copies": pick("copies", 1, 1, 2),
        "lean_bytes": pick("lean_bytes", 0, 0, 1, 100),
        "lean_blind": pick("lean_blind", True, False),
        "added_count": pick("added", 0, 1, 1, 2, 3) if group else 0,
        "retired_count": pick("retired", 0, 0, 1, 1, 2) if group else 0,
        "lost_count": pick("lost", 0, 0, 1, 1, 2) if group else 0,
        "lost_alive": pick("lost_alive", True, False, False),
        "release": pick("release", True, False),
    }


def _draw_topics(scenario: str, seed: int) -> dict[str, Any]:
    def pick(name: str, *choices: Any) -> Any:
        return stream(seed, name).choice(choices)

    topics = pick("topics", 1, 1, 2, 3) if scenario in ("topics", "mixed-live") else 0
    return {
        "topics": topics,
        "on_topic": pick("on_topic", 0.4, 0.6, 0.9) if topics else 0.0,
        "retain": pick("retain", 0.0, 0.3, 0.7),
        "clear": pick("clear", 0.0, 0.0, 0.2),
        "changes_count": stream(seed, "changes").randint(4, 40) if topics else 0,
        "rights_count": pick("rights", 0, 0, 3, 8, 15) if topics else 0,
        "rights_spread": pick("rights_spread", 0, 5 * MS, 50 * MS, 400 * MS),
        "presence": bool(topics) and pick("presence", True, False),
        "presence_grace": pick("presence_grace", 5 * MS, 50 * MS, 300 * MS),
    }


def _draw_live(scenario: str, seed: int) -> dict[str, Any]:
    """Clocks are as far off as live service allows, and a stamp may run ahead of its clock by some microseconds."""
    if scenario != "mixed-live":
        fixed = {"live_delta": 500 * MS, "live_skew": 50 * MS, "live_entries": 4}
        return {"live": 0, **fixed, "live_loss": 0.0, "live_slow": 0.0, "live_steps": 0}

    def pick(name: str, *choices: Any) -> Any:
        return stream(seed, name).choice(choices)

    skew = pick("live_skew", 0, 2 * MS, 20 * MS)
    return {
        "live": stream(seed, "live").randint(10, 120),
        "live_delta": pick("live_delta", 30 * MS, 100 * MS, 400 * MS),
        "live_loss": pick("live_loss", 0.0, 0.1, 0.3),
        "live_slow": pick("live_slow", 0.0, 0.1, 0.5),
        "live_entries": pick("live_entries", 0, 1, 4, 4),
        "live_steps": pick("live_steps", 0, 0, 1, 4),
        "wired_loss": pick("live_wired_loss", 0.0, 0.0, 0.0, 0.05, 0.3),
        "duration": pick("live_duration", 600 * MS, 1500 * MS, 3 * SECOND),
        "skew": skew,
        "live_skew": 2 * skew + MS,
    }


def _draw_clusters(scenario: str, seed: int) -> dict[str, Any]:
    if scenario != "composite":
        return {"clusters": False, "gateways_count": 0, "layouts_count": 0, "heartbeat": SECOND}

    def pick(name: str, *choices: Any) -> Any:
        return stream(seed, name).choice(choices)

    return {
        "clusters": True,
        "stations": pick("composite stations", 3, 4, 5, 5, 6, 6, 7, 8, 9),
        "gateways_count": pick("gateways", 0, 1, 2, 4),
        "layouts_count": pick("layouts", 0, 0, 1, 2),
        "duration": pick("composite duration", 300 * MS, SECOND, 2 * SECOND),
        "heartbeat": pick("heartbeat", 80 * MS, 250 * MS, SECOND),
    }
