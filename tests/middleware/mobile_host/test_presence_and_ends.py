"""Presence, never backwards; subscriptions that ended, told once and till acknowledged; a crash at any effect."""

from __future__ import annotations

from roamcast.middleware.host_frames import Ack, Msg, Reset, TopicData, Unsubscribed
from roamcast.middleware.mobile_host.core import AgentCore
from roamcast.middleware.mobile_host.effects import Discontinuity, Save, StateLost, SubscriptionEnded
from roamcast.middleware.mobile_host.state import SubsEnded, Welcomed
from roamcast.middleware.rows import Item, Kind
from roamcast.middleware.settings import SECOND

# ---- presence ----


def seen(rig, n, attempt, kind, sender="bob") -> Item:
    return rig.on(2, n, kind, sender, attempt, f"$presence/{sender}", b"")


def test_presence_is_given_with_attempt_and_never_backwards(subscribed):
    rig = subscribed
    said = [
        (1, 3, Kind.ONLINE), (2, 2, Kind.OFFLINE), (3, 3, Kind.OFFLINE), (4, 3, Kind.ONLINE), (5, 2, Kind.ONLINE),
        (6, 3, Kind.OFFLINE), (7, 4, Kind.ONLINE),
    ]  # fmt: skip
    rig.msg(0, 9, *[(n, seen(rig, n, attempt, kind)) for n, attempt, kind in said])
    given = rig.take_all()
    assert [(g.number, g.kind) for g in given] == [
        (3, Kind.ONLINE), (3, Kind.OFFLINE), (3, Kind.OFFLINE), (4, Kind.ONLINE),
    ]  # fmt: skip
    assert {g.sender for g in given} == {"bob"}
    rig.ack(given[-1])
    assert rig.disk.c == 9


def test_old_presence_alone_is_passed_and_acknowledged(subscribed):
    rig = subscribed
    rig.msg(0, 1, (1, seen(rig, 1, 3, Kind.OFFLINE)))
    rig.ack(rig.take())
    rig.msg(1, 2, (2, seen(rig, 2, 3, Kind.ONLINE)))
    assert rig.take() is None
    rig.tick()
    rig.tick(after=SECOND)
    assert rig.sent(Ack)[-1] == Ack(1, 2)


def test_presence_of_another_incarnation_is_given_as_it_comes(subscribed):
    rig = subscribed
    other = Item(2, 2, "bob", 8, 1, Kind.ONLINE, b"", "$presence/bob")
    rig.msg(0, 2, (1, seen(rig, 1, 3, Kind.ONLINE)), (2, other))
    assert [(g.incarnation32, g.number) for g in rig.take_all()] == [(7, 3), (8, 1)]


def test_own_presence_is_no_own_message(subscribed):
    """Its number counts attempts: it trims nothing, even if it is that of a message under way or far above."""
    rig = subscribed
    rig.msg(0, 2, (1, seen(rig, 1, 1, Kind.ONLINE, "me")), (2, seen(rig, 2, 77, Kind.ONLINE, "me")))
    assert [(g.own, g.number) for g in rig.take_all()] == [(False, 1), (False, 77)]
    assert (rig.receipts, rig.core.status()["outbox"]) == ([], 1)


def test_a_presence_value_older_than_what_was_given_is_not_given_and_holds_nothing_up(rig):
    rig.attach()
    rig.submit_on(Kind.SUB, "$presence/bob")
    rig.msg(0, 1, (1, seen(rig, 9, 5, Kind.ONLINE)))
    rig.ack(rig.take())
    rig.msg(1, 3, (3, rig.sub(topic="$presence/bob")), (3, seen(rig, 4, 4, Kind.ONLINE)))
    change = rig.take()
    assert rig.take() is None
    rig.ack(change)
    assert rig.disk.c == 3


# ---- subscriptions that ended ----


def ended(given) -> tuple:
    assert isinstance(given, SubscriptionEnded)
    return given.sub, given.topic


