"""A report is there as a whole or not at all, whatever stops the one who writes it. BL-74."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq  # type: ignore[import-untyped]
import pytest
from audit_world import story
from reports import DAY, about, night, skipped

from roamcast.analytics import carried, tables
from roamcast.analytics.nights import Night
from roamcast.analytics.report import publish as publishing
from roamcast.analytics.report.publish import PublishError, locked, publish

FILES = {"report.json", "report.html", "state.json", "tables"}


class Killed(BaseException):
    """The process ends here."""


def put(out: Path, run: str = "r1", world: Any = None) -> Path:
    with locked(out):
        return publish(out, night(world or story()), about(run=run))


def verdict(out: Path) -> str:
    """Of the report that is there, which must be whole."""
    assert {path.name for path in (out / DAY).iterdir()} == FILES
    assert {path.stem for path in (out / DAY / "tables").iterdir()} >= set(tables.TABLES)
    return str(json.loads((out / DAY / "report.json").read_text())["verdict"])


def hidden(out: Path) -> list[str]:
    return sorted(path.name for path in out.iterdir() if path.name not in (DAY, ".lock"))


def test_a_report_has_all_its_parts(tmp_path: Path) -> None:
    made = night(skipped(story()))
    with locked(tmp_path / "a" / "out"):
        target = publish(tmp_path / "a" / "out", made, about())
    assert target == tmp_path / "a" / "out" / DAY
    assert verdict(tmp_path / "a" / "out") == "violated" and not hidden(tmp_path / "a" / "out")
    found = {path.stem: pq.read_table(path) for path in (target / "tables").iterdir()}
    assert set(found) == {*tables.TABLES, "findings", "hosts", "latencies", "gaps"}
    assert found["findings"].equals(made.report.findings)
    assert found["orders"].equals(made.report.tables["orders"])
    assert found["hosts"].column("host").to_pylist()[0] == "ann"
    assert carried.load(tmp_path / "a" / "out", DAY).text() == made.state.text()
    assert "<h1>Violated</h1>" in (target / "report.html").read_text()


def test_two_runs_give_equal_reports(tmp_path: Path) -> None:
    texts, parquet = [], []
    for run in ("r1", "r2"):
        target = put(tmp_path, run, skipped(story()))
        plain = json.loads((target / "report.json").read_text())
        assert plain.pop("run")["run"] == run
        texts.append((json.dumps(plain), (target / "state.json").read_text()))
        parquet.append({path.name: pq.read_table(path) for path in sorted((target / "tables").iterdir())})
    assert texts[0] == texts[1]
    assert parquet[0].keys() == parquet[1].keys()
    assert all(table.equals(parquet[1][name]) for name, table in parquet[0].items())


def stopping(real: Callable[..., Any], fatal: int, how: BaseException) -> Callable[..., Any]:
    """The same, but the call with this number fails; who is killed does nothing more either."""
    calls = 0

    def call(*args: Any, **more: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == fatal or (isinstance(how, Killed) and calls > fatal):
            raise how
        return real(*args, **more)

    return call


def stopped(out: Path, what: str, fatal: int, how: BaseException, made: Night) -> bool:
    """Publish, and be stopped in the call with this number, if there are so many."""
    module, name = what.split(".")
    owner = getattr(publishing, module)
    with pytest.MonkeyPatch.context() as patch:
        if isinstance(how, Killed):
            patch.setattr(shutil, "rmtree", lambda *args, **more: None)
        patch.setattr(owner, name, stopping(getattr(owner, name), fatal, how))
        try:
            with locked(out):
                publish(out, made, about(run="new"))
        except (PublishError, Killed) as error:
            assert isinstance(error, Killed) or "No space left" in str(error)
            return True
    return False


@pytest.mark.parametrize("old", [False, True])
@pytest.mark.parametrize("what", ["os.fsync", "os.rename", "pq.write_table"])
@pytest.mark.parametrize("how", [OSError(28, "No space left on device"), Killed()], ids=["full", "killed"])
def test_stopped_anywhere_there_is_no_half_report(tmp_path: Path, old: bool, what: str, how: BaseException) -> None:
    """The first call fails, then the second, and so on. A killed one removes nothing."""
    before, after = night(skipped(story())), night(story())
    for fatal in range(1, 40):
        out = tmp_path / str(fatal)
        with locked(out):
            if old:
                publish(out, before, about(run="old"))
        ended = not stopped(out, what, fatal, how, after)
        if isinstance(how, OSError):
            assert not hidden(out)
        with locked(out):
            assert not hidden(out)
            if ended:
                assert verdict(out) == "clean"
                break
            if old:
                assert verdict(out) == "violated" or (what == "os.fsync" and verdict(out) == "clean")
            else:
                assert not (out / DAY).exists() or what == "os.fsync"
    assert 1 < fatal < 39


def test_one_audit_at_a_time(tmp_path: Path) -> None:
    with locked(tmp_path):
        with pytest.raises(PublishError, match="another audit is running"):
            with locked(tmp_path):
                pass
    with locked(tmp_path):
        pass


def test_what_dead_runs_have_left_goes(tmp_path: Path) -> None:
    put(tmp_path)
    (tmp_path / f".{DAY}.dead.part" / "tables").mkdir(parents=True)
    (tmp_path / ".2027-01-14.dead.old").mkdir()
    (tmp_path / ".2027-01-14.dead.old" / "state.json").write_text("{}")
    with locked(tmp_path):
        assert not (tmp_path / f".{DAY}.dead.part").exists()
        assert (tmp_path / "2027-01-14" / "state.json").exists(), "a report that was moved aside is put back"
    assert verdict(tmp_path) == "clean"


def test_where_nothing_can_be_written(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("a file")
    with pytest.raises(PublishError, match="reports cannot be written here"):
        put(tmp_path / "out")
    with pytest.raises(ValueError, match="no name of a folder"):
        put(tmp_path / "other", run="../x")
    assert os.listdir(tmp_path / "other") == [".lock"]
