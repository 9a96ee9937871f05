"""The agent's state on disk: the store of a StateLog in one append-only file, and the encoder of its records.

To replace its content a new file is written beside it, synced, and renamed over it. A lock beside it keeps a second
process out.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Any, Final

import cbor2

from roamcast.middleware.mobile_host.errors import StateError

MAGIC: Final = b"roamcast agent state 1\n"


def encode(plain: Any) -> bytes:
    """As cbor2.dumps, also for lists: for these cbor2 6 runs Python code, and drops an interrupt that comes in it."""
    if not isinstance(plain, (list, tuple)):
        return cbor2.dumps(plain)
    head = bytearray(cbor2.dumps(len(plain)))
    head[0] |= 0x80  # the head of an array is that of a number, of another major type
    return bytes(head) + b"".join(map(encode, plain))


class StateFile:
    """A file with its lock, until `close`. Every method may raise StateError and OSError."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = self._open(Path(f"{path}.lock"))
        try:
            with contextlib.suppress(ImportError):  # no such locks on this system
                import fcntl

                fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self._file = self._open(path)
        except OSError as error:
            os.close(self._lock)
            if isinstance(error, BlockingIOError):
                raise StateError(f"{path} is in use by another agent") from None
            raise

    def load(self) -> bytes:
        """All that was appended."""
        content = self.path.read_bytes()
        if content and not content.startswith(MAGIC):
            raise StateError(f"{self.path} is no agent state of this format")
        return content[len(MAGIC) :]

    def append(self, data: bytes) -> None:
        """Write `data`; `sync` makes it durable."""
        self._write(self._file, data)

    def sync(self) -> None:
        """Make everything durable."""
        os.fsync(self._file)

    def replace(self, data: bytes) -> None:
        """Put `data` in place of all there is, durable and atomic."""
        fresh = Path(f"{self.path}.new")
        file = self._open(fresh, os.O_TRUNC)
        try:
            self._write(file, MAGIC + data)
            os.fsync(file)
            os.replace(fresh, self.path)
        except BaseException:
            os.close(file)
            raise
        os.close(self._file)
        self._file = file
        folder = os.open(self.path.parent, os.O_RDONLY)
        os.fsync(folder)
        os.close(folder)

    def close(self) -> None:
        """Give the lock back."""
        os.close(self._file)
        os.close(self._lock)

    def _open(self, path: Path, flags: int = 0) -> int:
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | flags, 0o600)

    def _write(self, file: int, data: bytes) -> None:
        if os.write(file, data) != len(data):
            raise StateError(f"{self.path} cannot be written: the disk is full")
