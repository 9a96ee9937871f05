"""The command `roamcast-audit`: exit codes, what it writes and says; wrongly used, run twice. BL-73, BL-74."""

from __future__ import annotations

import json
import os
from datetime import date
from pathlib import Path

import pytest
from audit_world import A, story
from test_files import DAY, write

from roamcast.analytics import cli, command

NEXT = "2027-01-16"


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    """Logs of one whole day, which nobody has signed."""
    made = tmp_path / "logs"
    made.mkdir()
    write(story(), made)
    return made


@pytest.fixture(autouse=True)
def unsigned(monkeypatch: pytest.MonkeyPatch) -> None:
    """Signatures are for the tests of keys."""
    monkeypatch.setattr(command.keys, "load", lambda files, pinned: (None, []))


@pytest.fixture(autouse=True)
def later(monkeypatch: pytest.MonkeyPatch) -> None:
    """The days of the story are over."""
    monkeypatch.setattr(cli, "today", lambda: date(2027, 1, 20))


def audit(logs: Path, *options: str) -> int:
    return cli.main(["--logs", str(logs), "--out", str(logs.parent / "out"), "--engine", "local", *options])


def report(logs: Path, day: str = DAY) -> dict[str, object]:
    found: dict[str, object] = json.loads((logs.parent / "out" / day / "report.json").read_text())
    return found


def test_a_clean_day(logs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert audit(logs, "--date", DAY) == 0
    told = capsys.readouterr().out
    assert told.startswith("CLEAN") and f"{DAY}/report.html" in told
    assert report(logs)["verdict"] == "clean"
    assert (logs.parent / "out" / DAY / "report.html").read_text().lower().startswith("<!doctype html>")


def test_a_broken_promise(logs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    world = story()
    world.change(2, "session", {"host": A, "e": 2}, base=[0, 5, 3])
    for path in write(world, logs):
        assert path.exists()
    assert audit(logs, "--date", DAY) == 1
    assert capsys.readouterr().out.startswith("VIOLATED")


@pytest.mark.parametrize("name", ["noise.rclog", "empty.rclog", "notes.txt", "a b%20c"])
def test_a_bad_file_is_told_and_the_day_is_undecided(logs: Path, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    (logs / name).write_bytes(b"" if name == "empty.rclog" else os.urandom(3000))
    assert audit(logs, "--date", DAY) == 4
    told = capsys.readouterr().out
    assert told.startswith("UNDECIDED") and name in told


def test_nothing_at_all_is_undecided(tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    assert audit(tmp_path / "logs", "--date", DAY) == 4


def test_the_same_night_again_is_the_same_but_for_how_it_was_run(logs: Path) -> None:
    texts = []
    for _ in range(2):
        assert audit(logs, "--date", DAY) == 0
        found = report(logs)
        assert set(found.pop("run")) >= {"run", "begun", "ended"}  # type: ignore[call-overload]
        texts.append(json.dumps(found))
    assert texts[0] == texts[1]


def test_a_day_is_judged_again_when_more_has_come(logs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    late = sorted(logs.iterdir())[0]
    content = late.read_bytes()
    late.unlink()
    assert audit(logs, "--date", DAY) == 4
    late.write_bytes(content)
    assert audit(logs, "--date", NEXT) == 4  # there are no logs of that day
    assert f"{DAY} again: clean" in capsys.readouterr().out
    assert report(logs)["verdict"] == "clean" and report(logs, NEXT)["run"]["reopened"] == [DAY]  # type: ignore[index]
    assert audit(logs, "--date", NEXT) == 4
    assert f"{DAY} again" not in capsys.readouterr().out


def test_everything_in_one_run(logs: Path) -> None:
    assert audit(logs, "--date", "all") == 0
    assert report(logs, "all")["verdict"] == "clean"


def test_deliveries_are_written_if_asked_for(logs: Path) -> None:
    assert audit(logs, "--date", DAY, "--deliveries") == 0
    assert list((logs.parent / "out" / "deliveries").glob(f"day={DAY}/bucket=*/*.parquet"))


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--date", "yesterday"], "YYYY-MM-DD"),
        (["--date", "2027-02-30"], "YYYY-MM-DD"),
        (["--date", "2027-01-20"], "is not over"),
        (["--engine", "flink"], "invalid choice"),
    ],
)
def test_wrong_use(logs: Path, options: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        audit(logs, *options)
    assert ended.value.code == 2 and said in capsys.readouterr().err
    assert not (logs.parent / "out").exists()


def test_what_cannot_be_run(logs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert audit(logs / "nowhere", "--date", DAY) == 3
    assert "no directory" in capsys.readouterr().err
    (logs.parent / "file").write_text("")
    out = str(logs.parent / "file" / "out")
    assert cli.main(["--logs", str(logs), "--out", out, "--engine", "local", "--date", DAY]) == 3
    assert "cannot be written" in capsys.readouterr().err


def test_a_damaged_state_is_told(logs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert audit(logs, "--date", DAY) == 0
    (logs.parent / "out" / DAY / "state.json").write_text("{")
    assert audit(logs, "--date", NEXT) == 3
    assert "audit that day again" in capsys.readouterr().err
    assert not (logs.parent / "out" / NEXT).exists()


def test_logs_of_two_groups(logs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other = tmp_path / "logs" / "other"
    other.mkdir()
    write(story(), other, group="h")
    assert audit(logs, "--date", DAY) == 3
    assert "'g' and 'h'" in capsys.readouterr().err
    assert audit(logs, "--date", DAY, "--group", "h") == 0
    assert report(logs)["run"]["group"] == "h"  # type: ignore[index]
