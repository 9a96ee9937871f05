"""The setting `clusters`: how it is written, what is refused and why, and what it means as stations come and go."""

from __future__ import annotations

from typing import Any

import pytest

from roamcast.middleware.fifo_broadcast.layout import Layout
from roamcast.middleware.lan_update.records import Entry, Version
from roamcast.mss_station import schema
from roamcast.mss_station.changes import LayoutChanged
from roamcast.mss_station.cluster_book import check_members
from roamcast.mss_station.cluster_text import FORM, TEXT_BYTES_MAX, Clusters, read_clusters
from roamcast.mss_station.directory import LanDirectory
from roamcast.mss_station.errors import SchemaError
from roamcast.mss_station.group_settings import setting
from roamcast.mss_station.schema import StationRecord
from roamcast.transport.curve import generate
from roamcast.transport.limits import LAN_VALUE_BYTES_MAX
from roamcast.transport.station_files import StationCard

KEYS = [generate().public for _ in range(7)]
OWN = StationCard("hill", 3, "fleet", 9, "tcp://10.0.0.3:1", "tcp://10.0.0.3:2", KEYS[0], "ab" * 32)
TWO = "north: hill mast dome / south: dome mast pier / standbys: mast"


def station(id: str, slot: int, state: str = schema.ACTIVE) -> Entry:
    record = StationRecord(id, slot, 9, f"tcp://{id}:1", f"tcp://{id}:2", (KEYS[slot],), ("ab" * 32,), state)
    return Entry(schema.station_key(id), Version(1, 0, "hill", 7), schema.station_value(record))


def set_to(text: str) -> Entry:
    return Entry(schema.setting_key("clusters"), Version(1, 0, "hill", 7), schema.setting_value(text))


def directory(*entries: Entry) -> LanDirectory:
    return LanDirectory(OWN, {each.key: each for each in entries})


# ---- the text ----


@pytest.mark.parametrize(
    ("text", "held"),
    [
        ("", ""),
        (" flat ", ""),
        (TWO, TWO),
        ("north:hill,mast, dome/south : dome mast\tpier /standbys: mast", TWO),
        ("standbys: mast / north: hill mast dome / south: dome mast pier", TWO),
        ("a: x g / b: y g / c: z g", "a: x g / b: y g / c: z g"),
        ("a: x g h / b: y g i / c: z h i", "a: x g h / b: y g i / c: z h i"),
        (FORM, FORM),
    ],
)
def test_a_text_is_read_and_kept_in_one_form(text: str, held: str) -> None:
    one = setting("clusters")
    assert one.read(text) == held and one.check(held) == held
    assert one.show(held) == (held or "flat") and one.read(one.show(held)) == held


def test_what_a_text_means() -> None:
    clusters = read_clusters(TWO)
    assert clusters == Clusters((("north", ("hill", "mast", "dome")), ("south", ("dome", "mast", "pier"))), ("mast",))
    assert clusters.ids() == ["dome", "hill", "mast", "pier"] and clusters.name(1) == "south"
    slots = {"hill": 1, "mast": 2, "dome": 3, "pier": 4}
    assert clusters.layout(slots.get) == Layout(((1, 2, 3), (3, 2, 4)), frozenset({2}))
    assert clusters.layout({"hill": 1, "pier": 4}.get) == Layout(((1,), (4,)), frozenset())


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("north", "'north' names no cluster; write it as "),
        ("north: a b", "there is only one cluster: name two or more, or none; write it as "),
        ("standbys: a", "a is a standby and in no cluster; put it into those of its gateway too"),
        ("north: a b / south: b c /", "'' names no cluster"),
        ("north: a b / south:", "south has no station; name some, or leave it out"),
        ("north: a b / south: b c / standbys:", "standbys has no station"),
        ("north: a b b / south: b c", "b stands twice in north; name it once"),
        ("north: a b / south: b c / standbys: d d", "d stands twice in standbys"),
        ("north: a b / north: b c", "north stands there twice; write its stations in one part"),
        ("north: a b! / south: b c", "'b!' is no name of a cluster or a station; it must be a name of at most 64"),
        ("no rth: a b / south: b c", "'no rth' is no name of a cluster or a station"),
        (
            "north: a b / south: c d",
            "no station in both of clusters north and south: any two share exactly one gateway",
        ),
        ("north: a b c / south: b c d", "b and c in both of clusters north and south: any two share exactly one"),
        ("a: x g / b: y g h / c: z h", "no station in both of clusters a and c"),
        ("north: a b / south: b c / standbys: b", "no station in both of clusters north and south"),
        ("north: a b / south: b c / standbys: d", "d is a standby and in no cluster"),
        ("north: a b d / south: b c / standbys: d", "standby d is not in exactly the clusters of a gateway; "),
        ("a: x g d / b: y g d / c: z g / standbys: d", "standby d is not in exactly the clusters of a gateway; "),
        (" / ".join(f"c{i}: s1" for i in range(65)), "there are more than 64; make fewer and larger ones"),
        ("a" * TEXT_BYTES_MAX + ": x", f"must not be longer than {TEXT_BYTES_MAX} bytes"),
    ],
)
def test_a_wrong_text_is_refused_with_the_reason(text: str, said: str) -> None:
    with pytest.raises(SchemaError) as refused:
        setting("clusters").read(text)
    assert said in str(refused.value) and str(refused.value).startswith("clusters: ")
    with pytest.raises(SchemaError):
        setting("clusters").check(text)


