"""What the causal unicast asks of its driver; the contract is that of `middleware/effects.py`.

What stands behind a `MailPersist` leaves the process, to a peer or to the application, only after it is durable.
"""

from __future__ import annotations

from dataclasses import dataclass

from roamcast.middleware.causal_unicast.records import InboxItem, MailFrame, MailWrite
from roamcast.middleware.effects import Notice, Reject


@dataclass(slots=True)
class MailPersist:
    """Apply all writes in one atomic, durable step."""

    writes: tuple[MailWrite, ...]


@dataclass(slots=True)
class SendMail:
    """One frame for one station. If it cannot be sent, forget it: mail is repeated, and acknowledged again."""

    peer: int
    frame: MailFrame


@dataclass(slots=True)
class Arrived:
    """The next item of the inbox; after a start `unread` has those that were not taken."""

    item: InboxItem


@dataclass(slots=True)
class MailLost:
    """These own mails to a station that has ended were not acknowledged by it, and will not be sent any more.

    Told before the step that forgets them: a crash in between tells it again.
    """

    to: int
    numbers: tuple[int, ...]


MailEffect = MailPersist | SendMail | Arrived | MailLost | Notice | Reject
