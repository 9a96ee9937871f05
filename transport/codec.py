"""The codec as one name: both links. An agent imports `host_codec`, which is its part of it."""

from __future__ import annotations

from roamcast.transport.host_codec import (
    DOWN,
    UP,
    decode_down,
    decode_item,
    decode_up,
    encode_down,
    encode_item,
    encode_msg,
    encode_up,
)
from roamcast.transport.station_codec import PEER, decode_peer, encode_peer

__all__ = [
    "DOWN",
    "PEER",
    "UP",
    "decode_down",
    "decode_item",
    "decode_peer",
    "decode_up",
    "encode_down",
    "encode_item",
    "encode_msg",
    "encode_peer",
    "encode_up",
]
