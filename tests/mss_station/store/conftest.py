"""A station's directory with an empty store, and rows to put into it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from roamcast.middleware.rows import Kind, Row
from roamcast.mss_station.store import StationIdentity, Store


@pytest.fixture
def identity() -> StationIdentity:
    return StationIdentity("north", 1, 0xF00D_F00D_F00D_F00D)


@pytest.fixture
def directory(tmp_path: Path, identity: StationIdentity) -> Path:
    Store.create(tmp_path, identity)
    return tmp_path


@pytest.fixture
def make_row() -> Callable[..., Row]:
    def make(n: int, *, slot: int = 1, item: bytes = b"item", position: int | None = None) -> Row:
        return Row(
            slot=slot,
            n=n,
            stamp=((0, n), (2, 2 * n)),
            hlc=1_000_000 + n,
            kind=Kind.BROADCAST,
            host=slot << 32 | 7,
            incarnation=(1 << 64) - n,
            number=n,
            taken=(3, -2),
            addressee=0,
            item=item,
            size=len(item),
            position=position,
        )

    return make
