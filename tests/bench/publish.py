"""CPU of one broadcast frame between stations: on a DEALER to each peer, and by PUB/SUB (station-link.md).

The sockets and ports of a station on loopback, with CURVE and ZAP, without its core: one sender in this process, all
its peers in another. Both ways go in turn over the same connections, in bursts that fit into the queues. Each peer
publishes too, so that the sender polls one SUB socket more for each peer than without.
"""

from __future__ import annotations

import gc
import multiprocessing
import resource
import statistics
import sys
import time
from multiprocessing.sharedctypes import Synchronized
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "mss_station"))

from bench.child import ChildFailed, Json
from bench.plan import Plan
from bench.tables import table
from peer_rig import Rig

from roamcast.middleware.rows import Kind, Row
from roamcast.middleware.station_frames import DataBatch
from roamcast.transport.station_codec import encode_peer

PEERS = (4, 8, 16, 32)
BURST = 50
BURSTS = 40
POLLS = 300
BODY_BYTES = 256
DEALERS, PUBLISHED = "DEALERs", "PUB/SUB"
IDLE_S = 0.01
"""Between two looks of the peers' process: short beside what a burst costs it."""
READY_S, BURST_S = 30.0, 20.0
ALONE = 1_000
"""More peers than any group has: nobody publishes."""


def measure(home: Path, plan: Plan) -> Json:
    """By number of peers."""
    return {"publish": [_measure(peers, plan) for peers in PEERS]}


def _measure(peers: int, plan: Plan) -> Json:
    plan.say(f"broadcasts to {peers} peers")
    spawned = multiprocessing.get_context("spawn")
    heard, cpu, done = spawned.Value("q", 0), spawned.Value("d", 0.0), spawned.Event()
    ours, theirs = spawned.Pipe()
    sender = Rig(1, above=ALONE)
    told = sender.endpoint, sender.keys.public, peers
    child = spawned.Process(target=receive, args=(theirs, *told, heard, cpu, done), daemon=True)
    child.start()
    try:
        return {"peers": peers, **_rounds(sender, ours.recv(), heard, cpu, plan)}
    finally:
        done.set()
        child.join(10)
        child.kill()
        sender.close()


def _rounds(
    sender: Rig, peers: dict[int, tuple[str, str]], heard: Synchronized[int], cpu: Synchronized[float], plan: Plan
) -> Json:
    sender.meet(peers)
    _until(sender, lambda: all(sender.links.is_linked(slot) for slot in peers), "not all are linked")
    found: Json = {DEALERS: [], PUBLISHED: []}
    polls = {DEALERS: _poll_us(sender)}
    sender.above = 0
    _until(sender, lambda: len(sender.published.status()[1]) == len(sender.published.status()[2]) == len(peers), "deaf")
    polls[PUBLISHED] = _poll_us(sender)
    item = bytes(BODY_BYTES)
    row = Row(1, 1, ((2, 1),), 1, Kind.BROADCAST, 1, 1, 1, (1, 1), 0, item, len(item))
    data = encode_peer(DataBatch(1, (row,)))
    for _ in range(2 * plan.repeats):
        for way in (DEALERS, PUBLISHED):
            found[way].append(_round(sender, way == PUBLISHED, data, len(peers), heard, cpu))
    best = {
        way: {what: min(one[what] for one in found[way]) for what in ("thread_us", "process_us", "peer_us")}
        for way in found
    }
    return {"best": {way: {**best[way], "poll_us": polls[way]} for way in best}, "rounds": found}


def _round(
    sender: Rig, publishes: bool, data: bytes, peers: int, heard: Synchronized[int], cpu: Synchronized[float]
) -> Json:
    """Microseconds per frame: the thread that sends, its process, and each peer."""
    gc.collect()
    thread_s = process_s = 0.0
    peer_s = cpu.value
    for _ in range(BURSTS):
        aim = heard.value + BURST * peers
        begun, process = time.thread_time(), time.process_time()
        for _ in range(BURST):
            if publishes:
                sender.port.broadcast(data)
            else:
                for slot in range(2, peers + 2):
                    sender.port.send(slot, data)
        thread_s += time.thread_time() - begun
        end = time.monotonic() + BURST_S
        while heard.value < aim:
            time.sleep(0.002)
            if time.monotonic() > end:
                raise ChildFailed(f"peers have heard {heard.value} frames of {aim}")
        process_s += time.process_time() - process
        sender.turn(0)
    frames = BURST * BURSTS
    return {
        "thread_us": 1e6 * thread_s / frames,
        "process_us": 1e6 * process_s / frames,
        "peer_us": 1e6 * (cpu.value - peer_s) / frames / peers,
    }


def _poll_us(sender: Rig) -> float:
    """One look at all sockets, nothing being there."""
    times = []
    for _ in range(POLLS):
        begun = time.thread_time()
        sender.poller.poll(0)
        times.append(1e6 * (time.thread_time() - begun))
    return statistics.median(times)


def _until(sender: Rig, condition: Any, what: str) -> None:
    end = time.monotonic() + READY_S
    while not condition():
        sender.turn(5)
        if time.monotonic() > end:
            raise ChildFailed(what)


def receive(
    pipe: Any,
    endpoint: str,
    key: str,
    peers: int,
    heard: Synchronized[int],
    cpu: Synchronized[float],
    done: Event,
) -> None:
    """All peers, in a process of their own."""
    rigs = [Rig(slot) for slot in range(2, peers + 2)]
    pipe.send({rig.slot: (rig.endpoint, rig.keys.public) for rig in rigs})
    for rig in rigs:
        rig.meet({1: (endpoint, key)})
    while not done.is_set():
        for rig in rigs:
            rig.turn(0)
        heard.value += sum(len(rig.fed) for rig in rigs)
        for rig in rigs:
            rig.fed.clear()
        usage = resource.getrusage(resource.RUSAGE_SELF)
        cpu.value = usage.ru_utime + usage.ru_stime
        time.sleep(IDLE_S)


def report(found: Json) -> str:
    """The table."""
    rows = []
    for one in found["publish"]:
        for way in (DEALERS, PUBLISHED):
            best = one["best"][way]
            whats = "thread_us", "process_us", "peer_us", "poll_us"
            rows.append([str(one["peers"]), way, *(f"{best[what]:.1f}" for what in whats)])
    head = ["peers", "way", "thread", "process", "each peer", "one poll"]
    return table("CPU of one broadcast frame between stations, microseconds", head, rows)
