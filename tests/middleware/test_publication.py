"""Who hears what is published: offers and what is said to them, deaf peers, audiences, silence and what follows it."""

from __future__ import annotations

from itertools import pairwise

from roamcast.middleware.publication import (
    AUDIENCES_MAX,
    EVERYBODY,
    GIVE_UP,
    LEASE,
    OFFER_AGAIN,
    OFFER_AGAIN_MAX,
    SAY_AGAIN,
    SILENCE,
    TRY_AGAIN,
    Hearing,
    Publication,
    Publish,
    Reception,
    deaf,
)
from roamcast.middleware.settings import SECOND

TOKEN = 77
ALL = (EVERYBODY,)


def heard_by(*slots: int, now: int = 0) -> Publication:
    """A publication that these peers hear."""
    made = Publication(TOKEN, 7_000)
    for slot in slots:
        assert not made.take(slot, Hearing(TOKEN, ALL), now)
    return made


def alone(made: Publication, *slots: int, to: tuple[int, ...] | None = None) -> list[int]:
    return deaf(slots, made.hearers(made.number(to)))


def test_who_says_that_it_hears_is_not_deaf_for_the_time_of_the_lease() -> None:
    made = heard_by(2)
    assert alone(made, 2, 3) == [3]
    made.offers([2, 3], LEASE - 1)
    assert alone(made, 2, 3) == [3]
    made.offers([2, 3], LEASE)
    assert alone(made, 2, 3) == [2, 3]


def test_the_lease_is_renewed() -> None:
    made = heard_by(2)
    made.take(2, Hearing(TOKEN, ALL), LEASE - 1)
    made.offers([2], LEASE)
    assert alone(made, 2) == []


def test_what_is_said_of_another_token_counts_for_nothing() -> None:
    made = heard_by(2)
    assert not made.take(3, Hearing(TOKEN + 1, ALL), 0) and alone(made, 2, 3) == [3]
    assert not made.take(2, Hearing(TOKEN + 1, ()), 0) and alone(made, 2, 3) == [3]


def test_who_becomes_deaf_is_told_apart_from_who_was() -> None:
    made = heard_by(2)
    assert made.take(2, Hearing(TOKEN, ()), 1) and alone(made, 2) == [2]
    assert not made.take(2, Hearing(TOKEN, ()), 2)


def test_offers_are_repeated_ever_less_often_until_the_peer_hears() -> None:
    made = Publication(TOKEN, 7_000)
    said = [now for now in range(0, 400 * SECOND, SECOND) if made.offers([2], now)]
    pauses = [after - before for before, after in pairwise(said)]
    assert pauses[:4] == [OFFER_AGAIN, 2 * OFFER_AGAIN, 4 * OFFER_AGAIN, 8 * OFFER_AGAIN]
    assert pauses[-1] == OFFER_AGAIN_MAX
    now = 400 * SECOND
    made.take(2, Hearing(TOKEN, ALL), now)
    assert made.offers([2], now) == [] == made.offers([2], now + LEASE - 1)
    assert made.offers([2], now + LEASE) == [(2, Publish(TOKEN, 7_000, ALL))], "at once, once it is deaf again"


def test_a_peer_that_begins_anew_is_deaf_and_offered_all() -> None:
    made = heard_by(2, 3)
    made.offers([2, 3], 0)
    made.forget(2)
    assert alone(made, 2, 3) == [2]
    assert made.offers([2, 3], 1) == [(2, Publish(TOKEN, 7_000, ALL))]


def test_an_audience_is_offered_to_its_slots_alone_and_heard_for_itself() -> None:
    made = heard_by(2, 3, 4)
    number = made.number((2, 3))
    assert alone(made, 2, 3, to=(2, 3)) == [2, 3] and alone(made, 2, 3, 4) == []
    offers = dict(made.offers([2, 3, 4], 1))
    assert {slot: offer.audiences for slot, offer in offers.items()} == {2: (0, number), 3: (0, number)}
    made.take(2, Hearing(TOKEN, (0, number)), 1)
    assert alone(made, 2, 3, to=(2, 3)) == [3] and made.numbers() == [0, number]


def test_of_many_audiences_the_oldest_goes_and_its_number_is_not_given_again() -> None:
    made = heard_by(2)
    numbers = [made.number((2, other)) for other in range(3, 4 + AUDIENCES_MAX)]
    assert len(set(numbers)) == len(numbers) and len(made.numbers()) == 1 + AUDIENCES_MAX
    assert made.number((2, 3)) not in numbers and EVERYBODY in made.numbers()


def test_what_comes_is_said_at_once_and_again_and_silence_at_once() -> None:
    state = Reception(Publish(TOKEN, 7_000, ALL), 0, 0)
    assert state.to_say(0) is None
    assert state.heard(EVERYBODY, 1)
    frame = state.to_say(1)
    assert frame == Hearing(TOKEN, ALL) and state.to_say(2) == frame, "until it was sent"
    state.said(frame, 2)
    assert state.to_say(3) is None
    state.heard(EVERYBODY, 2 + SAY_AGAIN)
    assert state.to_say(2 + SAY_AGAIN) == frame
    state.said(frame, 2 + SAY_AGAIN)
    assert state.to_say(2 + SAY_AGAIN + SILENCE) == Hearing(TOKEN, ())
    state.said(Hearing(TOKEN, ()), 2 + SAY_AGAIN + SILENCE)
    assert state.to_say(100 * SECOND) is None


def test_an_audience_that_was_not_offered_is_not_heard() -> None:
    state = Reception(Publish(TOKEN, 7_000, ALL), 0, 0)
    assert not state.heard(1, 1) and state.hearing(1) == ()


def test_a_subscription_stays_unless_it_is_for_another_socket_or_does_not_come_about() -> None:
    offer = Publish(TOKEN, 7_000, ALL)
    state = Reception(offer, 0, 0)
    assert state.stays(offer, TRY_AGAIN - 1) and not state.stays(offer, TRY_AGAIN)
    state.heard(EVERYBODY, TRY_AGAIN)
    assert state.stays(Publish(TOKEN, 7_000, (0, 1)), TRY_AGAIN)
    assert not state.stays(Publish(TOKEN + 1, 7_000, ALL), TRY_AGAIN)
    assert not state.stays(Publish(TOKEN, 7_001, ALL), TRY_AGAIN)


def test_a_subscription_that_is_offered_no_more_is_given_up() -> None:
    state = Reception(Publish(TOKEN, 7_000, ALL), 0, 0)
    state.heard(EVERYBODY, SECOND)
    assert not state.is_over(GIVE_UP) and state.is_over(GIVE_UP + SECOND)


def test_leases_and_pauses_fit_together() -> None:
    """One lost word does no harm, and a stall of a second makes nobody deaf."""
    assert 2 * SAY_AGAIN < LEASE and SILENCE > 2 * SECOND
