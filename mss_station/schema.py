"""Keys and values of the replicated configuration. A value is one small CBOR map.

    stations/<id>                 slot, generation, hosts, stations, keys, signing, state, heir, released, host-key
    hosts/<name>                  number, key, slot
    revoked/<name>/<key hash>     nothing: that it is there says all; only ever added
    settings/<name>               value (group_settings.py)
    topics/<t>[/...], groups/<g>  topic_schema.py
    logs/<id>                     slot, generation, seq, end: its newest closed log segment, and the end of its chain

A key with another beginning belongs to another release or part: it is kept and relayed, and not written by hand. Fields
of a station's map that are not known here (clusters, ...) are kept too, whoever changes the rest.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final

from roamcast.middleware.lan_update.records import Entry
from roamcast.mss_station.errors import SchemaError
from roamcast.mss_station.group_settings import Plain, setting
from roamcast.transport.curve import is_key
from roamcast.transport.errors import DecodeError
from roamcast.transport.limits import INT64_MAX, SLOT_MAX
from roamcast.transport.map_codec import decode_map, encode_map
from roamcast.transport.station_files import HEX32
from roamcast.transport.toml_files import ENDPOINT, ENDPOINT_WANTED, NAME, NAME_WANTED

STATIONS, HOSTS, REVOKED, SETTINGS, LOGS = "stations/", "hosts/", "revoked/", "settings/", "logs/"
ACTIVE, RETIRING, RETIRED, LOST = STATES = ("active", "retiring", "retired", "lost")
ENDED: Final = (RETIRED, LOST)
"""The station is no member any more. One that is retiring is, until nothing is left that anybody needs of it."""
KEYS_MAX: Final = 16
"""Of a station, with those that it had before: what they signed stays good."""

HASH: Final = re.compile(r"[0-9a-f]{16}")


@dataclass(frozen=True, slots=True)
class StationRecord:
    """The value of `stations/<id>`; never deleted."""

    id: str
    slot: int
    generation: int
    hosts: str
    """Endpoint for hosts."""
    stations: str
    """Endpoint for stations."""
    keys: tuple[str, ...]
    """CURVE public keys, Z85, newest first."""
    signing: tuple[str, ...]
    """Ed25519 public keys, hexadecimal, newest first."""
    state: str = ACTIVE
    heir: str | None = None
    """Station that takes the place of one that is retiring, or has taken that of a retired one."""
    released: bool | None = None
    """True: the hosts of this lost station are not waited for any more."""
    host_key: str | None = None
    """CURVE public key under which it serves hosts; None: the newest of `keys`."""

    @property
    def key_for_hosts(self) -> str:
        """CURVE public key that hosts must know of it."""
        return self.host_key or self.keys[0]


@dataclass(frozen=True, slots=True)
class HostCard:
    """The value of `hosts/<name>`: what every station knows of a host."""

    name: str
    number: int
    """slot << 32 | counter of the enrolling station."""
    key: str
    """CURVE public key, Z85."""
    slot: int
    """Station that enrolled it."""


@dataclass(frozen=True, slots=True)
class LogHead:
    """The value of `logs/<id>`, put by that station itself."""

    slot: int
    generation: int
    seq: int
    """Number of its newest closed segment."""
    end: bytes
    """Chain end of that, 32 bytes."""


# ---- keys ----


def station_key(id: str) -> str:
    """Key of a station's record."""
    return STATIONS + id


def host_key(name: str) -> str:
    """Key of a host's card."""
    return HOSTS + name


def setting_key(name: str) -> str:
    """Key of a setting."""
    return SETTINGS + name


def log_key(id: str) -> str:
    """Key of the head of a station's log."""
    return LOGS + id


def revocation_key(name: str, key: str) -> str:
    """Key that says: host `name` may not come with this CURVE key any more."""
    return f"{REVOKED}{name}/{key_hash(key)}"


def key_hash(key: str) -> str:
    """Names a CURVE public key (Z85) in a revocation."""
    return hashlib.blake2b(key.encode()).hexdigest()[:16]


def revocation(key: str) -> tuple[str, str]:
    """(name, key hash) of a revocation's key. Raises SchemaError."""
    name, _, digest = key.removeprefix(REVOKED).partition("/")
    if not NAME.fullmatch(name) or not HASH.fullmatch(digest):
        raise SchemaError(f"{key!r} must be {REVOKED}<name>/<16 hexadecimal digits>")
    return name, digest


# ---- values ----


def log_value(head: LogHead) -> bytes:
    """What `logs/<id>` holds."""
    return encode_map(asdict(head))


def read_log(key: str, value: bytes) -> LogHead:
    """The head of a station's log. Raises SchemaError."""
    values = read_map(key, value)
    end = values.get("end")
    if not isinstance(end, bytes) or len(end) != 32:
        raise SchemaError(f"{key}: end must be 32 bytes")
    slot, seq = _integer(key, values, "slot", 1, SLOT_MAX), _integer(key, values, "seq", 1, INT64_MAX)
    return LogHead(slot, _integer(key, values, "generation", 0, INT64_MAX), seq, end)


def read_map(key: str, value: bytes) -> dict[str, Any]:
    """The map of an entry. Raises SchemaError."""
    try:
        return decode_map(value)
    except DecodeError as error:
        raise SchemaError(f"{key}: the value is no map ({error.text})") from None


