"""The station's directory: full disk, two processes, a store that went back in time (BL-17, BL-59, BL-63)."""

from __future__ import annotations

import os
import resource
import shutil
import sqlite3
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from demo.cluster import run_command
from harness import Bench, until

DISK_MIB = 40


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A small volume of its own; skipped where this user may not mount one."""
    place = tmp_path / "disk"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={DISK_MIB}m", "tmpfs", str(place)]
    if shutil.which("mount") is None or subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("no small volume can be mounted here")
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True)


def closed_for_uplinks(bench: Bench, station: str) -> bool:
    """Whether the station says that it cannot take messages for want of room."""
    status = bench.station(station).status()
    return status is not None and "disk" in str(status).lower() and "full" in str(status).lower()


def test_full_disk_and_resume(make_bench: Callable[..., Bench], small_disk: Path) -> None:
    bench = make_bench()
    station = bench.station("s1")
    shutil.copytree(station.directory, small_disk / "s1")
    shutil.rmtree(station.directory)
    station.directory.symlink_to(small_disk / "s1")
    bench.hosts({"a": "s1", "b": "s2", "c": "s3"})
    bench.load(["a", "b", "c"], rate=10)
    bench.run_for(1)
    filler = small_disk / "filler"
    with filler.open("wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(4096))
        except OSError:
            pass
    bench.send("a", 400, size=64 << 10)
    until(lambda: closed_for_uplinks(bench, "s1"), "s1 says that its disk is full", 30)
    until(lambda: bench.status("a")["waiting"], "a is told to wait", 30)
    assert station.running
    bench.run_for(3)
    station.kill()
    station.start()
    bench.run_for(2)
    assert station.running, f"a restart on a full disk failed:\\n{station.text()[-2000:]}"
    filler.unlink()
    until(lambda: not closed_for_uplinks(bench, "s1"), "s1 goes on by itself", 30)
    bench.settle()


def test_writes_refused_and_resume(make_bench: Callable[..., Bench]) -> None:
    """No file may grow any more: acknowledging stops, the reason is shown, and it goes on when it can write again."""
    bench = make_bench()
    bench.hosts({"a": "s1", "b": "s2"})
    station = bench.station("s1")
    assert station.process is not None
    largest = max(file.stat().st_size for file in station.directory.iterdir() if "-wal" in file.name)
    resource.prlimit(station.process.pid, resource.RLIMIT_FSIZE, (largest, resource.RLIM_INFINITY))
    bench.send("a", 200, size=32 << 10)
    until(lambda: bench.status("a")["waiting"], "a is told to wait", 30)
    status = station.status()
    assert status is not None and station.running
    bench.run_for(1)
    resource.prlimit(station.process.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    bench.settle()


def test_another_program_holds_the_lock(make_bench: Callable[..., Bench]) -> None:
    """A backup tool locks the database under load: nothing is lost, and it goes on afterwards (BL-62)."""
    bench = make_bench()
    bench.hosts({"a": "s1", "b": "s2"})
    bench.load(["a", "b"], rate=20)
    bench.run_for(0.5)
    other = sqlite3.connect(bench.station("s1").directory / "station.db", isolation_level=None, timeout=10)
    other.execute("BEGIN IMMEDIATE")
    bench.run_for(3)
    assert bench.station("s1").running
    other.execute("ROLLBACK")
    other.close()
    bench.run_for(0.5)
    bench.settle()


def test_second_station_on_a_directory_is_refused(make_bench: Callable[..., Bench]) -> None:
    bench = make_bench(stations=1)
    bench.hosts({"a": "s1"})
    station = bench.station("s1")
    second = run_command("mss-station", "run", station.directory)
    assert second.returncode == 3 and "in use" in second.stderr, second.stderr
    bench.send("a", 5)
    bench.wait_delivered()
    station.kill()
    bench.cluster.start()
    bench.settle()


def test_store_that_went_back_in_time_is_refused(make_bench: Callable[..., Bench]) -> None:
    bench = make_bench()
    bench.hosts({"a": "s1", "b": "s2"})
    bench.send("a", 20)
    bench.wait_delivered()
    station = bench.station("s1")
    station.stop()
    old = bench.home / "old"
    shutil.copytree(station.directory, old)
    bench.cluster.start()
    bench.send("a", 50)
    bench.wait_delivered()
    station.stop()
    newer = bench.home / "newer"
    os.rename(station.directory, newer)
    shutil.copytree(old, station.directory)
    before = len(station.text())
    station.start()
    assert station.wait_end() == 3
    said = station.text()[before:]
    assert "went back" in said or "older" in said, said
    assert "bring back" in said or "newer" in said, f"no remedy named: {said}"
    shutil.rmtree(station.directory)
    os.rename(newer, station.directory)
    bench.cluster.start()
    bench.send("b", 5)
    bench.settle()


@pytest.mark.parametrize("part", ["head", "body"])
def test_flipped_bit_in_a_stored_message_ends_the_station(make_bench: Callable[..., Bench], part: str) -> None:
    """What the disk has changed goes to no host, and the operator is told."""
    bench = make_bench(stations=1)
    bench.hosts({"a": "s1", "b": "s1"})
    bench.ask("b", "suspend")
    bench.send("a", 5)
    until(lambda: bench.status("a")["outbox"] == 0, "all is stored", 20)
    station = bench.station("s1")
    station.stop()
    file = station.directory / "station.db"
    with sqlite3.connect(file) as store:
        ((key, item),) = store.execute(
            "SELECT id, item FROM message WHERE length(item) > 60 ORDER BY id LIMIT 1 OFFSET 2"
        )
    store.close()
    content = bytearray(file.read_bytes())
    content[content.index(item) + (0 if part == "head" else len(item) - 1)] ^= 4
    file.write_bytes(content)
    station.start()
    bench.ask("b", "resume")
    assert station.wait_end() == 3
    assert f"stopped: {file}: damaged (the item of message (1, {key & 0xFFFF})" in station.text()


def test_wiped_store_is_refused(make_bench: Callable[..., Bench]) -> None:
    """A station never starts with an empty store in the place of its own (BL-06)."""
    bench = make_bench()
    bench.hosts({"a": "s1", "b": "s2"})
    bench.send("a", 5)
    bench.wait_delivered()
    station = bench.station("s1")
    station.stop()
    kept = bench.home / "kept"
    kept.mkdir()
    for file in station.directory.glob("station.db*"):
        os.rename(file, kept / file.name)
    before = len(station.text())
    station.start()
    assert station.wait_end() == 3
    assert "store" in station.text()[before:]
    for file in kept.iterdir():
        os.rename(file, station.directory / file.name)
    bench.settle()
