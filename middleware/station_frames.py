"""Frames between stations (overview section 8). `mh` = (host number, incarnation); vectors are indexed by slot."""

from __future__ import annotations

from dataclasses import dataclass, field

from roamcast.middleware.causal_unicast.frames import MailLinkFrame
from roamcast.middleware.fifo_broadcast.claims import Beyond
from roamcast.middleware.lan_update.records import LanFrame
from roamcast.middleware.live_frames import LiveCast, LiveClock, LiveTags
from roamcast.middleware.membership.view import GroupView, View
from roamcast.middleware.publication import PublishFrame
from roamcast.middleware.rows import MH, MessageId, Row, SpoolItem, Vector
from roamcast.middleware.writes import HostEntry, LastValue, RecordImage


@dataclass(slots=True, frozen=True)
class Link:
    """Introduces a station on a connection, and answers such an introduction."""

    version: tuple[int, int]
    group: str
    id: str
    slot: int
    generation: int
    boot: int
    starts: int
    highest_own: int
    highest_yours: int
    """Highest number known of the receiver's stream."""
    your_starts: int
    """Highest `starts` seen of the receiver."""
    wall: int
    mail_own: int = 0
    """Number of the sender's newest station mail, to anybody."""
    mail_yours: int = 0
    """Highest number of a station mail of the receiver that anything at the sender tells of."""


@dataclass(slots=True, frozen=True)
class WentBack:
    """Your store went back in time: I have seen a higher start count or own number of you, or more of your mail."""

    starts: int
    highest: int
    mail_sent: int = 0
    """Highest number of a station mail of yours that I know of."""
    mail_acked: int = 0
    """Highest number of a station mail of mine that you have acknowledged."""


@dataclass(slots=True, frozen=True)
class NoLink:
    """A frame came on a connection without LINK (the connection was renewed): say LINK again."""


@dataclass(slots=True, frozen=True)
class Refusal:
    """LINK refused for good: other group, version, slot, generation."""

    code: str
    text: str


@dataclass(slots=True, frozen=True)
class DataBatch:
    """Rows of one origin, numbers ascending. Another origin than the sender only in answer to NACK."""

    origin: int
    rows: tuple[Row, ...]
    live: LiveTags = ()


@dataclass(slots=True, frozen=True)
class Claims:
    """What the sender has: entries changed since its last CLAIMS, or all (`full`). True for ever, merged by max."""

    full: bool
    stored: tuple[tuple[int, int], ...]
    """(slot, n): every row of slot up to n is durable here (level 1)."""
    stable: tuple[tuple[int, int], ...]
    """(slot, n): I know every station has stored up to n (level 2)."""
    reduce: tuple[tuple[int, int], ...]
    """(slot, n): R of paper 000: no host in my custody needs the log up to n."""
    sent: int
    """Highest own number that I have sent for the first time."""
    hlc: int
    want: tuple[int, ...] = ()
    """Slots asked to answer with full CLAIMS."""
    view: GroupView | None = None
    """Who belongs to the group, as the sender sees it; None only from a driver that asks its own core."""
    beyond: Beyond | None = None
    """Only of a gateway between clusters."""


@dataclass(slots=True, frozen=True)
class Nack:
    """Rows first..last of `origin` are missing here."""

    origin: int
    first: int
    last: int


@dataclass(slots=True, frozen=True)
class Pull:
    """The bodies of these rows of `origin` are wanted here."""

    origin: int
    since: int
    """The asker's mark of its present view of the group; the answer repeats it."""
    numbers: tuple[int, ...]


@dataclass(slots=True, frozen=True)
class Body:
    """Answer to PULL, as far as one frame takes it."""

    origin: int
    since: int
    bodies: tuple[SpoolItem, ...]
    lacking: tuple[int, ...]
    """Of a stream that has ended: what the sender lacks, and gets from nobody unless it asks for it."""


@dataclass(slots=True, frozen=True)
class Keep:
    """The sender is about to end in order: the bodies of these rows, which it has, must be at the receiver."""

    origin: int
    numbers: tuple[int, ...]


@dataclass(slots=True, frozen=True)
class Kept:
    """Answer to KEEP: these are here durably, or not needed any more."""

    origin: int
    numbers: tuple[int, ...]


@dataclass(slots=True, frozen=True)
class HandoffReq:
    """HANDOFF_REQ: host mh attaches here in attempt e; give me its custody. Repeats what its HELLO said."""

    mh: MH
    e: int
    le: int
    c: int
    una: int
    parts: tuple[int, ...] = ()
    """Spool parts that are here already."""


@dataclass(slots=True, frozen=True)
class State:
    """STATE: custody of mh for attempt e. Counts as arrived when all `parts` spool parts are here."""

    mh: MH
    e: int
    base: Vector
    """What the host has, or the spool that follows holds."""
    sent: Vector
    """SENT of the sender: causal floor for the host's next sends."""
    lastseq: int
    last_id: MessageId
    gap: bool
    hlc: int
    parts: int
    ext: dict[str, bytes] = field(default_factory=dict)
    """Optional parts by service; unknown ones are carried on."""


