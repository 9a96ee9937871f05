"""The agent's process: killed and resumed, frozen, started twice, forked (BL-04, 18, 19, 24, 29, 33, 39, 63, 80)."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable

from harness import Bench, until

WORDS = ("identity", "incarnation", "replaced")
PLACES = {"a": "s1", "b": "s2", "c": "s3", "d": "s1"}


def test_killed_and_resumed_under_load(make_bench: Callable[..., Bench]) -> None:
    bench = make_bench()
    bench.hosts(PLACES)
    for _ in range(8):
        bench.load(list(PLACES), rate=20, roam_s=2)
        bench.run_for(bench.rng.uniform(0.2, 0.8))
        worker = bench.worker(bench.rng.choice(["w1", "w2"]))
        worker.kill()
        bench.run_for(bench.rng.uniform(0.0, 0.1))
        worker.start()
    assert bench.settle().messages > 100


def test_a_full_window_and_then_the_agent_dies(make_bench: Callable[..., Bench]) -> None:
    """Given, never acknowledged: all of it comes again, and delivery goes on behind it (BL-24)."""
    bench = make_bench()
    bench.hosts({"a": "s1", "b": "s2"}, ack_every=16)
    worker = bench.worker("w1")
    bench.ask("a", "deaf", deaf=True)
    bench.send("b", 1500, to="a")
    until(lambda: bench.status("b")["outbox"] == 0, "b's mail is stored", 60)
    until(lambda: bench.status("a")["in_hand"] > 0, "a has messages in hand")
    worker.kill()
    worker.start()
    bench.settle()


def test_frozen_and_thawed(make_bench: Callable[..., Bench]) -> None:
    bench = make_bench()
    bench.hosts(PLACES)
    bench.load(list(PLACES), rate=10)
    worker = bench.worker("w1")
    worker.send_signal(signal.SIGSTOP)
    bench.run_for(12)
    worker.send_signal(signal.SIGCONT)
    bench.run_for(1)
    bench.settle()


def test_offline_outbox_and_resume(make_bench: Callable[..., Bench]) -> None:
    """What is sent while asleep is kept over a kill and goes out once, before what is sent later (BL-04, BL-12)."""
    bench = make_bench()
    bench.hosts({"a": "s1", "b": "s2"})
    bench.ask("a", "suspend")
    bench.send("a", 300)
    bench.send("b", 300, to="a")
    until(lambda: bench.status("a")["outbox"] >= 300, "a queues while it sleeps")
    bench.worker("w1").kill()
    bench.worker("w1").start()
    bench.load(["a", "b"], rate=50)
    bench.run_for(1)
    assert bench.settle().messages > 600


def test_descriptors_stay_flat(make_bench: Callable[..., Bench]) -> None:
    """Sleep and wake, network changes, a station that refuses: no socket is left behind (BL-34)."""
    bench = make_bench(stations=1)
    bench.hosts({"a": "s1"}, workers=1)
    process = bench.worker("w1").pid

    def asleep(times: int) -> int:
        """Descriptors of the process while its host sleeps, after so many wake-ups."""
        for _ in range(times):
            bench.ask("a", "resume")
            bench.ask("a", "network_changed")
            bench.ask("a", "suspend")
        return len(os.listdir(f"/proc/{process}/fd"))

    first = asleep(5)
    assert asleep(30) <= first
    bench.host_gate("a", "s1").refuse()
    assert asleep(30) <= first
    bench.ask("a", "resume")
    bench.host_gate("a", "s1").heal()
    bench.send("a", 3)
    bench.settle()


def operators_log(bench: Bench) -> str:
    """Warnings and worse of all stations."""
    lines = [line for station in bench.cluster.stations for line in station.text().splitlines()]
    return "\n".join(line for line in lines if " INFO " not in line)


def test_clone_of_the_state_is_detected_and_named(make_bench: Callable[..., Bench]) -> None:
    """Two processes with one identity: told to the applications and the operator; nobody else suffers (BL-18)."""
    bench = make_bench()
    bench.hosts({"a": "s1", "b": "s2", "c": "s3"})
    bench.send("b", 10)
    bench.wait_delivered()
    bench.worker("w1").close()
    copy = bench.home / "clone"
    copy.mkdir()
    for file in bench.cluster.credentials["a"].parent.glob("a*"):
        shutil.copy2(file, copy / file.name)
    bench.exempt.add("a")
    bench.worker("w1").start()
    bench.wait_attached("a")
    clone = bench.worker("w9")
    clone.start()
    clone.open("a", copy / bench.cluster.credentials["a"].name, seed=bench.seed)
    bench.load(["b", "c"], rate=10, mail=0.0)
    bench.run_for(6)

    told = [e for e in bench.history().others if e["event"] in ("ended", "problem") and e["host"] == "a"]
    lost = [e for e in bench.history().events["a"] if e.kind == "lost"]
    assert any("replaced" in str(e) for e in told) and lost, f"the applications were told {told}, {lost}"
    assert any(word in operators_log(bench) for word in WORDS), f"no station names it:\n{operators_log(bench)}"
    bench.quiet()
    clone.kill()
    verdict = bench.settle()
    assert verdict.messages > 50


def test_state_that_went_back_swallows_nothing(make_bench: Callable[..., Bench]) -> None:
    """x1..x10, the old state put back, y1..y10: all twenty arrive, or the sender is told which may not (BL-19)."""
    bench = make_bench()
    bench.hosts({"a": "s1", "b": "s2"})
    bench.send("a", 3)
    bench.wait_delivered()
    worker = bench.worker("w1")
    worker.close()
    files = list(bench.cluster.credentials["a"].parent.glob("a*"))
    old = {file: file.read_bytes() for file in files if file != bench.cluster.credentials["a"]}
    worker.start()
    bench.send("a", 10)
    until(lambda: sum(event.kind == "sent" for event in bench.history().events["a"]) == 13, "a has sent ten more")
    bench.wait_delivered()
    worker.close()
    for file, data in old.items():
        file.write_bytes(data)
    bench.exempt.add("a")
    worker.start()
    bench.send("a", 10)
    until(lambda: sum(event.kind == "sent" for event in bench.history().events["a"]) == 23, "a has sent all")
    bench.settle()
    given = [event.uid for event in bench.history().events["b"] if event.kind == "given"]
    assert len(given) == len(set(given)) == 23
    assert any(event.kind == "lost" for event in bench.history().events["a"])


def test_second_process_on_one_state_is_refused(make_bench: Callable[..., Bench]) -> None:
    bench = make_bench(stations=1)
    bench.hosts({"a": "s1"})
    script = "import sys; from roamcast.mh_agent import Agent; Agent(sys.argv[1])"
    command = [sys.executable, "-c", script, str(bench.cluster.credentials["a"])]
    second = subprocess.run(command, capture_output=True, text=True, timeout=20)
    assert second.returncode != 0 and "in use" in second.stderr, second.stderr
    bench.send("a", 5)
    bench.settle()
    again = subprocess.run(command, capture_output=True, text=True, timeout=20)
    assert again.returncode == 0, again.stderr


def test_fork_of_an_embedding_application(make_bench: Callable[..., Bench]) -> None:
    """The child's calls raise a clear error, its end harms nothing, and the parent goes on (BL-33)."""
    bench = make_bench(stations=1)
    bench.hosts({"a": "s1", "b": "s1"})
    bench.worker("w1").close()
    script = """
        import os, sys
        from roamcast.mh_agent import Agent
        with Agent(sys.argv[1]) as agent:
            agent.broadcast(b"before")
            for way in ("call", "exit", "crash"):
                child = os.fork()
                if child == 0:
                    if way == "call":
                        try:
                            agent.broadcast(b"from the child")
                        except Exception as error:
                            print("child:", type(error).__name__, error, flush=True)
                            os._exit(7)
                    elif way == "exit":
                        sys.exit(7)
                    os.abort()
                _, status = os.waitpid(child, 0)
                print(way, os.waitstatus_to_exitcode(status), flush=True)
            agent.broadcast(b"after")
            bodies = []
            while len(bodies) < 2:
                message = agent.receive(timeout=20)
                assert message is not None, bodies
                bodies.append(message.body)
            print(bodies, flush=True)
    """
    command = [sys.executable, "-c", textwrap.dedent(script), str(bench.cluster.credentials["a"])]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, env=os.environ)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0].startswith("child: ") and "parent process" in lines[0], lines
    assert lines[1] == "call 7" and lines[2] == "exit 7" and lines[3].startswith("crash -6"), lines
    assert lines[-1] == str([b"before", b"after"])
