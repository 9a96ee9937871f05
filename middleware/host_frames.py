"""Frames between an agent and its station (overview section 7). Up = agent to station."""

from __future__ import annotations

from dataclasses import dataclass

from roamcast.middleware.rows import Item, Kind

PROTOCOL_VERSION = (1, 1)
"""(major, minor). A peer of another major version is refused and told so."""


JOINED_AT = -(1 << 32)
"""`at` of a WELCOME that opens the first session of a new incarnation of a name that had an older one (O-3): far below
zero, so that whatever waits for the older one fits behind it."""


# ---- up ----


@dataclass(slots=True, frozen=True)
class Hello:
    """Attach: one attempt, numbered by the host's epoch."""

    version: tuple[int, int]
    name: str
    incarnation: int
    ephemeral: bool
    e: int
    """Epoch of this attempt; only the host counts it."""
    last: int
    """Slot of the last session's station (first HELLO of an incarnation: the slot that enrolled the host)."""
    le: int
    """Epoch of the last session whose WELCOME was received; 0 = none in this incarnation."""
    c: int
    """Last position acknowledged by the application in session le, cumulative."""
    una: int
    """Lowest own number not acknowledged by a station."""
    ping_s: int
    """Announced ping interval, seconds."""


@dataclass(slots=True, frozen=True)
class Ack:
    """Everything up to position c is acknowledged by the application, cumulative."""

    e: int
    c: int


@dataclass(slots=True, frozen=True)
class Data:
    """One message of the host. `c` = last position given to the application when the call was made."""

    e: int
    number: int
    c: int
    to: str | None
    """Name of the addressee; None = broadcast to all."""
    body: bytes


@dataclass(slots=True, frozen=True)
class TopicData:
    """As DATA, on a topic. It has one of the host's own numbers as well: one outbox, one order."""

    e: int
    number: int
    c: int
    kind: Kind
    """TOPIC, RETAINED (an empty body clears the last value), SUB or UNSUB."""
    topic: str
    body: bytes


@dataclass(slots=True, frozen=True)
class Ping:
    """Are you there? Acknowledges like ACK."""

    e: int
    c: int


@dataclass(slots=True, frozen=True)
class Detach:
    """Away at once; custody stays."""

    e: int


@dataclass(slots=True, frozen=True)
class Leave:
    """End membership; answered LEFT when durable."""

    e: int


@dataclass(slots=True, frozen=True)
class Seen:
    """Answer to ASK: what the host itself knows, where the station that knew it is lost (composition.md L1, L8)."""

    e: int
    seen: tuple[tuple[int, int], ...]
    """(slot, n): of that slot's messages to this host all up to n were acknowledged by the application or not owed;
    () = no station has said yet where the host stands."""
    ack: int
    """Own numbers up to this were acknowledged by a station, or came back."""
    tx: int
    """Highest own number that was ever put on a link."""
    stored: tuple[int, ...]
    """Own numbers <= ack that are not known to be stored at every station (the newest STORED_MAX of them)."""


@dataclass(slots=True, frozen=True)
class Heard:
    """Answer to UNSUBSCRIBED in session e: all that was said by then need not be said again."""

    e: int


@dataclass(slots=True, frozen=True)
class LiveData:
    """A live message of the host: taken and passed on at once, or not at all. Not answered but for LIVE_REFUSED."""

    e: int
    number: int
    """The last own number that was given before: what the message follows."""
    to: str | None
    """Name of the addressee, or of the topic; None = broadcast to all."""
    is_topic: bool
    deadline: int
    """Nobody is given it later than this, microseconds."""
    body: bytes
    tag: int = 0
    """For a LIVE_REFUSED; 0: none is wanted of what the station drops later."""


LIVE_BYTES_MAX = 64 << 10
"""Of a live body."""
STORED_MAX = 1_000


# ---- down ----


@dataclass(slots=True, frozen=True)
class Welcome:
    """The session of attempt e is open. Nothing else on the channel counts before it."""

    version: tuple[int, int]
    e: int
    lastseq: int
    """Highest own number of the host that is durable in the system."""
    gap: bool
    """Messages were missed (expiry)."""
    at: int
    """Where the session's positions start: the host's c becomes `at`. Spool entries have negative positions."""
    message_bytes_max: int
    window_entries: int
    stations: tuple[tuple[str, int, str, bytes], ...] = ()
    """(id, slot, endpoint, CURVE public key Z85) of every station that serves hosts now; () = no news."""
    passed: tuple[tuple[int, int], ...] = ()
    """(slot, n): of that slot's messages nothing up to n is owed any more; () = no statement."""
    absent: tuple[int, ...] = ()
    """Own numbers <= lastseq that no living station has, after a station was lost. Those acknowledged before are lost;
    the fate of the others is unknown, and they must not be sent again."""
    ended: tuple[tuple[int, int, str], ...] = ()
    """Subscriptions that have ended without the host's doing, until it is known to know: (slot, n) of the SUB, and the
    topic; '' = all of them, whatever their ids."""
    reading: int = 0
    """What the station's clock reads, as in LIVE_MSG; 0 = no statement."""


