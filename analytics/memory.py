"""Memory of a process that makes large arrays all the time: kept for the next ones, not given back to the system.

glibc gives every large array back at once, and the system hands each of its pages out anew: a tenth of an audit's time.
"""

from __future__ import annotations

import ctypes

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3

KEEP = 1 << 30
"""Bytes. Arrays below it come from memory that is kept; so much of that may be unused."""


def keep() -> None:
    """Keep what was used. Elsewhere than with glibc nothing happens."""
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return
    mallopt(M_MMAP_THRESHOLD, KEEP)
    mallopt(M_TRIM_THRESHOLD, KEEP)
