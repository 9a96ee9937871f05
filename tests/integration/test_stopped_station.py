"""A station that stands still: until the others hang up, or for 10,000 messages (cases BL-22, BL-23, BL-41)."""

from __future__ import annotations

import time
from collections.abc import Callable

from harness import Bench, until

FREEZE_S = 22.0
"""Longer than the time after which a peer counts as down, and after which a link without answers is made anew."""

MANY = 10_000


def test_frozen_until_all_others_have_hung_up(make_bench: Callable[..., Bench]) -> None:
    """When it goes on its queues are full, and the connections behind them are dead."""
    bench = make_bench(stations=4)
    bench.hosts({"a": "s1", "b": "s4"})
    bench.load(["a", "b"], rate=20)
    bench.run_for(1)
    frozen = bench.station("s2")
    frozen.freeze()
    bench.run_for(FREEZE_S)
    delivered = bench.progress().delivered
    bench.run_for(1)
    assert bench.progress().delivered > delivered, "the other stations stood still too"
    frozen.thaw()
    verdict = bench.settle()
    assert verdict.messages > 200 and frozen.running


def test_stopped_for_ten_thousand_messages(make_bench: Callable[..., Bench]) -> None:
    """The others keep their rate, and the stopped one catches up under load."""
    bench = make_bench()
    senders = {"a": "s1", "b": "s1", "c": "s2", "d": "s2"}
    bench.hosts({**senders, "e": "s3"}, workers=3, ack_every=256)

    def push(count: int) -> float:
        """All senders broadcast; returns messages a second as their stations stored them."""
        progress = bench.progress()
        before = progress.sent
        begun = time.monotonic()
        for host in senders:
            bench.send(host, count // len(senders))

        def taken() -> bool:
            progress.read()
            return progress.sent - before >= count and all(bench.status(host)["outbox"] == 0 for host in senders)

        until(taken, f"{count} messages stored", 90)
        return count / (time.monotonic() - begun)

    usual = push(2_000)
    bench.wait_delivered()
    bench.station("s3").stop()
    without = push(MANY)
    print(f"{usual:.0f} messages/s with three stations, {without:.0f} with one stopped")
    assert without > 0.5 * usual
    bench.load(list(senders), rate=20)
    bench.station("s3").start()
    bench.station("s3").wait_ready()
    begun = time.monotonic()
    until(lambda: len(bench.progress().missing_at("e")) < 500, "s3 catches up under load", 60)
    print(f"caught up {MANY} messages in {time.monotonic() - begun:.1f} s under load")
    bench.run_for(0.5)
    bench.settle()
