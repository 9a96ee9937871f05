"""What the delivery log tells of station mail, made of the writes of its core; and since when mail waits."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from roamcast.middleware.causal_unicast.records import (
    DropOutgoing,
    InboxItem,
    Mail,
    MailImage,
    MailWrite,
    PutInbox,
    PutOutgoing,
    PutRetired,
)
from roamcast.middleware.delivery_log import ARRIVED, POSTED, Logged


class MailLog:
    """Follows the writes of one life.

    Args:
        own: slot of this station.
        image: what the store holds at the start.
        wall: reads the clock, UTC microseconds.
    """

    def __init__(self, own: int, image: MailImage, wall: Callable[[], int]) -> None:
        self._own = own
        self._wall = wall
        self.last = image.inbox_last
        """Position of the newest mail that was delivered here."""
        self._vector: dict[int, int] = {}
        """V as the log has told it; of a life the first mail tells all of it."""
        start = wall()
        self._since = {to: dict.fromkeys(mails, start) for to, mails in image.outgoing.items()}
        """By addressee and number: since when it waits, at the earliest the start of this life."""

    def events(self, writes: Iterable[MailWrite]) -> Iterator[Logged]:
        """Events of one step, in its order."""
        for write in writes:
            match write:
                case PutOutgoing(mail):
                    self._since.setdefault(mail.dst, {})[mail.number] = self._wall()
                    yield Logged(POSTED, (mail.number, mail.dst, self.last, len(mail.body), self._changed(mail)))
                case PutInbox(item):
                    yield from self._arrived(item)
                case DropOutgoing(peer, numbers):
                    for number in numbers:
                        self._since.get(peer, {}).pop(number, None)
                case PutRetired(slot):
                    self._since.pop(slot, None)

    def _arrived(self, item: InboxItem) -> Iterator[Logged]:
        if item.src == self._own:
            yield Logged(POSTED, (item.number, self._own, self.last, len(item.body), ()))
        self.last = item.position
        yield Logged(ARRIVED, (item.position, item.src, item.number))

    def _changed(self, mail: Mail) -> list[int]:
        """Entries of V that are others than in the mail before, without the own one: slot, count, slot, count ..."""
        changed = {slot: count for slot, count in mail.vector if slot != self._own and self._vector.get(slot) != count}
        self._vector |= changed
        return [number for pair in changed.items() for number in pair]

    def since(self, to: int) -> dict[str, Any]:
        """The oldest mail that `to` has not acknowledged, and since when it waits (UTC microseconds)."""
        number, wall = next(iter(self._since.get(to, {}).items()), (0, 0))
        return {"oldest": number, "since": wall}
