"""Codec of station mail: batches of mails with their headers, acknowledgements, the words before a retirement."""

from __future__ import annotations

from itertools import chain
from typing import Any, Final

from roamcast.middleware.causal_unicast.frames import MailBatch, MailNone, MailQuery
from roamcast.middleware.causal_unicast.records import Mail, MailAcks
from roamcast.transport import limits
from roamcast.transport.layout import Field, Layout, integer
from roamcast.transport.limits import INT64_MAX, SLOT_MAX
from roamcast.transport.station_fields import MEMBER, ascending
from roamcast.transport.strict import Reader

MAIL_ELEMENTS: Final = 3

NUMBER = integer(1, INT64_MAX)
"""Of a mail of its sender."""


def _read_vector(reader: Reader) -> tuple[tuple[int, int], ...]:
    """Flat array slot, count, slot, count ... as pairs; slots strictly ascending."""
    flat = reader.integers(reader.count(2 * limits.STATIONS_MAX))
    if len(flat) & 1:
        raise reader.refuse("slot without a count")
    pairs = tuple(zip(flat[::2], flat[1::2], strict=True))
    before = 0
    for slot, count in pairs:
        if not before < slot <= SLOT_MAX or not 1 <= count <= INT64_MAX:
            raise reader.refuse("slots of a vector not ascending, or a count out of range")
        before = slot
    return pairs


def _read_records(reader: Reader) -> tuple[tuple[int, int, int], ...]:
    """Flat array sender, receiver, number ... as triples; (sender, receiver) strictly ascending."""
    flat = reader.integers(reader.count(3 * limits.MAIL_RECORDS_MAX))
    if len(flat) % 3:
        raise reader.refuse("an s-record that is not whole")
    records = tuple(zip(flat[::3], flat[1::3], flat[2::3], strict=True))
    before = (0, 0)
    for sender, receiver, number in records:
        if (sender, receiver) <= before or not 1 <= number <= INT64_MAX:
            raise reader.refuse("s-records not ascending, or a number out of range")
        if not (1 <= sender <= SLOT_MAX and 1 <= receiver <= SLOT_MAX):
            raise reader.refuse("a slot of an s-record is out of range")
        before = (sender, receiver)
    return records


def _plain_mail(mail: Mail) -> list[Any]:
    return [list(chain.from_iterable(mail.vector)), list(chain.from_iterable(mail.records)), mail.body]


class _BatchLayout(Layout[MailBatch]):
    """MAILS: sender and addressee stand once in the frame."""

    def read(self, reader: Reader) -> MailBatch:
        src, dst = MEMBER.read(reader), MEMBER.read(reader)
        mails = []
        for _ in range(reader.count(limits.MAILS_MAX)):
            if reader.count(MAIL_ELEMENTS) != MAIL_ELEMENTS:
                raise reader.refuse(f"mail of {MAIL_ELEMENTS} elements expected")
            vector, records = _read_vector(reader), _read_records(reader)
            mails.append(Mail(src, dst, vector, records, reader.octets(0, limits.BODY_BYTES_MAX)))
        return MailBatch(src, dst, tuple(mails))


_MAILS = Field(lambda reader: (), lambda mails: [_plain_mail(mail) for mail in mails])

MAIL_LAYOUTS: Final[tuple[Layout[Any], ...]] = (
    _BatchLayout(66, MailBatch, MEMBER, MEMBER, _MAILS),
    Layout(67, MailAcks, ascending(NUMBER, limits.MAIL_ACKS_MAX, int)),
    Layout(68, MailQuery),
    Layout(69, MailNone),
)
