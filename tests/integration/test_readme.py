"""The README's code blocks, run as they stand (with free ports): a reader who copies them gets what they say."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from demo.relay import free_port
from harness import until

from roamcast.mh_agent import Agent
from roamcast.mss_station.control import ControlError, ask

README = Path(__file__).resolve().parents[2] / "README.md"


def block(mark: str) -> str:
    """The code of the block behind `<!-- tested: mark -->`."""
    found = re.search(rf"<!-- tested: {mark} -->\n```\w+\n(.*?)```", README.read_text(), re.S)
    assert found, f"the README has no block {mark!r}"
    return found.group(1)


def with_free_ports(script: str) -> str:
    """The script with its fixed ports replaced by free ones."""
    for port in set(re.findall(r"127\.0\.0\.1:(\d+)", script)):
        script = script.replace(f":{port}", f":{free_port()}")
    return script


def shell(home: Path, script: str, **options: Any) -> subprocess.Popen[str]:
    """A shell of its own process group that runs the script until a command of it fails."""
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    return subprocess.Popen(
        ["bash", "-e", "-o", "pipefail", "-c", script], cwd=home, env=environment, text=True, start_new_session=True,
        **options,
    )  # fmt: skip


def output(home: Path, script: str) -> str:
    """What a script prints that has to succeed."""
    running = shell(home, script, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    text, _ = running.communicate(timeout=60)
    assert running.returncode == 0, text
    return text


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    """A directory in which the README's stations run; a second host, bob, is enrolled at the other one."""
    script = with_free_ports(block("stations"))
    stations = shell(tmp_path, f"{script}touch done\nwait")
    try:
        until(lambda: (tmp_path / "done").exists() or stations.poll() is not None, "the README's stations run", 30)
        assert stations.poll() is None, "a line of the README failed"
        until(lambda: serves(tmp_path / "south"), "the second station takes hosts", 30)
        output(tmp_path, "mss-station hosts enrol south bob --out bob.toml")
        yield tmp_path
    finally:
        os.killpg(stations.pid, signal.SIGTERM)
        stations.wait(30)


def serves(station: Path) -> bool:
    """Whether a station takes hosts."""
    try:
        return bool(ask(station, {"command": "status"})["status"]["group"]["serving"])
    except ControlError:
        return False


def test_the_blocks_have_the_promised_size() -> None:
    assert len(block("agent").strip().splitlines()) <= 20
    assert len(block("stations").strip().splitlines()) <= 10


def test_a_setting_that_is_made_at_one_station_holds_at_the_other(home: Path) -> None:
    script = block("settings")
    assert "how long a host may be away" in output(home, script)
    until(lambda: output(home, script.splitlines()[-1]).startswith("14d"), "the other station has it")
    plan, change, status = block("clusters").strip().splitlines()
    assert "10 clusters of about 19" in output(home, plan)
    assert "settings/clusters is hill: north / coast: north south" in output(home, change)
    until(lambda: "this station is in coast\n" in output(home, status), "it is in its cluster")
    assert "between hill and coast: north; north forwards" in output(home, status)


def test_a_station_that_is_retired_ends_by_itself_and_its_hosts_go_on(home: Path) -> None:
    with Agent(str(home / "bob.toml")) as bob:
        bob.move("south")
        until(lambda: bob.status["station"] == "south" and bob.status["state"] == "open", "bob is at south")
        text = output(home, block("retiring"))
        assert "south is being retired; its heir is north" in text
        until(lambda: "retired, heir north  final" in output(home, block("retiring").splitlines()[-1]), "it has ended")
        until(lambda: bob.status["station"] == "north" and bob.status["state"] == "open", "bob is at north")
        assert bob.broadcast(b"still here").wait(timeout=20) == "stored"


def test_a_station_that_is_lost_is_given_up_and_its_hosts_go_on(home: Path) -> None:
    command = re.search(r"`(mss-station stations retire .* --lost)`", README.read_text())
    assert command
    with Agent(str(home / "bob.toml")) as bob:
        bob.move("south")
        until(lambda: bob.status["station"] == "south" and bob.status["state"] == "open", "bob is at south")
        os.kill(ask(home / "south", {"command": "status"})["status"]["station"]["process"], signal.SIGKILL)
        output(home, command[1])
        until(lambda: bob.status["station"] == "north" and bob.status["state"] == "open", "bob is at north", 60)
        assert bob.broadcast(b"still here").wait(timeout=20) == "stored"


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


