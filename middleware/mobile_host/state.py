"""The durable state of an agent: the facts of a `Save`, and the image that they make up.

`AgentImage.apply` is the reference meaning of every fact. The simulator's disk is this class; the state file holds the
same facts as records. What must be durable before what: overview section 7.

    fact                            durable before
    NewIncarnation                  its first HELLO
    Queued                          its DATA, and before `submit`'s caller is told
    Sent                            the DATA of every number up to it
    Welcomed                        ACK(e, at)
    Acked                           the ACK, PING, HELLO or SEEN that says it, and before `ack` returns
    LateAck                         before `ack` returns
    OutboxTrimmed                   the Acked that covers an own message of its range (the same Save at the latest)
    Told                            nothing: without it a notice is told again
    SubsEnded: what has ended       ACK(e, at) of the session whose WELCOME says it: it is not said again
    SubsEnded: what it knows        nothing: without it an end is told again
    Epoch                           the HELLO that says it (a late HELLO of an earlier life would pass for a newer one)
    Stations                        nothing: without it the list of before is used
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any, Final

from roamcast.middleware.rows import Kind, MessageId

Station = tuple[str, int, str, bytes]
"""(id, slot, endpoint, CURVE public key Z85), as in WELCOME."""


SENT_KINDS: Final = (0, Kind.TOPIC, Kind.RETAINED, Kind.SUB, Kind.UNSUB)
"""See Queued."""


@dataclass(slots=True, frozen=True)
class Checkpoint:
    """Everything but the outbox and the late acknowledgements: what a compacted state begins with."""

    incarnation: int
    epoch: int
    last: int
    le: int
    c: int
    highest: int
    gap: bool
    lost: bool
    tx: int = -1
    """-1: not known, all may have been on a link (written by a former release)."""


@dataclass(slots=True, frozen=True)
class NewIncarnation:
    """A new identity: own numbers start at 1, the outbox is empty. `lost`: StateLost is still to be told."""

    incarnation: int
    last: int
    """Slot of the station that enrolled the host."""
    lost: bool


@dataclass(slots=True, frozen=True)
class Epoch:
    """Attempts up to `e` have been made."""

    e: int


@dataclass(slots=True, frozen=True)
class Queued:
    """An own message took its number and waits in the outbox."""

    number: int
    to: str | None
    """Addressee, or topic; None: every host."""
    body: bytes
    sent: bool = True
    """It goes, or may have gone, on a link at once; else `Sent` comes before it does."""
    kind: int = 0
    """As in TopicData; 0: a broadcast or mail."""


@dataclass(slots=True, frozen=True)
class Sent:
    """Own messages with number <= upto may have been on a link."""

    upto: int


@dataclass(slots=True, frozen=True)
class OutboxTrimmed:
    """Own messages with number <= upto are stored at a station."""

    upto: int


@dataclass(slots=True, frozen=True)
class Welcomed:
    """Session `le` is open at station `last`; positions start at `c`; own messages up to `lastseq` are stored."""

    last: int
    le: int
    c: int
    gap: bool
    """A Discontinuity is to be told."""
    lastseq: int
    lost: bool = False
    """StateLost is to be told: the stations know an older incarnation of the name."""


@dataclass(slots=True, frozen=True)
class Acked:
    """The application has everything of session `le` up to position `c`; late acknowledgements `forget` are covered."""

    le: int
    c: int
    forget: tuple[MessageId, ...] = ()
    seen: tuple[tuple[int, int], ...] = ()
    """(slot, n) that changed: of that slot's messages to this host all up to n are acknowledged, or were not owed."""


@dataclass(slots=True, frozen=True)
class LateAck:
    """The application has the message (slot, n), whose position in the next session is not known yet."""

    slot: int
    n: int


@dataclass(slots=True, frozen=True)
class Told:
    """The application has every Discontinuity and StateLost so far."""


@dataclass(slots=True, frozen=True)
class SubsEnded:
    """Subscriptions that have ended without the host's doing, by their SUBs; news beside what is known."""

    ended: tuple[tuple[int, int, str], ...] = ()
    """(slot, n, topic), as in Welcome: the application is to be told."""
    told: tuple[MessageId, ...] = ()
    """It knows; remembered, for stations may say it again."""
    settled: tuple[MessageId, ...] = ()
    """No station says it any more."""


@dataclass(slots=True, frozen=True)
class Stations:
    """The stations that serve hosts now, in place of all that was known."""

    stations: tuple[Station, ...]


Fact = (
    Checkpoint
    | NewIncarnation
    | Epoch
    | Queued
    | Sent
    | OutboxTrimmed
    | Welcomed
    | Acked
    | LateAck
    | Told
    | Stations
    | SubsEnded
)


_FACTS: Final[tuple[type[Any], ...]] = (
    Checkpoint,
    NewIncarnation,
    Epoch,
    Queued,
    OutboxTrimmed,
    Welcomed,
    Acked,
    LateAck,
    Told,
    Stations,
    Sent,
    SubsEnded,
)
"""A fact's tag on disk is its index here: append only."""

_FIELDS: Final = {kind: (tag, [field.name for field in fields(kind)]) for tag, kind in enumerate(_FACTS)}


