"""Signals end a run once, and never while a process is being started."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import pytest
from demo import interrupts


@pytest.fixture(autouse=True)
def caught() -> Iterator[None]:
    former = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    interrupts.catch()
    yield
    interrupts.catch()
    for number, handler in former.items():
        signal.signal(number, handler)


def test_the_first_signal_unwinds_and_later_ones_leave_the_ending_alone() -> None:
    with pytest.raises(SystemExit) as ending:
        os.kill(os.getpid(), signal.SIGINT)
    assert ending.value.code == 130
    os.kill(os.getpid(), signal.SIGINT)
    os.kill(os.getpid(), signal.SIGTERM)


def test_a_signal_waits_until_a_process_is_held() -> None:
    held = False
    with pytest.raises(SystemExit) as ending, interrupts.shielded():
        os.kill(os.getpid(), signal.SIGTERM)
        held = True
    assert held and ending.value.code == 143


def test_a_signal_that_was_swallowed_is_raised_again_at_the_next_look() -> None:
    interrupts.check()
    with pytest.raises(SystemExit):
        os.kill(os.getpid(), signal.SIGINT)
    with pytest.raises(SystemExit):
        interrupts.check()
