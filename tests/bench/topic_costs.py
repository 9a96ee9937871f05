"""What topics cost beside messages: bytes of header at 1 and 10,000 topics; a subscription; an attachment with many; a
right that is taken back; presence. In one process (see core_world.py); of repeated rounds the cheapest counts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from random import Random

from bench.child import Json
from bench.core_world import CoreHost, CoreStation, CoreWorld
from bench.plan import Plan

from roamcast.middleware.custody.extras import Subs
from roamcast.middleware.host_frames import Msg
from roamcast.middleware.rows import Kind
from roamcast.middleware.topics import Topic, Topics
from roamcast.transport.host_codec import decode_down
from roamcast.transport.limits import UINT32_MAX

BODY = bytes(128)
WARM_UP = 300
"""Messages before, so that positions and numbers take three bytes each."""

HEADERS_AT = (1, 10_000)
INTEGER_BYTES = 4
"""By so many bytes the number of a topic may be longer than that of another one: 32 bits, 1 to 5 bytes in CBOR."""

HELD = (0, 1, 999)
SUBSCRIBED = (0, 10, 1_000)
A_TICK = 20
"""Hosts that do it in one tick."""


class HeadersDiffer(Exception):
    """The bytes of header depend on the number of topics."""


def topics_of(count: int) -> list[Topic]:
    """Open topics, with numbers as they are drawn."""
    numbers = Random("topics").sample(range(1, UINT32_MAX), count)
    return [Topic(number, f"topic{i:04d}") for i, number in enumerate(numbers)]


# ---- headers ----


def headers(home: Path, plan: Plan, counts: Sequence[int] = HEADERS_AT) -> list[Json]:
    """Exact bytes of one message on a topic, of as many topics. Raises HeadersDiffer."""
    plan.say("topics: bytes of header")
    found = [_headers(home, count) for count in counts]
    for key in ("item", "row", "frame_to_host", "frame_to_station"):
        sizes = [one[key] for one in found]
        if max(sizes) - min(sizes) > INTEGER_BYTES:
            raise HeadersDiffer(f"{key}: {dict(zip(counts, sizes, strict=True))} bytes by number of topics")
    return found


def _headers(home: Path, count: int) -> Json:
    """One message of a host on the last of `count` topics, to which another host at its station is subscribed."""
    topics = topics_of(count)
    topic = topics[-1]
    with CoreWorld(home / f"headers-{count}", 2) as world:
        world.set_topics(Topics(topics))
        sender, taker = world.enrol(["sender", "taker0"], 1)
        world.attach([sender, taker], lambda i: 1)
        taker.publish(Kind.SUB, topic.name)
        for _ in range(WARM_UP):
            sender.send(BODY)
            world.turn()
        world.settle()
        station = world.stations[1]
        world.reset()
        sender.send(BODY)
        station.tick()
        plain = len(BODY) + len(sender.name)
        broadcast = {
            "broadcast_to_host": len(station.downs[-1][1]) - plain,
            "broadcast_to_station": station.sent["DataBatch"] - plain,
        }
        world.settle()
        world.reset()
        sender.publish(Kind.TOPIC, topic.name, BODY)
        station.tick()
        (data,) = [data for last, data in station.downs if last >= 0]
        frame = decode_down(data)
        assert isinstance(frame, Msg) and len(frame.entries) == 1
        row = station.core.ledger.table.row_at(frame.last)
        assert row is not None and row.addressee == topic.number
        content = len(BODY) + len(sender.name) + len(topic.name)
        return {
            "topics": count,
            "number": topic.number,
            "content": content,
            "item": row.size - content,
            "frame_to_host": len(data) - content,
            "row": station.sent["DataBatch"] - row.size - FRAME_OF_ROW,
            "frame_to_station": station.sent["DataBatch"] - content,
            **broadcast,
        }


FRAME_OF_ROW = 4
"""Of a DATA frame with one row: the array, its kind, the origin, the number of rows."""


# ---- subscriptions ----


def subscribing(home: Path, plan: Plan) -> list[Json]:
    """A SUB, to its end at both stations: with so many subscriptions of the host before, with and without a value."""
    found = []
    for held in HELD:
        for value in (False, True):
            plan.say(f"topics: a subscription of a host that has {held}{', with a last value' * value}")
            rounds = [_subscribing(home / f"sub-{held}-{value}-{i}", held, value) for i in range(plan.repeats + 1)]
            found.append(min(rounds, key=lambda one: one["here_us"]))
    return found


def _subscribing(home: Path, held: int, value: bool, hosts: int = 100) -> Json:
    topics = topics_of(held + 1)
    fresh = topics[-1]
    with CoreWorld(home, 2) as world:
        world.set_topics(Topics(topics))
        enrolled = world.enrol([f"host{i:04d}" for i in range(hosts)], 1, _subs(topics[:held]))
        world.attach(enrolled, lambda i: 1)
        if value:
            enrolled[0].publish(Kind.RETAINED, fresh.name, BODY)
            world.settle()
        world.collect()
        given = sum(host.given for host in enrolled)
        cost = _per_host(world, enrolled, lambda host: host.publish(Kind.SUB, fresh.name))
        took = sum(host.given for host in enrolled) - given
        assert took == hosts * (2 if value else 1), f"{took} entries given to {hosts} hosts"
        return {"held": held, "value": value, **cost}


def _subs(topics: Sequence[Topic]) -> Subs:
    return {topic.number: (1, 1) for topic in topics}


def _per_host(world: CoreWorld, hosts: Sequence[CoreHost], act: Callable[[CoreHost], None]) -> Json:
    """Each host does it, A_TICK in a tick: CPU of the stations 1 and 2, bytes and rows between them, for one."""
    world.reset()
    for begin in range(0, len(hosts), A_TICK):
        for host in hosts[begin : begin + A_TICK]:
            act(host)
        world.turn()
    world.settle()
    here, there = world.stations[1], world.stations[2]
    sent = here.sent + there.sent
    rows = sent.pop("rows", 0)
    claims = sent.pop("Claims", 0)
    return {
        "here_us": 1e6 * here.cpu_s / len(hosts),
        "there_us": 1e6 * there.cpu_s / len(hosts),
        "bytes": sent.total() / len(hosts),
        "claims_bytes": claims / len(hosts),
        "rows": rows / len(hosts),
    }


# ---- attachments ----


def attaching(home: Path, plan: Plan) -> list[Json]:
    """A host attaches that has so many subscriptions: again at its station, and at the other one."""
    found = []
    for held in SUBSCRIBED:
        plan.say(f"topics: attachments of hosts with {held} subscriptions")
        rounds = [_attaching(home / f"attach-{held}-{i}", held) for i in range(plan.repeats + 1)]
        found.append({"held": held, **{key: min((r[key] for r in rounds), key=_cpu) for key in rounds[0]}})
    return found


def _cpu(cost: Json) -> float:
    return float(cost["here_us"] + cost["there_us"])


def _attaching(home: Path, held: int, hosts: int = 100) -> Json:
    topics = topics_of(max(1, held))
    with CoreWorld(home, 2) as world:
        world.set_topics(Topics(topics))
        enrolled = world.enrol([f"host{i:04d}" for i in range(hosts)], 1, _subs(topics[:held]))
        world.attach(enrolled, lambda i: 1)
        world.collect()
        world.cut(enrolled)
        again = _per_host(world, enrolled, lambda host: host.attach(1))
        moved = _per_host(world, enrolled, lambda host: host.attach(2))
        if not all(host.open for host in enrolled):
            raise RuntimeError("not all hosts were welcomed")
        return {"again": again, "moved": moved}


# ---- rights ----


def revoking(home: Path, plan: Plan, hosts: int = 1_000) -> list[Json]:
    """A right is taken back while so many hosts are attached: how long the station does nothing else."""
    return [_revoking(home / f"revoke-{held}", plan, hosts, held) for held in SUBSCRIBED]


def _revoking(home: Path, plan: Plan, hosts: int, held: int) -> Json:
    plan.say(f"topics: a right is taken back from hosts with {held} subscriptions")
    topics = topics_of(10_000)
    with CoreWorld(home, 1) as world:
        world.set_topics(Topics(topics))
        enrolled = world.enrol([f"host{i:04d}" for i in range(hosts)], 1, _subs(topics[:held]))
        world.attach(enrolled, lambda i: 1)
        world.collect()
        station = world.stations[1]
        everybody = frozenset(host.number for host in enrolled)
        one = [_change(world, station, topics, i, everybody - {enrolled[i].number}) for i in range(3)]
        added = [_change(world, station, [*topics, Topic(UINT32_MAX, "more")], 9_999, everybody) for _ in range(3)]
        return {
            "held": held,
            "hosts": hosts,
            "one_ms": min(one),
            "added_ms": min(added),
            "all_ms": _change(world, station, topics, 5, frozenset()),
        }


def _change(world: CoreWorld, station: CoreStation, topics: Sequence[Topic], i: int, receive: frozenset[int]) -> float:
    """Milliseconds of a tick in which only these may receive on the i-th topic from now on."""
    changed = [*topics[:i], replace(topics[i], receive=receive), *topics[i + 1 :]]
    world.set_topics(Topics(topics))
    world.reset()
    station.tick(lambda core: core.set_topics(Topics(changed)))
    return 1e3 * station.cpu_s


# ---- presence ----


def presence(home: Path, plan: Plan) -> list[Json]:
    """What a host that comes and goes makes the stations say, without presence and with it."""
    plan.say("topics: presence")
    return [_presence(home / f"presence-{on}", on) for on in (False, True)]


def _presence(home: Path, on: bool, hosts: int = 100) -> Json:
    with CoreWorld(home, 2) as world:
        world.set_topics(Topics([], presence=on))
        enrolled = world.enrol([f"host{i:04d}" for i in range(hosts)], 1)
        world.collect()  # what follows from the switch itself is over
        first = _per_host(world, enrolled, lambda host: host.attach(1))
        world.cut(enrolled)
        again = _per_host(world, enrolled, lambda host: host.attach(1))
        moved = _per_host(world, enrolled, lambda host: host.attach(2))
        world.cut(enrolled)
        world.now += world.settings.presence_grace
        away = _per_host(world, enrolled, lambda host: None)
        back = _per_host(world, enrolled, lambda host: host.attach(2))
        return {"on": on, "first": first, "again": again, "moved": moved, "away": away, "back": back}
