"""Subscriptions in the order, last values, rights that go (one-order.md section 4; scenarios of section 7)."""

from __future__ import annotations

import pytest
from on_topics import RETAINED, SUB, TOPIC, UNSUB, configure, subscribe

from roamcast.middleware.host_frames import Msg, Unsubscribed, Welcome
from roamcast.middleware.settings import SECOND
from roamcast.middleware.station_frames import DataBatch
from roamcast.middleware.topics import Topic, Topics


@pytest.mark.rules("no_subs", "sub_local")
def test_subscribed_from_its_place_in_the_order(net, crowd):
    a, b, _, p = crowd
    p.publish(TOPIC, "t", b"before")
    net.deliver()
    a.misses = (Msg,)
    subscribe(net, a)
    p.publish(TOPIC, "t", b"after")
    net.deliver()
    a.misses = ()
    a.attach(1)
    assert a.got == [b"+t", b"after"]
    a.ack()
    a.arrive(3)
    p.publish(TOPIC, "t", b"and after a move")
    net.deliver()
    a.publish(UNSUB, "t")
    net.deliver()
    p.publish(TOPIC, "t", b"too late")
    net.deliver()
    assert a.got == [b"+t", b"after", b"and after a move", b"-t"]
    assert b.got == []


def test_hosts_that_are_owed_the_same_share_a_frame(net, crowd):
    """On a topic, with and without a broadcast in the same tick; all are at the front again after the next one."""
    a, b, c, p = crowd
    for host in (a, b):
        subscribe(net, host)
        host.ack()
    p.publish(TOPIC, "t", b"m")
    net.deliver()
    assert a.got == b.got == [b"+t", b"m"] and c.got == []
    p.publish(TOPIC, "t", b"m2")
    p.send(b"all")
    net.deliver()
    assert a.got[2:] == b.got[2:] == [b"m2", b"all"] and c.got == [b"all"]
    downlink = net.cores[1].downlink
    assert len(downlink._front) == 3 and not downlink._beside


def test_frames_on_a_topic_are_made_once(net, crowd, monkeypatch):
    a, b, _, p = crowd
    for host in (a, b):
        subscribe(net, host)
    p.send(b"all")
    net.deliver()
    made = []
    perform = net._perform
    monkeypatch.setattr(net, "_perform", lambda slot, effect: (made.append((slot, effect)), perform(slot, effect)))
    p.publish(TOPIC, "t", b"m")
    net.deliver()
    delivered = [effect for slot, effect in made if slot == 1 and type(effect).__name__ == "Deliver"]
    assert [len(effect.channels) for effect in delivered] == [2]


@pytest.mark.rules("subs_now")
def test_scenario_7_the_move_comes_before_the_sub(net, crowd):
    """one-order 7: A has passed the SUB in its log, the host has not; B logs it elsewhere in its order."""
    a, _, _, p = crowd
    net.hold = lambda source, target, frame: isinstance(frame, DataBatch) and source == 1
    net.choke(a)
    a.publish(SUB, "t")
    net.deliver()
    p.publish(TOPIC, "t", b"m")
    net.deliver()
    net.report_full(a)
    a.attach(3)
    net.release()
    net.run(SECOND)
    assert a.got == [b"+t"], "m stands before the SUB there"


@pytest.mark.rules("ret_pos_only", "sub_at_once")
def test_scenario_8_before_the_sub_here_and_behind_it_there(net, crowd):
    """one-order 8: the value was skipped at A, where it stood before the SUB; at B it stands behind it."""
    a, _, _, p = crowd
    a.arrive(3)
    net.hold = lambda source, target, frame: isinstance(frame, DataBatch) and (frame.origin, target) in ((2, 3), (3, 1))
    p.publish(RETAINED, "t", b"w")
    net.deliver()
    net.choke(a)
    subscribe(net, a)
    net.report_full(a)
    a.attach(1)
    net.run(6 * SECOND)  # its base passes w
    a.hello(3)
    net.deliver()
    net.release()
    net.run(12 * SECOND)
    assert a.got == [b"+t", b"=w"]


@pytest.mark.rules("ret_always")
def test_scenario_9_a_sub_that_is_replayed_after_its_value_was_overtaken(net, crowd):
    a, _, _, p = crowd
    p.publish(RETAINED, "t", b"w1")
    net.deliver()
    a.misses = (Msg,)
    subscribe(net, a)
    p.publish(RETAINED, "t", b"w2")
    net.deliver()
    a.misses = ()
    a.attach(1)
    assert a.got == [b"+t", b"w2"], "w2 follows in the stream: nothing comes with the SUB"


