"""Topics at the agent: own sends, subscriptions in their place, last values, presence, subscriptions that ended."""

from __future__ import annotations

import pytest

from roamcast.middleware.host_frames import Ack, Data, Reset, TopicData, Uack
from roamcast.middleware.mobile_host.core import AgentCore
from roamcast.middleware.mobile_host.effects import Save, SendUp
from roamcast.middleware.mobile_host.errors import BadAddressee, MessageTooLarge
from roamcast.middleware.mobile_host.state import LateAck, OutboxTrimmed, Queued, from_plain
from roamcast.middleware.rows import Item, Kind
from roamcast.middleware.settings import SECOND

# ---- own sends ----


@pytest.mark.parametrize("kind", [Kind.TOPIC, Kind.RETAINED, Kind.SUB, Kind.UNSUB])
def test_what_is_sent_on_a_topic_is_numbered_and_kept_before_it_leaves(rig, kind):
    rig.attach()
    rig.submit(b"before")
    assert rig.submit_on(kind, "weather", b"rain") == 2
    assert rig.effects == [
        Save((Queued(2, "weather", b"rain", True, int(kind)),)),
        SendUp(TopicData(1, 2, 0, kind, "weather", b"rain")),
    ]


def test_after_a_crash_all_goes_up_again_in_order_as_what_it_was(rig):
    rig.attach()
    rig.submit_on(Kind.SUB)
    rig.submit(b"all")
    rig.submit_on(Kind.RETAINED, body=b"")
    rig.crash()
    rig.attach(at=3)
    assert rig.sent(Data) + rig.sent(TopicData) == [
        Data(2, 2, 3, None, b"all"),
        TopicData(2, 1, 3, Kind.SUB, "t", b""),
        TopicData(2, 3, 3, Kind.RETAINED, "t", b""),
    ]
    assert [f.number for f in rig.sent() if isinstance(f, (Data, TopicData))] == [1, 2, 3]


def test_what_waited_at_the_loss_of_the_state_keeps_its_topic(rig):
    rig.attach()
    rig.tick(AgentCore.suspend)
    rig.submit_on(Kind.SUB, "t")
    rig.tick(AgentCore.resume)
    rig.hear(Reset(rig.epoch))
    assert rig.disk.outbox == {1: ("t", b"", int(Kind.SUB))}
    rig.attach()
    assert rig.sent(TopicData) == [TopicData(rig.epoch, 1, 0, Kind.SUB, "t", b"")]


@pytest.mark.parametrize("topic", ["", "x" * 97, "\N{EURO SIGN}" * 33, "a\tb", "a\nb", "\ud800", None])
def test_names_that_no_topic_has(rig, topic):
    for kind in (Kind.TOPIC, Kind.RETAINED, Kind.SUB, Kind.UNSUB):
        with pytest.raises(BadAddressee, match="1 to 96 bytes"):
            rig.core.submit(b"", topic, kind)
    assert rig.core.submit(b"", "x" * 96, Kind.SUB) == 1
    assert rig.core.submit(b"", "\N{EURO SIGN}" * 32, Kind.SUB) == 2


def test_body_on_a_topic_has_the_limit_of_the_others(make_rig):
    rig = make_rig(message_bytes_max=3)
    with pytest.raises(MessageTooLarge):
        rig.core.submit(b"1234", "t", Kind.TOPIC)


def test_refused_send_on_a_topic_is_told_by_its_receipt_alone(rig):
    rig.attach()
    rig.submit_on(Kind.TOPIC)
    rig.msg(0, 1, (1, Item(1, 9, "me", rig.disk.incarnation & 0xFFFFFFFF, 1, Kind.REFUSED, b"no right")))
    assert rig.receipts == [(1, "stored"), (1, "refused")]
    assert rig.effects[-1].reason == "no right"
    assert rig.take() is None


def test_messages_of_a_state_of_the_former_release_go_up_as_what_they_were(rig):
    rig.attach()
    rig.disk.apply(from_plain([3, 1, None, b"all"]))
    rig.disk.apply(from_plain([3, 2, "bob", b"mail", True]))
    rig.crash()
    assert rig.submit_on(Kind.SUB) == 3
    rig.attach()
    sent = [frame for frame in rig.sent() if isinstance(frame, (Data, TopicData))]
    assert sent[:2] == [Data(2, 1, 0, None, b"all"), Data(2, 2, 0, "bob", b"mail")]
    assert isinstance(sent[2], TopicData)


