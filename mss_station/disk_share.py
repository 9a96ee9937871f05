"""How much logs may hold: what is configured, but a tenth of the disk stays free (overview section 10)."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Final

FREE_SHARE: Final = 10
LOG_BYTES_LEAST: Final = 64 << 20
"""On a disk that others have filled the log still gets this much."""


def log_limit(directory: Path, held_bytes: int, configured: int) -> int:
    """Bytes that the log of the station in `directory` may hold now; it holds `held_bytes`."""
    try:
        usage = shutil.disk_usage(directory)
    except OSError:
        return configured
    room = held_bytes + usage.free - usage.total // FREE_SHARE
    return min(configured, max(room, LOG_BYTES_LEAST))


def has_room(directory: Path) -> bool:
    """Whether a tenth of the disk is free. Raises OSError."""
    usage = shutil.disk_usage(directory)
    return usage.free >= usage.total // FREE_SHARE