def _name(key: str, prefix: str) -> str:
    name = key.removeprefix(prefix)
    if not NAME.fullmatch(name):
        raise SchemaError(f"{key!r}: behind {prefix} there must be {NAME_WANTED}")
    return name


def _integer(key: str, values: Mapping[str, Any], field: str, least: int, most: int) -> int:
    value = values.get(field)
    if type(value) is not int or not least <= value <= most:
        raise SchemaError(f"{key}: {field} must be an integer from {least} to {most}")
    return value


def _text(key: str, values: Mapping[str, Any], field: str, pattern: re.Pattern[str], wanted: str) -> str:
    value = values.get(field)
    if not isinstance(value, str) or not pattern.fullmatch(value):
        raise SchemaError(f"{key}: {field} must be {wanted}")
    return value


def _curve_key(key: str, values: Mapping[str, Any], field: str) -> str:
    value = values.get(field)
    if not isinstance(value, str) or not is_key(value):
        raise SchemaError(f"{key}: {field} must be a CURVE public key of 40 signs (Z85)")
    return value


def _curve_keys(key: str, values: Mapping[str, Any], field: str) -> tuple[str, ...]:
    found = _list(values, field)
    if not 1 <= len(found) <= KEYS_MAX or not all(isinstance(each, str) and is_key(each) for each in found):
        raise SchemaError(f"{key}: {field} must be 1 to {KEYS_MAX} CURVE public keys of 40 signs (Z85)")
    return tuple(found)


def _list(values: Mapping[str, Any], field: str) -> list[Any]:
    value = values.get(field)
    return value if isinstance(value, list) else []


def read_station(key: str, value: bytes) -> StationRecord:
    """The record of a station. Raises SchemaError."""
    id, values = _name(key, STATIONS), read_map(key, value)
    signing = _list(values, "signing")
    if not 1 <= len(signing) <= KEYS_MAX or not all(
        isinstance(each, str) and HEX32.fullmatch(each) for each in signing
    ):
        raise SchemaError(f"{key}: signing must be 1 to {KEYS_MAX} Ed25519 public keys of 64 hexadecimal digits")
    if values.get("state") not in STATES:
        raise SchemaError(f"{key}: state must be one of {', '.join(STATES)}")
    return StationRecord(
        id,
        _integer(key, values, "slot", 1, SLOT_MAX),
        _integer(key, values, "generation", 1, INT64_MAX),
        _text(key, values, "hosts", ENDPOINT, ENDPOINT_WANTED),
        _text(key, values, "stations", ENDPOINT, ENDPOINT_WANTED),
        _curve_keys(key, values, "keys"),
        tuple(signing),
        values["state"],
        _text(key, values, "heir", NAME, NAME_WANTED) if values.get("heir") is not None else None,
        values.get("released") is True or None,
        _curve_key(key, values, "host-key") if values.get("host-key") is not None else None,
    )


def station_value(record: StationRecord, before: bytes | None = None) -> bytes:
    """The value of a record; fields that `before` has and a record has not are kept."""
    kept = read_map(station_key(record.id), before) if before is not None else {}
    own = {name.replace("_", "-"): getattr(record, name) for name in record.__slots__ if name != "id"}
    values = {name: value for name, value in (kept | own).items() if value is not None}
    return encode_map(values)


def read_host(key: str, value: bytes) -> HostCard:
    """The card of a host. Raises SchemaError."""
    name, values = _name(key, HOSTS), read_map(key, value)
    number, slot = _integer(key, values, "number", 1, INT64_MAX), _integer(key, values, "slot", 1, SLOT_MAX)
    if number >> 32 != slot or not number & 0xFFFF_FFFF:
        raise SchemaError(f"{key}: number must be slot << 32 plus a counter from 1")
    return HostCard(name, number, _curve_key(key, values, "key"), slot)


def host_value(card: HostCard) -> bytes:
    """The value of a host's card."""
    return encode_map({"number": card.number, "key": card.key, "slot": card.slot})


def read_setting(key: str, value: bytes) -> Plain:
    """The value of a setting. Raises SchemaError."""
    return setting(key.removeprefix(SETTINGS)).check(read_map(key, value).get("value"))


def setting_value(value: Plain) -> bytes:
    """The value of a setting's entry."""
    return encode_map({"value": value})


def revocation_value() -> bytes:
    """The value of a revocation."""
    return encode_map({})


# ---- what the LAN update layer asks ----


def role(key: str, value: bytes | None) -> tuple[str, bool] | None:
    """(id, is an active member) if `key` is that of a station, else None. Only a readable word ends a membership."""
    if not key.startswith(STATIONS):
        return None
    if value is None:
        return key.removeprefix(STATIONS), False
    try:
        state = decode_map(value).get("state")
    except DecodeError:
        state = None
    return key.removeprefix(STATIONS), state not in ENDED


def author_keys(entry: Entry, entries: Mapping[str, Entry]) -> tuple[bytes, ...]:
    """Signing keys (32 bytes) by which the author of `entry` may have signed it, as `entries` know them.

    Of an author that is not known yet, its own record speaks for itself: the station from which it came is a member,
    and there is nobody yet whom it could pass for.
    """
    known = entries.get(station_key(entry.version.node))
    if known is None and entry.key == station_key(entry.version.node):
        known = entry
    if known is None or known.value is None:
        return ()
    try:
        return tuple(bytes.fromhex(each) for each in read_station(known.key, known.value).signing)
    except SchemaError:
        return ()
