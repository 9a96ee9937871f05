"""Topics t and u for directed tests."""

from __future__ import annotations

from roamcast.middleware.rows import Kind
from roamcast.middleware.topics import Topic, Topics

SUB, UNSUB, TOPIC, RETAINED = Kind.SUB, Kind.UNSUB, Kind.TOPIC, Kind.RETAINED


def topics(*, deny=(), mute=(), presence=False):
    """Topics t and u; hosts in `deny` may not receive on t, hosts in `mute` may not send."""
    numbers = [number for slot in (1, 2, 3) for number in range(slot << 32 | 1, slot << 32 | 9)]
    receive = frozenset(n for n in numbers if n not in [host.number for host in deny])
    send = frozenset(n for n in numbers if n not in [host.number for host in mute])
    return Topics([Topic(7, "t", send, receive), Topic(8, "u")], presence=presence)


def configure(net, *slots, **rights):
    """The configuration reaches these stations (all of them if none is named)."""
    for slot in slots or net.slots:
        net.tick(slot, lambda core: core.set_topics(topics(**rights)))
    net.deliver()


def subscribe(net, host, topic="t"):
    host.publish(SUB, topic)
    net.deliver()
