"""Keys, names and hostile bytes on real sockets (BL-35, BL-38, BL-64, BL-65, BL-67; security.md)."""

from __future__ import annotations

import json
import os
import random
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import zmq
from demo.cluster import must
from demo.crew import Worker
from harness import STEP_S, Bench, until

from roamcast.middleware.host_frames import DownFrame, Hello, Refused, Welcome
from roamcast.transport.credential import Credential, read_credential, read_keys
from roamcast.transport.curve import generate
from roamcast.transport.host_codec import decode_down, encode_up
from roamcast.transport.sockets import connect_host, new_context, set_client
from roamcast.transport.station_files import read_station
from roamcast.transport.toml_files import read_table

SETTLED_S = 15.0
HUGE = (2**31, 2**40, 2**63, 2**64 - 1)
DEEP = 200_000
RSS_MIB_MAX = 40
FRAMES_EACH = 15
"""Unreadable frames that one host may send: with one more its channel is closed."""


def altered(bench: Bench, host: str, name: str, changes: dict[str, str]) -> Path:
    """A copy of a credential with some of its texts replaced."""
    text = bench.cluster.credentials[host].read_text()
    for old, new in changes.items():
        assert old in text
        text = text.replace(old, new)
    folder = bench.home / name
    folder.mkdir()
    file = folder / f"{host}.toml"
    file.touch(mode=0o600)
    file.write_text(text)
    return file


def shown(worker: Worker, host: str, words: str) -> dict[str, Any]:
    """Wait until the status of a host's agent shows `words`."""

    status: dict[str, Any] = {}
    end = time.monotonic() + SETTLED_S
    while words not in json.dumps(status):
        assert time.monotonic() < end, f"{words!r} is not in the status of {host}: {status}"
        time.sleep(STEP_S)
        status = worker.status(host)
    return status


def test_every_refusal_has_its_own_message(make_bench: Callable[..., Bench]) -> None:
    bench = make_bench(stations=1)
    bench.hosts({"a": "s1", "b": "s1"})
    credential = read_credential(bench.cluster.credentials["a"])
    station_key = credential.stations[0].key
    mine, stranger = credential.keys, generate()
    worker = bench.worker("w3")
    worker.start()
    cases = {
        "wrong-key": ({station_key: generate().public}, "authentication failed"),
        "unknown-key": ({mine.public: stranger.public, mine.secret: stranger.secret}, "unknown key"),
        "other-name": ({'"a"': '"b"'}, "name"),
    }
    for name, (changes, words) in cases.items():
        file = altered(bench, "a", name, changes)
        worker.open("a", file)
        status = shown(worker, "a", words)
        assert status["state"] != "open"
        worker.ask("close", "a")
    for name, hurt, words in (("silent", "swallow", "no handshake"), ("down", "refuse", "unreachable")):
        gate = bench.host_gate("a", "s1")
        getattr(gate, hurt)()
        worker.open("a", altered(bench, "a", name, {}))
        shown(worker, "a", words)
        worker.ask("close", "a")
        gate.heal()
    del worker.hosts["a"]
    counted = json.dumps(bench.station("s1").status())
    assert "reject.name" in counted
    said = bench.station("s1").text()
    assert "name_refused" in said and "'a' called itself 'b'" in said
    bench.send("b", 5)
    bench.settle()


def test_revoked_host_is_out_at_once(make_bench: Callable[..., Bench]) -> None:
    bench = make_bench()
    bench.hosts({"a": "s1", "b": "s2", "c": "s3"})
    bench.load(["b", "c"], rate=10, mail=0.0)
    must("mss-station", "hosts", "revoke", bench.station("s3").directory, "a")
    bench.exempt.add("a")
    until(lambda: bench.status("a")["state"] != "open", "a is shut out")
    before = len(bench.history().events["a"])
    bench.run_for(1)
    assert len(bench.history().events["a"]) == before, "a revoked host is given messages"
    assert bench.status("a")["state"] != "open"
    assert bench.settle().messages > 10


def test_refused_keys_are_counted_and_shown(make_bench: Callable[..., Bench]) -> None:
    bench = make_bench(stations=1)
    bench.hosts({"a": "s1"})
    credential = read_credential(bench.cluster.credentials["a"])
    context = new_context()
    for _ in range(5):
        connect_host(context, bench.station("s1").hosts, generate(), credential.stations[0].key)

    def refused() -> int:
        return int(must("mss-station", "status", bench.station("s1").directory, "--json").count("refused"))

    until(refused, "refusals in the status")
    context.destroy(0)
    bench.send("a", 3)
    bench.settle()


