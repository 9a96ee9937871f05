"""A file that holds room free: given up when the disk is full, so that what frees room can still be committed.

Acknowledgements and collection need a few pages of log before they give any back (overview section 10).
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

RESERVE_NAME: Final = "reserve"
RESERVE_BYTES: Final = 16 << 20
RESERVE_MARGIN_BYTES: Final = 2 << 20
"""Room that must be left beside the reserve when it is made: else it would be what fills the disk."""


def free_bytes(directory: Path) -> int:
    """Bytes that this user may still write on the volume of `directory`."""
    volume = os.statvfs(directory)
    return volume.f_bavail * volume.f_frsize


class Reserve:
    """DIR/reserve. Its presence on the disk is its only state, so it is true over restarts."""

    def __init__(self, directory: Path) -> None:
        """Nothing is made yet."""
        self._directory = directory
        self._path = directory / RESERVE_NAME

    def is_held(self) -> bool:
        """Whether the whole reserve is there."""
        try:
            return self._path.stat().st_size >= RESERVE_BYTES
        except FileNotFoundError:
            return False

    def release(self) -> bool:
        """Give the room back to the volume. Returns False if there was none to give, or it cannot be given."""
        try:
            self._path.unlink()
        except OSError:
            return False
        return True

    def restore(self) -> bool:
        """Make the reserve again if there is room for it and RESERVE_MARGIN_BYTES more. Returns whether it is held."""
        if self.is_held():
            return True
        try:
            if self.missing_bytes() > 0:
                return False
            self._allocate()
        except OSError:
            self.release()
            return False
        return True

    def missing_bytes(self) -> int:
        """Bytes that must come free on the volume before the reserve can be made; 0 or less: it can."""
        return RESERVE_BYTES + RESERVE_MARGIN_BYTES - free_bytes(self._directory)

    def _allocate(self) -> None:
        file = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        try:
            if hasattr(os, "posix_fallocate"):
                os.posix_fallocate(file, 0, RESERVE_BYTES)
            else:  # macOS
                for _ in range(RESERVE_BYTES >> 20):
                    os.write(file, bytes(1 << 20))
        finally:
            os.close(file)