def to_plain(fact: Fact) -> list[Any]:
    """Tag and fields, for an encoder. Without topics it is what a release that knew none can read."""
    tag, names = _FIELDS[type(fact)]
    plain = [tag, *[getattr(fact, name) for name in names]]
    return plain[:-1] if isinstance(fact, Queued) and not fact.kind else plain


def _ids(plain: Any) -> tuple[MessageId, ...]:
    return tuple((slot, n) for slot, n in plain)


def from_plain(plain: Any) -> Fact:
    """The fact of `to_plain`, its tuples perhaps lists. Raises TypeError, ValueError or IndexError for other things."""
    tag, *values = plain
    if _FACTS[tag] is Acked:
        le, c, forget, seen = values
        return Acked(le, c, _ids(forget), _ids(seen))
    if _FACTS[tag] is SubsEnded:
        ended, told, settled = values
        return SubsEnded(tuple((slot, n, topic) for slot, n, topic in ended), _ids(told), _ids(settled))
    if _FACTS[tag] is Stations:
        return Stations(tuple((id_, slot, endpoint, key) for id_, slot, endpoint, key in values[0]))
    fact: Fact = _FACTS[tag](*values)
    if isinstance(fact, Queued) and fact.kind not in SENT_KINDS:
        raise ValueError(f"a message of kind {fact.kind}, of a later release")
    return fact


@dataclass(slots=True)
class AgentImage:
    """The whole durable content of an agent's state, as plain objects. Incarnation 0: there is no state yet."""

    incarnation: int = 0
    epoch: int = 0
    last: int = 0
    le: int = 0
    c: int = 0
    highest: int = 0
    """Highest own number given."""
    tx: int = 0
    """Own numbers up to this may have been on a link."""
    gap: bool = False
    lost: bool = False
    outbox: dict[int, tuple[str | None, bytes, int]] = field(default_factory=dict)
    """Own number -> (addressee or topic or None, body, kind), ascending; see Queued."""
    late: dict[MessageId, None] = field(default_factory=dict)
    """Late acknowledgements, oldest first."""
    seen: dict[int, int] = field(default_factory=dict)
    """Slot -> n, see Acked."""
    ended: dict[MessageId, str | None] = field(default_factory=dict)
    """SUB -> topic of a subscription that has ended; None: the application knows."""
    stations: tuple[Station, ...] = ()
    """The newest list that a station told; () = none yet."""

    def apply(self, fact: Fact) -> None:
        """Apply one fact."""
        match fact:
            case Acked(le, c, forget, seen):
                if le == self.le:
                    self.c = c
                self.seen.update(seen)
                for message_id in forget:
                    self.late.pop(message_id, None)
            case Queued(number, to, body, sent, kind):
                self.outbox[number] = (to, body, kind)
                self.highest = max(self.highest, number)
                self.tx = max(self.tx, number) if sent else self.tx
            case Sent(upto):
                self.tx = max(self.tx, upto)
            case OutboxTrimmed(upto):
                self._trim(upto)
            case LateAck(slot, n):
                self.late[slot, n] = None
            case Welcomed(last, le, c, gap, lastseq, lost):
                self.lost = self.lost or lost
                self.last, self.le, self.c = last, le, c
                self.epoch = max(self.epoch, le)
                self.gap = self.gap or gap
                self._trim(lastseq)
            case Epoch(e):
                self.epoch = max(self.epoch, e)
            case Told():
                self.gap = self.lost = False
            case SubsEnded():
                self._end(fact)
            case Stations(stations):
                self.stations = stations
            case NewIncarnation(incarnation, last, lost):
                self.incarnation, self.last = incarnation, last
                self.le = self.c = self.highest = self.tx = 0
                self.lost = self.lost or lost
                self.outbox, self.seen, self.ended = {}, {}, {}
            case Checkpoint():
                self.incarnation, self.epoch, self.last = fact.incarnation, fact.epoch, fact.last
                self.le, self.c, self.highest, self.gap, self.lost = fact.le, fact.c, fact.highest, fact.gap, fact.lost
                self.tx = fact.highest if fact.tx < 0 else fact.tx
                self.outbox, self.late, self.seen, self.ended, self.stations = {}, {}, {}, {}, ()

    def snapshot(self) -> tuple[Fact, ...]:
        """Facts that make a new image equal to this one."""
        head = Checkpoint(
            self.incarnation, self.epoch, self.last, self.le, self.c, self.highest, self.gap, self.lost, self.tx
        )
        queued = [Queued(number, to, body, number <= self.tx, kind) for number, (to, body, kind) in self.outbox.items()]
        late = [LateAck(slot, n) for slot, n in self.late]
        known = tuple(sub for sub, topic in self.ended.items() if topic is None)
        ends = SubsEnded(tuple((*sub, topic) for sub, topic in self.ended.items() if topic is not None), known)
        acked = Acked(self.le, self.c, (), tuple(self.seen.items()))
        return (head, *queued, *late, acked, Stations(self.stations), *([ends] if self.ended else []))

    def _end(self, fact: SubsEnded) -> None:
        self.ended.update({(slot, n): topic for slot, n, topic in fact.ended})
        self.ended.update(dict.fromkeys(fact.told))
        for sub in fact.settled:
            self.ended.pop(sub, None)

    def _trim(self, upto: int) -> None:
        while self.outbox and (first := next(iter(self.outbox))) <= upto:
            del self.outbox[first]