def test_topics_and_presence_of_the_readme(home: Path) -> None:
    listed = output(home, block("topics"))
    assert re.search(r"^weather +ada +\*", listed, re.M) and "presence is on" in listed
    until(lambda: "presence is on" in (told := output(home, "mss-station topics list south")) and "weather" in told, "")
    program = subprocess.Popen(
        [sys.executable, "-u", "-c", block("subscriber")], cwd=home, stdout=subprocess.PIPE, text=True
    )
    told: list[str] = []
    try:
        threading.Thread(target=lambda: told.extend(program.stdout or ()), daemon=True).start()
        for line in ("weather subscribed", "last value: b'rain by six'", "news: b'dry again'", "ada is attached"):
            until(lambda line=line: any(one.startswith(line) for one in told), f"{line} in {told}")
    finally:
        program.send_signal(signal.SIGINT)
        program.wait(20)
    output(home, block("rights"))
    with Agent(str(home / "ada.toml")) as ada:
        receipt = ada.broadcast(b"snow", topic="weather")
        until(lambda: receipt.state == "refused", "it is refused")
        assert receipt.reason == "no right to send on 'weather'"


def test_the_live_message_of_the_readme_is_given(home: Path) -> None:
    output(home, block("topics"))
    command = [sys.executable, "-c", block("live")]
    done = subprocess.run(command, cwd=home, stdout=subprocess.PIPE, text=True, timeout=60, check=True)
    *before, last = done.stdout.splitlines()
    assert last == "ada is at b'60.17 N 24.94 E'"
    assert all(re.fullmatch(r"not given: (sent|dropped) [a-z-]*", line) for line in before), before


def test_the_stations_of_the_readme_write_each_other(home: Path) -> None:
    send, read = block("station-mail").strip().splitlines()
    assert "mail 1 of this station is on its way to south" in output(home, send)
    until(lambda: output(home, read) == "north\tbackup done\n", "it has come")
    assert output(home, read) == "", "what was printed does not come again"


def test_the_program_of_the_readme_is_a_station_that_writes_and_reads(home: Path) -> None:
    os.kill(ask(home / "north", {"command": "status"})["status"]["station"]["process"], signal.SIGTERM)
    until(lambda: not (home / "north" / "control").exists(), "the station has ended")
    command = [sys.executable, "-u", "-c", block("station-program")]
    program = subprocess.Popen(command, cwd=home, stdout=subprocess.PIPE, text=True)
    try:
        until(lambda: output(home, "mss-station messages south") == "north\thow far are you?\n", "it has come", 30)
        output(home, "mss-station message south north 'half way'")
        text, _ = program.communicate(timeout=30)
    finally:
        program.kill()
    assert program.returncode == 0 and text == "taken: 1\nsouth says b'half way'\n"


def test_the_audit_of_the_readme_says_that_yesterday_cannot_be_told(home: Path) -> None:
    """The stations were not there yet; what they have logged today is uploaded, and does not count."""
    for station in ("north", "south"):
        output(home, f"mss-station logs upload {station} uploaded")
    audit = shell(home, block("audit"), stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    text, _ = audit.communicate(timeout=120)
    assert audit.returncode == 4, text
    assert text.count("UNDECIDED") == 1 and "there is no log of any station" in text
    report = json.loads(next((home / "audit").glob("20*/report.json")).read_text())
    assert report["verdict"] == "undecided" and report["run"]["engine"].startswith("spark")


def test_interrupt_ends_the_agent_of_the_readme_at_once_by_one_traceback(home: Path) -> None:
    command = [sys.executable, "-u", "-c", block("agent")]
    agent = subprocess.Popen(command, cwd=home, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert agent.stdout is not None
    while "my own broadcast" not in agent.stdout.readline():
        assert agent.poll() is None
    agent.send_signal(signal.SIGINT)
    _, text = agent.communicate(timeout=3)
    assert agent.returncode == -signal.SIGINT
    assert text.count("Traceback") == 1 and text.endswith("KeyboardInterrupt\n")
