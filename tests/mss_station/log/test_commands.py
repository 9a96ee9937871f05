"""`mss-station logs verify|upload` on a stopped station: what holds, what does not, and copies that are whole."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from roamcast.mss_station.cli import main
from roamcast.mss_station.log.files import segment_path
from roamcast.transport.segment_keys import StationKeys, read_keys
from roamcast.transport.station_files import read_station

Run = Callable[..., tuple[int, Any, str]]


@pytest.fixture
def run(home: Path, capsys: pytest.CaptureFixture[str]) -> Run:
    def call(command: str, *arguments: object) -> tuple[int, Any, str]:
        code = main(["logs", command, str(home), "--json", *map(str, arguments)])
        out, err = capsys.readouterr()
        return code, json.loads(out) if out else None, err

    return call


def problems(run: Run) -> dict[int, str]:
    code, found, _ = run("verify")
    told = {one["seq"]: one["problem"] for one in found if one["problem"]}
    assert code == bool(told)
    return told


def test_a_log_that_holds(run: Run) -> None:
    code, found, _ = run("verify")
    assert code == 0 and [(one["seq"], one["status"], one["problem"]) for one in found] == [
        (seq, "closed", "") for seq in (1, 2, 3)
    ]


@pytest.mark.parametrize("gone", [(3,), (2, 3), (1, 2, 3)])
def test_the_end_cannot_be_hidden(run: Run, home: Path, gone: tuple[int, ...]) -> None:
    """BL-69"""
    for seq in gone:
        segment_path(home, seq).unlink()
    assert set(problems(run)) >= {3} and all(problems(run)[seq] == "the file is not here" for seq in gone[-1:])


def test_what_is_missing_altered_swapped_or_cut_is_named(run: Run, home: Path) -> None:
    path = segment_path(home, 2)
    data = path.read_bytes()
    path.unlink()
    assert problems(run) == {2: "the file is not here"}
    path.write_bytes(data[:-60] + bytes(10) + data[-50:])
    assert 2 in problems(run)
    shutil.copy(segment_path(home, 1), path)
    assert problems(run)[2] == "it says that it is segment 1 of s1 in g"
    path.write_bytes(data)
    assert not problems(run)
    os.truncate(segment_path(home, 3), segment_path(home, 3).stat().st_size - 20)
    assert problems(run) == {3: "it does not end as this station has told the others"}


def test_an_upload_is_whole_and_goes_on_where_it_was(run: Run, home: Path, tmp_path: Path) -> None:
    (tmp_path / "to").mkdir()
    done = [[one["state"] for one in run("upload", tmp_path / "to")[1]] for _ in range(2)]
    assert done == [["copied"] * 3, ["there"] * 3]
    (folder,) = (tmp_path / "to" / "g").iterdir()
    assert folder.name.startswith("s1-")
    copies = sorted(folder.glob("*.rclog"))
    assert [path.name for path in copies] == ["00000001.rclog", "00000002.rclog", "00000003.rclog"]
    assert all(path.read_bytes() == segment_path(home, seq).read_bytes() for seq, path in enumerate(copies, 1))
    copies[1].unlink()
    assert [one["state"] for one in run("upload", tmp_path / "to")[1]] == ["there", "copied", "there"]
    copies[1].write_bytes(b"something else")
    code, _, err = run("upload", tmp_path / "to")
    assert code == 3 and "closed segments never change" in err


def test_the_public_keys_go_with_the_segments(run: Run, home: Path, tmp_path: Path) -> None:
    (tmp_path / "to").mkdir()
    for _ in range(2):
        run("upload", tmp_path / "to")
    (path,) = (tmp_path / "to").glob("g/s1-*/keys.json")
    assert not [each for each in path.parent.iterdir() if each.name.startswith(".")]
    told = read_keys(path.read_bytes())
    config = read_station(home)
    assert (told.group, told.station, told.stations) == ("g", "s1", (StationKeys("s1", 1, (config.card.signing_key,)),))
    assert main(["logs", "keys", str(home), "--out", str(tmp_path / "pinned.json")]) == 0
    assert read_keys((tmp_path / "pinned.json").read_bytes()).stations == told.stations
    assert main(["logs", "keys", str(home), "--out", str(tmp_path / "pinned.json")]) == 2


def test_a_destination_that_is_none_is_told(run: Run, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for dest in (tmp_path / "file", "nowhere://x"):
        code, out, err = run("upload", dest)
        assert (code, out) == (3, None) and "cannot be written" in err