def hostile_frames(rng: random.Random) -> list[bytes]:
    """Bytes that no codec should take: huge lengths, endless nesting, cut and altered frames, noise."""
    frames = [b"", b"\x00", b"\xff", b"\xf6", b"\x80"]
    for major in (0x40, 0x60, 0x80, 0xA0):
        frames += [bytes([major | 27]) + n.to_bytes(8, "big") for n in HUGE]
        frames += [b"\x83\x02\x01" + bytes([major | 27]) + n.to_bytes(8, "big") for n in HUGE]
        frames += [bytes([major | 26]) + b"\xff\xff\xff\xff", bytes([major | 31])]
    frames += [head * DEEP for head in (b"\x81", b"\xa1\x00", b"\xc1", b"\x9f", b"\x5f")]
    hello = encode_up(Hello((1, 0), "a", 7, False, 1, 1, 0, 0, 1, 5))
    frames += [hello[:cut] for cut in range(len(hello))] + [hello + b"\x00"]
    for _ in range(300):
        broken = bytearray(hello)
        broken[rng.randrange(len(broken))] = rng.randrange(256)
        frames.append(bytes(broken))
        frames.append(rng.randbytes(rng.randint(1, 200)))
    return frames


def memory_mib(pid: int) -> float:
    """Resident memory of a process."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20


def dealer(context: zmq.Context[zmq.Socket[bytes]], credential: Credential, endpoint: str) -> zmq.Socket[bytes]:
    """A scripted host with a valid key."""
    link, _ = connect_host(context, endpoint, credential.keys, credential.stations[0].key)
    link.setsockopt(zmq.SNDTIMEO, 2000)
    link.setsockopt(zmq.RCVTIMEO, 2000)
    return link


def test_hostile_bytes_of_enrolled_hosts(make_bench: Callable[..., Bench]) -> None:
    """Refused and counted; the station neither stops nor grows, the others are served, and who goes on is shut out."""
    bench = make_bench(stations=1)
    bench.hosts({"b": "s1", "c": "s1"})
    frames = hostile_frames(bench.rng)
    crowd = [f"x{i}" for i in range(len(frames) // FRAMES_EACH + 1)]
    bench.cluster.enrol(crowd)
    station = bench.station("s1")
    assert station.process is not None
    bench.load(["b", "c"], rate=20)
    before = memory_mib(station.process.pid)
    context = new_context()
    links = [dealer(context, read_credential(bench.cluster.credentials[name]), station.hosts) for name in crowd]
    for i, frame in enumerate(frames):
        parts = [frame, frame] if i % 7 == 6 else [frame]
        links[i // FRAMES_EACH].send_multipart(parts)

    def refused() -> int:
        status = station.status()
        assert status is not None, station.text()[-2000:]
        counters = status["counters"]
        return sum(count for name, count in counters.items() if name.startswith(("reject.", "frames_")))

    until(lambda: refused() > len(frames) // 2, "most of the frames are refused and counted")
    assert memory_mib(station.process.pid) < before + RSS_MIB_MAX
    for _ in range(2 * FRAMES_EACH):
        links[0].send(b"\xff")
    until(lambda: "channels_closed_for_bad_frames" in json.dumps(station.status()), "the channel is closed")
    shut_out = dealer(context, read_credential(bench.cluster.credentials["x0"]), station.hosts)
    shut_out.setsockopt(zmq.SNDTIMEO, 1000)
    with pytest.raises(zmq.Again):
        shut_out.send(b"\xff")
    context.destroy(0)
    assert station.running
    bench.settle()


FIRST_ID = """
import zmq
context = zmq.Context()
zap, router, dealer = context.socket(zmq.ROUTER), context.socket(zmq.ROUTER), context.socket(zmq.DEALER)
router.bind("inproc://here")
dealer.connect("inproc://here")
dealer.send(b"")
print(router.recv()[1:].hex())
"""


def guesses(count: int) -> list[bytes]:
    """The ids that a station's ROUTER for hosts counts up, if nobody seeds the C library's random numbers."""
    start = int(subprocess.check_output([sys.executable, "-c", FIRST_ID], text=True), 16)
    return [b"\0" + ((start + i) % 2**32).to_bytes(4, "big") for i in range(count)]


def under_id(
    context: zmq.Context[zmq.Socket[bytes]], credential: Credential, endpoint: str, routing_id: bytes | None
) -> zmq.Socket[bytes]:
    """A scripted host with a valid key that brings a routing id of its choice."""
    link = context.socket(zmq.DEALER)
    set_client(link, credential.keys, credential.stations[0].key)
    if routing_id is not None:
        link.setsockopt(zmq.ROUTING_ID, routing_id)
    link.setsockopt(zmq.SNDTIMEO, 2000)
    link.setsockopt(zmq.RCVTIMEO, 2000)
    link.connect(endpoint)
    return link


def test_guessed_routing_ids_end_no_station(make_bench: Callable[..., Bench]) -> None:
    """libzmq ends the process by an assertion when the id that is due next is taken."""
    bench = make_bench(stations=1)
    bench.hosts({"b": "s1"})
    bench.cluster.enrol(["a", "c"])
    station = bench.station("s1")
    a, c = (read_credential(bench.cluster.credentials[name]) for name in "ac")
    context = new_context()
    parked = [under_id(context, a, station.hosts, guess) for guess in guesses(18)]
    for link in parked:
        assert link.poll(5000, zmq.POLLOUT)
    for _ in range(18):
        if under_id(context, c, station.hosts, None).poll(5000, zmq.POLLOUT) == 0:
            break
    context.destroy(0)
    assert station.running
    bench.send("b", 2)
    bench.settle()


def test_the_id_of_a_former_connection_is_no_proof(make_bench: Callable[..., Bench]) -> None:
    bench = make_bench(stations=1)
    bench.cluster.enrol(["a", "b"])
    bench.cluster.start()
    station = bench.station("s1")
    a, b = (read_credential(bench.cluster.credentials[name]) for name in "ab")
    context = new_context()

    def hello(link: zmq.Socket[bytes], e: int, le: int) -> DownFrame:
        link.send(encode_up(Hello((1, 0), "b", 7, False, e, 1, le, -1 if le else 0, 1, 5)))
        return decode_down(link.recv())

    first = dealer(context, b, station.hosts)
    assert isinstance(hello(first, 1, 0), Welcome)
    first.close(0)
    time.sleep(0.3)  # the station's socket notices
    for guess in guesses(6):
        answer = hello(under_id(context, a, station.hosts, guess), 50, 1)
        assert isinstance(answer, Refused) and answer.code == "name", answer
    assert isinstance(hello(dealer(context, b, station.hosts), 100, 1), Welcome)
    context.destroy(0)


def test_version_and_unknown_kind_are_answered(make_bench: Callable[..., Bench]) -> None:
    bench = make_bench(stations=1)
    bench.hosts({"b": "s1"})
    bench.cluster.enrol(["a"])
    credential = read_credential(bench.cluster.credentials["a"])
    context = new_context()
    link = dealer(context, credential, bench.station("s1").hosts)
    for version in ((0, 0), (2, 0)):
        link.send(encode_up(Hello(version, "a", 7, False, 1, 1, 0, 0, 1, 5)))
        answer = decode_down(link.recv())
        assert isinstance(answer, Refused) and answer.code == "version", answer
        assert f"{version[0]}.{version[1]}" in answer.text and "1.1" in answer.text
    link.send(b"\x82\x18\x63\x01")
    answer = decode_down(link.recv())
    assert isinstance(answer, Refused) and answer.code not in ("version", "name"), answer
    context.destroy(0)
    bench.send("b", 2)
    bench.settle()


def test_hostile_bytes_of_a_station(make_bench: Callable[..., Bench]) -> None:
    """Another member's key, but not its program: its noise is refused, the two others go on."""
    bench = make_bench()
    bench.hosts({"a": "s1", "b": "s2"})
    bench.station("s3").stop()
    target = bench.station("s1")
    assert target.process is not None
    before = memory_mib(target.process.pid)
    keys = read_keys(read_table(bench.station("s3").directory / "curve.key", private=True))
    server = read_station(target.directory).card.key
    bench.load(["a", "b"], rate=20)
    context = new_context()
    link = context.socket(zmq.DEALER)
    set_client(link, keys, server)
    link.setsockopt(zmq.SNDTIMEO, 2000)
    link.connect(target.stations)
    for frame in hostile_frames(bench.rng):
        try:
            link.send(frame)
        except zmq.Again:
            break
    link.close(500)
    context.destroy(0)
    bench.run_for(1)
    assert target.running and memory_mib(target.process.pid) < before + RSS_MIB_MAX
    bench.settle()


