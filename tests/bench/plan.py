"""How much is measured, and what is said meanwhile."""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Plan:
    """Sizes of the run."""

    hosts: tuple[int, ...]
    """Fan-outs at which CPU and memory are measured."""
    repeats: int
    """Rounds of each kind, station and baseline in turn; the best one counts."""
    round_s: float
    latency_s: float
    moves: int
    headers_at: tuple[int, ...]
    """Numbers of hosts at which the bytes of header must be equal."""
    lan_changes: int
    """Changes of the configuration whose spread is measured."""
    audit_messages: tuple[int, ...]
    """Sizes of audits: broadcasts to 200 hosts."""
    audit_hard: float
    """Of the hard shapes, 1: as large as the field reports have them."""
    topics: tuple[int, ...] = (1, 10, 1_000)
    """Numbers of topics on which is sent in turn."""
    topic_stations: tuple[int, ...] = (2, 4, 8, 16)
    """Groups in which mail is sent, lean and whole."""
    live_stations: tuple[int, ...] = (2, 4, 8)
    """Groups in which live messages are sent at rising rates."""
    cluster_stations: tuple[int, ...] = (20, 50, 100)
    """Groups of which the load is measured, flat and in clusters."""
    cluster_turns: int = 20
    """In each of which every twentieth station sends a message."""
    began: float = field(default_factory=time.monotonic)

    def say(self, text: str) -> None:
        """One progress line."""
        print(f"bench: {time.monotonic() - self.began:4.0f} s  {text}", file=sys.stderr, flush=True)


def default_plan(hosts: tuple[int, ...]) -> Plan:
    """Some four minutes on two cores."""
    return Plan(
        hosts, repeats=3, round_s=2.0, latency_s=3.0, moves=160, headers_at=(10, 1_000), lan_changes=20,
        audit_messages=(5_000, 50_000), audit_hard=1.0,
    )  # fmt: skip


def quick_plan(hosts: tuple[int, ...]) -> Plan:
    """About a minute."""
    return Plan(
        hosts, repeats=1, round_s=1.0, latency_s=1.5, moves=32, headers_at=(10, 1_000), lan_changes=5,
        audit_messages=(5_000,), audit_hard=0.1, topics=(1, 1_000), topic_stations=(2, 8), live_stations=(2,),
        cluster_stations=(9,),
    )  # fmt: skip