def test_uack_covers_what_was_sent_on_topics(subscribed):
    rig = subscribed
    rig.submit_on(Kind.TOPIC)
    rig.hear(Uack(1, 2, 1, 6))
    assert rig.receipts == [(1, "stored"), (2, "stored")]
    assert rig.core.status()["outbox"] == 0


# ---- subscriptions in their place ----


def test_a_subscription_is_given_in_its_place_and_acknowledged_by_position(subscribed):
    rig = subscribed
    rig.msg(0, 9, (3, rig.on(2, 1, Kind.TOPIC)), (5, rig.sub()), (7, rig.on(2, 2, Kind.TOPIC, hlc=70)))
    assert rig.receipts == [(1, "stored")]
    before, change, message = rig.take_all()
    assert (change.kind, change.topic, change.own, change.id) == (Kind.SUB, "t", True, (1, 5))
    assert (message.topic, message.hlc, message.retained, message.own) == ("t", 70, False, False)
    rig.ack(before)
    assert rig.disk.c == 4
    rig.ack(change)
    assert rig.disk.c == 6
    rig.ack(message)
    assert (rig.disk.c, rig.disk.seen) == (9, {1: 5, 2: 2, 9: 0})


@pytest.mark.parametrize("kind", [Kind.SUB, Kind.UNSUB, Kind.NOSUB])
def test_every_change_is_given_and_trims_the_outbox_with_the_c_that_covers_it(subscribed, kind):
    rig = subscribed
    rig.msg(0, 1, (1, rig.sub(kind=kind, body=b"why" if kind is Kind.NOSUB else b"")))
    assert (1, "refused") in rig.receipts if kind is Kind.NOSUB else rig.receipts == [(1, "stored")]
    change = rig.take()
    assert (change.kind, change.body) == (kind, b"why" if kind is Kind.NOSUB else b"")
    rig.ack(change)
    assert rig.saved(OutboxTrimmed) == [OutboxTrimmed(1)]
    assert (rig.disk.c, rig.disk.outbox) == (1, {})


def test_changes_of_another_incarnation_of_this_host_pass_silently(subscribed):
    rig = subscribed
    other = Item(1, 5, "me", 7, 1, Kind.SUB, b"", "t")
    rig.msg(0, 4, (2, other), (2, rig.on(2, 1, Kind.RETAINED)), (4, Item(1, 6, "me", 7, 2, Kind.UNSUB, b"", "t")))
    assert rig.take() is None
    assert (rig.core.status()["outbox"], rig.receipts) == (1, [])
    rig.tick(after=SECOND)
    assert rig.sent(Ack) == [Ack(1, 4)]


def test_a_change_given_and_not_acknowledged_comes_once_in_this_process_and_again_in_the_next(subscribed, shape):
    rig = subscribed
    rig.msg(0, 1, (1, rig.sub()))
    rig.take()
    rig.reattach(at=5, lastseq=1)
    rig.msg(5, 6, (6, rig.sub()))
    assert rig.take() is None
    rig.crash()
    rig.attach(at=9, lastseq=1)
    rig.msg(9, 10, (10, rig.sub()))
    assert shape(rig.take_all()) == [(Kind.SUB, (1, 5), False)]


# ---- last values ----


def test_the_last_value_comes_behind_its_subscription(subscribed):
    rig = subscribed
    rig.msg(0, 2, (2, rig.sub()), (2, rig.on(3, 1, Kind.RETAINED, hlc=9)))
    change, value = rig.take_all()
    assert (value.retained, value.topic, value.hlc, value.id, value.place) == (True, "t", 9, (3, 1), (1, 2))
    rig.ack(change)
    assert (rig.disk.c, rig.disk.late) == (1, {(1, 5): None}), "the change was acknowledged, its position is not passed"
    assert rig.disk.seen == {9: 0}
    rig.ack(value)
    assert (rig.disk.c, rig.disk.late) == (2, {})
    assert rig.disk.seen == {1: 5, 9: 0}, "of what was seen a last value says nothing"


