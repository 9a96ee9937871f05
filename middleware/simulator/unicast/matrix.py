"""The matrix protocol of Raynal, Schiper and Toueg: N^2 counts with every mail, and no doubt about what it waits for.

It runs beside the stations on what they take, at the instants at which they take it.
"""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass

from roamcast.middleware.causal_unicast.records import MailId

Pair = tuple[int, int]


@dataclass(slots=True)
class Stamped:
    """A mail with its matrix."""

    src: int
    dst: int
    matrix: dict[Pair, int]
    """(k, l) -> mails from k to l in this one's past; absent = 0."""

    @property
    def index(self) -> int:
        """Its place among all from `src` to `dst`."""
        return self.matrix.get((self.src, self.dst), 0) + 1


class MatrixStation:
    """One station of it."""

    def __init__(self, own: int) -> None:
        self.held: dict[MailId, Stamped] = {}
        self._own = own
        self._sent: dict[Pair, int] = {}
        self._delivered: dict[int, int] = {}

    def send(self, to: int) -> Stamped:
        """A mail to another station."""
        mail = Stamped(self._own, to, dict(self._sent))
        self._sent[self._own, to] = mail.index
        return mail

    def is_deliverable(self, mail_id: MailId, ended: Set[int]) -> bool:
        """Whether all that is in its past, and comes here at all, is delivered.

        ended: of these stations only that comes which is held here.
        """
        mail = self.held[mail_id]
        for (sender, receiver), count in mail.matrix.items():
            if receiver != self._own:
                continue
            if sender in ended:
                if any(other.src == sender and other.index <= count for other in self.held.values()):
                    return False
            elif self._delivered.get(sender, 0) < count:
                return False
        return True

    def ready(self, ended: Set[int]) -> list[MailId]:
        """What is deliverable now, in order."""
        return sorted(mail_id for mail_id in self.held if self.is_deliverable(mail_id, ended))

    def deliver(self, mail_id: MailId) -> None:
        """It is delivered."""
        mail = self.held.pop(mail_id)
        self._delivered[mail.src] = self._delivered.get(mail.src, 0) + 1
        for pair, count in mail.matrix.items():
            self._sent[pair] = max(count, self._sent.get(pair, 0))
        self._sent[mail.src, mail.dst] = max(mail.index, self._sent.get((mail.src, mail.dst), 0))
