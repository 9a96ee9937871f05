"""Mail that is here and waits for what comes before it, found again by the one sender that it waits for first."""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable, Iterable
from heapq import heappop, heappush

from roamcast.middleware.causal_unicast.records import Mail, MailId, MailImage
from roamcast.middleware.causal_unicast.rules import Rules


class Holding:
    """Index over `image.held`. What has become deliverable comes out ordered by (sender, number).

    Args:
        image: the station's; it is read only.
        awaits: whether a record of this sender is waited for (not if that station has ended).
    """

    def __init__(
        self, image: MailImage, rules: Rules, awaits: Callable[[int], bool], mutants: frozenset[str] = frozenset()
    ) -> None:
        self.bytes = 0
        self._image = image
        self._rules = rules
        self._awaits = awaits
        self._looks_at_held = rules.looks_at_held and "held_unseen" not in mutants
        self._numbers: dict[int, list[int]] = {}
        """Sender -> numbers of its mail here, ascending."""
        self._waiting: dict[int, list[MailId]] = {}
        """Sender -> mail that waits until V of it rises."""
        self._ready: list[MailId] = []
        for mail in image.held.values():
            self._enter(mail)
        for mail in image.held.values():
            self._place(mail)

    def blocked_by(self, mail: Mail) -> int | None:
        """The first sender of something that `mail` waits for; None: it is deliverable.

        Of a station that has ended comes what is held here and nothing else. Records of it may be gone, and mail
        that it had superseded records with is held here if it is not delivered: so what is held is looked at by number.
        """
        counts = self._image.counts
        for sender, number in self._rules.awaited(mail):
            if counts.get(sender, 0) < number and self._awaits(sender):
                return sender
        if self._looks_at_held and self._numbers:
            for sender, count in mail.vector:
                numbers = self._numbers.get(sender)
                if numbers and numbers[0] <= count and (sender != mail.src or numbers[0] < count):
                    return sender
        return None

    def add(self, mail: Mail) -> None:
        """It is in the image now; `blocked_by` named somebody."""
        self._enter(mail)
        self._place(mail)

    def remove(self, mail: Mail) -> None:
        """It was delivered."""
        numbers = self._numbers[mail.src]
        numbers.remove(mail.number)
        if not numbers:
            del self._numbers[mail.src]
        self.bytes -= mail.size

    def wake(self, senders: Iterable[int]) -> None:
        """Of these V has risen, or nothing is waited for any more: look again."""
        for sender in senders:
            for mail_id in self._waiting.pop(sender, ()):
                self._place(self._image.held[mail_id])

    def next_ready(self) -> Mail | None:
        """The first mail that is deliverable now; it must be delivered then."""
        return self._image.held[heappop(self._ready)] if self._ready else None

    def _enter(self, mail: Mail) -> None:
        self.bytes += mail.size
        insort(self._numbers.setdefault(mail.src, []), mail.number)

    def _place(self, mail: Mail) -> None:
        sender = self.blocked_by(mail)
        if sender is None:
            heappush(self._ready, mail.id)
        else:
            self._waiting.setdefault(sender, []).append(mail.id)