@pytest.mark.rules("ret_last")
def test_scenario_10_two_publishers_and_no_common_order(net, crowd):
    """one-order 10: every station keeps the same one, in whatever order they came there."""
    a, _, _, p = crowd
    net.hold = lambda source, target, frame: isinstance(frame, DataBatch) and {source, target} == {1, 2}
    p.publish(RETAINED, "t", b"of p")
    a.publish(RETAINED, "t", b"of a")
    net.deliver()
    net.release()
    net.run(SECOND)
    kept = {slot: (value.slot, value.n) for slot in net.slots for value in net.disks[slot].last.values()}
    assert len(kept) == 3 and len(set(kept.values())) == 1


def test_a_value_is_given_with_the_sub_and_can_be_cleared(net, crowd):
    a, b, _, p = crowd
    p.publish(RETAINED, "t", b"w")
    net.deliver()
    net.run(20 * SECOND)
    assert not net.rows, "the row has gone, the item is kept"
    for slot in net.slots:
        net.restart(slot)
    configure(net)
    a.arrive(1)
    subscribe(net, a)
    assert a.got == [b"+t", b"=w"]
    p.arrive(2)
    p.publish(RETAINED, "t", b"")
    net.deliver()
    b.arrive(1)
    subscribe(net, b)
    assert a.got[2:] == [b""] and b.got == [b"+t"]
    a.ack()
    b.ack()
    net.run(20 * SECOND)
    assert not net.rows and not any(disk.items for disk in net.disks.values() if not disk.spools)


@pytest.mark.rules("strip_subs_only")
def test_scenario_11_what_waits_under_the_old_sub(net, crowd):
    """one-order 11: an UNSUB waits in the spool when the topic is denied: rows under the old SUB are withheld."""
    a, _, _, p = crowd
    subscribe(net, a)
    a.ack()
    a.cut()
    p.publish(TOPIC, "t", b"secret")
    net.deliver()
    a.misses = (Msg,)
    a.attach(1)
    a.publish(UNSUB, "t")
    a.cut()
    net.run(15 * SECOND)
    assert net.spooled(1, a)
    configure(net, deny=[a])
    a.misses = ()
    a.attach(2)
    assert a.got == [b"+t", b"~t", b"-t"]


def test_scenario_11b_a_refused_sub_ends_what_was_in_force(net, crowd):
    a, _, _, p = crowd
    subscribe(net, a)
    a.ack()
    configure(net, 1, deny=[a])  # its NOTICE is on its way, but the host asks again already
    a.publish(SUB, "t")
    net.deliver()
    p.publish(TOPIC, "t", b"m")
    net.deliver()
    assert a.got == [b"+t", b"~t", b"!t"]


def test_scenario_12_no_value_goes_out_with_a_sub_that_is_denied_meanwhile(net, crowd):
    a, _, _, p = crowd
    p.publish(RETAINED, "t", b"w")
    net.deliver()
    a.misses = (Msg,)
    subscribe(net, a)
    a.cut()
    net.run(15 * SECOND)
    assert net.spooled(1, a)
    configure(net, deny=[a])
    a.misses = ()
    a.arrive(1)
    assert a.got == [b"~t"]


@pytest.mark.rules("strip_open")
def test_scenario_13_state_from_a_station_with_the_older_configuration(net, crowd):
    a, _, _, p = crowd
    subscribe(net, a)
    a.cut()
    p.publish(TOPIC, "t", b"secret")
    net.deliver()
    net.run(15 * SECOND)
    configure(net, 3, deny=[a])
    a.arrive(3)
    assert b"secret" not in a.got and b"~t" in a.got


@pytest.mark.rules("no_dead")
def test_a_later_grant_revives_nothing(net, crowd):
    """The host has to ask again; its old SUB, still in the log, means nothing."""
    a, b, _, p = crowd
    b.misses = (Msg,)
    p.send(b"holds the log")
    net.deliver()
    a.misses = (Msg,)
    subscribe(net, a)
    configure(net, deny=[a])
    configure(net)
    a.misses = ()
    p.publish(TOPIC, "t", b"m")
    net.deliver()
    a.arrive(1)
    assert b"m" not in a.got and b"~t" in a.got
    subscribe(net, a)
    p.publish(TOPIC, "t", b"m2")
    net.deliver()
    assert a.got[-2:] == [b"+t", b"m2"]


