"""`mss-station`, but killed (SIGKILL) where the join comes to the stage that the first argument names."""

from __future__ import annotations

import os
import signal
import sys
from typing import Any

from roamcast.mss_station import founding, join_client, join_files
from roamcast.mss_station.cli import main


def die(*_: Any, **__: Any) -> None:
    """The end."""
    os.kill(os.getpid(), signal.SIGKILL)


def die_once_asked(asking: Any, dealer: Any) -> None:
    """The Join is on its way, and the answer is not heard."""
    if asking._up and asking._due > 0:
        dealer.poll(500)
        die()


STAGES: dict[str, tuple[Any, str, Any]] = {
    "keys": (join_files, "_generation", die),
    "generation": (join_client, "_Asking", die),
    "asked": (join_client._Asking, "_hear", die_once_asked),
    "answered": (join_client, "complete", die),
    "store": (founding, "_put", die),
    "filled": (join_files, "write_station", die),
    "station.toml": (join_files, "_forget", die),
}

if __name__ == "__main__":
    holder, name, fate = STAGES[sys.argv[1]]
    setattr(holder, name, fate)
    sys.exit(main(sys.argv[2:]))
