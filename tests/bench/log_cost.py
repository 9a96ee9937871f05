"""What the delivery log costs: CPU per logged event beside the same ticks without the log; and nothing per delivery.

The writer, the store and the files are the real ones, with every commit and every block synced; only the core is left
out: its effects are made before the clock runs.
"""

from __future__ import annotations

import time
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from bench.child import Json
from bench.group import StationGroup, seats
from bench.plan import Plan
from bench.tables import table
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from roamcast.middleware.delivery_log import ACK, EVENTS, ORDER, Logged
from roamcast.middleware.effects import Effect, Persist
from roamcast.middleware.rows import Item, Kind, Row
from roamcast.middleware.writes import PutRow, Write
from roamcast.mss_station.clock import Clock
from roamcast.mss_station.log.files import segment_path, segments
from roamcast.mss_station.log.writer import DeliveryLog
from roamcast.mss_station.signing import Signer
from roamcast.mss_station.store import StationIdentity, Store
from roamcast.mss_station.tally import Tally
from roamcast.transport.codec import encode_item
from roamcast.transport.segment import read_segment
from roamcast.transport.station_files import StationCard

TICKS = (1, 10, 100)
"""Messages of a tick."""

MESSAGES = {1: 3_000, 10: 15_000, 100: 40_000}
"""Of a round, by messages of a tick."""

BODY = bytes(128)
HOSTS = (10, 1_000)
SENT = 200
"""Messages that all hosts are given."""

SETTLE_S = 1.5
"""Until what was logged is in the file."""


class NotFlat(Exception):
    """The number of hosts changes what is logged of a message."""


def measure(home: Path, plan: Plan) -> Json:
    """Both parts."""
    return {
        "cost": [cost(home, size, plan) for size in TICKS],
        "hosts": [logged(home, hosts, plan) for hosts in HOSTS],
    }


# ---- CPU ----


