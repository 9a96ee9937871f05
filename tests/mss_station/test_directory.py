"""The directory over the configuration: who is let in, what a change changes, the same at every station."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pytest

from roamcast.middleware.lan_update.records import Entry, Version
from roamcast.middleware.settings import DAY, Settings
from roamcast.mss_station import schema
from roamcast.mss_station.directory import (
    Change,
    Directory,
    Fault,
    HostKnown,
    HostRevoked,
    HostShut,
    LanDirectory,
    MembersChanged,
    OwnChanged,
    SettingsChanged,
    StationsChanged,
)
from roamcast.mss_station.schema import HostCard, StationRecord
from roamcast.transport.curve import generate
from roamcast.transport.map_codec import encode_map
from roamcast.transport.station_files import StationCard

KEYS = [generate().public for _ in range(8)]
SIGNING = "ab" * 32
OWN = StationCard("hill", 3, "fleet", 9, "tcp://10.0.0.3:1", "tcp://10.0.0.3:2", KEYS[0], SIGNING)


def entry(key: str, value: bytes | None, author: str = "hill") -> Entry:
    return Entry(key, Version(1, 0, author, 7), value)


def host(name: str, number: int, key: str, slot: int = 3) -> tuple[HostCard, Entry]:
    card = HostCard(name, slot << 32 | number, key, slot)
    return card, entry(schema.host_key(name), schema.host_value(card))


def station(id: str, slot: int, *keys: str, **changed: Any) -> Entry:
    record = StationRecord(id, slot, slot + 100, f"tcp://{id}:1", f"tcp://{id}:2", keys, (SIGNING,))
    return entry(schema.station_key(id), schema.station_value(replace(record, **changed)))


def revoked(name: str, key: str) -> Entry:
    return entry(schema.revocation_key(name, key), schema.revocation_value())


def set_to(name: str, value: Any) -> Entry:
    return entry(schema.setting_key(name), encode_map({"value": value}))


def directory(*entries: Entry) -> LanDirectory:
    return LanDirectory(OWN, {each.key: each for each in entries})


# ---- hosts ----


def test_hosts_are_known_by_key_and_name() -> None:
    (ann, told), (bob, also) = host("ann", 1, KEYS[1]), host("bob", 2, KEYS[2])
    found: Directory = directory(also, told)
    assert found.hosts() == [ann, bob]
    assert (found.host(KEYS[1]), found.named("bob")) == (ann, bob)
    assert found.host(KEYS[3]) is None and found.named("eve") is None and found.revoked() == []


def test_a_new_host_is_told_once() -> None:
    ann, told = host("ann", 1, KEYS[1])
    found = directory()
    assert found.apply(told) == [HostKnown(ann)]
    assert found.apply(told) == []


def test_a_revoked_host_is_not_let_in() -> None:
    ann, told = host("ann", 1, KEYS[1])
    found = directory(told)
    assert found.apply(revoked("ann", KEYS[1])) == [HostRevoked(ann)]
    assert (found.host(KEYS[1]), found.named("ann"), found.hosts(), found.revoked()) == (None, None, [], [ann])


def test_a_revocation_that_came_before_the_card_holds() -> None:
    ann, told = host("ann", 1, KEYS[1])
    found = directory(revoked("ann", KEYS[1]))
    assert found.apply(told) == [HostKnown(ann), HostRevoked(ann)]
    assert found.hosts() == []


def test_a_revoked_key_is_let_in_under_no_other_name() -> None:
    found = directory(revoked("ann", KEYS[1]), host("zoe", 2, KEYS[1])[1])
    assert found.host(KEYS[1]) is None


def test_a_revocation_does_not_end_the_name_with_another_key() -> None:
    ann, told = host("ann", 1, KEYS[2])
    assert directory(revoked("ann", KEYS[1]), told).host(KEYS[2]) == ann


def test_a_host_with_another_key_must_come_anew() -> None:
    (ann, told), (rekeyed, also) = host("ann", 1, KEYS[1]), host("ann", 1, KEYS[2])
    found = directory(told)
    assert found.apply(also) == [HostShut(ann), HostKnown(rekeyed)]
    assert (found.host(KEYS[1]), found.host(KEYS[2])) == (None, rekeyed)


def test_of_two_enrolments_of_one_name_the_number_of_the_earlier_ends() -> None:
    (first, told), (second, also) = host("ann", 1, KEYS[1]), host("ann", 7, KEYS[2], slot=4)
    found = directory(told)
    assert found.apply(also) == [HostRevoked(first), HostKnown(second)]


@pytest.mark.parametrize("same", ["number", "key"])
@pytest.mark.parametrize("first", ["ann", "bob"])
def test_of_two_hosts_with_one_number_or_key_the_first_name_holds(same: str, first: str) -> None:
    ann, told = host("ann", 1, KEYS[1])
    bob, also = host("bob", *((1, KEYS[2]) if same == "number" else (2, KEYS[1])))
    found = directory()
    for each in (told, also) if first == "ann" else (also, told):
        changes = found.apply(each)
    assert found.hosts() == [ann] and found.named("bob") is None
    (fault,) = found.faults
    assert "hosts/bob claims the number or the key of hosts/ann" in fault and Fault(fault) in changes
    assert (HostShut(bob) in changes) == (first == "bob")
    assert found.apply(replace(told, value=None)) == [HostShut(ann), HostKnown(bob)]
    assert found.faults == [] and found.hosts() == [bob]


def test_a_card_that_cannot_be_read_shuts_its_host_out_and_ends_nothing_for_good() -> None:
    ann, told = host("ann", 1, KEYS[1])
    found = directory(told)
    changes = found.apply(replace(told, value=b"\xff"))
    assert changes[1:] == [HostShut(ann)] and isinstance(changes[0], Fault) and "hosts/ann" in changes[0].text
    assert found.apply(replace(told, value=encode_map({"number": 5})))[1:] == []
    assert found.apply(told) == [HostKnown(ann)] and found.faults == []


# ---- stations ----


def test_active_peers_are_known_by_any_of_their_keys_in_the_order_of_their_slots() -> None:
    found = directory(station("dale", 5, KEYS[1], KEYS[2]), station("creek", 4, KEYS[3]), station("hill", 3, KEYS[0]))
    assert [card.id for card in found.stations()] == ["creek", "dale"]
    for key in KEYS[1:3]:
        card = found.station(key)
        assert card is not None and (card.id, card.key, card.group, card.slot) == ("dale", KEYS[1], "fleet", 5)
    assert found.station(KEYS[0]) is None, "a station is not its own peer"
    assert found.peer("dale") == found.station(KEYS[1]) and found.peer("hill") is None
    assert found.keys("dale") == (KEYS[1], KEYS[2]) and found.keys("nobody") == ()
    assert [record.id for record in found.members()] == ["hill", "creek", "dale"]


def test_peers_that_come_move_and_go_are_told() -> None:
    found = directory()
    _, came = found.apply(station("dale", 5, KEYS[1]))
    assert isinstance(came, StationsChanged) and came.before == () and came.after == tuple(found.stations())
    _, moved = found.apply(station("dale", 5, KEYS[1], hosts="tcp://new:1", stations="tcp://new:2"))
    assert isinstance(moved, StationsChanged) and moved.after[0].stations == "tcp://new:2"
    _, gone = found.apply(station("dale", 5, KEYS[1], state="retired"))
    assert isinstance(gone, StationsChanged) and gone.after == ()
    former = found.former(KEYS[1])
    assert former is not None and (former.id, former.state) == ("dale", "retired")
    assert found.station(KEYS[1]) is None and found.members() == found.ended() == [former]


def test_a_station_that_is_being_retired_is_a_peer_until_it_has_been() -> None:
    found = directory(station("dale", 5, KEYS[1]))
    assert found.apply(station("dale", 5, KEYS[1], state="retiring", heir="hill")) == [MembersChanged()]
    assert found.station(KEYS[1]) is not None and found.ended() == []
    found.apply(station("dale", 5, KEYS[1], state="retired", heir="hill"))
    assert [(record.id, record.heir) for record in found.ended()] == [("dale", "hill")]


def test_a_lost_station_whose_hosts_are_not_waited_for_any_more_is_told_again() -> None:
    found = directory(station("dale", 5, KEYS[1], state="lost"))
    assert found.apply(station("dale", 5, KEYS[1], state="lost", released=True)) == [MembersChanged()]
    assert [record.released for record in found.ended()] == [True]


def test_a_station_that_holds_no_slot_ends_nobody() -> None:
    """Its slot is that of another one, which lives."""
    found = directory(station("creek", 5, KEYS[2]), station("dale", 5, KEYS[1], state="lost"))
    assert found.ended() == [] and [card.id for card in found.stations()] == ["creek"]


def test_another_key_of_a_peer_that_stays_behind_the_newest_needs_no_other_connection() -> None:
    found = directory(station("dale", 5, KEYS[1]))
    assert found.apply(station("dale", 5, KEYS[1], KEYS[2])) == [MembersChanged()]
    assert found.keys("dale") == (KEYS[1], KEYS[2])


def test_what_is_said_of_this_station_is_told_with_its_author() -> None:
    found = directory()
    told = replace(station("hill", 3, KEYS[0], state="lost"), version=Version(2, 0, "dale", 1))
    _, change = found.apply(told)
    assert isinstance(change, OwnChanged) and change.by == "dale" and change.record.state == "lost"
    assert found.own_value() == (told.value, change.record)


@pytest.mark.parametrize("first", [0, 1])
def test_of_two_stations_with_one_slot_the_lower_id_keeps_it(first: int) -> None:
    told = [station("dale", 5, KEYS[1]), station("creek", 5, KEYS[2])]
    found = directory()
    changes = found.apply(told[first]) + found.apply(told[1 - first])
    assert [card.id for card in found.stations()] == ["creek"] and found.station(KEYS[1]) is None
    (fault,) = found.faults
    assert fault.startswith("stations/dale claims the slot or a key of creek") and Fault(fault) in changes


def test_nobody_takes_the_slot_or_key_of_this_station_behind_its_back() -> None:
    found = directory(station("iris", 3, KEYS[1]), station("jane", 6, KEYS[0]))
    assert found.stations() == [] and len(found.faults) == 2
    found = directory(station("abel", 3, KEYS[1]))
    assert any(text.startswith("stations/hill claims") for text in found.faults), "this one would be the second"


# ---- settings ----


def test_settings_hold_and_go_back() -> None:
    found = directory(set_to("away-max", 14 * DAY))
    assert found.settings() == Settings(away_max=14 * DAY) and found.value("away-max") == 14 * DAY
    assert found.apply(set_to("window-entries", 7)) == [
        SettingsChanged(Settings(away_max=14 * DAY, window_entries=7), "window-entries")
    ]
    assert found.apply(replace(set_to("away-max", 1), value=None)) == [
        SettingsChanged(Settings(window_entries=7), "away-max")
    ]
    assert found.value("away-max") is None


def test_a_setting_that_is_not_of_the_cores_is_told_too() -> None:
    assert directory().apply(set_to("log-level", "debug")) == [SettingsChanged(Settings(), "log-level")]


def test_a_wrong_setting_counts_as_not_set_and_is_told_once() -> None:
    found = directory()
    (fault,) = found.apply(set_to("away-max", -1))
    assert isinstance(fault, Fault) and "away-max must be" in fault.text
    assert found.apply(set_to("away-max", -1)) == [] and found.settings() == Settings()
    assert found.apply(set_to("away-max", 14 * DAY)) == [SettingsChanged(Settings(away_max=14 * DAY), "away-max")]
    assert found.faults == []


def test_settings_that_contradict_each_other_have_their_defaults() -> None:
    found = directory(set_to("away-max", 60_000_000), set_to("window-entries", 7))
    changes = found.apply(set_to("ephemeral-away-max", 120_000_000))
    assert SettingsChanged(Settings(window_entries=7), "ephemeral-away-max") in changes
    assert any(isinstance(each, Fault) for each in changes)
    found.apply(set_to("away-max", 14 * DAY))
    assert found.settings().ephemeral_away_max == 120_000_000 and found.faults == []


@pytest.mark.parametrize("key", ["settings/of-tomorrow", "logs/s1", "topics/news/class", "x", "hosts", "stationsx/a"])
def test_what_another_release_writes_changes_nothing_here(key: str) -> None:
    found = directory()
    assert found.apply(entry(key, b"\xff")) == [] and found.apply(entry(key, None)) == [] and found.faults == []


# ---- the same at every station ----


def world(rng: random.Random) -> list[Entry]:
    """Entries of a few names, keys, numbers and slots, so that they meet."""
    entries = [station("hill", 3, KEYS[0])]
    for name in ("ann", "bob", "cat", "dan"):
        entries.append(host(name, rng.randint(1, 3), rng.choice(KEYS[1:4]))[1])
    for id in ("abel", "iris", "jane"):
        state = rng.choice(["active", "active", "retired"])
        entries.append(station(id, rng.randint(3, 6), rng.choice(KEYS), state=state))
    entries += [revoked(rng.choice(["ann", "bob"]), rng.choice(KEYS[1:4])) for _ in range(2)]
    entries.append(set_to("away-max", rng.choice([60_000_000, 14 * DAY, -1])))
    entries.append(set_to("ephemeral-away-max", rng.choice([1_000_000, 120_000_000])))
    broken = [replace(each, value=rng.choice([b"\xff", None, each.value])) for each in rng.sample(entries, 3)]
    return [*entries, *broken]


def answers(found: LanDirectory) -> tuple[Any, ...]:
    return (found.hosts(), found.revoked(), found.stations(), found.members(), found.settings(), found.faults,
            [found.host(key) for key in KEYS], [found.station(key) for key in KEYS],
            [found.former(key) for key in KEYS])  # fmt: skip


def follow(live: set[HostCard], changes: list[Change]) -> None:
    """What a station does that only hears of changes."""
    for change in changes:
        match change:
            case HostKnown(card):
                live.add(card)
            case HostShut(card) | HostRevoked(card):
                live.discard(card)


@pytest.mark.parametrize("_", range(50))
def test_the_order_of_arrival_does_not_matter(_: int) -> None:
    seed = random.SystemRandom().randrange(1_000_000)
    print(f"seed {seed}")
    rng = random.Random(seed)
    arriving = world(rng)
    held = {each.key: each for each in arriving}
    expected = answers(LanDirectory(OWN, held))
    found, live = directory(), set[HostCard]()
    for each in arriving:
        follow(live, found.apply(each))
    assert answers(found) == expected
    assert live == set(found.hosts())
    again = directory(*rng.sample(arriving, 5))
    live = set(again.hosts())
    follow(live, again.reload(dict(rng.sample(list(held.items()), len(held)))))
    assert answers(again) == expected
    assert live == set(again.hosts())