def test_a_value_older_than_what_its_station_sent_before_drops_nothing(subscribed, shape):
    """The rule that a lower number of an origin never comes any more does not know last values."""
    rig = subscribed
    rig.msg(0, 2, (1, rig.on(3, 4, Kind.TOPIC)), (2, rig.on(3, 5, Kind.TOPIC)))
    rig.take_all()
    rig.reattach(at=10, lastseq=1)
    rig.msg(10, 13, (11, rig.sub()), (11, rig.on(3, 9, Kind.RETAINED)), (12, rig.on(3, 4, Kind.TOPIC)),
            (13, rig.on(3, 5, Kind.TOPIC)))  # fmt: skip
    given = rig.take_all()
    assert shape(given) == [(Kind.SUB, (1, 5), False), (Kind.RETAINED, (3, 9), True)]
    rig.ack(given[-1])
    assert rig.disk.c == 13
    assert rig.disk.seen[3] == 5


def test_the_same_value_replayed_is_not_given_again_and_another_one_is(subscribed, shape):
    rig = subscribed
    rig.msg(0, 2, (2, rig.sub()), (2, rig.on(3, 1, Kind.RETAINED)))
    first = rig.take_all()
    rig.reattach(at=10, lastseq=1)
    rig.msg(10, 11, (11, rig.sub()), (11, rig.on(3, 1, Kind.RETAINED)))
    assert rig.take() is None
    rig.reattach(at=20, lastseq=1)
    rig.msg(20, 21, (21, rig.sub()), (21, rig.on(2, 8, Kind.RETAINED)))
    (other,) = rig.take_all()
    assert shape([other]) == [(Kind.RETAINED, (2, 8), True)]
    rig.ack(first[-1])
    assert rig.disk.c == 20, "the value that came this time is not acknowledged"
    rig.ack(other)
    assert (rig.disk.c, rig.disk.late) == (21, {})


def test_a_value_that_was_never_given_comes_again_without_its_subscription(subscribed, shape):
    rig = subscribed
    rig.msg(0, 2, (2, rig.sub()), (2, rig.on(3, 1, Kind.RETAINED)))
    rig.take()
    rig.reattach(at=10, lastseq=1)
    rig.msg(10, 11, (11, rig.sub()), (11, rig.on(3, 1, Kind.RETAINED)))
    assert shape(rig.take_all()) == [(Kind.RETAINED, (3, 1), True)]


def test_a_value_that_follows_in_the_stream_this_time_holds_nothing_up(subscribed, shape):
    """At the former station it stood before the subscription, here behind it: news, once."""
    rig = subscribed
    rig.msg(0, 2, (2, rig.sub()), (2, rig.on(3, 1, Kind.RETAINED)))
    given = rig.take_all()
    rig.reattach(at=10, lastseq=1)
    rig.msg(10, 12, (11, rig.sub()), (12, rig.on(3, 1, Kind.RETAINED)))
    (news,) = rig.take_all()
    assert shape([news]) == [(Kind.RETAINED, (3, 1), False)]
    rig.ack(given[0])
    assert rig.disk.c == 11
    rig.ack(news)
    assert rig.disk.c == 12


def test_the_position_given_counts_a_subscription_before_its_value(subscribed):
    rig = subscribed
    rig.msg(0, 9, (2, rig.sub()), (2, rig.on(3, 1, Kind.RETAINED)), (5, rig.on(2, 2, Kind.TOPIC)))
    places = []
    for _ in range(4):
        rig.submit_on(Kind.TOPIC)
        places.append(rig.sent(TopicData)[-1].c)
        rig.take()
    assert places == [1, 2, 4, 9]


def test_late_acknowledgement_of_a_subscription_is_durable_and_its_value_comes_again(subscribed, shape):
    rig = subscribed
    rig.msg(0, 2, (2, rig.sub()), (2, rig.on(3, 1, Kind.RETAINED)))
    value = rig.take_all()[-1]
    rig.tick(lambda core: core.link_lost("cut"), after=10 * SECOND)
    rig.ack(value)
    assert rig.saved(LateAck) == [LateAck(1, 5)]
    rig.crash()
    rig.attach(at=50, lastseq=1)
    rig.msg(50, 51, (51, rig.sub()), (51, rig.on(3, 1, Kind.RETAINED)))
    (again,) = rig.take_all()
    assert shape([again]) == [(Kind.RETAINED, (3, 1), True)]
    assert (rig.disk.c, rig.disk.late) == (50, {(1, 5): None})
    rig.ack(again)
    assert (rig.disk.c, rig.disk.late) == (51, {})


