"""The settings of the group, keys `settings/<name>`: the same at every station, set at any of them.

Those of the protocol cores stand here as far as an operator has business with them; the other timers of
`middleware.settings.Settings` must agree with each other and keep their defaults.
"""

from __future__ import annotations

import difflib
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

from roamcast.middleware.settings import DAY, MIB, MS, SECOND, Settings
from roamcast.mss_station.cluster_text import FLAT, FORM, read_clusters
from roamcast.mss_station.errors import SchemaError
from roamcast.transport.limits import BODY_BYTES_MAX, ENDED_MAX, INT64_MAX, LIVE_ENTRIES_MAX, SLOT_MAX
from roamcast.transport.units import DURATIONS, SIZES, read_number, show_number

Plain = int | str
"""The value of a setting: whole microseconds, bytes or a count; one of a few words; or how stations are clustered."""

YEAR: Final = 366 * DAY
AT_ONCE: Final = "takes effect at every station as soon as it has arrived there"
AT_START: Final = "takes effect at the next start of each station whose station.toml does not say otherwise"


class Kind(Enum):
    """How a setting is written."""

    DURATION = "duration"
    BYTES = "bytes"
    COUNT = "count"
    WORD = "word"
    CLUSTERS = "clusters"


UNITS: Final = {Kind.DURATION: DURATIONS, Kind.BYTES: SIZES}


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting: what it means, what it may be, and when a change takes effect."""

    name: str
    kind: Kind
    about: str
    default: Plain
    least: int = 1
    most: int = INT64_MAX
    words: tuple[str, ...] = ()
    effect: str = AT_ONCE
    """When and where a change takes effect, for a person."""
    field: str = ""
    """Its name in `Settings`; "": it is not one of the cores."""

    @property
    def wanted(self) -> str:
        """What a value must be, for a person."""
        if self.kind is Kind.WORD:
            return "one of " + ", ".join(self.words)
        if self.kind is Kind.CLUSTERS:
            return f"{FLAT}, or NAME: STATIONS / NAME: STATIONS / standbys: STATIONS (such as {FORM})"
        least, most = self.show(self.least), self.show(self.most)
        what = {Kind.DURATION: "a duration", Kind.BYTES: "a size", Kind.COUNT: "a whole number"}[self.kind]
        bounds = f"of at least {least}" if self.most == INT64_MAX else f"from {least} to {most}"
        example = {Kind.DURATION: " (30d, 10s, 250ms)", Kind.BYTES: " (64KiB, 8GiB)", Kind.COUNT: ""}[self.kind]
        return f"{what} {bounds}{example}"

    def check(self, value: Any) -> Plain:
        """`value`, if this setting may have it. Raises SchemaError."""
        if self.kind is Kind.WORD:
            good = value in self.words
        elif self.kind is Kind.CLUSTERS:
            good = isinstance(value, str)
            if good:
                read_clusters(value)
        else:
            good = type(value) is int and self.least <= value <= self.most
        if not good:
            shown = self.show(value) if type(value) is int and self.kind is not Kind.WORD else repr(value)
            raise SchemaError(f"{self.name} must be {self.wanted}, not {shown}")
        return value  # type: ignore[no-any-return]

    def read(self, text: str) -> Plain:
        """The value that a person wrote. Raises SchemaError."""
        if self.kind is Kind.WORD:
            return self.check(text)
        if self.kind is Kind.CLUSTERS:
            return str(read_clusters(text))
        number = read_number(text, UNITS.get(self.kind, {}))
        if number is None:
            raise SchemaError(f"{self.name} must be {self.wanted}, not {text!r}")
        if text.strip().isdigit() and self.kind is Kind.DURATION and not self.least <= number <= self.most:
            raise SchemaError(f"{self.name} must be {self.wanted}; {text} without a unit counts microseconds")
        return self.check(number)

    def show(self, value: Plain) -> str:
        """`value` as a person writes it."""
        units = UNITS.get(self.kind)
        if self.kind is Kind.CLUSTERS:
            return str(value) or FLAT
        return str(value) if units is None or isinstance(value, str) else show_number(value, units)


def _core(name: str, kind: Kind, about: str, least: int = 1, most: int = INT64_MAX) -> Setting:
    field_name = name.replace("-", "_")
    return Setting(name, kind, about, getattr(Settings(), field_name), least, most, field=field_name)


LEAN: Final = (
    "mail from this size on is stored only where its addressee probably is, which saves traffic and disk; a host that"
    " has moved gets it a round trip later, and it is lost with the stations that have it. 0, or copies 2: everywhere"
)
LIVE_DELTA: Final = "a live message that is older is given to nobody; a change stops live messages for that long"
LIVE_SKEW: Final = "clocks of stations may differ by this; one whose clock is further off has no live service"
LIVE_ENTRIES: Final = (
    "live messages that one names as coming before it (MAX_CB); fewer: shorter messages, longer waits; 0: each "
    "waits until all before it is over, so that hardly any is in time"
)
CLUSTERS: Final = (
    "how stations are split into clusters: a station in several is their gateway and passes messages on, a standby"
    " takes over when it is silent; a station that is named nowhere is in the first one. See `mss-station plan`"
)
PUBLISH_PEERS: Final = 8
"""Measured: docs/protocols/station-link.md, 'Cost'."""
PUBLISH: Final = "stations with more peers than this publish what is for all by PUB/SUB, on a port of its own"
SETTINGS: Final = {
    setting.name: setting
    for setting in (
        _core("message-bytes-max", Kind.BYTES, "largest message body that a host may send", 1, BODY_BYTES_MAX),
        _core("copies", Kind.COUNT, "stations that have a message before its sender is told that it is stored", 1, 2),
        Setting("lean-bodies", Kind.BYTES, LEAN, Settings().lean_bytes, 0, BODY_BYTES_MAX, field="lean_bytes"),
        _core("window-entries", Kind.COUNT, "messages sent to a host that it has not acknowledged", 1, 1 << 16),
        _core("window-bytes", Kind.BYTES, "the same, in bytes", 1 << 10, 1 << 30),
        _core("spool-grace", Kind.DURATION, "how long a host is away until its messages are spooled", MS, DAY),
        _core("spool-bytes-max", Kind.BYTES, "spool of one absent host; beyond it its messages are given up", 1 << 10),
        _core("away-max", Kind.DURATION, "how long a host may be away until its messages are given up", SECOND, YEAR),
        _core("ephemeral-away-max", Kind.DURATION, "the same for a host that keeps no state", SECOND, YEAR),
        _core("retain-bytes", Kind.BYTES, "log of a station, then hosts wait; 10 % of the disk stay free too", MIB),
        _core("retain-rows", Kind.COUNT, "the same, in messages", 1_000),
        _core("attach-interval", Kind.DURATION, "a host may attach once in this time", MS, DAY),
        _core("attach-burst", Kind.COUNT, "and so often at once", 1, 10_000),
        _core("silence-slack", Kind.DURATION, "a host is hung up after two ping intervals and this", SECOND, DAY),
        _core("heartbeat", Kind.DURATION, "a station that has nothing to say says so this often", 100 * MS, DAY),
        _core("down-after", Kind.DURATION, "a station that is silent for this long counts as down", 200 * MS, DAY),
        _core("clock-settle", Kind.DURATION, "uptime since the clock jumped until time may expire hosts", SECOND, YEAR),
        Setting(
            "presence", Kind.WORD, "stations say on topics $presence/<host> who is attached; costs a row an attachment",
            "off", words=("off", "on"),
        ),
        _core("presence-grace", Kind.DURATION, "how long without a connection until a host counts as away", MS, DAY),
        Setting(
            "topics-per-host", Kind.COUNT, "subscriptions of one host; the presence of hosts counts too",
            Settings().topics_max, 1, ENDED_MAX, field="topics_max",
        ),
        Setting(
            "mail-bytes", Kind.BYTES, "station mail to one station that it has not acknowledged; then `send` refuses",
            64 * MIB, MIB, 1 << 30,
        ),
        Setting(
            "mail-inbox-bytes", Kind.BYTES, "station mail that was not taken at a station; then it takes in no more",
            64 * MIB, MIB, 1 << 30,
        ),
        Setting(
            "logs-keep", Kind.DURATION, "how long closed segments of a station's delivery log are kept", 30 * DAY,
            3_600 * SECOND, YEAR,
        ),
        Setting(
            "log-level", Kind.WORD, "least level of what stations log", "info",
            words=("debug", "info", "warning", "error"), effect=f"{AT_ONCE}, unless `run --log-level` says otherwise",
        ),
        Setting("clusters", Kind.CLUSTERS, CLUSTERS, ""),
        _core("live-delta", Kind.DURATION, LIVE_DELTA, 10 * MS, 60 * SECOND),
        _core("live-skew", Kind.DURATION, LIVE_SKEW, MS, 10 * SECOND),
        _core("live-entries", Kind.COUNT, LIVE_ENTRIES, 0, LIVE_ENTRIES_MAX),
        Setting("publish-peers", Kind.COUNT, PUBLISH, PUBLISH_PEERS, 1, SLOT_MAX),
        Setting(
            "spacing-us", Kind.COUNT, "microseconds between two ticks for each attached host; 0: least latency", 20,
            0, SECOND, effect=AT_START,
        ),
        Setting(
            "durability", Kind.WORD, "what a commit survives: loss of power, or the end of the process", "power",
            words=("power", "process"), effect=AT_START,
        ),
    )
}  # fmt: skip

PAIRS: Final = (("heartbeat", "down-after"), ("ephemeral-away-max", "away-max"))
"""The first must not be above the second."""

LOG_LEVELS: Final = {word: getattr(logging, word.upper()) for word in SETTINGS["log-level"].words}


def setting(name: str) -> Setting:
    """The setting of this name. Raises SchemaError, which says what there is."""
    if name in SETTINGS:
        return SETTINGS[name]
    near = difflib.get_close_matches(name.lower().replace("_", "-"), SETTINGS, 3, 0.5) or _sharing_words(name)
    hint = f"did you mean {', '.join(near)}?" if near else "`mss-station config list DIR --settings` shows all"
    raise SchemaError(f"unknown setting {name!r}; {hint}")


def _sharing_words(name: str) -> list[str]:
    words = set(name.lower().replace("_", "-").split("-"))
    return [other for other in SETTINGS if words & set(other.split("-"))][:3]


def contradictions(values: Mapping[str, Plain]) -> list[tuple[str, str]]:
    """The pairs of PAIRS that are the wrong way round, where a setting without a value has its default."""
    held = {name: values.get(name, one.default) for name, one in SETTINGS.items()}
    return [(low, high) for low, high in PAIRS if held[low] > held[high]]  # type: ignore[operator]


def check_pairs(values: Mapping[str, Plain], changed: str) -> None:
    """Raise SchemaError if the new value of `changed` contradicts another setting."""
    for low, high in contradictions(values):
        if changed in (low, high):
            raise SchemaError(f"{low} must not be above {high}")


def core_settings(values: Mapping[str, Plain]) -> Settings:
    """What the cores are given. Of a pair that contradicts itself (two stations wrote at once) both have defaults."""
    void = {name for pair in contradictions(values) for name in pair}
    chosen: dict[str, Any] = {
        SETTINGS[name].field: value for name, value in values.items() if SETTINGS[name].field and name not in void
    }
    return Settings(**chosen)
