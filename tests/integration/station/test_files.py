"""A station short of file descriptors refuses the surplus, says so, and takes others when some leave (BL-34)."""

from __future__ import annotations

import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from roamcast.mss_station.control import ask

FILES = 120
HOSTS = 70


def attached(path: Path) -> int:
    return len(ask(path, {"command": "status"})["status"]["attached"])


def say_hello(hosts: list[Any], greeted: set[int], seconds: float) -> None:
    """HELLO on every connection that comes up within `seconds`."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        for i, host in enumerate(hosts):
            if i not in greeted and "up" in host.monitor.changes():
                greeted.add(i)
                host.hello()
        time.sleep(0.02)


def test_the_surplus_is_refused_and_the_rest_is_served(
    make_group: Callable[[int], Any], until: Callable[..., Any], tmp_path: Path
) -> None:
    group = make_group(1)
    credentials = [group.enrol(f"h{i}") for i in range(HOSTS)]
    path, log = group.path("s1"), tmp_path / "log"
    with log.open("w") as errors:
        station = subprocess.Popen(
            [sys.executable, "-m", "roamcast.mss_station.cli", "run", str(path)],
            stderr=errors,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (FILES, FILES)),
        )
    try:
        until(lambda: "running" in log.read_text())
        hosts, greeted = [group.host(credential, 1) for credential in credentials], set[int]()
        say_hello(hosts, greeted, 3)
        served = len(greeted)
        assert 10 < served < HOSTS
        until(lambda: attached(path) == served)
        assert "out_of_files" in log.read_text()
        for i in sorted(greeted)[:10]:
            hosts[i].close()
        refused = [credentials[i] for i in range(HOSTS) if i not in greeted][:5]
        again, taken = [group.host(credential, 1) for credential in refused], set[int]()
        say_hello(again, taken, 3)
        assert len(taken) == len(again)
        assert station.poll() is None
    finally:
        station.send_signal(signal.SIGTERM)
    assert station.wait(20) == 0
