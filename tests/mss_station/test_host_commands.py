"""`mss-station hosts enrol`: no key is lost whatever becomes of the answer, and the same command may be given again."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from roamcast.mss_station import asking, control, host_commands
from roamcast.mss_station.asking import look
from roamcast.mss_station.cli import main
from roamcast.mss_station.schema import HostCard
from roamcast.transport.credential import read_credential
from roamcast.transport.curve import generate

Say = Callable[..., tuple[int, str]]


@pytest.fixture
def station(tmp_path: Path) -> Path:
    path = tmp_path / "s1"
    ends = ["--hosts", "tcp://10.0.0.1:1", "--stations", "tcp://10.0.0.1:2"]
    assert main(["init", str(path), "--id", "s1", "--group", "g", *ends]) == 0
    return path


@pytest.fixture
def enrol(station: Path, capsys: pytest.CaptureFixture[str]) -> Say:
    """Give the command; exit code, and all that it says."""

    def say(name: str, out: Path, *more: str) -> tuple[int, str]:
        capsys.readouterr()
        code = main(["hosts", "enrol", str(station), name, "--out", str(out), *more])
        said = capsys.readouterr()
        return code, said.out + said.err

    return say


@contextmanager
def silence(station: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The socket of a station that stands still: it takes a request and answers none."""
    monkeypatch.setattr(control, "ANSWER_TIMEOUT_S", 0.1)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(station / "control"))
        listener.listen()
        yield
    (station / "control").unlink()


def card_of(station: Path, name: str) -> HostCard | None:
    return look(station)[2].named(name)


def test_no_answer_keeps_the_key_and_the_same_command_enrols_with_it(
    station: Path, enrol: Say, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "ann.toml"
    with silence(station, monkeypatch):
        for _ in range(2):
            code, said = enrol("ann", out)
            assert code == 3 and "does not answer" in said
            assert f"it is not known whether host ann is enrolled; its key is in {out}: give the same" in said
    kept = out.read_text()
    assert card_of(station, "ann") is None
    for _ in range(2):  # enrolled by the first one, found enrolled by the second one
        code, said = enrol("ann", out)
        assert code == 0 and f"host ann enrolled; its credential is {out}" in said
    assert out.read_text() == kept
    card = card_of(station, "ann")
    assert card is not None and card.key == read_credential(out).keys.public
    assert json.loads(enrol("ann", out, "--json")[1])["host"]["number"] == card.number


def test_an_interrupted_command_keeps_the_key(
    station: Path, enrol: Say, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(asking, "ask", interrupt)
        code, said = enrol("ann", tmp_path / "ann.toml")
    assert code == 3 and "interrupted: it is not known" in said
    assert enrol("ann", tmp_path / "ann.toml")[0] == 0


def test_a_request_that_was_done_after_all_is_found_done(
    station: Path, enrol: Say, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the look into the store and the second request the station has taken up the first one."""
    out = tmp_path / "ann.toml"
    with silence(station, monkeypatch):
        enrol("ann", out)
    before = look(station)
    assert enrol("ann", out)[0] == 0
    looks = iter([before, look(station)])
    monkeypatch.setattr(host_commands, "look", lambda path: next(looks))
    assert enrol("ann", out)[0] == 0


def test_a_public_key_is_taken_up_again_too(
    station: Path, enrol: Say, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, key = tmp_path / "ann.toml", generate().public
    while not key.startswith("-"):  # as one of 85 does
        key = generate().public
    with silence(station, monkeypatch):
        assert enrol("ann", out, "--public-key", key)[0] == 3
    code, said = enrol("ann", out, "--public-key", generate().public)
    assert code == 2 and "is not overwritten" in said
    assert enrol("ann", out)[0] == 2, "there is no secret in the file"
    assert enrol("ann", out, "--public-key", key)[0] == 0
    card = card_of(station, "ann")
    assert card is not None and card.key == key


def test_a_file_that_is_there_is_left_alone_unless_it_is_this_hosts(
    station: Path, enrol: Say, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ann, bob, other = (tmp_path / f"{name}.toml" for name in ("ann", "bob", "other"))
    bob.write_text("something else")
    bob.chmod(0o600)
    with silence(station, monkeypatch):
        enrol("ann", ann)
    kept = ann.read_text()
    for name, out, why in (("bob", bob, "it is no TOML file"), ("bob", ann, "for it is that of host ann of group g")):
        code, said = enrol(name, out)
        assert code == 2 and f"{out} is there already; it is not overwritten" in said and why in said
    assert enrol("ann", other)[0] == 0
    code, said = enrol("ann", ann)
    assert code == 2 and f"host 'ann' is enrolled already, with another key than that in {ann}" in said
    code, said = enrol("ann", tmp_path / "third.toml")
    assert code == 2 and "is enrolled already" in said and not (tmp_path / "third.toml").exists()
    assert main(["hosts", "revoke", str(station), "ann"]) == 0
    code, said = enrol("ann", other)
    assert code == 2 and "was revoked" in said and other.exists()
    assert (ann.read_text(), bob.read_text()) == (kept, "something else")
    assert card_of(station, "bob") is None


def test_a_name_that_no_host_can_have_is_told_before_anything_is_written(enrol: Say, tmp_path: Path) -> None:
    for name, more in (("\udcff", ()), ("a b", ()), ("ann", ("--public-key", "\udcff" * 40))):
        code, said = enrol(name, tmp_path / "q.toml", *more)
        assert code == 2 and said.startswith("mss-station: ") and said.count("\n") == 1
        assert list(tmp_path.glob("*q.toml*")) == []


@pytest.mark.parametrize(
    ("command", "arguments", "how"),
    [
        ("config set", ["settings/away-max", "14d"], "look with mss-station config get DIR settings/away-max"),
        ("config delete", ["settings/away-max"], "look with mss-station config get DIR settings/away-max"),
        ("hosts revoke", ["ann"], "give the same command again"),
        ("keys rotate", [], "look with mss-station config history DIR stations/ID"),
    ],
)
def test_a_change_without_an_answer_says_how_to_find_out(
    station: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    command: str,
    arguments: list[str],
    how: str,
) -> None:
    with silence(station, monkeypatch):
        assert main([*command.split(), str(station), *arguments]) == 3
    said = capsys.readouterr().err
    assert "does not answer" in said and "it is not known whether" in said and how.replace("DIR", str(station)) in said
