"""The chat, run as a newcomer runs it: lines go in, and what comes for them is waited for."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from harness import until

CHAT = Path(__file__).resolve().parents[2] / "examples" / "chat"
PATIENCE_S = 15.0


class Terminal:
    """A chat process, and all that it has shown."""

    def __init__(self, temporary: Path, *arguments: str) -> None:
        environment = {**os.environ, "TMPDIR": str(temporary)}
        self.process = subprocess.Popen(
            [sys.executable, str(CHAT), *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True, env=environment,
        )  # fmt: skip
        self.lines: list[str] = []
        self._seen = 0
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        for line in self.process.stdout or ():
            self.lines.append(line.rstrip("\n"))

    def wait(self, wanted: str) -> str:
        """Wait for a line behind those waited for before."""

        def found() -> int:
            return next((i for i, line in enumerate(self.lines) if i >= self._seen and re.search(wanted, line)), -1)

        try:
            until(lambda: found() >= 0, f"a line like {wanted!r}", PATIENCE_S)
        except AssertionError as error:
            raise AssertionError("\n".join([str(error), *self.lines])) from None
        self._seen = found() + 1
        return self.lines[self._seen - 1]

    def say(self, text: str, *wanted: str) -> None:
        """Type a line, and wait for what it brings."""
        assert self.process.stdin is not None
        self.process.stdin.write(text + "\n")
        self.process.stdin.flush()
        for one in wanted:
            self.wait(one)

    def end(self) -> int:
        """End its input; returns its exit code."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        return self.process.wait(PATIENCE_S)


@pytest.fixture
def open_terminal(tmp_path: Path) -> Iterator[type[Terminal]]:
    """Open a chat; what is left of it at the end is killed, with its stations."""
    opened: list[Terminal] = []

    def make(*arguments: str) -> Terminal:
        opened.append(Terminal(tmp_path, *arguments))
        return opened[-1]

    yield make  # type: ignore[misc]
    for terminal in opened:
        terminal.process.send_signal(signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            terminal.process.wait(10)
        terminal.process.kill()


def left(home: Path) -> list[str]:
    """Files of the chat's directory, and processes that have it on their command line."""
    found = [str(path) for path in home.glob("roamcast-chat-*")]
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if entry.name.isdigit() and str(home) in (entry / "cmdline").read_text():
                found.append(entry.name)
    return found


def test_rooms_subjects_rights_presence_and_roaming_in_one_session(open_terminal, tmp_path: Path) -> None:
    ada = open_terminal()
    home = re.search(r"--join (\S+)", ada.wait("--join"))
    assert home
    ada.wait(r"you are in lobby")
    ada.wait(r"\[lobby\] bob: hello, ada")
    ada.say("eve, where are you?", r"\[lobby\] ada: eve, where", r"\[lobby\] eve: I was given that at s\d, ada")
    ada.say("/join garden", "you are in garden", r"\[garden\] \* the subject is: tomatoes, mostly \(bob\)")
    ada.say("\x1b[2J", r"\[garden\] ada: \N{REPLACEMENT CHARACTER}\[2J")
    ada.say("/topic beans", r"\[garden\] \* ada sets the subject: beans")
    ada.say("/join vault", "you may not go into vault: no right to receive")
    ada.say("/grant vault", r"\$ mss-station topics grant s1 vault receive ada", "who may receive on vault: ada")
    ada.say("/join vault", "you are in vault", "the subject is: where the gold is")
    ada.say("/move s3", "you are at s3")
    ada.say("/revoke vault", "who may send on vault: bob, eve", "you are out of vault: the right was taken back")

    cleo = open_terminal("--as", "cleo", "--join", home[1])
    ada.wait(r"\[lobby\] \* cleo comes in")
    cleo.say("/join garden", "you are in garden", r"the subject is: beans \(ada\)")
    cleo.say("/quit")
    assert cleo.process.wait(PATIENCE_S) == 0
    ada.wait(r"\* cleo is away")
    ada.say("/join lobby", "you talk in lobby now")
    ada.say("for cleo, when she is back", r"\[lobby\] ada: for cleo")
    ada.say("/who", r"in lobby: you, bob, cleo \(away\), eve")
    cleo = open_terminal("--as", "cleo", "--join", home[1])
    cleo.wait(r"\[lobby\] ada: for cleo, when she is back")
    ada.wait(r"\* cleo is back")
    assert ada.end() == 0
    cleo.wait("the group has ended")
    assert cleo.process.wait(PATIENCE_S) == 0
    assert not left(tmp_path)


@pytest.mark.parametrize(
    ("moment", "number"),
    [("stations are started", signal.SIGINT), ("you are in lobby", signal.SIGTERM)],
    ids=["set-up", "talk"],
)
def test_a_signal_ends_the_chat_and_its_stations(open_terminal, tmp_path: Path, moment: str, number: int) -> None:
    ada = open_terminal()
    ada.wait(moment)
    ada.process.send_signal(number)
    assert ada.process.wait(PATIENCE_S) == 128 + number
    assert "Traceback" not in "\n".join(ada.lines)
    assert not left(tmp_path)


@pytest.mark.parametrize("arguments", [["--join", "nowhere"], ["--as", "bob"], ["--dir", "."]])
def test_wrong_use_is_told(arguments: list[str]) -> None:
    done = subprocess.run([sys.executable, str(CHAT), *arguments], capture_output=True, text=True)
    assert done.returncode == 2 and "usage" in done.stderr
