"""Codec of the values of the replicated configuration: one CBOR map of plain values, read as strictly as a frame.

Keys are texts in the order of their encoding (RFC 8949 section 4.2.1), so that one value has one form. What a map may
hold beyond that is the affair of its reader.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from cbor2 import dumps

from roamcast.middleware.errors import ensure
from roamcast.transport.limits import INT64_MAX, INT64_MIN, LAN_VALUE_BYTES_MAX, NESTING_MAX
from roamcast.transport.strict import ARRAY, BYTES, FALSE, MAP, NINT, NULL, TEXT, TRUE, Reader, read_whole

_SIMPLE: Final = {FALSE: False, TRUE: True, NULL: None}


def _key_order(key: str) -> tuple[int, bytes]:
    return len(key.encode()), key.encode()


def encode_map(values: Mapping[str, Any]) -> bytes:
    """The bytes of a map of integers, texts, byte strings, true, false, null, lists and maps of these."""
    data = dumps(_plain(values))
    ensure(len(data) <= LAN_VALUE_BYTES_MAX, f"own value of {len(data)} bytes is too large")
    return data


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _plain(value[key]) for key in sorted(value, key=_key_order)}
    return [_plain(each) for each in value] if isinstance(value, list | tuple) else value


def decode_map(data: bytes) -> dict[str, Any]:
    """The map that `data` is; arrays come as lists. Raises DecodeError."""
    return read_whole(data, LAN_VALUE_BYTES_MAX, lambda reader: _read_map(reader, NESTING_MAX))


def _read_map(reader: Reader, nesting: int) -> dict[str, Any]:
    values: dict[str, Any] = {}
    before = (-1, b"")
    for _ in range(reader.count(LAN_VALUE_BYTES_MAX, MAP)):
        key = reader.text(0, LAN_VALUE_BYTES_MAX)
        if _key_order(key) <= before:
            raise reader.refuse("map keys doubled or out of order")
        before = _key_order(key)
        values[key] = _read_value(reader, nesting)
    return values


def _read_value(reader: Reader, nesting: int) -> Any:
    major = reader.data[reader.pos] >> 5
    if major <= NINT:
        return reader.integer(INT64_MIN, INT64_MAX)
    if major == BYTES:
        return reader.octets(0, LAN_VALUE_BYTES_MAX)
    if major == TEXT:
        return reader.text(0, LAN_VALUE_BYTES_MAX)
    if major == ARRAY and nesting:
        return [_read_value(reader, nesting - 1) for _ in range(reader.count(LAN_VALUE_BYTES_MAX))]
    if major == MAP and nesting:
        return _read_map(reader, nesting - 1)
    return _SIMPLE[reader.simple((FALSE, TRUE, NULL))]