def test_noise_on_the_open_ports(make_bench: Callable[..., Bench]) -> None:
    """No key at all: bytes straight on TCP, half a greeting, a connection that says nothing."""
    bench = make_bench(stations=1)
    bench.hosts({"a": "s1"})
    station = bench.station("s1")
    assert station.process is not None
    before = memory_mib(station.process.pid)
    greeting = b"\xff" + bytes(8) + b"\x7f\x03\x01CURVE" + bytes(44)
    for _ in range(200):
        for endpoint in (station.hosts, station.stations):
            with socket.create_connection(("127.0.0.1", int(endpoint.rpartition(":")[2])), timeout=2) as raw:
                raw.sendall(bench.rng.choice([bench.rng.randbytes(300), greeting, greeting + bench.rng.randbytes(200)]))
    assert station.running and memory_mib(station.process.pid) < before + RSS_MIB_MAX
    bench.send("a", 3)
    bench.settle()


def test_keys_that_others_can_read_are_refused(make_bench: Callable[..., Bench]) -> None:
    bench = make_bench(stations=1)
    station = bench.station("s1")
    key = station.directory / "curve.key"
    key.chmod(0o644)
    station.start()
    assert station.wait_end() == 3
    assert "chmod 600" in station.text()
    key.chmod(0o600)
    begun = time.monotonic()
    station.start()
    station.wait_ready()
    assert time.monotonic() - begun < 10