@dataclass(slots=True, frozen=True)
class Msg:
    """Every entry in (prev, last] that this host is owed. Taken iff prev = the host's c in hand."""

    prev: int
    last: int
    entries: tuple[tuple[int, Item], ...]
    """(position, item), positions increasing in (prev, last]. Two have one position only if the first is a SUB: the
    second is the last value of its topic."""


@dataclass(slots=True, frozen=True)
class Uack:
    """Own numbers up to `lastseq` are durable; the message `lastseq` is row (slot, n)."""

    e: int
    lastseq: int
    slot: int
    n: int


@dataclass(slots=True, frozen=True)
class Pong:
    """Answer to PING. `sent` = last position sent in this session; the host has less in hand: a frame was lost."""

    sent: int
    safe: int = 0
    """Own numbers up to this are stored at every station; 0 = no statement."""
    passed: tuple[tuple[int, int], ...] = ()
    """(slot, n): of that slot's messages nothing up to n is owed any more; () = no statement."""


@dataclass(slots=True, frozen=True)
class Ask:
    """A station is lost for good: say SEEN, in attempt or session e."""

    e: int


@dataclass(slots=True, frozen=True)
class Fates:
    """Answer to SEEN in an open session: the `stored` numbers that no living station has. They are lost."""

    e: int
    absent: tuple[int, ...]


@dataclass(slots=True, frozen=True)
class Unsubscribed:
    """Subscriptions have ended in session e without the host's doing (a right was taken back): as `Welcome.ended`.

    All that was not answered by HEARD yet; said again with every PONG.
    """

    e: int
    ended: tuple[tuple[int, int, str], ...]


@dataclass(slots=True, frozen=True)
class Move:
    """This station is being retired, or serves nobody yet: attach at another one."""

    stations: tuple[tuple[str, int, str, bytes], ...]
    """As in Welcome; () = no news."""


@dataclass(slots=True, frozen=True)
class Wait:
    """The station is working on it; no timeout of the host runs for 15 s."""

    reason: str
    station: int
    """Slot concerned, 0 = none."""
    since: int
    """UTC microseconds since when, 0 = unknown."""


@dataclass(slots=True, frozen=True)
class Reset:
    """Attempt e: the session named is unknown here; take a new incarnation."""

    e: int


@dataclass(slots=True, frozen=True)
class Stale:
    """The epoch of a HELLO is not above `highest`."""

    highest: int


@dataclass(slots=True, frozen=True)
class Replaced:
    """Session or attempt e ended: a newer attachment (e), or a newer incarnation (e = 0: for good)."""

    e: int


@dataclass(slots=True, frozen=True)
class Refused:
    """A frame was refused. Codes: see docs/protocols/host-link.md."""

    code: str
    text: str


@dataclass(slots=True, frozen=True)
class NoSession:
    """A frame other than HELLO on a channel without a session."""


@dataclass(slots=True, frozen=True)
class Left:
    """LEAVE is durable."""


@dataclass(slots=True, frozen=True)
class LiveMsg:
    """A live message, behind all that the host was sent before. Never repeated."""

    last: int
    """Position of the last frame before it. The host has less in hand: a frame was lost."""
    id: tuple[int, int]
    """(stamp, slot of the station that took it): its name everywhere."""
    sender: str
    incarnation32: int
    """Low 32 bits of the sender's incarnation."""
    kind: Kind
    """BROADCAST, MAIL or TOPIC."""
    topic: str
    """'': on none."""
    left: int
    """The application is given it within this, microseconds from `at`, or not at all."""
    at: int
    """Reading of the station's clock when it was handed down, microseconds; only differences mean anything."""
    body: bytes


@dataclass(slots=True, frozen=True)
class LiveRefused:
    """A live message of this session was not taken, or later not given to the hosts of this station; all else goes on.

    Codes: docs/protocols/delta-causal.md. Others may have been given it.
    """

    code: str
    text: str
    tag: int = 0
    """That of the LIVE_DATA."""


UpFrame = Hello | Ack | Data | TopicData | Ping | Detach | Leave | Seen | Heard | LiveData
DownFrame = (
    Welcome
    | Msg
    | Uack
    | Pong
    | Wait
    | Reset
    | Stale
    | Replaced
    | Refused
    | NoSession
    | Left
    | Ask
    | Fates
    | Move
    | Unsubscribed
    | LiveMsg
    | LiveRefused
)