def test_late_acknowledgements_of_both_hold_in_this_process(subscribed):
    rig = subscribed
    rig.msg(0, 2, (2, rig.sub()), (2, rig.on(3, 1, Kind.RETAINED)))
    value = rig.take_all()[-1]
    rig.reattach(at=50, lastseq=1)
    rig.ack(value)
    rig.msg(50, 51, (51, rig.sub()), (51, rig.on(3, 1, Kind.RETAINED)))
    assert rig.take() is None
    rig.tick(after=SECOND)
    assert (rig.disk.c, rig.disk.late) == (51, {})


def test_crash_between_the_acknowledgements_gives_the_value_again_and_not_the_change(subscribed, shape):
    rig = subscribed
    rig.msg(0, 2, (2, rig.sub()), (2, rig.on(3, 1, Kind.RETAINED)))
    rig.ack(rig.take_all()[0])
    rig.crash()
    assert rig.hello.c == 1
    rig.attach(at=5, lastseq=1)
    rig.msg(5, 6, (6, rig.sub()), (6, rig.on(3, 1, Kind.RETAINED)))
    assert shape(rig.take_all()) == [(Kind.RETAINED, (3, 1), True)]


def test_own_last_value_trims_nothing(subscribed):
    rig = subscribed
    rig.submit(b"2")
    rig.msg(0, 2, (2, rig.sub()), (2, rig.on(1, 3, Kind.RETAINED, "me", 99)))
    assert rig.take_all()[-1].own
    assert rig.core.status()["outbox"] == 1


# ---- frames that cannot be ----


@pytest.mark.parametrize(
    "second",
    [
        (Kind.TOPIC, "t"), (Kind.CLEAR, "t"), (Kind.BROADCAST, "t"), (Kind.SUB, "t"), (Kind.NOSUB, "t"),
        (Kind.RETAINED, "u"), (Kind.ONLINE, "$presence/bob"),
    ],
)  # fmt: skip
def test_nothing_but_its_value_stands_where_a_subscription_stands(subscribed, second):
    rig = subscribed
    kind, topic = second
    rig.msg(0, 2, (2, rig.sub()), (2, rig.on(3, 1, kind, topic=topic)))
    assert rig.connects == [1]


@pytest.mark.parametrize("first", [Kind.TOPIC, Kind.UNSUB, Kind.NOSUB, Kind.RETAINED, Kind.ONLINE])
def test_a_value_without_a_subscription_ends_the_session(subscribed, first):
    rig = subscribed
    rig.msg(0, 2, (2, rig.sub(kind=first)), (2, rig.on(3, 1, Kind.RETAINED)))
    assert rig.connects == [1]
    assert rig.take() is None


def test_a_second_value_ends_the_session(subscribed):
    rig = subscribed
    rig.msg(0, 2, (2, rig.sub()), (2, rig.on(3, 1, Kind.RETAINED)), (2, rig.on(3, 2, Kind.RETAINED)))
    assert rig.connects == [1]


def test_a_frame_that_begins_with_a_value_ends_the_session(subscribed):
    rig = subscribed
    rig.msg(0, 2, (2, rig.sub()))
    rig.msg(2, 3, (2, rig.on(3, 1, Kind.RETAINED)))
    assert rig.connects == [1]


@pytest.mark.parametrize("kind", [Kind.NOSUB, Kind.SUB, Kind.UNSUB, Kind.TOPIC, Kind.REFUSED, Kind.BROADCAST])
def test_an_own_number_never_given_ends_the_session_and_trims_nothing(subscribed, kind):
    rig = subscribed
    rig.msg(0, 1, (1, rig.sub(number=2, kind=kind)))
    assert rig.connects == [1]
    assert rig.receipts == []
    assert (rig.core.status()["outbox"], list(rig.disk.outbox)) == (1, [1])
