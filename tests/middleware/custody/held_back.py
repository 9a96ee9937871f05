"""Frames that a test keeps back."""

from __future__ import annotations

from typing import Any


def hold(net: Any, kind: type, source: int = 0, target: int = 0) -> None:
    """Keep back frames of a kind from one station to another (0: any)."""
    before = net.hold
    net.hold = lambda s, t, frame: (
        before(s, t, frame) or (isinstance(frame, kind) and source in (0, s) and target in (0, t))
    )
