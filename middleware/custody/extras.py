"""What a custody record carries of topics, packed into its extensions: it goes wherever the record goes."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Mapping

from roamcast.middleware.rows import MessageId

SUBS, DEAD, SHOWN = "subs", "dead", "shown"
"""Names of the extensions."""

Subs = dict[int, MessageId]
"""Topic -> the SUB by which it is subscribed."""
Dead = dict[MessageId, tuple[str, bool]]
"""SUB that was ended by others than the host -> (topic, whether the host is known to know); (0, 0): every SUB."""
Shown = tuple[int, bool]
"""(attempt, attached): what was last said of the host's presence."""

_SUB = struct.Struct(">QIQ")
_DEAD = struct.Struct(">IQ?B")
_SHOWN = struct.Struct(">Q?")


def pack_subs(subs: Subs) -> bytes:
    """20 bytes a subscription."""
    return b"".join(_SUB.pack(topic, slot, n) for topic, (slot, n) in sorted(subs.items()))


def pack_dead(dead: Dead) -> bytes:
    """14 bytes and the name for each."""
    parts = []
    for (slot, n), (topic, told) in sorted(dead.items()):
        name = topic.encode()[:255]
        parts += [_DEAD.pack(slot, n, told, len(name)), name]
    return b"".join(parts)


def pack_shown(shown: Shown | None) -> bytes:
    """9 bytes, or none."""
    return b"" if shown is None else _SHOWN.pack(*shown)


def unpack(ext: Mapping[str, bytes]) -> tuple[Subs, Dead, Shown | None]:
    """What the extensions say. Raises ValueError: they are not what `pack_...` has made."""
    try:
        subs = {topic: (slot, n) for topic, slot, n in _SUB.iter_unpack(ext.get(SUBS, b""))}
        dead = dict(_dead(ext.get(DEAD, b"")))
        shown = _SHOWN.unpack(ext[SHOWN]) if SHOWN in ext else None
    except (struct.error, ValueError) as error:
        raise ValueError(f"extensions of a custody record that nobody has made: {error}") from error
    return subs, dead, shown and (shown[0], shown[1])


def _dead(data: bytes) -> Iterator[tuple[MessageId, tuple[str, bool]]]:
    at = 0
    while at < len(data):
        slot, n, told, size = _DEAD.unpack_from(data, at)
        at += _DEAD.size + size
        name = data[at - size : at]
        if len(name) < size:
            raise ValueError("a name is cut off")
        yield (slot, n), (name.decode(), told)


def replaced(ext: Iterable[tuple[str, bytes]], name: str, value: bytes) -> tuple[tuple[str, bytes], ...]:
    """The extensions with this one; without it if it is empty."""
    others = [pair for pair in ext if pair[0] != name]
    return tuple(sorted([*others, (name, value)] if value else others))
