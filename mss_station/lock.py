"""The lock of a station's directory: one process at a time.

The lock is the kernel's (flock on DIR/lock), not the file's existence: it goes with its process however that ends, so
the file of a killed process stops nobody. The file is never removed, for two processes could then hold two files.
"""

from __future__ import annotations

import fcntl
import os
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from roamcast.mss_station.errors import DirectoryInUse, StoreUnwritable

LOCK_NAME: Final = "lock"
NETWORK_FILESYSTEMS: Final = (
    "9p",
    "afs",
    "ceph",
    "cifs",
    "fuse.glusterfs",
    "fuse.sshfs",
    "nfs",
    "nfs4",
    "smb3",
    "smbfs",
)


class DirectoryLock:
    """Exclusive use of a directory, from construction to `release` or the end of the process."""

    def __init__(self, directory: Path) -> None:
        """Take the lock at once or not at all.

        Raises:
            DirectoryInUse: another process has it; the text names its process id.
            StoreUnwritable: the lock file cannot be made or locked here.
        """
        path = directory / LOCK_NAME
        try:
            self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise StoreUnwritable(
                f"{path}: cannot be opened ({error.strerror}); does the directory exist, and may this user write in it?"
            ) from error
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(self._file, 32, 0).decode("ascii", "replace").strip() or "unknown"
            os.close(self._file)
            raise DirectoryInUse(f"{directory} is in use by process {holder}; stop that one first") from None
        except OSError as error:
            os.close(self._file)
            raise StoreUnwritable(f"{path}: cannot be locked ({error.strerror}); use a local file system") from error
        self._write_holder()

    def _write_holder(self) -> None:
        # Fixed width, in place: needs no new block on a full disk. Without it only the name in the message is missing.
        try:
            os.pwrite(self._file, f"{os.getpid():<20}\n".encode("ascii"), 0)
        except OSError:
            return

    def release(self) -> None:
        """Give the directory back. Further calls do nothing."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()


def network_filesystem(directory: Path, mounts: Path = Path("/proc/self/mounts")) -> str | None:
    """Type of the network file system that holds `directory` ("nfs4", ...), or None if it is local or not known.

    SQLite's locks and the write-ahead log do not hold over a network: the station warns.
    """
    try:
        lines = mounts.read_text("utf-8", "surrogateescape").splitlines()
    except OSError:
        return None
    place = str(directory.resolve())
    best, kind = "", ""
    for line in lines:
        fields = line.split(" ")
        if len(fields) < 3:
            continue
        point = fields[1].replace("\\040", " ").rstrip("/")
        if (place == point or place.startswith(point + "/")) and len(point) >= len(best):
            best, kind = point, fields[2]
    return kind if kind in NETWORK_FILESYSTEMS else None
