"""A test hook: the process kills itself with SIGKILL at a named point. Off unless a command sets it.

The command `run` reads ROAMCAST_KILL_POINT=<name>:<count>; the process dies when the point is reached for the count-th
time. Points: `before-commit`, `after-commit`, `mid-send`, `after-send` of a tick that persists something.
"""

from __future__ import annotations

import os
import signal
from typing import Final

VARIABLE: Final = "ROAMCAST_KILL_POINT"
NAMES: Final = ("before-commit", "after-commit", "mid-send", "after-send")


class KillPoint:
    """Counts how often its point was reached; without a name it does nothing."""

    def __init__(self, text: str = "") -> None:
        """Args: text: "<name>:<count>" or "". Raises ValueError if it is neither."""
        self._name, _, count = text.partition(":")
        if text and (self._name not in NAMES or not count.isdigit() or int(count) < 1):
            raise ValueError(f"{VARIABLE}={text!r}: expected <name>:<count>, the name one of {', '.join(NAMES)}")
        self._left = int(count) if text else 0

    def reached(self, name: str) -> None:
        """The process is at the point `name`."""
        if name == self._name:
            self._left -= 1
            if self._left == 0:
                os.kill(os.getpid(), signal.SIGKILL)
