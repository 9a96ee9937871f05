"""What tasks and driver hand to each other through folders comes back as it was; what a dead run left is not used."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
import simulated
from audit_world import NOON, story

from roamcast.analytics.days import WHOLE
from roamcast.analytics.engine import EngineError
from roamcast.analytics.engine_local import LocalEngine
from roamcast.analytics.evidence import Segment
from roamcast.analytics.ingest import ingest
from roamcast.analytics.judgement import Case, Options
from roamcast.analytics.spark.events import DAYS_MAX, UNKNOWN_DAY, PartWriter, read_parts
from roamcast.analytics.staging import Folder, Staging, local_path

DIES = """
import os, sys
from roamcast.analytics.staging import Staging
staging = Staging(sys.argv[1])
staging.folder.put("thing", 1)
os._exit(9)
"""


def test_what_a_dead_run_left_goes_and_what_a_living_one_has_stays(tmp_path: Path) -> None:
    alive = Staging(str(tmp_path))
    alive.folder.put("thing", 1)
    assert alive.local is not None and alive.local.stat().st_mode & 0o777 == 0o700
    (tmp_path / "other").mkdir()
    subprocess.run([sys.executable, "-c", DIES, str(tmp_path)], check=False)
    assert len(list(tmp_path.iterdir())) == 5
    third = Staging(f"file://{tmp_path}")
    third.close()
    assert alive.folder.get("thing") == 1 and len(list(tmp_path.iterdir())) == 3
    alive.close()
    assert [path.name for path in tmp_path.iterdir()] == ["other"]


def test_names_of_places() -> None:
    assert local_path("file:///a/b%20c") == local_path("/a/b c") == local_path("file:/a/b%20c") == "/a/b c"
    assert local_path("s3a://bucket/a") is None
    with pytest.raises(EngineError, match="no staging folder can be made here"):
        Staging("nothing://bucket/a")


def test_a_case_comes_back_as_it_was(tmp_path: Path) -> None:
    made, _ = ingest(story().segments())
    case = Case(made, made["orders"], Options())
    folder = Folder(str(tmp_path)).within("a")
    folder.put("case", case.of_clients_only())
    back = folder.get("case")
    for begin, end in case.buckets(1):
        one, other = case.of_clients(begin, end), back.of_clients(begin, end)
        assert one.findings == other.findings and one.gaps[0]["e"].tolist() == other.gaps[0]["e"].tolist()
        assert one.deliveries == other.deliveries and [t.equals(other.latencies[0]) for t in one.latencies] == [True]
    folder.remove()
    folder.remove()
    assert list(tmp_path.iterdir()) == []


def same(one: Segment, other: Segment) -> bool:
    return one.events.keys() == other.events.keys() and all(
        (values is None and other.events[event][name] is None) or list(values) == list(other.events[event][name])
        for event, columns in one.events.items()
        for name, values in columns.items()
    )


def test_segments_come_back_whatever_day_their_rows_are_of(tmp_path: Path) -> None:
    simulation, _ = simulated.run("mixed", 7)
    segments = simulated.logs(simulation, 200)
    for i, segment in enumerate(segments):
        for columns in segment.events.values():
            columns["wall"][::2] += simulated.DAY * (i % 3)
    segments[1].events["order"]["stamp"] = segments[1].events["order"]["stamp_len"] = None  # type: ignore[index]
    segments[2].events["order"]["size"] = None  # type: ignore[index]
    wild = np.arange(len(segments[3].events["order"]["wall"])) * 300 * simulated.DAY - 2**62
    segments[3].events["order"]["wall"] = wild  # type: ignore[index]
    folder = Folder(str(tmp_path))
    for part in (0, 1):
        writer = PartWriter(folder, f"part{part}")
        for i, segment in enumerate(segments):
            if i % 2 == part:
                writer.add(str(i), segment)
        assert writer.close(["skipped"]) == len(segments[part::2]) + 1
    back = read_parts(folder, ["part0", "part1"])
    assert back.pop("skipped") is None
    assert len(back) == len(segments)
    for i, segment in enumerate(segments):
        found = back[str(i)]
        assert found is not None and same(segment, found), i
        assert (found.header, found.count, found.end) == (segment.header, segment.count, segment.end)
    days = {path.name for path in (tmp_path / "events").iterdir()}
    assert len(wild) > DAYS_MAX and f"day={UNKNOWN_DAY}" in days and len(days) <= 2 * DAYS_MAX + 1
    file = next((tmp_path / "events").glob("*/event=order/part0.parquet"))
    os.truncate(file, 0)
    pq.write_table(pq.read_table(next((tmp_path / "events").glob("*/event=order/part1.parquet"))).slice(0, 0), file)
    with pytest.raises(ValueError, match="not all rows were staged"):
        read_parts(folder, ["part0"])


def test_deliveries_of_a_day_are_those_acknowledged_in_it(tmp_path: Path) -> None:
    made, differences = ingest(story().segments())
    walls = []
    for since in (0, NOON + 40_000_000):
        LocalEngine(1, str(tmp_path)).judge(made, differences, made["orders"], Options(since))
        day = "2027-01-15" if since else WHOLE
        rows = pq.read_table(tmp_path / f"day={day}")
        walls.append(sorted(rows.column("wall").to_pylist()))
        assert set(rows.column("host").to_pylist()) <= {"ann", "bob", "cid"}
    assert len(walls[0]) == 16 and walls[1] == [wall for wall in walls[0] if wall >= NOON + 40_000_000]
    assert 0 < len(walls[1]) < 16


def test_deliveries_that_cannot_be_written(tmp_path: Path) -> None:
    made, differences = ingest(story().segments())
    (tmp_path / "file").write_text("")
    with pytest.raises(EngineError, match="no staging folder"):
        LocalEngine(1, str(tmp_path / "file")).judge(made, differences, made["orders"], Options())
