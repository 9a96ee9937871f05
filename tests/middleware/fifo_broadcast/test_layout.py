"""Layouts: what is refused, in words, and that whoever is not seen is seen by a gateway that is."""

from __future__ import annotations

import subprocess
import sys
from itertools import combinations, product

import pytest

from roamcast.middleware.fifo_broadcast.layout import Layout
from roamcast.middleware.fifo_broadcast.place import Place
from roamcast.middleware.membership.view import View

PAIRS = Layout(((1, 2, 7), (1, 3, 8), (2, 3, 9)))
TWO = Layout(((1, 2, 3), (2, 3, 4)), frozenset({3}))


def test_flat_has_no_clusters_and_everybody_is_near() -> None:
    flat = Layout()
    assert (flat.digest, flat.mark((1, 2)), flat.of(5), flat.fault()) == (0, 0, (0,), None)
    assert flat.near(1, (1, 2, 3)) == (1, 2, 3)
    assert not flat.parted(())


def test_who_belongs_where() -> None:
    assert [PAIRS.of(slot) for slot in (1, 2, 3, 7, 8, 9)] == [(0, 1), (0, 2), (1, 2), (0,), (1,), (2,)]
    assert PAIRS.of(10) == (0,), "a station that is named nowhere counts as of cluster 0"
    assert PAIRS.members(0, (1, 2, 3, 7, 10)) == (1, 2, 7, 10)
    assert PAIRS.near(7, (1, 2, 3, 7, 8, 9)) == (1, 2, 7)
    assert TWO.group(0, 1) == TWO.group(1, 0) == (2, 3)
    assert Layout(TWO.clusters, frozenset({2})).group(0, 1) == (3, 2), "the active one comes first"


@pytest.mark.parametrize(
    ("clusters", "standbys", "words"),
    [
        (((1, 2),), (), "only one cluster"),
        (((1, 2, 1), (2, 3)), (), "station s1 is named twice in cluster k0"),
        (((1, 2), (3, 4)), (), "no station in both of clusters k0 and k1"),
        (((1, 2), (1, 2)), (), "s1 and s2 in both of clusters k0 and k1"),
        (((1, 2), (1, 2)), (1, 2), "no station in both of clusters k0 and k1"),
        (((1, 2, 3), (1, 2), (1, 4)), (2,), "standby s2 is not in exactly the clusters of a gateway"),
        (((1, 2), (1, 3)), (2,), "standby s2 is not"),
        (((1, 2), (1, 3)), (9,), "standby s9 is not"),
        ((), (1,), "standbys without clusters"),
    ],
)
def test_what_is_refused_and_why(clusters: tuple[tuple[int, ...], ...], standbys: tuple[int, ...], words: str) -> None:
    fault = Layout(clusters, frozenset(standbys)).fault(lambda slot: f"s{slot}", lambda k: f"k{k}")
    assert fault is not None
    assert words in fault


def test_what_is_not_refused() -> None:
    fano = ((0, 1, 2), (0, 3, 4), (0, 5, 6), (1, 3, 5), (1, 4, 6), (2, 3, 6), (2, 4, 5))
    plane = Layout(tuple(tuple(g + 1 for g, joined in enumerate(fano) if k in joined) for k in range(7)))
    assert [layout.fault() for layout in (PAIRS, TWO, plane, Layout(((1,), (1,), (1, 2))))] == [None] * 4


def test_the_digest_is_the_same_in_every_process_and_for_equal_layouts() -> None:
    code = (
        "from roamcast.middleware.fifo_broadcast.layout import Layout;"
        "print(Layout(((3, 2, 1), (2, 3, 4)), frozenset({3})).digest)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert int(done.stdout) == TWO.digest
    assert 0 < TWO.digest < 1 << 48
    others = [Layout(TWO.clusters, frozenset({2})), PAIRS, Layout(tuple(reversed(TWO.clusters)), TWO.standbys)]
    assert len({TWO.digest, *(layout.digest for layout in others)}) == 4
    assert TWO.mark((1, 2, 3)) != TWO.mark((1, 2, 3, 4))


def test_clusters_are_parted_when_all_gateways_of_two_have_ended() -> None:
    assert not TWO.parted((1, 3, 4))
    assert TWO.parted((1, 4))
    assert not TWO.parted((1,)), "nobody lives in the other one"
    assert Place(1, TWO, View((1, 2, 3, 4), closed={2: (0, ()), 3: (0, ())})).near == (4,)


def layouts(slots: int, clusters: int, standbys_max: int) -> list[Layout]:
    """Every layout of so many stations that has no fault."""
    subsets = [joined for size in range(1, clusters + 1) for joined in combinations(range(clusters), size)]
    found = []
    for joined in product(subsets, repeat=slots):
        cut = tuple(tuple(slot + 1 for slot in range(slots) if k in joined[slot]) for k in range(clusters))
        gateways = [slot + 1 for slot in range(slots) if len(joined[slot]) > 1]
        for count in range(min(standbys_max, len(gateways)) + 1):
            for standbys in combinations(gateways, count):
                layout = Layout(cut, frozenset(standbys))
                if layout.fault() is None:
                    found.append(layout)
    return found


@pytest.mark.parametrize(("slots", "clusters", "standbys"), [(4, 2, 2), (5, 2, 1), (4, 3, 1), (5, 3, 1)])
def test_whoever_is_not_near_is_near_a_gateway_that_is(slots: int, clusters: int, standbys: int) -> None:
    everybody = tuple(range(1, slots + 1))
    every = layouts(slots, clusters, standbys)
    assert len(every) > 20
    for layout in every:
        places = {slot: Place(slot, layout, View(everybody)) for slot in everybody}
        for slot, place in places.items():
            seen = set(place.rows).union(*(places[gateway].rows for gateway in place.gateways))
            assert seen == set(everybody), (layout, slot)
            assert all(place.far[other] for other in place.far), "somebody forwards its rows there"
            for other in place.far:
                assert place.bringers[other] == places[other].far[slot], "and both know who"
