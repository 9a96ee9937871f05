"""Links between stations: introductions, renewals, stores that went back, refusals."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest

from roamcast.middleware.effects import Notice, Reject
from roamcast.middleware.link_effects import (
    Answer,
    Identity,
    Linked,
    LinkEffect,
    Member,
    Remember,
    SayLink,
    Seen,
    Stop,
)
from roamcast.middleware.link_peer import PROBE, PROBES_MAX, PROBES_MAX_HEARD, RETRY_MAX, RETRY_MIN, UNSENT_RETRY
from roamcast.middleware.links import NOLINK_INTERVAL, SETTLE, Links
from roamcast.middleware.settings import SECOND
from roamcast.middleware.station_frames import Claims, Link, LinkFrame, NoLink, Refusal, WentBack

WALL = 1_700_000_000 * SECOND
CLAIMS = Claims(full=False, stored=(), stable=(), reduce=(), sent=0, hlc=0)


class Station:
    """A Links with its numbers; `known[slot]` = highest number known of that stream."""

    def __init__(
        self, slot: int, slots: tuple[int, ...] = (1, 2), starts: int = 1, boot: int = 7, alone: bool = False
    ) -> None:
        self.slot = slot
        self.known: dict[int, int] = {}
        self.remembered: dict[int, Seen] = {}
        self.slots = slots
        self.alone = alone
        self.restart(starts, boot)

    def restart(self, starts: int, boot: int) -> None:
        me = Identity("g", f"s{self.slot}", self.slot, 100 + self.slot, boot, starts)
        members = [Member(slot, f"s{slot}", 100 + slot) for slot in self.slots if slot != self.slot]
        self.links = Links(me, members, self.remembered, lambda slot: self.known.get(slot, 0), self.alone)

    def keep(self, effects: list[LinkEffect]) -> list[LinkEffect]:
        self.remembered.update({effect.slot: effect.seen for effect in effects if isinstance(effect, Remember)})
        return effects


def say(station: Station, now: int = 0) -> Link:
    """The Link that `station` says at `now` to its first peer."""
    return next(effect.frame for effect in station.links.expire(now, WALL) if isinstance(effect, SayLink))


def answer(effects: list[LinkEffect]) -> LinkFrame:
    return next(effect.frame for effect in effects if isinstance(effect, Answer))


def kinds(effects: list[LinkEffect]) -> list[str]:
    return [effect.event if isinstance(effect, Notice) else type(effect).__name__ for effect in effects]


def link_pair(a: Station, b: Station, now: int = 0, channel: str = "ab") -> list[LinkEffect]:
    """`a` introduces itself to `b` and gets the answer; returns what `a` makes of it."""
    told = b.keep(b.links.introduced(channel, a.slot, say(a, now), now, WALL))
    return a.keep(a.links.answered(b.slot, answer(told), now, WALL))


def test_a_link_binds_the_channel_and_its_answer_links_the_dealer() -> None:
    a, b = Station(1), Station(2)
    assert Linked(2) in link_pair(a, b)
    assert Linked(2) not in a.links.answered(2, say(b), 0, WALL), "told once for each time"
    assert b.links.slot_of("ab") == 1
    assert a.links.is_linked(2) and not b.links.is_linked(1)
    assert a.links.slot_of("ab") is None
    assert a.links.next_deadline() == PROBE


def test_a_linked_peer_is_asked_again_and_again_and_answers_on_the_same_channel() -> None:
    a, b = Station(1), Station(2)
    link_pair(a, b)
    for i in range(1, 2 * PROBES_MAX_HEARD):
        assert a.links.expire(i * PROBE - 1, WALL) == []
        told = b.links.introduced("ab", 1, say(a, i * PROBE), i * PROBE, WALL)
        assert kinds(told) == ["Answer"]
        assert a.links.answered(2, answer(told), i * PROBE, WALL) == []
        assert not a.links.is_mute(2)


@pytest.mark.parametrize(("heard", "most"), [(False, PROBES_MAX), (True, PROBES_MAX_HEARD)])
def test_a_linked_peer_that_does_not_answer_is_called_anew(heard: bool, most: int) -> None:
    """One that is heard on its own connection has longer: what is said to it may only be slow."""
    a, b = Station(1), Station(2)
    link_pair(a, b)
    for i in range(1, most + 1):
        if heard:
            a.links.heard(2, i * PROBE - 1)
        assert kinds(a.links.expire(i * PROBE, WALL)) == ["SayLink"]
        a.links.unsent(2, i * PROBE)
        assert not a.links.is_mute(2) and a.links.is_linked(2)
    if heard:
        a.links.heard(2, (most + 1) * PROBE - 1)
    assert a.links.expire((most + 1) * PROBE, WALL) == []
    assert a.links.is_mute(2) and a.links.next_deadline() == (most + 2) * PROBE
    a.links.disconnected(2)
    a.links.connected(2, (most + 1) * PROBE)
    assert not a.links.is_mute(2) and not a.links.is_linked(2)
    link_pair(a, b, (most + 1) * PROBE, "new")
    assert a.links.is_linked(2)


def test_a_pause_of_the_own_process_ends_no_link() -> None:
    a, b = Station(1), Station(2)
    link_pair(a, b)
    assert kinds(a.links.expire(1_000 * PROBE, WALL)) == ["SayLink"]
    assert not a.links.is_mute(2)


def test_a_link_is_repeated_with_doubling_until_answered() -> None:
    a = Station(1)
    times, now = [], 0
    for _ in range(8):
        assert kinds(a.links.expire(now, WALL)) == ["SayLink"]
        times.append(now)
        now = a.links.next_deadline() or 0
        assert a.links.expire(now - 1, WALL) == []
    gaps = [later - earlier for earlier, later in itertools.pairwise(times)]
    assert gaps == [RETRY_MIN * factor for factor in (1, 2, 4, 8, 16)] + [RETRY_MAX, RETRY_MAX]


def test_a_link_without_connection_is_tried_soon_again_and_without_doubling() -> None:
    a = Station(1)
    for attempt in range(5):
        now = attempt * UNSENT_RETRY
        assert kinds(a.links.expire(now, WALL)) == ["SayLink"]
        a.links.unsent(2, now)
        assert a.links.next_deadline() == now + UNSENT_RETRY


def test_a_new_connection_is_linked_at_once() -> None:
    a, b = Station(1), Station(2)
    link_pair(a, b)
    a.links.disconnected(2)
    assert not a.links.is_linked(2)
    a.links.connected(2, SECOND)
    assert a.links.next_deadline() == SECOND
    link_pair(a, b, SECOND, "renewed")
    assert a.links.is_linked(2) and b.links.slot_of("renewed") == 1


def test_frames_on_an_unbound_channel_get_nolink_now_and_then_and_link_is_said_again() -> None:
    a, b = Station(1), Station(2)
    link_pair(a, b)
    assert b.links.slot_of("renewed") is None
    strays = [kinds(b.links.stray("renewed", now)) for now in (0, 1, NOLINK_INTERVAL - 1, NOLINK_INTERVAL)]
    assert strays == [["Answer"], [], [], ["Answer"]]
    a.links.answered(2, NoLink(), SECOND, WALL)
    assert not a.links.is_linked(2)
    link_pair(a, b, SECOND, "renewed")
    assert a.links.is_linked(2) and b.links.slot_of("renewed") == 1


def test_a_burst_of_nolinks_makes_one_link() -> None:
    a, b = Station(1), Station(2)
    link_pair(a, b)
    a.links.answered(2, NoLink(), SECOND, WALL)
    assert kinds(a.links.expire(SECOND, WALL)) == ["SayLink"]
    a.links.answered(2, NoLink(), SECOND + 1, WALL)
    assert a.links.expire(SECOND + 1, WALL) == []
    a.links.answered(2, NoLink(), SECOND + NOLINK_INTERVAL, WALL)
    assert kinds(a.links.expire(SECOND + NOLINK_INTERVAL, WALL)) == ["SayLink"]


def test_the_newest_two_channels_of_a_peer_stay_bound() -> None:
    a, b = Station(1), Station(2)
    for i in range(4):
        b.links.introduced(f"c{i}", 1, say(Station(1)), 0, WALL)
    assert [b.links.slot_of(f"c{i}") for i in range(4)] == [None, None, 1, 1]
    assert a.links.slot_of("c3") is None


def test_nolink_memory_is_bounded_under_a_flood_of_channels() -> None:
    a = Station(1)
    for i in range(10_000):
        a.links.stray(f"flood{i}", 0)
    assert len(a.links._nolink_at) < 100


def test_a_peer_restart_is_seen_by_its_link_and_makes_us_link_anew() -> None:
    a, b = Station(1), Station(2)
    link_pair(a, b)
    b.restart(starts=2, boot=8)
    effects = a.keep(a.links.introduced("ba", 2, say(b), SECOND, WALL))
    assert Remember(2, Seen(2, 8)) in effects
    assert not a.links.is_linked(2)
    assert kinds(a.links.expire(SECOND, WALL)) == ["SayLink"]


@pytest.mark.parametrize("user", [None, 3])
def test_a_link_for_another_slot_than_that_of_the_key_is_refused(user: int | None) -> None:
    b = Station(2, (1, 2, 3))
    effects = b.links.introduced("x", user, say(Station(1)), 0, WALL)
    assert isinstance(answer(effects), Refusal) and answer(effects).code == "slot"  # type: ignore[union-attr]
    assert any(isinstance(effect, Reject) for effect in effects)
    assert b.links.slot_of("x") is None


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"version": (2, 0)}, "version"),
        ({"group": "other"}, "group"),
        ({"id": "s9"}, "slot"),
        ({"generation": 5}, "generation"),
    ],
)
def test_a_stranger_is_refused_on_both_sides_and_told_why(change: dict[str, object], code: str) -> None:
    a, b = Station(1), Station(2)
    strange = replace(say(a), **change)  # type: ignore[arg-type]
    effects = b.links.introduced("x", 1, strange, 0, WALL)
    refusal = answer(effects)
    assert isinstance(refusal, Refusal) and refusal.code == code
    assert "link_refused" in kinds(effects) and "Reject" in kinds(effects)
    assert b.links.slot_of("x") is None
    told = a.links.answered(2, refusal, 0, WALL)
    assert kinds(told) == ["link_refused", "Reject"]
    assert kinds(a.links.answered(2, refusal, 1, WALL)) == ["Reject"], "said once, counted each time"
    assert a.links.next_deadline() == RETRY_MAX + 1
    assert str(a.links.status(0)[0]["refusal"]).startswith(code)
    as_answer = a.links.answered(2, replace(say(b), **change), 0, WALL)  # type: ignore[arg-type]
    assert "Reject" in kinds(as_answer) and not a.links.is_linked(2)


def test_another_minor_version_links() -> None:
    a, b = Station(1), Station(2)
    b.links.introduced("x", 1, replace(say(a), version=(1, 9)), 0, WALL)
    assert b.links.slot_of("x") == 1


def test_the_version_refusal_names_both_versions() -> None:
    b = Station(2)
    refusal = answer(b.links.introduced("x", 1, replace(say(Station(1)), version=(3, 1)), 0, WALL))
    assert isinstance(refusal, Refusal) and "3.1" in refusal.text and "1.1" in refusal.text


def went_back(a: Station, b: Station) -> list[LinkEffect]:
    """`a` links to `b`, which must object; returns what `a` makes of the objection."""
    told = b.links.introduced("again", 1, say(a, 50 * SECOND), 50 * SECOND, WALL)
    assert isinstance(answer(told), WentBack)
    assert "peer_store_went_back" in kinds(told)
    assert b.links.slot_of("again") is None
    return a.links.answered(2, answer(told), 50 * SECOND, WALL)


def test_a_store_with_fewer_starts_stops() -> None:
    a, b = Station(1, starts=5, boot=1), Station(2)
    link_pair(a, b)
    a.restart(starts=4, boot=2)
    assert any(isinstance(effect, Stop) and "newer directory" in effect.text for effect in went_back(a, b))


def test_a_copied_directory_with_equal_starts_stops() -> None:
    a, b = Station(1, starts=5, boot=1), Station(2)
    link_pair(a, b)
    a.restart(starts=5, boot=2)
    assert any(isinstance(effect, Stop) for effect in went_back(a, b))


def test_a_store_with_fewer_numbers_stops() -> None:
    a, b = Station(1, starts=5, boot=1), Station(2)
    link_pair(a, b)
    b.known[1] = 10
    a.restart(starts=6, boot=2)
    a.known[1] = 9
    assert any(isinstance(effect, Stop) for effect in went_back(a, b))


def test_what_was_seen_survives_a_restart_of_the_witness() -> None:
    a, b = Station(1, starts=5, boot=1), Station(2)
    link_pair(a, b)
    b.restart(starts=2, boot=9)
    a.restart(starts=4, boot=2)
    assert any(isinstance(effect, Stop) for effect in went_back(a, b))


def test_a_station_stops_by_an_answer_or_introduction_that_knows_more_of_it() -> None:
    for change in ({"highest_yours": 1}, {"your_starts": 2}):
        a, b = Station(1), Station(2)
        knowing = replace(say(b), **change)
        assert any(isinstance(effect, Stop) for effect in a.links.answered(2, knowing, 0, WALL))
        assert not a.links.is_linked(2)
        a = Station(1)
        assert any(isinstance(effect, Stop) for effect in a.links.introduced("x", 2, knowing, 0, WALL))


def test_an_answer_of_a_store_that_went_back_does_not_link() -> None:
    a, b = Station(1), Station(2)
    a.known[2] = 4
    effects = a.links.answered(2, say(b), 0, WALL)
    assert kinds(effects) == ["peer_store_went_back"] and not a.links.is_linked(2)


def test_rows_that_overtook_a_link_stop_nobody() -> None:
    a, b = Station(1, starts=6, boot=2), Station(2)
    b.remembered[1] = Seen(5, 1)
    b.restart(1, 7)
    overtaken = say(a)
    a.known[1] = b.known[1] = 1  # row 1 came to b by way of a third station
    objection = answer(b.links.introduced("ab", 1, overtaken, 0, WALL))
    assert isinstance(objection, WentBack)
    now = NOLINK_INTERVAL
    assert kinds(a.links.answered(2, objection, now, WALL)) == []
    link_pair(a, b, now)
    assert a.links.is_linked(2) and b.links.slot_of("ab") == 1


def test_a_late_link_of_the_present_life_is_not_compared() -> None:
    a, b = Station(1), Station(2)
    late = say(a)
    b.links.introduced("ab", 1, late, 0, WALL)
    a.known[1] = b.known[1] = 50
    assert isinstance(answer(b.links.introduced("ab", 1, late, 1, WALL)), Link)


def test_new_numbers_wait_for_all_answers_or_for_one_and_a_pause() -> None:
    a, b = Station(1, (1, 2, 3)), Station(2, (1, 2, 3))
    assert not a.links.may_number(0)
    a.links.expire(0, WALL)
    assert not a.links.may_number(100 * SECOND), "no answer: never"
    a.links.answered(2, say(b), 10, WALL)
    assert not a.links.may_number(SETTLE - 1)
    assert a.links.may_number(SETTLE)
    a.links.answered(3, say(Station(3, (1, 2, 3))), 10, WALL)
    assert a.links.may_number(10)
    a.links.answered(2, NoLink(), 10, WALL)
    assert a.links.may_number(10), "an answer is not taken back"


def test_alone_or_without_peers_numbers_are_given_at_once() -> None:
    assert Station(1, (1,)).links.may_number(0)
    assert Station(1, alone=True).links.may_number(0)
    assert not Station(1).links.may_number(0)


def test_what_does_not_belong_on_a_dealer_is_rejected() -> None:
    a = Station(1)
    assert a.links.answered(2, CLAIMS, 0, WALL) == [Reject(2, "unexpected", "Claims on a DEALER")]


def test_a_clock_far_away_is_told_once() -> None:
    a, b = Station(1), Station(2)
    said = say(a)
    for ahead, is_told in ((400, True), (500, False), (0, False), (-400, True)):
        effects = b.links.introduced("ab", 1, replace(said, wall=WALL + ahead * SECOND), 0, WALL)
        assert ("clock_skew" in kinds(effects)) == is_told
        assert b.links.status(0)[0]["skew_s"] == ahead


def test_a_peer_that_leaves_the_configuration_loses_its_channels() -> None:
    b = Station(2, (1, 2, 3))
    b.links.introduced("ab", 1, say(Station(1, (1, 2, 3))), 0, WALL)
    b.links.set_members([Member(3, "s3", 103)], {})
    assert b.links.slot_of("ab") is None
    assert [entry["slot"] for entry in b.links.status(0)] == [3]
