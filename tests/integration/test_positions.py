"""The example of live positions: one command, and what its page shows in a real browser."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from browser import Browser, find_browser
from harness import until

POSITIONS = Path(__file__).resolve().parents[2] / "examples" / "positions"
READY_S = 40.0
FRESH_MS = 1_000
LOOK = """JSON.stringify({
    hosts: Object.fromEntries(
        [...document.querySelectorAll("#hosts tr")].map(row => [row.dataset.host, {...row.dataset}])),
    masts: [...document.querySelectorAll("#stations li")].map(row => ({...row.dataset})),
    values: Object.fromEntries([...document.querySelectorAll("dd")].map(at => [at.id, at.dataset.value])),
    feed: [...document.querySelectorAll("#feed li:not(.told)")].map(row => row.textContent),
    link: document.querySelector("#link").textContent,
    said: document.querySelector("#said").textContent,
})"""


class Show:
    """The example as a process, and all that it has printed."""

    def __init__(self, temporary: Path, *arguments: str) -> None:
        environment = {**os.environ, "TMPDIR": str(temporary)}
        self.process = subprocess.Popen(
            [sys.executable, str(POSITIONS), *arguments], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            env=environment,
        )  # fmt: skip
        self.lines: list[str] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        for line in self.process.stdout or ():
            self.lines.append(line.rstrip())

    def wait(self, wanted: str) -> re.Match[str]:
        """Wait for a line that matches."""

        def found() -> re.Match[str] | None:
            over = not self._reader.is_alive()
            match = next((match for line in list(self.lines) if (match := re.search(wanted, line))), None)
            assert match or not over, f"it has ended without a line like {wanted!r}: {self.lines}"
            return match

        match: re.Match[str] = until(found, f"a line like {wanted!r}; it said {self.lines}", READY_S)
        return match

    def end(self, number: int) -> int:
        """Send a signal, unless it is 0, and wait for the end; returns the exit code."""
        if number:
            self.process.send_signal(number)
        code = self.process.wait(READY_S)
        self._reader.join(10)
        return code


@pytest.fixture
def show(tmp_path: Path) -> Iterator[Any]:
    """Start the example; what is left of it at the end is ended."""
    made: list[Show] = []

    def start(*arguments: str) -> Show:
        made.append(Show(tmp_path, *arguments))
        return made[-1]

    yield start
    for one in made:
        with contextlib.suppress(subprocess.TimeoutExpired):
            one.end(signal.SIGTERM)
        one.process.kill()


@pytest.fixture
def browser(tmp_path: Path) -> Iterator[Browser]:
    program = find_browser()
    if program is None:
        if os.environ.get("ROAMCAST_BROWSER") == "required":
            pytest.fail("a browser is required here, and there is none: `apt-get install chromium`")
        pytest.skip("no Chromium or Chrome on this machine (on Debian: `apt-get install chromium`)")
    with Browser(program, tmp_path / "profile") as made:
        yield made


def left(home: Path) -> list[str]:
    """Files of the example, and processes that have its directory on their command line."""
    found = [str(path) for path in home.glob("roamcast-positions-*")]
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if entry.name.isdigit() and f"{home}/roamcast-positions-" in (entry / "cmdline").read_text():
                found.append(entry.name)
    return found


class Page:
    """What the page shows now."""

    def __init__(self, browser: Browser, address: str) -> None:
        self.browser = browser
        browser.open(address)
        until(lambda: browser.ask("document.querySelector('#said') !== null"), "the page is loaded")

    def look(self) -> dict[str, Any]:
        told: dict[str, Any] = json.loads(self.browser.ask(LOOK))
        return told

    def until(self, condition: Any, what: str, timeout_s: float = 25.0) -> dict[str, Any]:
        """Look until the condition holds of what is seen; returns that."""
        seen: dict[str, Any] = {}

        def holds() -> bool:
            seen.clear()
            seen.update(self.look())
            return bool(condition(seen))

        try:
            until(holds, what, timeout_s)
        except AssertionError as error:
            raise AssertionError(f"{error}; the page shows {seen}") from None
        return seen

    def press(self, mast: int, action: str) -> None:
        button = f"#stations [data-mast='{mast}'] button.{action}"
        until(lambda: self.browser.ask(f'document.querySelector("{button}")?.disabled === false'), f"{button} to press")
        self.browser.click(button)


def at(seen: dict[str, Any], station: str) -> set[str]:
    """Vehicles that are attached there."""
    return {name for name, host in seen["hosts"].items() if host["state"] == "open" and host["station"] == station}


def fresh(seen: dict[str, Any]) -> bool:
    """Whether all vehicles are attached, and their positions young."""
    hosts = seen["hosts"].values()
    return all(host["state"] == "open" and host["age"] and int(host["age"]) < FRESH_MS for host in hosts)


def arrivals(seen: dict[str, Any]) -> int:
    return int(seen["values"]["durable"])


def move_and_stay_young(page: Page) -> None:
    """All vehicles are there, drive, and are heard of all the time."""
    first = page.until(lambda seen: len(seen["hosts"]) == 8 and fresh(seen), "all vehicles, young", READY_S)
    begin = {name: (float(host["x"]), float(host["y"])) for name, host in first["hosts"].items()}

    def moved(seen: dict[str, Any]) -> bool:
        places = {name: (float(host["x"]), float(host["y"])) for name, host in seen["hosts"].items()}
        return all(abs(places[name][0] - x) + abs(places[name][1] - y) > 5 for name, (x, y) in begin.items())

    page.until(moved, "all vehicles move")
    run = 0
    for _ in range(400):
        run = run + 1 if fresh(page.look()) else 0
        if run == 10:
            return
    pytest.fail(f"ages do not stay below {FRESH_MS} ms: {page.look()}")


def pull_and_start_again(page: Page) -> None:
    """Station 1: while it is down its hosts wait elsewhere, then they go on; what they said is given."""
    seen = page.until(lambda seen: at(seen, "s1") and seen["link"].endswith("at s3"), "who is where it begins")
    victims = at(seen, "s1")
    page.press(1, "pull")
    page.until(lambda seen: seen["masts"][0]["state"] == "down" and not at(seen, "s1"), "s1 is down and left by all")

    def elsewhere(seen: dict[str, Any]) -> bool:
        return all(seen["hosts"][name]["station"] in ("s2", "s3") for name in victims)

    seen = page.until(elsewhere, f"{victims} show another station")
    before = arrivals(seen)
    page.until(lambda seen: arrivals(seen) > before, "arrivals go on while a station is down")
    page.press(1, "start")
    page.until(lambda seen: seen["masts"][0]["state"] == "up" and fresh(seen), "all is well again")


def give_up_and_replace(page: Page) -> None:
    """Station 2 never comes back: its hosts go on elsewhere, and another station joins in its place."""
    seen = page.until(lambda seen: at(seen, "s2"), "somebody is at s2", READY_S)
    page.press(2, "pull")
    page.until(lambda seen: seen["masts"][1]["state"] == "down" and not at(seen, "s2"), "s2 is down and left by all")
    page.press(2, "give-up")
    seen = page.until(lambda seen: seen["masts"][1]["state"] == "lost" and fresh(seen), "all go on without s2")
    assert {host["station"] for host in seen["hosts"].values()} <= {"s1", "s3"}
    page.press(2, "start")
    page.until(lambda seen: seen["masts"][1]["state"] == "up" and seen["masts"][1]["id"] == "s2.2", "s2.2 is there")
    page.until(lambda seen: at(seen, "s2.2"), "somebody is at s2.2", READY_S)


def test_the_page_in_a_browser(show: Any, browser: Browser, seed: int, tmp_path: Path) -> None:
    example = show("--seed", str(seed))
    page = Page(browser, example.wait(r"the page: (\S+)")[1])
    move_and_stay_young(page)
    pull_and_start_again(page)
    give_up_and_replace(page)
    seen = page.until(lambda seen: len(seen["feed"]) >= 3 and int(seen["values"]["moves"]) > 0, "arrivals are told")
    assert all("arrived at depot" in line for line in seen["feed"])
    assert seen["values"]["broken"] == "0" and arrivals(seen) <= int(seen["values"]["live"])
    assert browser.ask("performance.getEntriesByType('resource').every(one => one.name.startsWith(location.origin))")
    assert example.end(signal.SIGTERM) == 128 + signal.SIGTERM
    assert "Traceback" not in "\n".join(example.lines)
    assert not left(tmp_path)
    page.until(lambda seen: "has ended" in seen["link"], "the page says that it is over")


@pytest.mark.parametrize(
    ("moment", "number", "code"),
    [("stations; they are started", signal.SIGINT, 130), ("the page: ", signal.SIGINT, 130), ("the page: ", 0, 0)],
    ids=["set-up", "ctrl-c", "its time is over"],
)
def test_it_ends_with_all_that_it_has_started(show: Any, tmp_path: Path, moment: str, number: int, code: int) -> None:
    example = show("--hosts", "2", *(() if number else ("--seconds", "1")))
    if number:
        example.wait(moment)
    assert example.end(number) == code
    assert "Traceback" not in "\n".join(example.lines)
    assert any(re.search(moment, line) for line in example.lines)
    assert not left(tmp_path)


def test_a_port_that_is_taken_is_told(show: Any, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        example = show("--port", str(port))
        assert example.end(0) == 3
    assert example.lines[0].startswith(f"positions: port {port} cannot be had (Address already in use)")
    assert len(example.lines) == 1
    assert not left(tmp_path)


@pytest.mark.parametrize("arguments", [["--hosts", "0"], ["--stations", "2"], ["--rate", "21"], ["--port", "-1"]])
def test_wrong_use_is_told(arguments: list[str]) -> None:
    done = subprocess.run([sys.executable, str(POSITIONS), *arguments], capture_output=True, text=True)
    assert done.returncode == 2 and "usage" in done.stderr
