"""An agent that cannot begin, is interrupted, or cannot keep its state at the end gives back what it holds."""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import sys
import threading

import pytest

from roamcast.mh_agent import Agent, AgentClosed, StateError
from roamcast.mh_agent.state_file import MAGIC
from roamcast.middleware.host_frames import Ack, Data


@pytest.mark.parametrize("content", [MAGIC + bytes(50), b"something else"])
def test_damaged_state_is_not_locked_by_the_agent_that_refused_it(make_agent, credential, content):
    file = credential.with_suffix(".state")
    file.write_bytes(content)
    for _ in range(2):
        with pytest.raises(StateError, match=r"damaged|no agent state"):
            Agent(credential)
    file.unlink()
    assert make_agent().broadcast(b"x").number == 1


def test_agent_that_cannot_begin_gives_everything_back(make_agent, monkeypatch):
    def no_thread(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    make_agent().close()
    before = len(os.listdir("/proc/self/fd"))
    with monkeypatch.context() as patch, pytest.raises(RuntimeError, match="new thread"):
        patch.setattr(threading.Thread, "start", no_thread)
        make_agent()
    assert len(os.listdir("/proc/self/fd")) <= before  # one of an agent of before may close meanwhile
    make_agent()


def test_state_that_cannot_be_kept_at_the_end_is_given_back_all_the_same(make_agent, station, credential, monkeypatch):
    def no_room(number: int) -> None:
        raise OSError(28, "No space left on device")

    agent = make_agent(acknowledge="manual")
    station.welcome()
    station.deliver(0, b"1")
    agent.receive(10).ack()
    with monkeypatch.context() as patch, pytest.raises(AgentClosed, match="No space"):
        patch.setattr(os, "fsync", no_room)
        agent.close()
    assert not agent._thread.is_alive()
    make_agent()


class Appended:
    """A state in memory."""

    def __init__(self) -> None:
        self.kept = b""

    def load(self) -> bytes:
        return self.kept

    def append(self, data: bytes) -> None:
        self.kept += data


LISTENER = """
import os, signal, sys, threading
from roamcast.mh_agent import Agent

def join(thread, timeout=None):
    if sys.argv[2] == "again":
        os.kill(os.getpid(), signal.SIGINT)
    joined(thread, timeout)

joined, threading.Thread.join = threading.Thread.join, join
with Agent(sys.argv[1]) as agent:
    for event in agent:
        print(event.body.decode(), flush=True)
"""


@pytest.mark.parametrize("times", ["once", "again"])
def test_interrupt_ends_the_program_by_one_traceback(credential, station, times):
    """Also one that interrupts the wait for the agent's thread."""
    program = subprocess.Popen(
        [sys.executable, "-c", LISTENER, credential, times], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    station.welcome()
    station.deliver(0, b"1")
    assert program.stdout.readline() == "1\n"
    program.send_signal(signal.SIGINT)
    _, text = program.communicate(timeout=10)
    assert program.returncode == -signal.SIGINT
    assert text.count("Traceback") == 1 and text.endswith("KeyboardInterrupt\n")


def test_interrupt_at_any_moment_of_a_call_is_not_dropped_and_leaves_nothing_locked(credential):
    """Python sees to a signal where a function begins and where it has returned: at each of these places in turn."""
    receipt = None
    for moment in itertools.count():
        agent = Agent(credential, state=None if moment % 2 else Appended())
        left = moment // 2

        def interrupt(frame: object, event: str, argument: object) -> None:
            nonlocal left
            if event in ("call", "return"):
                left -= 1
                if left < 0:
                    raise KeyboardInterrupt

        try:
            sys.setprofile(interrupt)
            receipt = agent.broadcast(b"x")  # kept, for Python does drop an interrupt that falls into a destructor
            sys.setprofile(None)
            interrupted = False
        except KeyboardInterrupt:
            interrupted = True
        assert interrupted == (left < 0), f"dropped at moment {moment}"
        closing = threading.Thread(target=agent.close, daemon=True)
        closing.start()
        closing.join(10)
        assert not closing.is_alive(), f"locked since moment {moment}"
        if not interrupted and moment % 2:
            break
    assert moment > 100 and receipt is not None


def test_interrupted_close_gives_the_state_back(make_agent, monkeypatch):
    def interrupt(thread: threading.Thread, timeout: float | None = None) -> None:
        raise KeyboardInterrupt

    first = make_agent()
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "join", interrupt)
        with pytest.raises(KeyboardInterrupt):
            first.close()
        second = make_agent()
        with pytest.raises(KeyboardInterrupt, match="the first"), second:
            raise KeyboardInterrupt("the first")
    make_agent()


def test_agent_whose_call_was_interrupted_goes_no_further(make_agent, station):
    class Interrupting(Appended):
        interrupted = False

        def append(self, data: bytes) -> None:
            if self.interrupted:
                raise KeyboardInterrupt
            super().append(data)

    state = Interrupting()
    agent = make_agent(state=state)
    station.welcome()
    station.expect(Ack)
    state.interrupted = True
    with pytest.raises(KeyboardInterrupt):
        agent.broadcast(b"not kept")
    state.interrupted = False
    with pytest.raises(AgentClosed, match="interrupted"):
        agent.broadcast(b"next")
    agent.close()
    assert make_agent(state=state).broadcast(b"other").number == 1
    assert station.welcome().le == 1
    assert station.expect(Data).body == b"other"
