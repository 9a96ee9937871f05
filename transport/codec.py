"""The codec as one name: all links. An agent imports `host_codec`, which is its part of it."""

from __future__ import annotations

from roamcast.transport.host_codec import DOWN, UP, decode_down, encode_down, encode_up
from roamcast.transport.join_codec import (
    JOIN,
    JOIN_ANSWER,
    decode_join,
    decode_join_answer,
    encode_join,
    encode_join_answer,
)
from roamcast.transport.serving_codec import decode_item, decode_up, encode_item, encode_msg
from roamcast.transport.station_codec import PEER, decode_peer, encode_peer

__all__ = [
    "DOWN",
    "JOIN",
    "JOIN_ANSWER",
    "PEER",
    "UP",
    "decode_down",
    "decode_item",
    "decode_join",
    "decode_join_answer",
    "decode_peer",
    "decode_up",
    "encode_down",
    "encode_item",
    "encode_join",
    "encode_join_answer",
    "encode_msg",
    "encode_peer",
    "encode_up",
]
