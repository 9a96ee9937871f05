"""The events of delivery logs and journals: what they are called, their columns, and how a core tells one.

Source: audit.md R2 and section 3; docs/protocols/delivery-log.md. A core appends `Logged` to its effects before the
`Persist` that makes the same fact durable; the driver makes both durable together. `ACK` alone has no such fact: it
goes with the next one, and a crash may lose it, for the host says it again in its next HELLO.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

INT, WORD, TEXT, INTS = "q", "Q", "text", "ints"
"""Types of columns: signed and unsigned 64 bits; text; a list of signed 64 bits for each row."""

ORDER, SESSION, ACK, MEMBER, HANDOFF, CLOSED, HOST = "order", "session", "ack", "member", "handoff", "closed", "host"
ENDED = "ended"
"""The SUB (slot, n) of a host was ended by a right that went; (0, 0): all of its SUBs that its station has, of whatever
topic. By then it had acknowledged position `c` of session `e`, and the order had come to `last` there: what stands
between it may have been given still. Both BEFORE: ended before that session began."""
SUBSCRIBED = "subscribed"
"""The log begins, and the host has been subscribed by the SUB (slot, n) since before that: its base covers it."""
POSTED, ARRIVED = "posted", "arrived"
"""Station mail: taken from a program here; delivered here."""
LIVE, HANDED, MISSED, UNTOLD = "live", "handed", "missed", "untold"
"""Live messages, named (slot of the station that took it, stamp): taken from a host here; handed down to hosts here;
not handed down, by cause, added up; taken and handed down without being told one by one, for there were too many."""
GIVEN, SENT, GAP, LOST = "given", "sent", "gap", "lost"
HEARD = "heard"
"""The application was given a live message."""

LIVE_EVENTS = frozenset({LIVE, HANDED, MISSED})
"""What a core tells of live messages. It is no fact of the store: nothing waits for it, and a crash may lose it."""

STATION_EVENTS: dict[str, dict[str, str]] = {
    ORDER: {
        "position": INT, "slot": INT, "n": INT, "kind": INT, "host": INT, "incarnation": WORD, "number": INT,
        "hlc": INT, "taken_e": INT, "taken_c": INT, "addressee": INT, "size": INT, "stamp": INTS,
    },
    SESSION: {
        "host": INT, "incarnation": WORD, "e": INT, "at": INT, "le": INT, "c": INT, "gap": INT, "base": INTS,
        "spool": INTS,
    },
    ACK: {"host": INT, "incarnation": WORD, "e": INT, "c": INT},
    MEMBER: {"host": INT, "incarnation": WORD, "what": INT, "base": INTS},
    HANDOFF: {"host": INT, "incarnation": WORD, "e": INT, "slot": INT},
    CLOSED: {"slot": INT, "heir": INT, "cut": INT},
    HOST: {"host": INT, "name": TEXT},
    ENDED: {
        "host": INT, "incarnation": WORD, "topic": INT, "slot": INT, "n": INT, "e": INT, "c": INT, "last": INT,
    },
    SUBSCRIBED: {"host": INT, "incarnation": WORD, "topic": INT, "slot": INT, "n": INT},
    POSTED: {"number": INT, "addressee": INT, "after": INT, "size": INT, "vector": INTS},
    ARRIVED: {"position": INT, "slot": INT, "number": INT},
    LIVE: {
        "stamp": INT, "host": INT, "incarnation": WORD, "e": INT, "number": INT, "kind": INT, "addressee": INT,
        "delta": INT, "deadline": INT, "size": INT, "horizon": INT, "past": INTS, "floor": INTS,
    },
    HANDED: {"slot": INT, "stamp": INT, "position": INT, "reading": INT, "hosts": INT},
    MISSED: {"cause": INT, "slot": INT, "count": INT},
    UNTOLD: {"taken": INT, "handed": INT},
}  # fmt: skip
"""Event -> column -> type; `seq` and `wall` stand before them in every event."""

JOURNAL_EVENTS: dict[str, dict[str, str]] = {
    GIVEN: {"e": INT, "c": INT, "slot": INT, "n": INT, "host32": INT, "number": INT},
    SENT: {"number": INT, "e": INT, "c": INT, "addressee": TEXT},
    GAP: {"e": INT, "c": INT},
    LOST: {},
    HEARD: {"e": INT, "c": INT, "slot": INT, "stamp": INT, "after": INT, "left": INT},
}

EVENTS = {**STATION_EVENTS, **JOURNAL_EVENTS}

ENROLLED, EXPIRED, LEFT = 0, 1, 2
"""`what` of MEMBER."""

CAUSES = (
    "other", "unfounded", "refused", "quiet", "delta", "ahead", "late", "duplicate", "overtaken", "full", "behind",
    "expired", "unready",
)  # fmt: skip
"""`cause` of MISSED is the place in here: new ones come behind. Source: docs/protocols/delta-causal.md."""

PLACE_SHIFT = 40
PLACE_ZERO = 1 << 39
BEFORE = 1 - PLACE_ZERO
"""A position before all of a session."""


def place(e: int, position: int) -> int:
    """Where something stands at its host: after all of earlier sessions, in the order of positions of this one."""
    return (e << PLACE_SHIFT) | (position + PLACE_ZERO)


@dataclass(slots=True, frozen=True)
class Logged:
    """An event for the delivery log; `values` in the order of the event's columns."""

    event: str
    values: tuple[Any, ...]