@pytest.mark.parametrize("value", [None, 7, b"x", ["a"], {}])
def test_what_is_no_text_is_refused(value: Any) -> None:
    with pytest.raises(SchemaError, match="clusters must be flat, or NAME: STATIONS"):
        setting("clusters").check(value)


def test_the_longest_text_fits_into_an_entry() -> None:
    assert len(set_to("x" * TEXT_BYTES_MAX).value or b"") <= LAN_VALUE_BYTES_MAX


# ---- members ----


def test_stations_that_are_no_members_are_refused() -> None:
    found = directory(*(station(id, slot) for id, slot in (("mast", 2), ("dome", 4), ("pier", 5))))
    with pytest.raises(SchemaError, match="there is no station 'hill'; `mss-station stations list` shows all"):
        check_members(TWO, found.record)
    found.apply(station("hill", 3))
    check_members(TWO, found.record)
    check_members("", found.record)
    for state in ("retired", "lost"):
        found.apply(station("pier", 5, state))
        with pytest.raises(SchemaError, match=f"pier is {state} and no member any more; leave it out"):
            check_members(TWO, found.record)


# ---- the directory ----


def test_the_core_is_told_the_slots_of_the_stations() -> None:
    found = directory(*(station(id, slot) for id, slot in (("mast", 2), ("dome", 4), ("pier", 5))))
    assert found.layout() == Layout() and found.faults == []
    assert LayoutChanged() in found.apply(set_to(TWO))
    wanted = Layout(((3, 2, 4), (4, 2, 5)), frozenset({2}))
    assert found.layout() == wanted and found.faults == []
    found.apply(station("tower", 6))
    found.apply(station("dome", 4, schema.LOST))
    assert found.layout() == wanted, "its slot stays what it was"
    assert LayoutChanged() in found.apply(set_to(""))
    assert found.layout() == Layout()


def test_every_order_of_arrival_ends_in_the_same_layout() -> None:
    told = [station("mast", 2), station("dome", 4), station("pier", 5)]
    found = directory()
    assert LayoutChanged() not in found.apply(station("tower", 6)), "there are no clusters"
    found.apply(set_to(TWO))
    assert found.layout() == Layout(), "without a gateway there are no clusters"
    assert [text for text in found.faults if "any two share exactly one gateway" in text]
    for each in told:
        assert LayoutChanged() in found.apply(each)
    assert found.layout() == Layout(((OWN.slot, 2, 4), (4, 2, 5)), frozenset({2}))
    assert found.faults == [] == found.early_faults()


def test_a_station_that_is_not_known_yet_is_left_out_and_told() -> None:
    found = directory(station("mast", 2), station("dome", 4))
    found.apply(set_to(TWO))
    assert found.layout() == Layout(((3, 2, 4), (4, 2)), frozenset({2}))
    assert found.faults == ["settings/clusters names pier, of which this station knows nothing yet"]


def test_a_value_that_another_station_wrote_and_cannot_be_is_no_layout() -> None:
    found = directory()
    found.apply(set_to("north: a / south: b"))
    assert found.layout() == Layout() and found.value("clusters") is None
    assert any("the entry is ignored" in text for text in found.faults)
