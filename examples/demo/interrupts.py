"""SIGINT and SIGTERM unwind the program like an exception, once, so that it ends the processes that it has started.

While a process is being started a signal waits: a process that nobody holds yet would stay behind.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

_caught: list[int] = []
"""The signals that came."""

_shields: list[None] = []
"""One for each `shielded` block that runs now."""


def catch() -> None:
    """From now on the first of the signals raises SystemExit in the main thread; more of them change nothing."""
    _caught.clear()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _take)


def ignore() -> None:
    """All is ended: a signal that comes now must not change the exit code."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)


def caught() -> bool:
    """Whether a signal came."""
    return bool(_caught)


def check() -> None:
    """Raise SystemExit if a signal came: what was raised then is lost if it fell, say, into a destructor."""
    if _caught:
        raise SystemExit(128 + _caught[0])


@contextmanager
def shielded() -> Iterator[None]:
    """Let a signal wait until the block has ended; in the main thread."""
    _shields.append(None)
    try:
        yield
    finally:
        _shields.pop()
        check()


def _take(number: int, _frame: FrameType | None) -> None:
    _caught.append(number)
    if len(_caught) == 1 and not _shields:
        check()
