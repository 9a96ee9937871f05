"""CPU and memory of this process and all that it has started: a JVM and its workers too. Linux, from /proc."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

TICK_S = 1 / os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Cost:
    """What one piece of work took."""

    wall_s: float
    cpu_s: float


def family() -> list[int]:
    """This process and its living descendants."""
    parents: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                parents.setdefault(int(_stat(int(entry.name))[1]), []).append(int(entry.name))
    found = [os.getpid()]
    for pid in found:
        found += parents.get(pid, [])
    return found


def cpu_s() -> float:
    """User and system seconds of the family so far, those of its members that have ended included."""
    total = 0
    for pid in family():
        with contextlib.suppress(OSError):
            total += sum(int(value) for value in _stat(pid)[11:15])
    return total * TICK_S


def peak_mib() -> dict[str, int]:
    """The most memory that each living member of the family has had, MiB, by pid and name."""
    found = {}
    for pid in family():
        with contextlib.suppress(OSError):
            lines = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
            found[f"{lines['Name'].strip()} {pid}"] = int(lines.get("VmHWM", "0 kB").split()[0]) >> 10
    return found


def measured(work: Callable[[], object]) -> Cost:
    """Do it once."""
    begin, cpu = time.monotonic(), cpu_s()
    work()
    return Cost(time.monotonic() - begin, cpu_s() - cpu)


def _stat(pid: int) -> list[str]:
    """Fields of /proc/PID/stat from the state on: the name before it may hold anything."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
