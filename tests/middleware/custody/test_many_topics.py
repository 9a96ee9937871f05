"""Many topics and many subscriptions: the short ways give what the long ones give."""

from __future__ import annotations

from dataclasses import replace

import pytest
from on_topics import SUB, TOPIC

from roamcast.middleware.custody.stream import owed
from roamcast.middleware.host_frames import TopicData
from roamcast.middleware.settings import SECOND
from roamcast.middleware.station_frames import DataBatch
from roamcast.middleware.topics import Topic, Topics

NAMES = [f"t{i}" for i in range(6)]


@pytest.fixture
def busy(make_net):
    """Hosts a, b, c at station 1, subscribed to t0-t1, t1-t4, and t1-t4 too; p at station 2."""
    net = make_net(1, 2)
    for slot in net.slots:
        net.tick(slot, lambda core: core.set_topics(Topics([Topic(i, name) for i, name in enumerate(NAMES, 1)])))
    hosts = [net.enrol(name) for name in "abc"]
    p = net.enrol("p", 2)
    for host, wanted in zip(hosts, (NAMES[:2], NAMES[1:5], NAMES[1:5]), strict=True):
        host.arrive(1)
        for name in wanted:
            host.publish(SUB, name)
        host.ack()
    p.arrive(2)
    p.write(b"all stand at the front")
    net.run(12 * SECOND)
    for host in hosts:
        host.got.clear()
    return net, hosts, p


def spoken_in_one_tick(net, p, *said):
    """Messages (topic, or "" for all) of p that come to station 1 in one tick."""
    net.hold = lambda source, target, frame: isinstance(frame, DataBatch) and target == 1
    for i, topic in enumerate(said):
        body = f"{topic}.{i}".encode()
        if topic:
            p.publish(TOPIC, topic, body)
        else:
            p.send(body)
    flights, net.held = net.held, []
    net.hold = lambda source, target, frame: False
    return net.tick(1, *(lambda core, f=frame: core.receive_peer(2, f) for _, _, frame in flights))


@pytest.mark.parametrize("broadcast", [False, True])
def test_each_is_given_its_topics_of_a_tick_in_order_and_the_same_are_given_one_frame(busy, broadcast):
    net, (a, b, c), p = busy
    said = ["t0", "t4", "t1", *([""] if broadcast else []), "t5", "t0", "t2"]
    effects = spoken_in_one_tick(net, p, *said)
    names = [f"{topic}.{i}".encode() for i, topic in enumerate(said)]
    for host, wanted in ((a, ("", "t0", "t1")), (b, ("", "t1", "t2", "t4")), (c, ("", "t1", "t2", "t4"))):
        assert host.got == [name for name, topic in zip(names, said, strict=True) if topic in wanted]
    frames = [effect.channels for effect in effects if type(effect).__name__ == "Deliver"]
    assert sorted(map(len, frames)) == [1, 2]
    spoken_in_one_tick(net, p, "t1", "")
    assert [host.got[-2:] for host in (a, b, c)] == [[b"t1.0", b".1"]] * 3


def test_a_subscription_of_the_same_tick_counts_from_its_place(busy):
    net, (a, _, _), p = busy
    net.hold = lambda source, target, frame: isinstance(frame, DataBatch)
    p.publish(TOPIC, "t5", b"before")
    (first,), net.held = net.held, []
    p.publish(TOPIC, "t5", b"behind")
    (second,), net.held = net.held, []
    net.hold = lambda source, target, frame: False
    a.own += 1
    sub = TopicData(a.le, a.own, a.in_hand, SUB, "t5", b"")
    channel, number = a.channel, a.number
    net.tick(
        1,
        lambda core: core.receive_peer(*first[::2]),
        lambda core: core.receive_host(channel, number, sub),
        lambda core: core.receive_peer(*second[::2]),
    )
    assert a.got == [b"+t5", b"behind"]


def test_few_messages_for_many_subscriptions_and_many_messages_for_few_are_found_alike(busy):
    net, (a, b, _), p = busy
    core = net.cores[1]
    for count in (1, 9):
        spoken_in_one_tick(net, p, *(f"t{i % 6}" for i in range(count)), "")
        for host in (a, b):
            (record,) = core.ledger.of_host(host.number)
            after = record.acked_c
            found = [
                (position, holder.topic) for position, holder in owed(core.ledger, record, after) if not _is_row(holder)
            ]
            log = [(at, core.ledger.table.row_at(at)) for at in range(after + 1, core.ledger.table.last_position + 1)]
            spoken = [(at, row.addressee) for at, row in log if row is not None and row.kind is TOPIC]
            assert found == [(at, topic) for at, topic in spoken if topic in record.subs]
            assert len(found) >= count // 6


def _is_row(holder):
    return not hasattr(holder, "topic")


def test_what_has_changed_of_topics():
    first = Topics([Topic(1, "a"), Topic(2, "b", receive=frozenset({7})), Topic(3, "c")])
    same = Topics([Topic(1, "a"), Topic(2, "b", receive=frozenset({7})), Topic(3, "c")])
    assert same.changed(first) == set()
    narrower = replace(Topic(1, "a"), receive=frozenset())
    assert Topics([narrower, Topic(2, "b", receive=frozenset({7}))]).changed(first) == {1, 3}
    assert Topics([*[Topic(1, "a"), Topic(3, "c")], Topic(4, "d")]).changed(first) == {2, 4}
    assert Topics(presence=True).changed(first) is None
