"""The public keys that have signed segments: checking signatures, and the file keys.json that goes with uploaded logs.

Source: docs/protocols/delivery-log.md, 'Keys'; security.md. Only stations and audits use this module.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from roamcast.transport.errors import DecodeError
from roamcast.transport.limits import INT64_MAX, SLOT_MAX, STATIONS_MAX
from roamcast.transport.segment_blocks import key_id

KEYS_NAME: Final = "keys.json"
SCHEMA: Final = 1
FILE_BYTES_MAX: Final = 1 << 22
KEYS_MAX: Final = 64
"""Of one station."""

NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
HEX32: Final = re.compile(r"[0-9a-f]{64}")


class SignedBy:
    """A `transport.segment.Verify`: signatures by these keys (32 bytes each) hold, and no other. Can be pickled."""

    def __init__(self, publics: Iterable[bytes]) -> None:
        self._publics = {key_id(public): public for public in publics}

    def __call__(self, key: bytes, message: bytes, signature: bytes) -> bool:
        """Whether the key of this id has signed the message."""
        public = self._publics.get(key)
        if public is None:
            return False
        try:
            Ed25519PublicKey.from_public_bytes(public).verify(signature, message)
        except (InvalidSignature, ValueError):
            return False
        return True


@dataclass(frozen=True, slots=True)
class StationKeys:
    """The keys with which a station has ever signed."""

    id: str
    slot: int
    keys: tuple[str, ...]
    """Ed25519 public keys, 64 hexadecimal digits each."""


@dataclass(frozen=True, slots=True)
class KeysFile:
    """What a station says of the keys of its group."""

    group: str
    station: str
    """Whose word it is."""
    written: int
    """Microseconds, UTC."""
    stations: tuple[StationKeys, ...]


def keys_text(file: KeysFile) -> str:
    """As JSON."""
    return json.dumps({"schema": SCHEMA, **asdict(file)}, indent=1) + "\n"


def read_keys(data: bytes) -> KeysFile:
    """The file that `data` is. Raises DecodeError, and nothing else, whatever the bytes are."""
    if len(data) > FILE_BYTES_MAX:
        raise DecodeError(0, f"more than {FILE_BYTES_MAX} bytes")
    try:
        plain = json.loads(data)
    except (ValueError, RecursionError):
        raise DecodeError(0, "no JSON") from None
    if not isinstance(plain, dict) or plain.get("schema") != SCHEMA:
        raise DecodeError(0, "no list of keys of a schema that is known here")
    stations = plain.get("stations")
    if not isinstance(stations, list) or len(stations) > STATIONS_MAX:
        raise DecodeError(0, "stations must be a list")
    made = tuple(_station(each) for each in stations)
    if len({each.id for each in made}) < len(made) or len({each.slot for each in made}) < len(made):
        raise DecodeError(0, "a station or a slot is named twice")
    return KeysFile(_name(plain, "group"), _name(plain, "station"), _integer(plain, "written", INT64_MAX), made)


def _station(plain: Any) -> StationKeys:
    if not isinstance(plain, dict):
        raise DecodeError(0, "a station must be a map")
    keys = plain.get("keys")
    if not isinstance(keys, list) or len(keys) > KEYS_MAX or not all(_is_key(key) for key in keys):
        raise DecodeError(0, f"keys must be at most {KEYS_MAX} of 64 hexadecimal digits each")
    return StationKeys(_name(plain, "id"), _integer(plain, "slot", SLOT_MAX), tuple(keys))


def _is_key(value: Any) -> bool:
    return isinstance(value, str) and HEX32.fullmatch(value) is not None


def _name(plain: dict[str, Any], field: str) -> str:
    value = plain.get(field)
    if not isinstance(value, str) or not NAME.fullmatch(value):
        raise DecodeError(0, f"{field} must be a name")
    return value


def _integer(plain: dict[str, Any], field: str, most: int) -> int:
    value = plain.get(field)
    if type(value) is not int or not 0 <= value <= most:
        raise DecodeError(0, f"{field} must be an integer from 0 to {most}")
    return value


def publics(keys: Sequence[str]) -> list[bytes]:
    """The keys as bytes."""
    return [bytes.fromhex(key) for key in keys]
