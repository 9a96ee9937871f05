"""Own messages that no station has acknowledged yet, by own number.

An entry leaves when a UACK or WELCOME covers its number, and MUST leave when the message comes back in the host's own
stream: it is stored then, whatever became of the UACK. Entries that never were on a link survive a new incarnation
under new numbers; the fate of the others cannot be known.
"""

from __future__ import annotations

from dataclasses import dataclass

from roamcast.middleware.mobile_host.errors import BadAddressee, MessageTooLarge, OutboxFull
from roamcast.middleware.mobile_host.settings import AgentSettings
from roamcast.middleware.mobile_host.state import AgentImage


@dataclass(slots=True)
class OutEntry:
    """One message. `c`: last position given when it was queued, or `at` in a later session. `linked`: may have left."""

    to: str | None
    body: bytes
    c: int
    linked: bool


class Outbox:
    """The entries in order of their numbers, and the highest number ever given in this incarnation."""

    def __init__(self, image: AgentImage, settings: AgentSettings) -> None:
        self.highest = image.highest
        self.message_bytes_max = settings.message_bytes_max
        self._settings = settings
        self.entries = {n: OutEntry(to, body, 0, linked=True) for n, (to, body) in image.outbox.items()}
        self._size = sum(len(entry.body) for entry in self.entries.values())

    def __len__(self) -> int:
        return len(self.entries)

    @property
    def una(self) -> int:
        """Lowest own number not acknowledged by a station."""
        return next(iter(self.entries), self.highest + 1)

    def append(self, to: str | None, body: bytes, c: int) -> int:
        """Give `body` the next own number.

        Raises: MessageTooLarge, OutboxFull, BadAddressee; no number is used up then.
        """
        if to is not None and not 1 <= len(to.encode()) <= self._settings.name_bytes_max:
            raise BadAddressee(f"a name has 1 to {self._settings.name_bytes_max} bytes")
        if len(body) > self.message_bytes_max:
            raise MessageTooLarge(f"{len(body)} bytes, at most {self.message_bytes_max}")
        limit = self._settings
        if len(self.entries) >= limit.outbox_entries or self._size + len(body) > limit.outbox_bytes:
            raise OutboxFull(f"{len(self.entries)} messages, {self._size} bytes wait for a station")
        self.highest += 1
        self.entries[self.highest] = OutEntry(to, body, c, linked=False)
        self._size += len(body)
        return self.highest

    def went_back(self, lastseq: int) -> bool:
        """Whether the stations hold numbers, up to `lastseq`, that this state never gave or never put on a link."""
        return lastseq > self.highest or any(n <= lastseq and not entry.linked for n, entry in self.entries.items())

    def trim(self, upto: int) -> list[int]:
        """Remove every number <= upto; returns those removed, ascending."""
        gone: list[int] = []
        for number in self.entries:
            if number > upto:
                break
            gone.append(number)
        for number in gone:
            self.drop(number)
        return gone

    def drop(self, number: int) -> bool:
        """Remove one number. Returns whether it was there."""
        entry = self.entries.pop(number, None)
        if entry is not None:
            self._size -= len(entry.body)
        return entry is not None

    def renumber(self) -> tuple[list[int], list[tuple[int, int]]]:
        """Begin a new incarnation. Returns the numbers of unknown fate (removed), and (old, new) of the others."""
        unknown = [number for number, entry in self.entries.items() if entry.linked]
        for number in unknown:
            self.drop(number)
        moved = [(old, new) for new, old in enumerate(self.entries, start=1)]
        self.entries = dict(enumerate(self.entries.values(), start=1))
        self.highest = len(moved)
        return unknown, moved
