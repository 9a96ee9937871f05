"""Keys and values of the configuration: one form, read strictly, unknown fields kept."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from zmq.utils import z85

from roamcast.middleware.lan_update.records import Entry, Version
from roamcast.mss_station import schema
from roamcast.mss_station.errors import SchemaError
from roamcast.mss_station.schema import HostCard, StationRecord
from roamcast.transport.map_codec import decode_map, encode_map

KEY, OTHER = (z85.encode(bytes([n]) * 32).decode() for n in (1, 2))
SIGNING = "ab" * 32
RECORD = StationRecord("s1", 1, 77, "tcp://10.0.0.1:1", "tcp://10.0.0.1:2", (KEY, OTHER), (SIGNING,))
CARD = HostCard("ann", 1 << 32 | 5, KEY, 1)


def test_values_come_back() -> None:
    assert schema.read_station("stations/s1", schema.station_value(RECORD)) == RECORD
    full = replace(RECORD, state="retired", heir="s2", host_key=OTHER)
    assert schema.read_station("stations/s1", schema.station_value(full)) == full
    assert schema.read_host("hosts/ann", schema.host_value(CARD)) == CARD
    assert schema.read_setting("settings/window-entries", schema.setting_value(7)) == 7
    assert decode_map(schema.revocation_value()) == {}


def test_the_key_for_hosts_is_the_newest_unless_there_is_another() -> None:
    assert RECORD.key_for_hosts == KEY
    assert replace(RECORD, host_key=OTHER).key_for_hosts == OTHER


def test_fields_that_are_not_known_here_survive_a_change_of_the_rest() -> None:
    before = encode_map(decode_map(schema.station_value(replace(RECORD, heir="s2"))) | {"clusters": [1, 2]})
    after = decode_map(schema.station_value(replace(RECORD, slot=1, hosts="tcp://10.0.0.9:1"), before))
    assert after["clusters"] == [1, 2] and after["hosts"] == "tcp://10.0.0.9:1" and "heir" not in after


@pytest.mark.parametrize(
    "wrong",
    [
        {"slot": 1024}, {"slot": "1"}, {"slot": True}, {"generation": 0}, {"hosts": "10.0.0.1:1"}, {"stations": None},
        {"keys": []}, {"keys": "x"}, {"keys": ["short"]}, {"keys": [KEY] * 17}, {"signing": []},
        {"signing": ["zz" * 32]}, {"signing": [SIGNING.upper()]},
        {"state": "gone"}, {"state": None}, {"heir": "a/b"}, {"host-key": "short"},
    ],
    ids=str,
)  # fmt: skip
def test_a_wrong_field_of_a_station_is_named(wrong: dict[str, Any]) -> None:
    value = encode_map(decode_map(schema.station_value(RECORD)) | wrong)
    with pytest.raises(SchemaError, match=f"stations/s1.*{next(iter(wrong))} must be"):
        schema.read_station("stations/s1", value)


@pytest.mark.parametrize(
    "wrong", [{"number": 5}, {"number": 1 << 32}, {"number": -1}, {"slot": 2}, {"key": None}, {"key": "x"}], ids=str
)
def test_a_wrong_field_of_a_host_is_named(wrong: dict[str, Any]) -> None:
    value = encode_map(decode_map(schema.host_value(CARD)) | wrong)
    with pytest.raises(SchemaError, match="hosts/ann"):
        schema.read_host("hosts/ann", value)


@pytest.mark.parametrize("key", ["stations/", "stations/a/b", "stations/.x", "stations/" + "x" * 65])
def test_what_is_no_name_is_no_key(key: str) -> None:
    with pytest.raises(SchemaError):
        schema.read_station(key, schema.station_value(RECORD))


@pytest.mark.parametrize("value", [b"", b"\xff", b"\x80", b"\xa1\x01\x01", b"\xbf\xff", encode_map({}) + b"\0"])
def test_bytes_that_are_no_map_are_refused(value: bytes) -> None:
    with pytest.raises(SchemaError, match="no map"):
        schema.read_map("stations/s1", value)


def test_a_revocation_names_host_and_key() -> None:
    key = schema.revocation_key("ann", KEY)
    assert schema.revocation(key) == ("ann", schema.key_hash(KEY)) and schema.key_hash(KEY) != schema.key_hash(OTHER)
    for wrong in ("revoked/ann", "revoked/ann/xyz", "revoked//" + "0" * 16, key + "/more"):
        with pytest.raises(SchemaError):
            schema.revocation(wrong)


def test_membership_ends_by_a_readable_word_alone() -> None:
    def role(**changed: Any) -> Any:
        return schema.role("stations/s1", schema.station_value(replace(RECORD, **changed)))

    assert role() == ("s1", True)
    assert role(state="retired") == role(state="lost") == ("s1", False)
    assert schema.role("stations/s1", b"\xff") == ("s1", True)
    assert schema.role("stations/s1", None) == ("s1", False)
    assert schema.role("hosts/ann", schema.host_value(CARD)) is None
    assert schema.role("stationsX/s1", None) is None


def entry(key: str, value: bytes | None, author: str) -> Entry:
    return Entry(key, Version(1, 0, author, 7), value)


def test_an_author_is_known_by_its_record_and_a_new_one_by_its_own() -> None:
    signing = (bytes.fromhex(SIGNING),)
    record = entry("stations/s1", schema.station_value(RECORD), "s2")
    host = entry("hosts/ann", schema.host_value(CARD), "s1")
    assert schema.author_keys(host, {record.key: record}) == signing
    assert schema.author_keys(host, {}) == ()
    own = replace(record, version=Version(2, 0, "s1", 8))
    assert schema.author_keys(own, {}) == signing
    other = StationRecord("s1", 1, 77, "tcp://a:1", "tcp://a:2", (KEY,), ("cd" * 32,))
    forged = entry("stations/s1", schema.station_value(other), "s1")
    assert schema.author_keys(forged, {record.key: record}) == signing, "a known one is not asked about itself"
    assert schema.author_keys(host, {record.key: entry("stations/s1", b"\xff", "s2")}) == ()
    assert schema.author_keys(entry("stations/s1", None, "s1"), {}) == ()
