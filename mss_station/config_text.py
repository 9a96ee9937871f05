"""Values of the configuration as people write and read them: 30d for a setting, one JSON object for a map."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any, Final

from roamcast.middleware.lan_update.records import Entry, Version
from roamcast.middleware.settings import SECOND
from roamcast.mss_station import schema, topic_schema
from roamcast.mss_station.errors import SchemaError
from roamcast.mss_station.group_settings import SETTINGS, setting
from roamcast.transport.errors import DecodeError
from roamcast.transport.limits import LAN_VALUE_BYTES_MAX
from roamcast.transport.map_codec import decode_map, encode_map

JSON_CHARS_MAX: Final = LAN_VALUE_BYTES_MAX // 4
"""Whatever stands in it, no value made of it is too large."""

KNOWN: Final = "settings/<name>, stations/<id>, hosts/<name>, topics/<t>, topics/<t>/send|receive, groups/<g>"
FIXED_OF_STATION: Final = {
    "slot": "it is given once and for ever",
    "generation": "it belongs to the station's directory",
    "hosts": "the station puts what its station.toml says",
    "stations": "the station puts what its station.toml says",
    "state": "see `mss-station stations`",
    "heir": "see `mss-station stations`",
    "released": "see `mss-station stations`",
    "keys": "see `mss-station keys`",
    "signing": "see `mss-station keys`",
    "host-key": "see `mss-station keys`",
}
FIXED_OF_HOST: Final = {
    "number": "it is given once and for ever",
    "slot": "it names the station that has enrolled the host",
}
FIXED_OF_TOPIC: Final = {
    "number": "it is drawn when the topic is added",
    "lists": "it follows topics/<t>/send and topics/<t>/receive",
}


def read_value(key: str, text: str, before: bytes | None) -> bytes:
    """The value that `text` makes of the entry `key`, which is `before` now. Raises SchemaError."""
    if key.startswith(schema.SETTINGS):
        return schema.setting_value(setting(key.removeprefix(schema.SETTINGS)).read(text))
    if key.startswith(schema.STATIONS):
        value = _changed(key, text, before, FIXED_OF_STATION, "a station gets its entry when it joins")
        schema.read_station(key, value)
        return value
    if key.startswith(schema.HOSTS):
        value = _changed(key, text, before, FIXED_OF_HOST, "a host gets its entry by `mss-station hosts enrol`")
        schema.read_host(key, value)
        return value
    if key.startswith(schema.REVOKED):
        raise SchemaError(f"{key!r}: a revocation is made by `mss-station hosts revoke`")
    if key in SETTINGS:
        raise SchemaError(f"{key!r} is no key; did you mean settings/{key}?")
    raise SchemaError(f"{key!r}: this release has no schema for such a key; it knows {KNOWN}")


def read_topic_map(key: str, text: str, before: bytes | None) -> bytes:
    """The value that `text` makes of a topic's own entry. Raises SchemaError."""
    value = _changed(key, text, before, FIXED_OF_TOPIC, "a topic gets its entry by `mss-station topics add`")
    topic_schema.read_topic(key, value)
    return value


def _changed(key: str, text: str, before: bytes | None, fixed: dict[str, str], how: str) -> bytes:
    if before is None:
        raise SchemaError(f"there is no entry {key!r}: {how}")
    if len(text) > JSON_CHARS_MAX:
        raise SchemaError(f"{key}: the value must not be longer than {JSON_CHARS_MAX} signs")
    try:
        new = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise SchemaError(f"{key}: the value must be one JSON object ({error})") from None
    if not isinstance(new, dict):
        raise SchemaError(f"{key}: the value must be one JSON object")
    old = schema.read_map(key, before)
    for field, why in fixed.items():
        if new.get(field) != old.get(field):
            raise SchemaError(f"{key}: {field} cannot be changed by hand: {why}")
    try:
        value = encode_map(new)
    except UnicodeEncodeError:
        raise SchemaError(f"{key}: a text in the value cannot be written as UTF-8") from None
    schema.read_map(key, value)
    return value


def plain(entry: Entry) -> Any:
    """The value for a program: that of a setting, or the map; bytes as hexadecimal text. None: deleted."""
    if entry.value is None:
        return None
    try:
        values = decode_map(entry.value)
    except DecodeError:
        return {"undecodable": entry.value.hex()}
    if entry.key.startswith(schema.SETTINGS) and set(values) == {"value"}:
        return _plain(values["value"])
    if entry.key.startswith((topic_schema.TOPICS, topic_schema.GROUPS)) and set(values) == {"who"}:
        return _plain(values["who"])
    return _plain(values)


def _plain(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, list):
        return [_plain(each) for each in value]
    return {name: _plain(each) for name, each in value.items()} if isinstance(value, dict) else value


def shown(entry: Entry) -> str:
    """The value for a person."""
    value = plain(entry)
    if value is None:
        return "(deleted)"
    one = SETTINGS.get(entry.key.removeprefix(schema.SETTINGS))
    if one is not None and isinstance(value, int | str):
        return one.show(value)
    if isinstance(value, list) and all(isinstance(name, str) for name in value):
        return topic_schema.shown_who(value)
    return json.dumps(value, ensure_ascii=False)


def time_of(version: Version) -> str:
    """When an entry was written, UTC, as its author's clock said (or later, if the entry before said so)."""
    return utc_text(version.time)


def utc_text(wall: int) -> str:
    """A time in microseconds as a person reads it."""
    try:
        return datetime.fromtimestamp(wall / SECOND, UTC).strftime("%Y-%m-%d %H:%M:%S")
    except (OverflowError, ValueError, OSError):
        return f"{wall} us after 1970"


def describe(entry: Entry) -> dict[str, Any]:
    """An entry for a program."""
    return {
        "key": entry.key,
        "value": plain(entry),
        "deleted": entry.value is None,
        "by": entry.version.node,
        "at": time_of(entry.version),
        "version": list(entry.version),
    }