@dataclass(slots=True, frozen=True)
class SpoolPart:
    """Part i (0-based) of k of the spool of mh for attempt e, in order."""

    mh: MH
    e: int
    i: int
    k: int
    entries: tuple[SpoolItem, ...]


@dataclass(slots=True, frozen=True)
class HandoffNack:
    """No session le of mh is known here."""

    mh: MH
    e: int
    order: int = 0
    """To le = 0: the place of this incarnation among the joins of its name, given by the enrolling station."""


@dataclass(slots=True, frozen=True)
class Accept:
    """mh of attempt e is served here without help: release it."""

    mh: MH
    e: int


@dataclass(slots=True, frozen=True)
class Released:
    """Answer to ACCEPT: the former record of attempt e is gone (or was already)."""

    mh: MH
    e: int


@dataclass(slots=True, frozen=True)
class Cancel:
    """Attempt e was overtaken by attempt `highest`."""

    mh: MH
    e: int
    highest: int


@dataclass(slots=True, frozen=True)
class Query:
    """Is my unconfirmed record of attempt e still promised to me?"""

    mh: MH
    e: int


@dataclass(slots=True, frozen=True)
class Probe:
    """Do you have the record, or the pending attempt, e of mh that I promised to you?"""

    mh: MH
    e: int


@dataclass(slots=True, frozen=True)
class NoRec:
    """Answer to PROBE: neither record nor pending attempt e is here, for ever."""

    mh: MH
    e: int


@dataclass(slots=True, frozen=True)
class Expire:
    """My unconfirmed record e of mh expired; `bound` is above everything ever sent to it."""

    mh: MH
    e: int
    bound: Vector


@dataclass(slots=True, frozen=True)
class XAck:
    """Answer to EXPIRE."""

    mh: MH
    e: int


@dataclass(slots=True, frozen=True)
class Spooled:
    """My record e of mh serves it from its own spool from T on: you may spool too."""

    mh: MH
    e: int


@dataclass(slots=True, frozen=True)
class Claimed:
    """The host of a lost station is in custody here, by attempt e: whatever is older can go."""

    mh: MH
    e: int


@dataclass(slots=True, frozen=True)
class Noted:
    """Answer to CLAIMED."""

    mh: MH
    e: int


@dataclass(slots=True, frozen=True)
class GroupQuery:
    """Is there a later attempt of mh than my unconfirmed one, e? Answered by CANCEL if so."""

    mh: MH
    e: int


@dataclass(slots=True, frozen=True)
class Adopt:
    """A retiring station hands a custody record to its heir; its spool follows in `parts` parts."""

    image: RecordImage
    parts: int
    shift: int
    """Positions of the sender, less this, are below all of the receiver's."""
    join_order: int
    """No join that the sender has ordered is above this."""


@dataclass(slots=True, frozen=True)
class AdoptPart:
    """Part i (0-based) of k of the spool of an adopted record: (position, item), ascending."""

    key: tuple[int, int, int]
    i: int
    k: int
    entries: tuple[tuple[int, SpoolItem], ...]


@dataclass(slots=True, frozen=True)
class Adopted:
    """The record is held durably."""

    key: tuple[int, int, int]


@dataclass(slots=True, frozen=True)
class Reserve:
    """May `slot` be given to the station of this generation?"""

    slot: int
    generation: int


@dataclass(slots=True, frozen=True)
class Reserved:
    """Answer to RESERVE: noted durably, or not, since it is another's."""

    slot: int
    generation: int
    fine: bool
    highest: int
    """Highest slot known to the sender."""


@dataclass(slots=True, frozen=True)
class SnapshotReq:
    """A newcomer asks its sponsor for rows behind position `after`, then for hosts behind number `host`, then for the
    last values of topics behind number `topic`."""

    after: int
    host: int
    topic: int = 0


@dataclass(slots=True, frozen=True)
class Snapshot:
    """A part of the sponsor's store, as it is now. Answers SNAPSHOT_REQ(after, host, topic)."""

    after: int
    host: int
    topic: int
    rows: tuple[tuple[int, Row], ...]
    """(position at the sponsor, row)."""
    hosts: tuple[HostEntry, ...]
    values: tuple[tuple[LastValue, SpoolItem], ...]
    complete: bool
    """Nothing comes behind this part: the counters below are those of the whole."""
    streams: tuple[tuple[int, int, int], ...]
    """(slot, delivered, floor)."""
    last_position: int
    hlc: int
    view: View


GroupFrame = Adopt | AdoptPart | Adopted | Reserve | Reserved | SnapshotReq | Snapshot
BodyFrame = Pull | Body | Keep | Kept

CustodyFrame = (
    HandoffReq
    | State
    | SpoolPart
    | HandoffNack
    | Accept
    | Released
    | Cancel
    | Query
    | Probe
    | NoRec
    | Expire
    | XAck
    | Spooled
    | Claimed
    | Noted
    | GroupQuery
)
LinkFrame = Link | WentBack | NoLink | Refusal
LiveFrame = LiveCast | LiveClock
PeerFrame = DataBatch | Claims | Nack | BodyFrame | CustodyFrame | GroupFrame | LanFrame | LiveCast
StationFrame = LinkFrame | PeerFrame | MailLinkFrame | LiveClock | PublishFrame
