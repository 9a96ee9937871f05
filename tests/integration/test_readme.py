"""The README's two code blocks, run as they stand (with free ports): a reader who copies them gets what they say."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from harness import until

from roamcast.mh_agent import Agent

README = Path(__file__).resolve().parents[2] / "README.md"


def block(mark: str) -> str:
    """The code of the block behind `<!-- tested: mark -->`."""
    found = re.search(rf"<!-- tested: {mark} -->\n```\w+\n(.*?)```", README.read_text(), re.S)
    assert found, f"the README has no block {mark!r}"
    return found.group(1)


def with_free_ports(script: str) -> str:
    """The script with its fixed ports replaced by free ones."""
    sockets = {port: socket.socket() for port in set(re.findall(r"127\.0\.0\.1:(\d+)", script))}
    for port, free in sockets.items():
        free.bind(("127.0.0.1", 0))
        script = script.replace(f":{port}", f":{free.getsockname()[1]}")
    for free in sockets.values():
        free.close()
    return script


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    """A directory in which the README's stations run; a second host, bob, is enrolled the same way."""
    lines = with_free_ports(block("stations")).splitlines()
    run = [line for line in lines if line.startswith("mss-station run")]
    setup = [line for line in lines if not line.startswith(("mss-station run", "mss-station status"))]
    setup += [line.replace("ada", "bob") for line in setup if " hosts " in line]
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}

    def shell(*script: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            ["bash", "-e", "-c", "\n".join(script)], cwd=tmp_path, env=environment, text=True, start_new_session=True
        )

    assert shell(*setup).wait(60) == 0, "the set-up lines of the README failed"
    stations = shell(*run, "wait")
    status = lines[-1]
    until(lambda: shell(status).wait(20) == 0, "`" + status + "` works", 30)
    yield tmp_path
    os.killpg(stations.pid, signal.SIGTERM)
    stations.wait(30)


def test_the_blocks_have_the_promised_size() -> None:
    assert len(block("agent").strip().splitlines()) <= 20
    assert len(block("stations").strip().splitlines()) <= 10


def test_the_agent_of_the_readme_talks_over_the_stations_of_the_readme(home: Path) -> None:
    agent = subprocess.Popen([sys.executable, "-c", block("agent")], cwd=home, stdout=subprocess.PIPE, text=True)
    mails: list[bytes] = []
    with Agent(str(home / "bob.toml")) as bob:

        def read() -> None:
            for event in bob:
                if getattr(event, "mail", False):
                    mails.append(event.body)

        threading.Thread(target=read, daemon=True).start()
        until(lambda: mails, "bob has ada's mail", 30)
        bob.broadcast(b"goodbye").wait(timeout=20)
        text, _ = agent.communicate(timeout=30)
    assert agent.returncode == 0
    assert mails == [b"lunch?"]
    assert "broadcast: stored" in text
    assert "my own broadcast, in its place in the order: b'ada is on the road'" in text
    assert "bob says b'goodbye'" in text


def test_interrupt_ends_the_agent_of_the_readme_at_once_by_one_traceback(home: Path) -> None:
    command = [sys.executable, "-u", "-c", block("agent")]
    agent = subprocess.Popen(command, cwd=home, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert agent.stdout is not None
    while "my own broadcast" not in agent.stdout.readline():
        assert agent.poll() is None
    agent.send_signal(signal.SIGINT)
    try:
        _, text = agent.communicate(timeout=10)
    except subprocess.TimeoutExpired:  # Python drops an interrupt that falls into a destructor: a person presses again
        agent.send_signal(signal.SIGINT)
        _, text = agent.communicate(timeout=10)
    assert agent.returncode == -signal.SIGINT
    assert text.count("Traceback") == 1 and text.endswith("KeyboardInterrupt\n")
