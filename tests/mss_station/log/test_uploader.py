"""Uploads of a running station: whole, on schedule, told when they fail, and never waited for."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fsspec
import pytest

from roamcast.middleware.settings import SECOND
from roamcast.mss_station import disk_share
from roamcast.mss_station.log import upload as uploading
from roamcast.mss_station.log import uploader as running
from roamcast.mss_station.log.files import remove_old, segment_path, segments
from roamcast.mss_station.log.uploader import SILENT, Uploader
from roamcast.mss_station.tally import Tally
from roamcast.transport.station_files import LogUpload

WAIT_S = 20.0


class Watched:
    """A clock that stands, and an uploader whose runs can be waited for."""

    def __init__(self, home: Path, destination: str, monkeypatch: pytest.MonkeyPatch) -> None:
        self.time = 0
        self.newest: int | None = None
        self.tally = Tally()
        clock: Any = self
        self.uploader = Uploader(home, LogUpload(destination, 3_600 * SECOND), lambda: self.newest, clock, self.tally)
        self.done = threading.Semaphore(0)
        upload = self.uploader._upload
        monkeypatch.setattr(running, "FIRST_S", 0)
        monkeypatch.setattr(running, "RETRY_S", 3_600)
        monkeypatch.setattr(running, "STOP_S", WAIT_S)

        def watched() -> None:
            try:
                upload()
            finally:
                self.done.release()

        monkeypatch.setattr(self.uploader, "_upload", watched)

    def now(self) -> int:
        return self.time

    def wall(self) -> int:
        return 1_800_000_000_000_000 + self.time

    def ran(self) -> None:
        """One upload is over, and what it has found is told."""
        assert self.done.acquire(timeout=WAIT_S)
        while self.uploader._heard is not None:
            self.done.acquire(timeout=0.001)
        self.uploader.look()

    def again(self) -> None:
        """A segment was closed."""
        self.newest = (self.newest or 0) + 1
        self.uploader.look()
        self.ran()


@pytest.fixture
def to(tmp_path: Path) -> Path:
    (tmp_path / "to").mkdir()
    return tmp_path / "to"


@pytest.fixture
def watched(home: Path, to: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Watched]:
    made = Watched(home, str(to), monkeypatch)
    yield made
    made.uploader.stop()


def test_all_is_copied_soon_after_the_start_and_after_each_segment(watched: Watched, home: Path, to: Path) -> None:
    assert watched.uploader.status() == {"last": None, "waiting": 3, "failures": 0, "problem": None}
    watched.uploader.start()
    watched.ran()
    assert watched.uploader.status() == {
        "last": "2027-01-15T08:00:00+00:00", "waiting": 0, "failures": 0, "problem": None,
    }  # fmt: skip
    copies = sorted(to.glob("g/s1-*/*.rclog"))
    assert [path.read_bytes() for path in copies] == [segment_path(home, seq).read_bytes() for seq in (1, 2, 3)]
    copies[1].unlink()
    watched.again()
    assert copies[1].exists() and all(watched.uploader.has(seq) for seq in (1, 2, 3)) and not watched.uploader.has(4)


def test_what_is_there_is_not_read_again(watched: Watched, monkeypatch: pytest.MonkeyPatch) -> None:
    watched.uploader.start()
    watched.ran()
    read: list[str] = []
    whole = Path.read_bytes
    monkeypatch.setattr(Path, "read_bytes", lambda path: [read.append(path.name), whole(path)][1])
    watched.again()
    assert not [name for name in read if name.endswith(".rclog")]


def test_a_failure_is_told_once_and_counted(watched: Watched, to: Path) -> None:
    to.rmdir()
    to.write_text("no folder")
    watched.uploader.start()
    watched.ran()
    watched.again()
    counters, told = watched.tally.counters, watched.uploader.status()
    assert (counters["notice.upload_failed"], counters["uploads_failed"]) == (1, 2)
    assert (told["failures"], told["waiting"], told["last"]) == (2, 3, None) and "cannot be written" in told["problem"]
    to.unlink()
    watched.again()
    assert watched.tally.counters["notice.upload_works_again"] == 1
    assert watched.uploader.status()["problem"] is None and watched.uploader.status()["waiting"] == 0


def test_a_destination_that_does_not_answer_holds_nobody(home: Path, to: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A hung network file system, at the start of an upload."""
    watched, hangs = Watched(home, str(to), monkeypatch), threading.Event()
    asked = threading.Event()
    monkeypatch.setattr(fsspec.core, "url_to_fs", lambda _: [asked.set(), hangs.wait(WAIT_S)])
    monkeypatch.setattr(running, "STOP_S", 0.01)
    watched.uploader.start()
    assert asked.wait(WAIT_S) and watched.uploader._thread.daemon
    watched.uploader.look()
    assert watched.uploader.status()["problem"] is None
    watched.time = SILENT + SECOND
    watched.uploader.look()
    assert watched.uploader.status()["problem"] == f"{to}: no answer for 901 s"
    assert watched.tally.counters["notice.upload_failed"] == 1
    watched.uploader.stop()
    assert watched.uploader._thread.is_alive()
    hangs.set()
    watched.uploader._thread.join(WAIT_S)
    assert not watched.uploader._thread.is_alive()


def test_any_file_system_that_replaces_or_does_not(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    memory = fsspec.filesystem("memory")
    watched = Watched(home, "memory://logs", monkeypatch)
    watched.uploader.start()
    watched.ran()

    def move(source: str, target: str) -> None:
        if memory.exists(target):
            raise FileExistsError(target)
        memory.copy(source, target)
        memory.rm(source)

    monkeypatch.setattr(memory, "mv", move)
    memory.rm("/logs/g", recursive=True)
    for _ in range(2):
        watched.again()
        assert watched.uploader.problem is None
        names = [name.rpartition("/")[2] for name in memory.find("/logs/g")]
        assert names == ["00000001.rclog", "00000002.rclog", "00000003.rclog", "keys.json"]
    watched.uploader.stop()


def test_what_is_not_uploaded_stays_until_the_disk_is_full(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    late = 1 << 62
    monkeypatch.setattr(disk_share, "FREE_SHARE", 1 << 62)  # any disk has room
    assert remove_old(home, 9, late, {1}.__contains__) == 0
    assert segments(home) == [2, 3]
    monkeypatch.setattr(disk_share, "FREE_SHARE", 1)  # all of the disk would have to be free
    assert remove_old(home, 9, late, {1}.__contains__) == 1
    assert segments(home) == [3] and os.listdir(home / "logs") == ["00000003.rclog"]


def test_a_password_in_a_url_is_not_shown() -> None:
    assert uploading.shown("cannot reach s3://me:secret@host/x: no") == "cannot reach s3://host/x: no"
