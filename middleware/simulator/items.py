"""What the simulator puts in place of the codec: items as bytes, frames as words."""

from __future__ import annotations

import marshal
from functools import lru_cache
from typing import Any

from roamcast.middleware.host_frames import Msg
from roamcast.middleware.rows import Item, Kind


def encode_item(item: Item) -> bytes:
    """The simulator's codec of items (version 2 of marshal: equal values give equal bytes)."""
    plain = (item.slot, item.n, item.sender, item.incarnation32, item.number, int(item.kind), item.body)
    fields = (*plain, item.topic, item.hlc) if item.topic else plain
    return marshal.dumps(fields, 2)


@lru_cache(maxsize=4096)
def decode_item(data: bytes) -> Item:
    """What `encode_item` was given."""
    slot, n, sender, incarnation32, number, kind, body, *more = marshal.loads(data)
    return Item(slot, n, sender, incarnation32, number, Kind(kind), body, *more)


def brief(frame: Any) -> str:
    """A frame in a word or two."""
    match frame:
        case Msg(prev, last, entries):
            return f"MSG({prev},{last}]x{len(entries)}"
        case _:
            shown = [name for name in ("e", "last", "le", "c", "lastseq", "number", "at") if hasattr(frame, name)]
            return f"{type(frame).__name__}({','.join(f'{name}={getattr(frame, name)}' for name in shown)})"