def test_what_a_welcome_says_is_durable_before_it_is_acknowledged(rig):
    rig.attach(ended=((1, 5, "t"),))
    facts = rig.saved(SubsEnded)
    assert facts == [SubsEnded(((1, 5, "t"),))]
    assert isinstance(rig.effects[0], Save)
    assert rig.saved(Welcomed)


def test_an_end_is_told_once_whatever_is_repeated(rig):
    rig.attach(ended=((1, 5, "t"),))
    assert ended(rig.take()) == ((1, 5), "t")
    rig.hear(Unsubscribed(1, ((1, 5, "t"), (1, 6, "u"))))
    assert ended(rig.take()) == ((1, 6), "u")
    rig.reattach(ended=((1, 5, "t"), (1, 6, "u")))
    assert rig.take() is None


def test_an_end_not_acknowledged_is_told_again_after_a_crash_and_an_acknowledged_one_is_not(rig):
    rig.attach(ended=((1, 5, "t"), (1, 6, "u")))
    rig.ack(rig.take())
    rig.crash()
    notice = rig.take()
    assert ended(notice) == ((1, 6), "u")
    rig.attach(ended=((1, 5, "t"), (1, 6, "u")))
    assert rig.take() is None, "the end of (1, 5) was told, and what is subscribed since is not meant"
    rig.ack(notice)
    rig.crash()
    assert rig.take() is None


def test_the_end_of_a_former_subscription_is_not_told_once_the_present_one_was_given(subscribed):
    rig = subscribed
    rig.msg(0, 1, (1, rig.sub()))
    assert rig.take().id == (1, 5)
    rig.hear(Unsubscribed(1, ((1, 3, "t"),)))
    assert rig.take() is None
    rig.hear(Unsubscribed(1, ((1, 5, "t"),)))
    assert ended(rig.take()) == ((1, 5), "t")
    assert rig.disk.ended == {(1, 3): None, (1, 5): "t"}


def test_what_no_station_says_any_more_is_forgotten(rig):
    rig.attach(ended=((1, 5, "t"), (1, 6, "u")))
    rig.ack(rig.take())
    rig.reattach()
    assert rig.disk.ended == {(1, 6): "u"}
    rig.ack(rig.take())
    rig.reattach()
    assert rig.disk.ended == {}


def test_the_end_of_all_is_told_once_a_session(rig):
    everything = ((0, 0, ""),)
    rig.attach(ended=everything)
    rig.hear(Unsubscribed(1, everything))
    (notice,) = rig.take_all()
    assert ended(notice) == ((0, 0), "")
    rig.reattach(ended=everything)
    again = rig.take()
    assert ended(again) == ((0, 0), "")
    rig.ack(notice)
    assert rig.disk.ended == {(0, 0): ""}, "the second one is still to be acknowledged"
    rig.ack(again)
    assert rig.disk.ended == {}
    rig.reattach(ended=everything)
    assert ended(rig.take()) == ((0, 0), "")


def test_an_end_comes_behind_what_was_received_before_it(subscribed, shape):
    rig = subscribed
    rig.msg(0, 2, (1, rig.sub()), (2, rig.on(2, 1, Kind.TOPIC)))
    rig.hear(Unsubscribed(1, ((1, 5, "t"),)))
    rig.msg(2, 3, (3, rig.on(2, 2, Kind.BROADCAST)))
    assert shape(rig.take_all()) == [
        (Kind.SUB, (1, 5), False), (Kind.TOPIC, (2, 1), False), SubscriptionEnded, (Kind.BROADCAST, (2, 2), False),
    ]  # fmt: skip


def test_an_end_outlives_what_was_in_hand_before_it(subscribed, shape):
    rig = subscribed
    rig.msg(0, 1, (1, rig.sub()))
    rig.hear(Unsubscribed(1, ((1, 5, "t"),)))
    rig.reattach(at=5, lastseq=1)
    assert shape(rig.take_all()) == [SubscriptionEnded]


