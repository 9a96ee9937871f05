"""Frames of station mail on the link between two stations; the core knows single mails and their acknowledgements.

MailQuery and MailNone are the driver's: a station that is retired in order ends when nobody has mail for it any more.
"""

from __future__ import annotations

from dataclasses import dataclass

from roamcast.middleware.causal_unicast.records import Mail, MailAcks


@dataclass(slots=True, frozen=True)
class MailBatch:
    """Mails of the sender of this frame to its receiver, in the order in which they are to be taken."""

    src: int
    dst: int
    mails: tuple[Mail, ...]


@dataclass(slots=True, frozen=True)
class MailQuery:
    """The sender is being retired: has the receiver mail for it?"""


@dataclass(slots=True, frozen=True)
class MailNone:
    """Answer to MailQuery: there is none that was not acknowledged, and none is taken for that station any more."""


MailLinkFrame = MailBatch | MailAcks | MailQuery | MailNone
