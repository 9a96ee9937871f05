"""What a view says of streams that have ended, and of who answers for their hosts."""

from __future__ import annotations

from roamcast.middleware.membership.view import Ending, View

LOST = Ending(0, 7, (0, 3, 7))


def test_what_is_beyond_the_cut_of_an_ended_stream_means_the_cut():
    view = View((1, 2, 3), closed={2: (0, ())}, final={2: LOST})
    assert view.void((0, 9, 9, 9)) == (0, 9, 7, 9)
    assert (view.cut_of(2, 5), view.cut_of(2, 8), view.cut_of(1, 8)) == (5, 7, 8)


def test_an_heir_answers_until_it_has_ended_too():
    heirs = {2: Ending(3, 1, ()), 3: Ending(1, 1, ())}
    view = View((1, 2, 3), closed={2: (3, ()), 3: (1, ())}, final=heirs)
    assert (view.heir_of(2), view.heir_of(3), view.heir_of(1)) == (1, 1, 1)
    lost = View((1, 2, 3), closed={2: (3, ()), 3: (0, ())}, final={2: Ending(3, 1, ()), 3: LOST})
    assert lost.heir_of(2) == 0


def test_heirs_in_a_ring_are_nobody():
    ring = {1: Ending(2, 0, ()), 2: Ending(1, 0, ())}
    view = View((1, 2, 3), closed={1: (2, ()), 2: (1, ())}, final=ring)
    assert view.heir_of(1) == 0


def test_a_closed_station_counts_until_it_is_final_and_then_its_guard_does():
    view = View((1, 2, 3), closed={2: (0, (0, 4, 4))})
    assert (view.living, view.counted, view.guards()) == ((1, 3), (1, 2, 3), {})
    final = View((1, 2, 3), closed={2: (0, (0, 4, 4))}, final={2: LOST})
    assert (final.counted, final.guards(), final.lost) == ((1, 3), {2: (0, 4, 4)}, (2,))
    dropped = View((1, 2, 3), closed={2: (0, (0, 4, 4))}, final={2: LOST}, dropped=frozenset({2}))
    assert dropped.guards() == {}


def test_a_stream_is_past_when_it_has_ended_and_all_of_it_was_dropped():
    view = View((1, 2, 3), closed={2: (0, ())}, final={2: LOST})
    assert (view.is_past(2, 6), view.is_past(2, 7), view.is_past(1, 99)) == (False, True, False)


def test_an_heir_that_is_closed_answers_until_its_end_is_settled():
    view = View((1, 2, 3), closed={2: (3, ()), 3: (0, ())}, final={2: Ending(3, 1, ())})
    assert view.heir_of(2) == 3
