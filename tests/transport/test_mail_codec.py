"""Station mail on the wire: what was put in comes out, headers have one form, limits hold."""

from __future__ import annotations

from typing import Any

import pytest
from cbor2 import dumps
from hypothesis import given
from hypothesis import strategies as st

from roamcast.middleware.causal_unicast.frames import MailBatch
from roamcast.middleware.causal_unicast.records import Mail, MailAcks
from roamcast.middleware.causal_unicast.settings import MailSettings
from roamcast.transport import limits
from roamcast.transport.errors import DecodeError
from roamcast.transport.station_codec import decode_peer, encode_peer

SLOTS = st.integers(1, limits.SLOT_MAX)
NUMBERS = st.integers(1, limits.INT64_MAX)
HEADERS = st.tuples(
    st.dictionaries(SLOTS, NUMBERS).map(lambda counts: tuple(sorted(counts.items()))),
    st.dictionaries(st.tuples(SLOTS, SLOTS), NUMBERS).map(
        lambda records: tuple((*key, number) for key, number in sorted(records.items()))
    ),
    st.binary(max_size=40),
)


@given(SLOTS, SLOTS, st.lists(HEADERS, max_size=3))
def test_mails_come_out_as_they_went_in(src: int, dst: int, headers: list[Any]) -> None:
    batch = MailBatch(src, dst, tuple(Mail(src, dst, *header) for header in headers))
    assert decode_peer(encode_peer(batch)) == batch


def test_acknowledgements_are_sorted_by_the_sender() -> None:
    assert decode_peer(encode_peer(MailAcks((9, 1, limits.INT64_MAX)))) == MailAcks((1, 9, limits.INT64_MAX))
    for numbers in ([2, 1], [1, 1], [0], [-1], [1 << 63], [1, "x"]):
        with pytest.raises(DecodeError):
            decode_peer(dumps([67, numbers]))


GOOD = [[1, 5, 3, 9], [1, 2, 4, 3, 2, 9], b"x"]
BAD: list[Any] = [
    [[1, 5, 3], [], b"x"], [[3, 9, 1, 5], [], b"x"], [[1, 5, 1, 6], [], b"x"], [[0, 5], [], b"x"],
    [[1024, 5], [], b"x"],
    [[1, 0], [], b"x"], [[1, 1 << 63], [], b"x"], [[1, -1], [], b"x"], [[], [1, 2], b"x"], [[], [1, 2, 0], b"x"],
    [[], [3, 2, 9, 1, 2, 4], b"x"], [[], [1, 2, 4, 1, 2, 5], b"x"], [[], [0, 2, 4], b"x"], [[], [1, 0, 4], b"x"],
    [[], [1, 1024, 4], b"x"], [[], [1024, 1, 4], b"x"], [[], [1, 2, 1 << 63], b"x"], [[], [], "x"], [[], []],
    [[], [], b"x", 1], [[], [], b"x" * (limits.BODY_BYTES_MAX + 1)], [None, [], b"x"], [[], {}, b"x"], 7,
]  # fmt: skip


@pytest.mark.parametrize("mail", BAD, ids=range(len(BAD)))
def test_a_mail_that_is_not_of_this_form_is_refused(mail: Any) -> None:
    assert isinstance(decode_peer(dumps([66, 1, 2, [GOOD]])), MailBatch)
    with pytest.raises(DecodeError):
        decode_peer(dumps([66, 1, 2, [GOOD, mail]]))


def test_the_largest_mail_fits_into_a_frame() -> None:
    big = limits.INT64_MAX
    pairs = [(k, to) for k in range(700, 957) for to in range(700, 957) if k != to][: limits.MAIL_RECORDS_MAX]
    vector = tuple((slot, big) for slot in range(1, 1 + limits.SLOT_MAX))
    mail = Mail(700, 701, vector, tuple((*pair, big) for pair in pairs), bytes(limits.BODY_BYTES_MAX))
    assert len(mail.records) == limits.MAIL_RECORDS_MAX == MailSettings().records_max
    assert MailSettings().body_bytes_max == limits.BODY_BYTES_MAX
    data = encode_peer(MailBatch(700, 701, (mail,)))
    assert len(data) < mail.size < limits.PEER_FRAME_BYTES_MAX
    assert decode_peer(data) == MailBatch(700, 701, (mail,))


def test_headers_of_a_small_group_are_short() -> None:
    vector = tuple((slot, 20_000) for slot in range(1, 9))
    records = tuple((k, 3, 20_000) for k in (1, 2, 4, 5, 6))
    mail = Mail(1, 3, vector, records, b"")
    assert len(encode_peer(MailBatch(1, 3, (mail, mail)))) - len(encode_peer(MailBatch(1, 3, (mail,)))) == 61
