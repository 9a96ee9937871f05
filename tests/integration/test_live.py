"""Live messages between real processes: in time and in their place, or not at all.

No particular one has to arrive: a busy machine may hold up any. So they are sent until one has.
"""

from __future__ import annotations

import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from demo.cluster import program, run_command, station_command
from demo.worker import RoutedAgent
from harness import Bench, until

from roamcast.mh_agent import Live, Message

DEADLINE_S = 0.5
SLACK_S = 2.0
"""Of this process: what it measures is not what an agent does."""
PATIENCE_S = 60.0
GAP_S = 0.05


@pytest.fixture
def bench(make_bench: Callable[..., Bench]) -> Bench:
    """Two stations that run, and the hosts a and b, enrolled and known."""
    bench = make_bench(stations=2)
    bench.cluster.enrol(["a", "b"])
    bench.cluster.start()
    bench.cluster.wait_serving()
    return bench


@pytest.fixture
def attach(bench: Bench) -> Iterator[Callable[[str, str], Any]]:
    """A host's agent in this process, attached at a station."""
    agents = []

    def open_at(host: str, station: str) -> Any:
        agent = RoutedAgent(str(bench.cluster.credentials[host]))
        agents.append(agent)
        agent.move(station)
        until(lambda: (agent.status["state"], agent.status["station"]) == ("open", station), f"{host} at {station}")
        return agent

    yield open_at
    for agent in agents:
        agent.close()


def test_live_between_two_stations(bench: Bench, attach: Callable[[str, str], Any]) -> None:
    """To all, to one, on a topic: each in time, and behind the durable message that was sent just before it."""
    station_command("topics", "add", bench.station("s1").directory, "t", "--send", "a", "--receive", "b")
    bench.cluster.wait_topics(["t"])
    a, b = attach("a", "s1"), attach("b", "s2")
    b.subscribe("t")
    ways = {
        b"all": lambda body: a.broadcast(body, deadline=DEADLINE_S),
        b"mail": lambda body: a.send("b", body, deadline=DEADLINE_S),
        b"topic": lambda body: a.broadcast(body, "t", deadline=DEADLINE_S),
    }
    sent: dict[bytes, float] = {}
    given: dict[bytes, tuple[float, Any]] = {}
    came: set[bytes] = set()
    end = time.monotonic() + PATIENCE_S
    while came != set(ways):
        assert time.monotonic() < end, f"{came} came; {a.status['live']}, {b.status['live']}"
        for way, send in ways.items():
            body = b"%s %d" % (way, len(sent))
            a.broadcast(b"before " + body)
            sent[body] = time.monotonic()
            send(body)
        while (event := b.receive(2 * GAP_S)) is not None:
            if isinstance(event, Message | Live):
                given[event.body] = time.monotonic(), event
            if isinstance(event, Live):
                came.add(event.body.split()[0])
                assert b"before " + event.body in given, "it has overtaken a durable message"
                assert given[event.body][0] <= sent[event.body] + DEADLINE_S + SLACK_S
    live = [event for _, event in given.values() if isinstance(event, Live)]
    assert {(event.sender, event.mail, event.topic) for event in live} == {
        ("a", False, None), ("a", True, None), ("a", False, "t")
    }  # fmt: skip
    assert b.status["live"]["given"] == len(live) and a.status["live"]["sent"] == len(sent)
    a.suspend()
    assert a.broadcast(b"x", deadline=DEADLINE_S).reason == "not-attached"


def test_the_sender_is_told(bench: Bench, attach: Callable[[str, str], Any]) -> None:
    a = attach("a", "s1")
    receipt = a.send("nobody", b"x", deadline=DEADLINE_S)
    assert a.wait_for(lambda: receipt.state == "dropped", 20) and receipt.reason == "unknown"
    assert receipt.wait() == "dropped" and a.status["live"]["dropped"] == 1


def test_a_stopped_process_is_given_nothing_stale(bench: Bench, attach: Callable[[str, str], Any]) -> None:
    """What waited in its buffers meanwhile, or came as it was stopped, is over."""
    a, out = attach("a", "s1"), bench.home / "listened"
    with out.open("wb") as written:
        listener = subprocess.Popen(
            [program("mh-agent"), "listen", str(bench.cluster.credentials["b"])], stdout=written
        )
    try:
        sent: list[tuple[float, bytes]] = []

        def send() -> bool:
            sent.append((time.monotonic(), b"x%d." % len(sent)))
            a.broadcast(sent[-1][1], deadline=DEADLINE_S)
            time.sleep(GAP_S)
            return any(body in out.read_bytes() for at, body in sent if at > since)

        since = 0.0
        until(send, "something live is given", PATIENCE_S)
        listener.send_signal(signal.SIGSTOP)
        stopped = time.monotonic()
        bench.run_for(4, send)
        thawed = time.monotonic()
        listener.send_signal(signal.SIGCONT)
        since = thawed
        until(send, "something live is given again", PATIENCE_S)
    finally:
        listener.kill()
        listener.wait()
    lines = out.read_bytes()
    stale = [body for at, body in sent if stopped < at < thawed - DEADLINE_S - SLACK_S]
    assert stale and not [body for body in stale if body in lines]
    assert all(line.startswith(b"~\ta\tx") for line in lines.splitlines())


def test_the_command(bench: Bench, attach: Callable[[str, str], Any]) -> None:
    b = attach("b", "s2")
    file = bench.cluster.credentials["a"]
    command = [program("mh-agent"), "send", str(file), "hello", "--deadline", str(DEADLINE_S)]
    end = time.monotonic() + PATIENCE_S
    event = None
    while not isinstance(event, Live):
        assert time.monotonic() < end, "no live message has come"
        with subprocess.Popen(command) as sender:
            while event is None and sender.poll() is None:
                event = b.receive(GAP_S)
        assert sender.returncode in (0, 3)
    assert (event.sender, event.body) == ("a", b"hello")
    done = run_command("mh-agent", "send", file, "hello", "--deadline", "1", "--to", "nobody")
    assert (done.returncode, done.stderr) == (3, "mh-agent: dropped: unknown\n")
    assert run_command("mh-agent", "send", file, "hello", "--deadline", "0").returncode == 2
    for station in bench.cluster.stations:
        station.stop()
    done = run_command("mh-agent", "send", file, "hello", "--deadline", "1", "--timeout", "2")
    assert done.returncode == 4 and "mh-agent: not-attached" in done.stderr