def test_an_end_of_another_session_counts_for_nothing(rig):
    rig.attach()
    rig.hear(Unsubscribed(7, ((1, 5, "t"),)))
    assert rig.take() is None


def test_gap_and_ends_are_told_and_acknowledged_each_for_itself(rig):
    rig.attach(gap=True, ended=((0, 0, ""),))
    gap, end = rig.take_all()
    assert isinstance(gap, Discontinuity)
    rig.ack(gap)
    assert (rig.disk.gap, rig.disk.ended) == (False, {(0, 0): ""})
    rig.ack(end)
    assert rig.disk.ended == {}


def test_a_new_incarnation_is_subscribed_to_nothing_and_is_told_that_alone(rig):
    rig.attach(ended=((1, 5, "t"),))
    rig.tick(lambda core: core.link_lost("cut"), after=10 * SECOND)
    rig.hear(Reset(rig.epoch))
    assert [type(given) for given in rig.take_all()] == [StateLost]
    assert rig.disk.ended == {}
    rig.crash()
    assert [type(given) for given in rig.take_all()] == [StateLost]


# ---- the process dies at any effect ----


def test_crash_at_every_effect_loses_no_change_no_value_and_doubles_no_number(make_rig, shape):
    """One life, cut at each effect of each tick in turn; the station repeats what is not acknowledged."""

    def life(tick_cut: int, effect_cut: int) -> tuple[bool, list[tuple], list]:
        rig = make_rig()
        rig.attach(passed=((9, 0),))
        given: list = []
        acked: list[tuple] = []
        frames: list = []

        def take_and_ack(core: AgentCore) -> None:
            given.append(core.take())
            core.ack(given[-1].token)

        steps = [
            lambda core: core.submit(b"", "t", Kind.SUB),
            lambda core: core.receive(Msg(0, 2, ((2, rig.sub()), (2, rig.on(3, 1, Kind.RETAINED))))),
            take_and_ack,
            lambda core: core.receive(Unsubscribed(1, ((1, 5, "t"),))),
            take_and_ack,
            take_and_ack,
        ]
        for at, step in enumerate(steps):
            before, asked = len(given), rig.core
            rig.tick(step, crash_at=effect_cut if at == tick_cut else None)
            frames += rig.sent(TopicData)
            cut = at == tick_cut and not any(isinstance(effect, Save) for effect in rig.effects)
            acked += [] if cut else shape(given[before:])
            if at == tick_cut:
                assert asked is rig.core
                break
        else:
            return True, acked, frames
        rig.crash()
        said = rig.hello
        stored = bool(frames)
        rig.attach(at=10, lastseq=int(stored), ended=((1, 5, "t"),) if tick_cut > 2 else ())
        frames += rig.sent(TopicData)
        if not rig.disk.highest:
            assert rig.submit_on(Kind.SUB) == 1
        if said.c < 2:
            rig.msg(10, 12, (12, rig.sub()), (12, rig.on(3, 1, Kind.RETAINED)))
        for one in rig.take_all():
            rig.ack(one)
            acked += shape([one])
        if tick_cut <= 2:
            rig.hear(Unsubscribed(rig.epoch, ((1, 5, "t"),)))
            acked += shape(rig.take_all())
        return False, acked, frames

    whole = [(Kind.SUB, (1, 5), False), (Kind.RETAINED, (3, 1), True), SubscriptionEnded]
    for tick_cut in range(7):
        for effect_cut in range(3):
            uncut, acked, frames = life(tick_cut, effect_cut)
            assert {frame.number for frame in frames} <= {1}
            assert acked.count(whole[0]) == 1, (tick_cut, effect_cut)
            assert set(map(str, acked)) == set(map(str, whole)), (tick_cut, effect_cut)
            assert uncut == (tick_cut == 6)
