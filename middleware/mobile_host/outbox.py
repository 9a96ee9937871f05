"""Own messages that no station has acknowledged yet, by own number; and which of the others may still be lost.

An entry leaves when a UACK or WELCOME covers its number, and MUST leave when the message, or a later one, comes back in
the host's own stream: stations take numbers in turn, so it is stored then, whatever became of the UACK. Entries that
never were on a link survive a new incarnation under new numbers; the fate of the others cannot be known.

A stored message is *doubtful* until a station says that all have it: one may hold it alone, though it came back from
there, and take it along when it is lost. Which are, is forgotten with the process (so are the receipts).
"""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass

from roamcast.middleware.host_frames import STORED_MAX
from roamcast.middleware.mobile_host.errors import BadAddressee, MessageTooLarge, OutboxFull
from roamcast.middleware.mobile_host.settings import AgentSettings
from roamcast.middleware.mobile_host.state import AgentImage
from roamcast.middleware.rows import Kind


@dataclass(slots=True)
class OutEntry:
    """One message. `c`: last position given when it was queued, or `at` in a later session."""

    to: str | None
    """Addressee, or topic; None: every host."""
    body: bytes
    c: int
    kind: int = 0
    """As in TopicData; 0: a broadcast or mail."""


class Outbox:
    """The entries in order of their numbers, and the highest number ever given in this incarnation."""

    def __init__(self, image: AgentImage, settings: AgentSettings) -> None:
        self.highest = image.highest
        self.tx = image.tx
        """Own numbers up to this may have been on a link."""
        self.doubtful: dict[int, None] = {}
        """Numbers that are stored somewhere, perhaps at one station only; the newest STORED_MAX, ascending."""
        self.message_bytes_max = settings.message_bytes_max
        self._settings = settings
        self.entries = {n: OutEntry(to, body, 0, kind) for n, (to, body, kind) in image.outbox.items()}
        self._size = sum(len(entry.body) for entry in self.entries.values())

    def __len__(self) -> int:
        return len(self.entries)

    @property
    def una(self) -> int:
        """Lowest own number not acknowledged by a station."""
        return next(iter(self.entries), self.highest + 1)

    def append(self, to: str | None, body: bytes, c: int, kind: int) -> int:
        """Give `body` the next own number.

        Raises: MessageTooLarge, OutboxFull, BadAddressee, TypeError; no number is used up then.
        """
        self.check(to, body, kind, self.message_bytes_max)
        limit = self._settings
        if len(self.entries) >= limit.outbox_entries or self._size + len(body) > limit.outbox_bytes:
            raise OutboxFull(f"{len(self.entries)} messages, {self._size} bytes wait for a station")
        self.highest += 1
        self.entries[self.highest] = OutEntry(to, body, c, 0 if kind == Kind.MAIL else kind)
        self._size += len(body)
        return self.highest

    def check(self, to: str | None, body: bytes, kind: int, body_bytes_max: int) -> None:
        """Raises MessageTooLarge, BadAddressee; TypeError: `to` is no text."""
        is_topic = kind not in (Kind.BROADCAST, Kind.MAIL)
        if to is not None and not isinstance(to, str):
            raise TypeError(f"the name of a {'topic' if is_topic else 'host'} is a str, not {type(to).__name__}")
        if is_topic:
            self._check_topic(to)
        elif to is None and kind == Kind.MAIL:
            raise BadAddressee("mail is for one host, and none is named; `broadcast` is for all")
        elif to is not None and not 1 <= len(to.encode()) <= self._settings.name_bytes_max:
            raise BadAddressee(f"a name has 1 to {self._settings.name_bytes_max} bytes")
        if len(body) > body_bytes_max:
            raise MessageTooLarge(f"{len(body)} bytes, at most {body_bytes_max}")

    def _check_topic(self, name: str | None) -> None:
        most = self._settings.topic_bytes_max
        if not name or not name.isprintable() or len(name.encode()) > most:
            raise BadAddressee(f"a topic's name has 1 to {most} bytes, and nothing that cannot be printed: {name!r}")

    def went_back(self, lastseq: int) -> bool:
        """Whether the stations hold numbers, up to `lastseq`, that this state never gave or never put on a link."""
        return lastseq > self.tx

    def stored(self, upto: int, absent: Container[int] = ()) -> list[int]:
        """Every number <= upto is settled: stored, or in `absent`. Returns those for which this is news, ascending."""
        gone: list[int] = []
        while self.entries and (number := next(iter(self.entries))) <= upto:
            self._size -= len(self.entries.pop(number).body)
            gone.append(number)
        self.doubtful.update((number, None) for number in gone if number not in absent)
        while len(self.doubtful) > STORED_MAX:
            del self.doubtful[next(iter(self.doubtful))]
        return gone

    def safe(self, upto: int) -> None:
        """Every station has the numbers <= upto."""
        while self.doubtful and (number := next(iter(self.doubtful))) <= upto:
            del self.doubtful[number]

    def lost(self, absent: Container[int]) -> list[int]:
        """No living station has the numbers in `absent`: removes those that were stored, and returns them."""
        lost = [number for number in self.doubtful if number in absent]
        for number in lost:
            del self.doubtful[number]
        return lost

    def renumber(self) -> tuple[list[int], list[tuple[int, int]]]:
        """Begin a new incarnation. Returns the numbers of unknown fate (removed), and (old, new) of the others."""
        unknown = self.stored(self.tx)
        self.doubtful = {}
        moved = [(old, new) for new, old in enumerate(self.entries, start=1)]
        self.entries = dict(enumerate(self.entries.values(), start=1))
        self.highest, self.tx = len(moved), 0
        return unknown, moved
