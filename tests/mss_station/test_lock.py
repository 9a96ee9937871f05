"""One process on a station's directory."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from roamcast.mss_station.errors import DirectoryInUse, StoreUnwritable
from roamcast.mss_station.lock import LOCK_NAME, DirectoryLock, network_filesystem

CHILD = """
import sys
from pathlib import Path
from roamcast.mss_station.lock import DirectoryLock
lock = DirectoryLock(Path(sys.argv[1]))
print("locked", flush=True)
sys.stdin.readline()
"""


def start(directory: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", CHILD, str(directory)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_second_process_ends_at_once_and_the_first_goes_on(tmp_path: Path) -> None:
    first = start(tmp_path)
    assert first.stdout and first.stdout.readline() == "locked\n"
    _, text = start(tmp_path).communicate(timeout=30)
    assert f"DirectoryInUse: {tmp_path} is in use by process {first.pid}; stop that one first" in text
    with pytest.raises(DirectoryInUse):
        DirectoryLock(tmp_path)
    assert first.poll() is None
    first.communicate("\n", timeout=30)
    DirectoryLock(tmp_path).release()


def test_file_of_a_killed_process_stops_nobody(tmp_path: Path) -> None:
    first = start(tmp_path)
    assert first.stdout and first.stdout.readline() == "locked\n"
    first.kill()
    first.communicate(timeout=30)
    assert (tmp_path / LOCK_NAME).read_text().strip() == str(first.pid)
    with DirectoryLock(tmp_path):
        assert (tmp_path / LOCK_NAME).read_text().strip() == str(os.getpid())
        with pytest.raises(DirectoryInUse, match=str(os.getpid())):
            DirectoryLock(tmp_path)


def test_release_twice(tmp_path: Path) -> None:
    lock = DirectoryLock(tmp_path)
    lock.release()
    other = DirectoryLock(tmp_path)
    lock.release()
    with pytest.raises(DirectoryInUse):
        DirectoryLock(tmp_path)
    other.release()


def test_no_directory(tmp_path: Path) -> None:
    with pytest.raises(StoreUnwritable, match=os.strerror(errno.ENOENT)):
        DirectoryLock(tmp_path / "missing")


def test_network_mounts_are_named(tmp_path: Path) -> None:
    mounts = tmp_path / "mounts"
    mounts.write_text(
        f"/dev/vda / ext4 rw 0 0\nserver:/x {tmp_path}/far\\040away nfs4 rw 0 0\nnone {tmp_path}/ram tmpfs 0 0\n"
    )
    assert network_filesystem(tmp_path / "far away" / "station", mounts) == "nfs4"
    assert network_filesystem(tmp_path / "far away", mounts) == "nfs4"
    assert network_filesystem(tmp_path / "far", mounts) is None
    assert network_filesystem(tmp_path / "ram", mounts) is None
    assert network_filesystem(tmp_path, tmp_path / "no such file") is None