@pytest.mark.rules("no_notice")
def test_scenario_14_a_live_host_is_told_at_once(net, crowd):
    a, _, _, p = crowd
    subscribe(net, a)
    a.ack()
    configure(net, deny=[a])
    p.publish(TOPIC, "t", b"m")
    net.deliver()
    assert a.got == [b"+t", b"~t"] and a.words(Unsubscribed)


def test_scenario_14_a_notice_that_was_lost_is_told_again_until_it_is_known(net, crowd):
    a, *_ = crowd
    subscribe(net, a)
    a.ack()
    a.misses = (Unsubscribed, Welcome, Msg)
    configure(net, deny=[a])
    a.hello(1)
    configure(net)
    a.misses = ()
    assert [topic for *_, topic in a.attach(1).ended] == ["t"]
    a.ack()
    assert a.attach(2).ended == ()
    assert a.got == [b"+t", b"~t"]


def test_an_end_is_not_told_to_a_host_that_has_acknowledged_a_later_subscription(net, crowd):
    a, *_ = crowd
    subscribe(net, a)
    a.ack()
    a.misses = (Unsubscribed,)
    configure(net, deny=[a])
    configure(net)
    subscribe(net, a)
    a.ack()
    a.misses = ()
    assert a.attach(2).ended == ()


def test_rights_to_send(net, crowd):
    a, b, *_ = crowd
    subscribe(net, b)
    configure(net, mute=[a])
    a.publish(TOPIC, "t", b"m")
    a.publish(TOPIC, "nothing", b"m")
    a.publish(SUB, "nothing")
    net.deliver()
    assert a.got == [b"refused", b"refused", b"!nothing"] and b.got == [b"+t"]


def test_a_topic_that_is_no_more_ends_and_leaves_nothing(net, crowd):
    a, _, _, p = crowd
    subscribe(net, a)
    p.publish(RETAINED, "t", b"w")
    net.deliver()
    for slot in net.slots:
        net.tick(slot, lambda core: core.set_topics(Topics([Topic(8, "u")], before=core.ledger.topics)))
    assert a.got == [b"+t", b"w", b"~t"]
    assert not any(disk.last for disk in net.disks.values())


def test_a_limit_of_topics(make_net):
    net = make_net(1, topics_max=1)
    configure(net)
    a = net.enrol("a")
    a.arrive(1)
    subscribe(net, a, "t")
    subscribe(net, a, "u")
    a.publish(UNSUB, "t")
    subscribe(net, a, "u")
    assert a.got == [b"+t", b"!u", b"-t", b"+u"]


def test_a_new_incarnation_has_no_subscriptions(net, crowd):
    a, _, _, p = crowd
    subscribe(net, a)
    a.ack()
    a.cut()
    p.publish(TOPIC, "t", b"waits")
    p.send(b"waits too")
    net.deliver()
    net.run(15 * SECOND)
    a.renew()
    a.attach(1)
    a.ack()
    p.publish(TOPIC, "t", b"m")
    net.deliver()
    assert a.got == [b"waits too"]


def test_an_expired_host_is_told_that_it_has_to_ask_again(make_net):
    net = make_net(1, 2, away_max=40 * SECOND, clock_settle=0)
    configure(net)
    a = net.enrol("a")
    a.arrive(1)
    subscribe(net, a)
    a.ack()
    a.cut()
    net.run(70 * SECOND)
    a.attach(2)
    assert a.got == [b"+t", b"<gap>", b"~"]


def test_at_the_limit_asking_again_is_no_new_subscription(make_net):
    net = make_net(1, topics_max=1)
    configure(net)
    a = net.enrol("a")
    a.arrive(1)
    subscribe(net, a)
    subscribe(net, a)
    a.publish(TOPIC, "t", b"m")
    assert a.got == [b"+t", b"+t", b"m"]


def test_a_value_of_a_topic_that_was_removed_before_this_start_is_not_kept(net, crowd):
    _, _, _, p = crowd
    p.publish(RETAINED, "t", b"w")
    net.deliver()
    former = Topics([Topic(8, "u")], former={7: "t", 8: "u"})
    net.restart(1)
    net.tick(1, lambda core: core.set_topics(former))
    assert not net.disks[1].last
    p.publish(RETAINED, "t", b"w2")
    net.deliver()
    assert not net.disks[1].last and net.disks[2].last