def ticks_of(size: int, count: int) -> list[list[Effect]]:
    """The effects of ticks with `size` messages each, as a core returns them; a fourth as many acknowledgements."""
    made: list[list[Effect]] = []
    for begin in range(1, count + 1, size):
        effects: list[Effect] = []
        writes: list[Write] = []
        for n in range(begin, begin + size):
            host, incarnation, number = 1 << 32 | n % 50 + 1, n % 50 << 57 | 12_345, n // 50
            item = encode_item(Item(1, n, f"host-{n % 50}", incarnation & 0xFFFFFFFF, number, Kind.BROADCAST, BODY))
            stamp = ((2, n // 3),) if n % 3 == 0 else ()
            sender = (host, incarnation, number, (1, n - 1), 0)
            row = Row(1, n, stamp, 10**15 + n, Kind.BROADCAST, *sender, item, len(item), n)
            writes.append(PutRow(row, n))
            flat = [part for pair in stamp for part in pair]
            facts = (n, 1, n, 0, host, incarnation, number, 10**15 + n, 1, n - 1, 0, len(item), flat)
            effects.append(Logged(ORDER, facts))
            if n % 4 == 0:
                effects.append(Logged(ACK, (host, incarnation, 1, n - 1)))
        made.append([*effects, Persist(tuple(writes))])
    return made


def cost(home: Path, size: int, plan: Plan) -> Json:
    """Rounds with and without the log in turn; the cheapest of each counts."""
    plan.say(f"log: ticks of {size} messages, with and without the log")
    count = MESSAGES[size] // (1 if plan.repeats > 1 else 3)
    ticks = ticks_of(size, count)
    events = sum(isinstance(effect, Logged) for tick in ticks for effect in tick)
    used: dict[bool, list[float]] = {True: [], False: []}
    size_of_log = 0
    for i in range(max(2, plan.repeats)):
        for is_logged in (False, True):
            folder = home / f"log-{size}-{i}-{is_logged}"
            folder.mkdir()
            used[is_logged].append(_round(folder, ticks, is_logged))
            if is_logged:
                size_of_log = sum(segment_path(folder, seq).stat().st_size for seq in segments(folder))
    bare, full = min(used[False]), min(used[True])
    return {
        "messages_per_tick": size, "ticks": len(ticks), "events": events, "without_us": 1e6 * bare / count,
        "with_us": 1e6 * full / count, "ratio": full / bare, "us_per_event": 1e6 * (full - bare) / events,
        "bytes_per_event": size_of_log / events, "all_s": {str(key): value for key, value in used.items()},
    }  # fmt: skip


def _round(folder: Path, ticks: list[list[Effect]], is_logged: bool) -> float:
    """CPU seconds of all ticks, user and system."""
    identity = StationIdentity("s1", 1, 7)
    Store.create(folder, identity)
    card = StationCard("s1", 1, "bench", 7, "tcp://a:1", "tcp://a:2", "k" * 40, "00" * 32)
    signer = Signer(Ed25519PrivateKey.generate(), "bench")
    with Store.open(folder, identity) as store:
        log = DeliveryLog(folder, card, signer, [], {}, Clock(), Tally())
        begin = time.process_time()
        for effects in ticks:
            writes: list[Any] = [write for effect in effects if type(effect) is Persist for write in effect.writes]
            if is_logged:
                writes += log.take(effects, True)
            store.commit(writes)
            if is_logged:
                log.closed(True, True)
                log.look()
        log.close()
        return time.process_time() - begin


# ---- nothing per delivery ----


def logged(home: Path, hosts: int, plan: Plan) -> Json:
    """What a station logs of the same messages to so many hosts."""
    plan.say(f"log: {SENT} messages to {hosts} hosts")
    with ExitStack() as stack:
        group = StationGroup(home / f"log-hosts-{hosts}", 1, seats(hosts, 1))
        stack.callback(group.close)
        fleet = group.fleet()
        stack.callback(fleet.close)
        fleet.ask("attach")
        time.sleep(SETTLE_S)
        before = _in_log(group.directory)
        told = fleet.ask("round", seconds=60.0, body_bytes=len(BODY), rate=0.0, on_the_way=40, count=SENT)
        time.sleep(SETTLE_S)
        found = _in_log(group.directory) - before
    rest = sum(count for event, count in found.items() if event not in (ORDER, ACK))
    if found[ORDER] != told["messages"] or rest or found[ACK] > told["acks"]:
        raise NotFlat(f"{told['messages']} messages to {hosts} hosts, {told['acks']} acknowledgements: {dict(found)}")
    return {
        "hosts": hosts, "messages": told["messages"], "deliveries": told["deliveries"], "order": found[ORDER],
        "ack": found[ACK], "acks": told["acks"], "per_delivery": found.total() / told["deliveries"],
    }  # fmt: skip


def _in_log(directory: Path) -> Counter[str]:
    """Events in all segments."""
    found: Counter[str] = Counter()
    for seq in segments(directory):
        segment = read_segment(segment_path(directory, seq).read_bytes())
        found.update({event: len(segment.columns(event).get("seq", ())) for event in EVENTS})
    return found


# ---- text ----


def report(found: Json) -> str:
    """Both tables."""
    return "\n".join([_costs(found["log"]["cost"]), _hosts(found["log"]["hosts"])])


def _costs(found: list[Json]) -> str:
    rows = [
        [
            f"{one['messages_per_tick']}",
            f"{one['events']:,}",
            f"{one['without_us']:.2f}",
            f"{one['with_us']:.2f}",
            f"{one['ratio']:.2f} x",
            f"{one['us_per_event']:.2f}",
            f"{one['bytes_per_event']:.1f}",
        ]
        for one in found
    ]
    head = ["messages a tick", "events", "without", "with", "ratio", "us an event", "bytes an event"]
    notes = [
        "without, with: CPU of store and log per message, us, user and system, all commits and blocks synced; best",
        "round of each, in turn. us an event: their difference. A message is one event, and every fourth has another.",
    ]
    return table("What the delivery log costs a station, durability FULL", head, rows, notes)


def _hosts(found: list[Json]) -> str:
    rows = [
        [
            f"{one['hosts']} hosts",
            f"{one['messages']}",
            f"{one['deliveries']:,}",
            f"{one['order']}",
            f"{one['ack']:,}",
            f"{one['acks']:,}",
            f"{one['per_delivery']:.3f}",
        ]
        for one in found
    ]
    head = ["", "messages", "deliveries", "order events", "ack events", "acknowledgements", "events a delivery"]
    return table("What is logged of messages, by number of hosts", head, rows)
