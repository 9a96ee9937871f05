"""What one night leaves for the next: a cut below which all is settled, and the events that are still needed.

Source: audit.md 3.4. One JSON file per day, written atomically; a night starts from the file of an earlier day and
never from its own, so that a second run of the same night is the same. The size is that of hosts and stations, not of
messages.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from roamcast.analytics.checks.completeness import Before
from roamcast.analytics.evidence import Segment
from roamcast.middleware.delivery_log import EVENTS, INTS, TEXT, WORD

SCHEMA = 1

Log = tuple[int, int]
"""(slot, generation) of a station's log."""

Row = tuple[int, tuple[Any, ...]]
"""(wall, values in the order of the event's columns)"""


@dataclass(slots=True)
class Carried:
    """The state after a night."""

    day: str = ""
    """UTC day, YYYY-MM-DD."""
    provisional: bool = False
    """Evidence was missing: the cut has not moved, and the day is to be run again when more has come."""
    held_since: str = ""
    """The first of the provisional days up to this one; empty: this one is not."""
    cut: int = 0
    """W, us: what was sent before is settled for everybody."""
    heads: dict[Log, tuple[int, str]] = field(default_factory=dict)
    """Last segment that was there and in order: (seq, chain end in hex)."""
    read_from: dict[Log, int] = field(default_factory=dict)
    """First segment that the next night reads."""
    floor: dict[int, int] = field(default_factory=dict)
    """Slot -> n: every message below is settled for everybody."""
    stamps: dict[int, dict[int, int]] = field(default_factory=dict)
    """Slot -> the stamp of its last settled message."""
    numbers: dict[tuple[int, int], int] = field(default_factory=dict)
    """(host, incarnation) -> its last settled own number."""
    ended: frozenset[int] = frozenset()
    """Stations that have ended."""
    events: dict[int, dict[str, list[Row]]] = field(default_factory=dict)
    """Slot -> event -> rows: membership, sessions that are not settled, and how far they were acknowledged."""
    left_behind: frozenset[tuple[int, int]] = frozenset()
    """(host, incarnation) of those that were away so long that messages which they are owed are below the floor."""
    has_subscriptions: bool = True
    """What stands of subscriptions is in `events`; a state of an older version lacks it."""
    reported: frozenset[str] = frozenset()
    """Findings of this and earlier nights that the next night would find again."""
    mail_unsure: frozenset[int] = frozenset()
    """Stations of whose logs something was given up: it is not known what station mail that told of."""

    def before(self) -> Before:
        """What the check of segments starts from."""
        return Before(self.heads, self.ended)

    def segments(self) -> list[Segment]:
        """The kept events, as segments that are no files."""
        return [
            Segment(
                {"writer": "station", "slot": slot, "seq": 0, "generation": 0},
                {event: columns_of(event, rows) for event, rows in events.items() if rows},
            )
            for slot, events in sorted(self.events.items())
        ]

    def text(self) -> str:
        """As JSON; equal states give equal text."""
        plain = {
            "schema": SCHEMA, "day": self.day, "provisional": self.provisional,
            "held_since": self.held_since, "cut": self.cut,
            "heads": [[*log, *head] for log, head in sorted(self.heads.items())],
            "read_from": [[*log, seq] for log, seq in sorted(self.read_from.items())],
            "floor": sorted(self.floor.items()),
            "stamps": [[slot, sorted(stamp.items())] for slot, stamp in sorted(self.stamps.items())],
            "numbers": [[*client, number] for client, number in sorted(self.numbers.items())],
            "ended": sorted(self.ended),
            "events": [[slot, dict(sorted(of.items()))] for slot, of in sorted(self.events.items())],
            "left_behind": sorted(self.left_behind), "has_subscriptions": self.has_subscriptions,
            "reported": sorted(self.reported), "mail_unsure": sorted(self.mail_unsure),
        }  # fmt: skip
        return json.dumps(plain, separators=(",", ":")) + "\n"

    @classmethod
    def parsed(cls, text: str) -> Carried:
        """Read `text`. Raises ValueError if it is no state of this schema."""
        plain = json.loads(text)
        if not isinstance(plain, dict) or plain.get("schema") != SCHEMA:
            raise ValueError("no carried state of a kind that this version knows")
        return cls(
            plain["day"],
            plain["provisional"],
            plain["held_since"],
            plain["cut"],
            {(slot, generation): (seq, end) for slot, generation, seq, end in plain["heads"]},
            {(slot, generation): seq for slot, generation, seq in plain["read_from"]},
            dict(plain["floor"]),
            {slot: dict(stamp) for slot, stamp in plain["stamps"]},
            {(host, incarnation): number for host, incarnation, number in plain["numbers"]},
            frozenset(plain["ended"]),
            {
                slot: {event: [(wall, tuple(values)) for wall, values in rows] for event, rows in of.items()}
                for slot, of in plain["events"]
            },
            frozenset((host, incarnation) for host, incarnation in plain["left_behind"]),
            plain.get("has_subscriptions", not plain["floor"]),
            frozenset(plain["reported"]),
            frozenset(plain.get("mail_unsure", ())),
        )


def columns_of(event: str, rows: list[Row]) -> dict[str, Any]:
    """Rows of one event as columns."""
    made: dict[str, Any] = {
        "seq": np.arange(len(rows), dtype=np.int64),
        "wall": np.array([wall for wall, _ in rows], np.int64),
    }
    for i, (name, kind) in enumerate(EVENTS[event].items()):
        values = [row[i] for _, row in rows]
        if kind == INTS:
            made[name + "_len"] = np.array([len(value) for value in values], np.int64)
            made[name] = np.array([number for value in values for number in value], np.int64)
        elif kind == TEXT:
            made[name] = values
        else:
            made[name] = np.array(values, np.uint64 if kind == WORD else np.int64)
    return made


STATE = "state.json"
A_DAY = "????-??-??"


def path_of(directory: Path, day: str) -> Path:
    """The file of a day's state: beside its report, so that one renaming makes both appear."""
    return directory / day / STATE


def load_before(directory: Path, day: str) -> Carried:
    """The state of the latest day before `day`; an empty one if there is none. Raises ValueError, OSError."""
    earlier = [each for each in _days(directory) if each < day]
    return load(directory, earlier[-1]) if earlier else Carried()


def load(directory: Path, day: str) -> Carried:
    """The state of a day. Raises ValueError, OSError."""
    path = path_of(directory, day)
    try:
        found = Carried.parsed(path.read_text())
        if found.day != day or Carried.parsed(found.text()) != found:
            raise ValueError("it is of another day" if found.day != day else "its values are of other kinds")
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError(f"{path} cannot be used ({error}): audit that day again") from None
    return found


def provisional_days(directory: Path, day: str) -> list[str]:
    """The days just before `day` that are to be run again, in order: those behind the last one that is settled."""
    made: list[str] = []
    for each in reversed([each for each in _days(directory) if each < day]):
        if not load(directory, each).provisional:
            break
        made.append(each)
    return made[::-1]


def save(directory: Path, state: Carried) -> None:
    """Write the state of its day and sync it. Raises OSError."""
    target = path_of(directory, state.day)
    target.parent.mkdir(parents=True, exist_ok=True)
    write(target, state)


def write(path: Path, state: Carried) -> None:
    """Write a state into a file and sync it. Raises OSError."""
    with path.open("w") as file:
        file.write(state.text())
        file.flush()
        os.fsync(file.fileno())


def _days(directory: Path) -> list[str]:
    return sorted(path.parent.name for path in directory.glob(f"{A_DAY}/{STATE}"))
