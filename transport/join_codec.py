"""Codec of the link between a newcomer and its sponsor: frames of `middleware.membership.frames`.

A table for each direction: what comes from the newcomer is small, and nothing else counts on its connection.
"""

from __future__ import annotations

from typing import Final

from roamcast.middleware.membership.frames import Join, Joined, JoinRefused
from roamcast.transport import limits
from roamcast.transport.lan_codec import ENTRY
from roamcast.transport.layout import FLAG, NAME, UINT64, VERSION, Layout, Link, array, sentence, text
from roamcast.transport.limits import ENDPOINT_BYTES_MAX, KEY_BYTES
from roamcast.transport.station_fields import MEMBER

JOIN_BYTES_MAX: Final = 2_048
"""A Join: two endpoints, three keys, an id, and what a newer minor version may add."""

SIGNING_KEY_SIGNS: Final = 64
"""An Ed25519 public key in hexadecimal."""

_ENDPOINT, _KEY = text(1, ENDPOINT_BYTES_MAX), text(KEY_BYTES, KEY_BYTES)
_SIGNING_KEY = text(SIGNING_KEY_SIGNS, SIGNING_KEY_SIGNS)
_CODE, _TEXT = sentence(limits.CODE_BYTES_MAX), sentence(limits.TEXT_BYTES_MAX)

JOIN: Final[Link[Join]] = Link(
    JOIN_BYTES_MAX, Layout(80, Join, VERSION, NAME, UINT64, _ENDPOINT, _ENDPOINT, _KEY, _KEY, _SIGNING_KEY)
)
JOIN_ANSWER: Final[Link[Joined | JoinRefused]] = Link(
    limits.PEER_FRAME_BYTES_MAX,
    Layout(81, Joined, MEMBER, NAME, array(ENTRY, limits.STATIONS_MAX)),
    Layout(82, JoinRefused, _CODE, _TEXT, FLAG),
)

encode_join, decode_join = JOIN.encode, JOIN.decode
encode_join_answer, decode_join_answer = JOIN_ANSWER.encode, JOIN_ANSWER.decode
