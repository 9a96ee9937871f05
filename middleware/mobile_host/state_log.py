"""The agent's state as an append-only log of small checksummed records, kept in a store that is passed in.

A record is one `Save`, whole or not at all: length (4 bytes), checksum (4 bytes), array of facts [tag, fields ...].
A lone acknowledgement, by far the most frequent one, has a form of its own: top bit of the length, then le and c, then
slot and n of what it has seen.
What a crash tore off the end is cut at the next open. The log is compacted at open and when it has grown to 1 MiB.

A store has `load() -> bytes`, all that was appended, in order, empty at first, and `append(bytes)`, which keeps more,
whole or not at all. It may have `replace(bytes)`, atomic (without it the log is never compacted), `sync()` (without it
`append` must be durable) and `close()`.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any, Final

from roamcast.middleware.mobile_host.errors import StateError
from roamcast.middleware.mobile_host.state import Acked, AgentImage, Fact, from_plain, to_plain

COMPACT_BYTES: Final = 1 << 20
_HEAD: Final = struct.Struct(">II")
_ACKED: Final = struct.Struct(">qq")
_SEEN: Final = struct.Struct(">Hq")
_IS_ACKED: Final = 1 << 31


class StateLog:
    """The log of one agent. It owns the store: also an error here closes it. Whatever the store raises comes through.

    Args:
        store: see above; None: nothing outlives the process.
        encode, decode: plain lists to bytes and back; decode may raise anything for bytes that are not from encode.
        checksum: 32 bits of a byte string.

    Raises:
        StateError: what is stored is damaged, or of another release.
    """

    def __init__(
        self,
        store: Any,
        encode: Callable[[Any], bytes],
        decode: Callable[[bytes], Any],
        checksum: Callable[[bytes], int],
    ) -> None:
        self._store = store
        self._replace, self._sync, self._close = (getattr(store, name, None) for name in ("replace", "sync", "close"))
        self._encode = encode
        self._decode = decode
        self._checksum = checksum
        self._size = 0
        self._compact_at = COMPACT_BYTES
        self._unsynced = False
        self.cut = 0
        """Bytes of an unfinished record that were cut off."""
        try:
            self.image = AgentImage() if store is None else self._compact()
            """The state at the start."""
        except BaseException:
            if self._close is not None:
                self._close()
            raise

    def save(self, facts: tuple[Fact, ...]) -> None:
        """Append one record; `sync` makes it durable."""
        if self._store is None:
            return
        record = self._record(facts)
        self._store.append(record)
        self._size += len(record)
        self._unsynced = True
        if self._replace is not None and self._size > self._compact_at:
            self._compact()

    def sync(self) -> None:
        """Make everything saved durable."""
        unsynced, self._unsynced = self._unsynced, False  # before: after a failed one, another might succeed in vain
        if unsynced and self._sync is not None:
            self._sync()

    def close(self) -> None:
        """Sync, and let go of the store."""
        try:
            self.sync()
        finally:
            if self._close is not None:
                self._close()

    def _record(self, facts: tuple[Fact, ...]) -> bytes:
        match facts:
            case (Acked(le, c, (), seen),):
                payload, form = _ACKED.pack(le, c) + b"".join(_SEEN.pack(slot, n) for slot, n in seen), _IS_ACKED
            case _:
                payload, form = self._encode([to_plain(fact) for fact in facts]), 0
        return _HEAD.pack(len(payload) | form, self._checksum(payload)) + payload

    def _read(self, data: bytes) -> tuple[AgentImage, int]:
        """What the whole records make up, and the bytes that these take."""
        image, end = AgentImage(), 0
        while len(data) - end >= _HEAD.size:
            length, checksum = _HEAD.unpack_from(data, end)
            size = length & ~_IS_ACKED
            payload = data[end + _HEAD.size : end + _HEAD.size + size]
            if not size or len(payload) != size or self._checksum(payload) != checksum:
                break
            try:
                if length & _IS_ACKED:
                    le, c = _ACKED.unpack_from(payload)
                    image.apply(Acked(le, c, (), tuple(_SEEN.iter_unpack(payload[_ACKED.size :]))))
                else:
                    for plain in self._decode(payload):
                        image.apply(from_plain(plain))
            except Exception as error:
                raise StateError("the agent's state was written by another release") from error
            end += _HEAD.size + size
        return image, end

    def _compact(self) -> AgentImage:
        data = self._store.load()
        image, whole = self._read(data)
        self.cut = len(data) - whole
        if self.cut and (not whole or self._replace is None):
            raise StateError("the agent's state is damaged")
        if self._replace is not None:
            record = self._record(image.snapshot())
            self._replace(record)
            self._size, self._compact_at = len(record), max(COMPACT_BYTES, 2 * len(record))
            self._unsynced = False
        return image
