"""Codec of the LAN update layer: its frames on the station link, and the bytes that an author signs."""

from __future__ import annotations

from itertools import pairwise
from typing import Any, Final

from cbor2 import dumps

from roamcast.middleware.errors import ensure
from roamcast.middleware.lan_update.records import BUCKETS, Entry, LanAck, LanPacket, Version
from roamcast.transport import limits
from roamcast.transport.layout import FLAG, NATURAL, UINT64, Field, Layout, array, group, octets, optional, text
from roamcast.transport.strict import Reader
from roamcast.transport.toml_files import NAME

DOMAIN: Final = b"roamcast-lan-1"
"""First of what is signed: no signature of an entry is one of anything else, whatever else the key signs."""


def _read_node(reader: Reader) -> str:
    node = reader.text(1, limits.NAME_BYTES_MAX)
    if not NAME.fullmatch(node):
        raise reader.refuse("no id of a station")
    return node


def _read_version(reader: Reader) -> Version:
    return Version(*_VERSION_PARTS.read(reader))


def _read_holders(reader: Reader) -> frozenset[str]:
    nodes = [_read_node(reader) for _ in range(reader.count(limits.STATIONS_MAX))]
    if any(one >= other for one, other in pairwise(nodes)):
        raise reader.refuse("holders do not ascend")
    return frozenset(nodes)


def _read_entry(reader: Reader) -> Entry:
    key, version, value, after, signature, holders = _ENTRY_PARTS.read(reader)
    if holders and value is not None:
        raise reader.refuse("holders of a key that is not deleted")
    return Entry(key, version, value, after, signature, holders)


def _plain_entry(entry: Entry) -> list[Any]:
    ensure(len(entry.signature) == limits.SIGNATURE_BYTES, f"entry {entry.key} is sent without its signature")
    return [entry.key, entry.version, entry.value, entry.after, entry.signature, sorted(entry.holders)]


def _plain_line(line: tuple[str, Version, frozenset[str]]) -> list[Any]:
    key, version, holders = line
    return [key, version, sorted(holders)]


def _read_sums(reader: Reader) -> tuple[int, ...]:
    sums = tuple(reader.integers(reader.count(BUCKETS)))
    if sums and (len(sums) != BUCKETS or not 0 <= min(sums) <= max(sums) <= limits.UINT64_MAX):
        raise reader.refuse(f"none or {BUCKETS} sums of 64 bits expected")
    return sums


def _read_buckets(reader: Reader) -> tuple[int, ...]:
    buckets = tuple(reader.integers(reader.count(BUCKETS)))
    if (buckets and not 0 <= buckets[0] <= buckets[-1] < BUCKETS) or any(a >= b for a, b in pairwise(buckets)):
        raise reader.refuse("buckets not ascending, or out of range")
    return buckets


_KEY = text(1, limits.LAN_KEY_BYTES_MAX)
_VALUE = octets(0, limits.LAN_VALUE_BYTES_MAX)
_SIGNATURE = octets(limits.SIGNATURE_BYTES, limits.SIGNATURE_BYTES)
_VERSION_PARTS = group(NATURAL, NATURAL, Field(_read_node), UINT64)
_VERSION = Field(_read_version)
_HOLDERS = Field(_read_holders, sorted)
_ENTRY_PARTS = group(_KEY, _VERSION, optional(_VALUE), optional(_VERSION), _SIGNATURE, _HOLDERS)
_LINES = array(Field(group(_KEY, _VERSION, _HOLDERS).read, _plain_line), limits.LAN_KEYS_MAX)
ENTRY = Field(_read_entry, _plain_entry)
_ENTRIES = array(ENTRY, limits.LAN_ENTRIES_MAX)
_WANT = array(_KEY, limits.LAN_KEYS_MAX)

LAN_LAYOUTS: Final[tuple[Layout[Any], ...]] = (
    Layout(64, LanPacket, NATURAL, FLAG, NATURAL, Field(_read_sums), Field(_read_buckets), _LINES, _WANT, _ENTRIES),
    Layout(65, LanAck, NATURAL),
)


def signed_bytes(group_name: str, entry: Entry) -> bytes:
    """What the author of an entry signs: all of it but signature and holders, bound to the group."""
    return dumps([DOMAIN, group_name, entry.key, entry.version, entry.value, entry.after])
