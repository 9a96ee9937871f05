"""`mss-station message` and `messages` against a station that does what a test says."""

from __future__ import annotations

import base64
import io
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from roamcast.mss_station.cli import main
from roamcast.transport.limits import BODY_BYTES_MAX

Script = Callable[[dict[str, Any]], dict[str, Any] | None]


class FakeStation:
    """Listens at the control socket of a directory; `script` answers each request, None hangs up."""

    def __init__(self, path: Path) -> None:
        self.path = path
        (path / "station.toml").touch()
        self.asked: list[dict[str, Any]] = []
        self.script: Script = lambda request: None
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(path / "control"))
        self._listener.listen()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            with connection, connection.makefile("rb") as lines:
                for line in lines:
                    self.asked.append(json.loads(line))
                    answer = self.script(self.asked[-1])
                    if answer is None:
                        break
                    connection.sendall(json.dumps(answer).encode() + b"\n")

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join()


@pytest.fixture
def station(tmp_path: Path) -> Iterator[FakeStation]:
    fake = FakeStation(tmp_path)
    yield fake
    fake.close()


def mails(*bodies: bytes, first: int = 1) -> dict[str, Any]:
    told = [
        {"sender": "s2", "number": 7 + n, "position": n, "body": base64.b64encode(body).decode()}
        for n, body in enumerate(bodies, first)
    ]
    return {"ok": True, "mails": told, "lost": []}


def test_message_ends_with_4_if_nobody_knows_what_became_of_it(
    station: FakeStation, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["message", str(station.path), "s2", "x"]) == 4
    told = capsys.readouterr()
    assert told.out == "" and "hung up: it is not known whether the mail was taken" in told.err


@pytest.mark.parametrize(("wrong_use", "code"), [(True, 2), (False, 3)])
def test_message_tells_why_it_was_refused(
    station: FakeStation, capsys: pytest.CaptureFixture[str], wrong_use: bool, code: int
) -> None:
    station.script = lambda request: {"ok": False, "error": "the reason", "code": "x", "wrong_use": wrong_use}
    assert main(["message", str(station.path), "s2", "x"]) == code
    assert capsys.readouterr().err == "mss-station: the reason\n"


