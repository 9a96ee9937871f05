"""A custody record: what a station keeps of one mobile host in one stay.

Source: causal-broadcast.md (b) 'Station state', one-order.md 3.1. Durable fields are those of RecordImage; the rest is
rebuilt: after a start `acked_c` is `base_c`, there is no channel, and nothing is sent.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from roamcast.middleware.custody import extras
from roamcast.middleware.custody.extras import Dead, Shown, Subs
from roamcast.middleware.effects import Channel
from roamcast.middleware.rows import MH, MessageId, SpoolItem, Vector
from roamcast.middleware.spool_writes import RecordKey
from roamcast.middleware.writes import RecordImage

ORDER = "order"
"""Extension that goes with a record wherever it goes: the place of its incarnation among the joins of its name."""

LOST = 0
"""As the station that is asked for custody: it is lost for good, the host itself is asked."""

EVERYWHERE = -1
"""As the former station of a record: that one is lost for good, and any living station may still hold something."""

ANYTHING: Final = 1 << 62
"""As the last position that was sent: a former life of the station may have sent it."""


@dataclass(slots=True)
class SpoolEntry:
    """One message in a spool, at a position of the present session (negative: from before it)."""

    position: int
    item: SpoolItem


@dataclass(slots=True, eq=False)
class Record:
    """State open: serves the host. moved: promised to `moved_to`. done: waits for RELEASED. tomb: expired."""

    mh: MH
    arr: int
    state: str = "open"
    prev: int | None = None
    link: bool = False
    t_vector: Vector = ()
    t_position: int = 0
    ready: bool = False
    le: int = 0
    sess: int = 0
    ep: int = 0
    base: Vector = ()
    base_c: int = 0
    closed: bool = False
    lastseq: int = 0
    last_id: MessageId = (0, 0)
    sdep: Vector = ()
    moved_to: tuple[int, int] | None = None
    succ_ok: bool = False
    join: int = 0
    """Order of a join that is not confirmed yet; 0 = none."""
    gap: bool = False
    exp_acked: bool = False
    ephemeral: bool = False
    away_since: int = 0
    ext: tuple[tuple[str, bytes], ...] = ()
    shift: int = 0
    """Positions of session `sess` were given by a retired station: less this they are positions here."""
    # what the extensions say of topics
    subs: Subs = field(init=False)
    """As of `base`."""
    dead: Dead = field(init=False)
    shown: Shown | None = field(init=False)
    # volatile
    listed: frozenset[MessageId] = frozenset()
    """Of `dead`, what the WELCOME of the session has told."""
    noted: set[int] = field(default_factory=set)
    """Stations that know that the host of a lost one is here now."""
    asked: bool = False
    """The host has been told the fate of its own messages after the last loss."""
    channel: Channel | None = None
    acked_c: int = 0
    sent: int = 0
    """Position of the last frame (while the host stands at the front, the front's position counts instead)."""
    sent_before: int = 0
    """The last position of the log that was sent in earlier sessions of this stay."""
    spool: list[SpoolEntry] = field(default_factory=list)
    spool_bytes: int = 0
    trimmed: bool = False
    """Spool entries went in memory that the store still has."""
    ping_us: int = 0
    heard: int = 0
    told_wait: int = 0
    """When the host was last told that its messages are not taken."""
    away_from: int = 0
    """Monotonic time since which there is no channel."""
    retry_at: int = 0
    retry_delay: int = 0

    def __post_init__(self) -> None:
        """Raises ValueError: the extensions are not what a station has made."""
        self.subs, self.dead, self.shown = extras.unpack(dict(self.ext))

    @property
    def key(self) -> RecordKey:
        """Its key in the store."""
        return (*self.mh, self.arr)

    @property
    def confirmed(self) -> bool:
        """The host is known to have been welcomed in this stay (the record of an enrolment is from the start)."""
        return self.le >= self.arr

    @property
    def live(self) -> bool:
        """Open and counted in R: not a join that nobody has confirmed."""
        return self.state == "open" and not self.join

    @property
    def order(self) -> int:
        """The place of this incarnation among the joins of its name; 0: it was the first."""
        return self.join or int.from_bytes(dict(self.ext).get(ORDER, b"")[:8], "big")

    def set_order(self, order: int) -> None:
        """The incarnation is bound with this place. The caller saves the record."""
        self.ext = extras.replaced(self.ext, ORDER, order.to_bytes(8, "big"))

    def set_subs(self, subs: Subs) -> None:
        """Its subscriptions, as of `base`. The caller saves the record; so for the next two."""
        if subs != self.subs:
            self.subs = subs
            self.ext = extras.replaced(self.ext, extras.SUBS, extras.pack_subs(subs))

    def set_dead(self, dead: Dead) -> None:
        """SUBs that others than the host have ended."""
        self.dead = dead
        self.ext = extras.replaced(self.ext, extras.DEAD, extras.pack_dead(dead))

    def set_shown(self, shown: Shown | None) -> None:
        """What was last said of its host's presence."""
        self.shown = shown
        self.ext = extras.replaced(self.ext, extras.SHOWN, extras.pack_shown(shown))

    def image(self) -> RecordImage:
        """The durable part, as it is now."""
        return RecordImage(*(getattr(self, name) for name in RecordImage.__slots__))

    @classmethod
    def of(cls, image: RecordImage) -> Record:
        """The record as a start finds it."""
        record = cls(**{name: getattr(image, name) for name in RecordImage.__slots__})
        record.acked_c = image.base_c
        record.sent = image.base_c
        record.sent_before = ANYTHING
        return record