def test_message_takes_any_bytes_from_standard_input(
    station: FakeStation, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    station.script = lambda request: {"ok": True, "number": 3}
    for size, code in ((BODY_BYTES_MAX, 0), (BODY_BYTES_MAX + 1, 2)):
        body = b"\xff\n" * (size // 2) + b"x" * (size % 2)
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(body)))
        assert main(["message", str(station.path), "s2", "-", "--timeout", "2"]) == code
    (request,) = station.asked
    assert base64.b64decode(request["body"]) == b"\xff\n" * (BODY_BYTES_MAX // 2) and request["wait"] == 2.0


@pytest.mark.parametrize("timeout", ["-1", "nan", "inf", "soon"])
def test_a_foolish_timeout_is_wrong_use(station: FakeStation, timeout: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["message", str(station.path), "s2", "x", "--timeout", timeout])
    assert caught.value.code == 2 and not station.asked
    assert f"'{timeout}' is not a number of seconds from 0 to 3600" in capsys.readouterr().err


def test_a_mail_for_which_the_station_has_no_place_was_not_taken(
    station: FakeStation, capsys: pytest.CaptureFixture[str]
) -> None:
    station.script = lambda request: {"ok": False, "crowded": True, "error": "16 commands are connected"}
    assert main(["message", str(station.path), "s2", "x"]) == 3
    assert capsys.readouterr().err == "mss-station: 16 commands are connected\n"


def test_messages_are_printed_and_then_acknowledged_batch_by_batch(
    station: FakeStation, capsys: pytest.CaptureFixture[str]
) -> None:
    batches = [mails(b"a", b"b\\n\x1b[2J\xff"), mails(b"c", first=3), mails()]

    def script(request: dict[str, Any]) -> dict[str, Any]:
        return batches.pop(0) if request["command"] == "messages" else {"ok": True}

    station.script = script
    assert main(["messages", str(station.path)]) == 0
    assert capsys.readouterr().out == "s2\ta\ns2\tb\\\\n\\x1b[2J\\xff\ns2\tc\n"
    assert [(one["command"], one.get("after", one.get("upto"))) for one in station.asked] == [
        ("messages", 0), ("messages taken", 2), ("messages", 2), ("messages taken", 3), ("messages", 3),
    ]  # fmt: skip


def test_what_is_kept_is_printed_once(station: FakeStation, capsys: pytest.CaptureFixture[str]) -> None:
    batches = [mails(b"\xff"), mails()]
    station.script = lambda request: batches.pop(0)
    assert main(["messages", str(station.path), "--keep", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"sender": "s2", "number": 8, "position": 1, "base64": "/w=="}
    assert [(one["command"], one["keep"], one["after"]) for one in station.asked] == [
        ("messages", True, 0), ("messages", True, 1),
    ]  # fmt: skip


class Output(io.StringIO):
    """Standard output that does something as a line is written."""

    def __init__(self, at: str, does: Callable[[], None]) -> None:
        super().__init__()
        self._at, self._does = at, does

    def write(self, text: str) -> int:
        if self._at in text:
            self._does()
        return super().write(text)

    def fileno(self) -> int:
        return os.open(os.devnull, os.O_WRONLY)


def broken() -> None:
    raise BrokenPipeError


def test_what_could_not_be_written_is_not_acknowledged(station: FakeStation, monkeypatch: pytest.MonkeyPatch) -> None:
    station.script = lambda request: mails(b"a", b"b")
    monkeypatch.setattr(sys, "stdout", Output("b", broken))
    assert main(["messages", str(station.path)]) == 3
    assert [one["command"] for one in station.asked] == ["messages"]


OUTPUTS = [("> /dev/full", "No space left on device"), (">&-", "it is closed")]


def told_by(station: FakeStation, words: str) -> tuple[int, str]:
    """Exit code and errors of a command in a shell."""
    script = f'exec "{sys.executable}" -m roamcast.mss_station.cli {words}'
    ran = subprocess.run(["sh", "-c", script], cwd=station.path, capture_output=True, text=True)
    return ran.returncode, ran.stderr


@pytest.mark.parametrize(("to", "why"), OUTPUTS)
def test_an_output_that_cannot_be_written_is_told_and_nothing_is_acknowledged(
    station: FakeStation, to: str, why: str
) -> None:
    station.script = lambda request: mails(b"a")
    assert told_by(station, f"messages . {to}") == (3, f"mss-station: the output cannot be written: {why}\n")
    assert [one["command"] for one in station.asked] == ["messages"]


@pytest.mark.parametrize("to", [to for to, _ in OUTPUTS])
def test_a_mail_that_was_taken_is_so_although_that_cannot_be_written(station: FakeStation, to: str) -> None:
    station.script = lambda request: {"ok": True, "number": 3}
    told = "mss-station: mail 3 of this station is on its way to s2; the output cannot be written\n"
    assert told_by(station, f"message . s2 x {to}") == (0, told)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_behind_the_present_line_and_what_is_written_is_acknowledged(
    station: FakeStation, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    station.script = lambda request: mails(b"a", b"b", b"c") if request["command"] == "messages" else {"ok": True}
    output = Output("b", lambda: os.kill(os.getpid(), number))
    monkeypatch.setattr(sys, "stdout", output)
    before = signal.getsignal(number)
    assert main(["messages", str(station.path), "--follow"]) == 0
    assert output.getvalue() == "s2\ta\ns2\tb\n" and station.asked[-1]["upto"] == 2
    assert signal.getsignal(number) is before


def test_a_signal_ends_the_waiting(station: FakeStation) -> None:
    waits = threading.Event()

    def script(request: dict[str, Any]) -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        waits.wait(20)

    station.script = script
    assert main(["messages", str(station.path), "--follow"]) == 0
    waits.set()


def test_lost_mail_is_told_on_stderr_and_acknowledged(station: FakeStation, capsys: pytest.CaptureFixture[str]) -> None:
    lost = {"ok": True, "mails": [], "lost": [{"to": "s3", "slot": 3, "numbers": list(range(1, 31))}]}
    answers = [lost, {"ok": True}, mails()]
    station.script = lambda request: answers.pop(0)
    assert main(["messages", str(station.path)]) == 0
    told = capsys.readouterr()
    assert told.out == "" and "30 mails to s3 are lost, for it has ended: numbers 1, 2, 3" in told.err
    assert station.asked[1] == {"command": "messages taken", "upto": 0, "lost": [3]}


def test_a_station_that_ends_is_told(station: FakeStation, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["messages", str(station.path), "--follow"]) == 3
    assert "hung up" in capsys.readouterr().err
