"""The writer of a station's delivery log.

What a tick tells goes into the tail of the store, in the tick's own transaction, and into memory; once a second, or
every `BLOCK_EVENTS` events, one block of it is appended to the segment file and synced, and the next transaction drops
that part of the tail. So the log holds what the store holds, after any crash; a block that cannot be written (disk
full) stays in memory and in the tail, and the operator is told. What is told of live messages stands in no tail, and a
block of that alone is not synced.

Source: audit.md 2; docs/protocols/delivery-log.md.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

from roamcast.middleware.delivery_log import ACK, HANDOFF, HOST, LIVE_EVENTS, MEMBER, ORDER, SESSION, Logged
from roamcast.middleware.effects import Effect, Notice
from roamcast.middleware.settings import DAY, SECOND
from roamcast.mss_station.clock import Clock
from roamcast.mss_station.log.files import FOLDER, Resumed, remove_old, resume, segment_path
from roamcast.mss_station.log.live import LiveRecords
from roamcast.mss_station.schema import LogHead
from roamcast.mss_station.signing import Signer
from roamcast.mss_station.store import STORE_NAME, DropTail, PutTail, TailWrite
from roamcast.mss_station.store.failures import damaged
from roamcast.mss_station.tally import Tally
from roamcast.transport.errors import DecodeError
from roamcast.transport.segment_blocks import STATION, SegmentHeader, key_id
from roamcast.transport.segment_rows import Packed, numbered, pack
from roamcast.transport.segment_writer import SegmentEncoder
from roamcast.transport.station_files import StationCard
from roamcast.transport.tail_codec import TailPart, decode_tail, encode_tail, lacking

BLOCK_EVENTS: Final = 1_024
BLOCK_AGE: Final = SECOND
SEGMENT_AGE: Final = 900 * SECOND
WAITING_MAX: Final = 200_000
"""Events that may wait in memory for a disk that takes no blocks; then hosts wait."""
RETRY: Final = 5 * SECOND
PRUNE_INTERVAL: Final = 3_600 * SECOND

KEEP: Final = 30 * DAY

HOST_COLUMN: Final = {ORDER: 4, SESSION: 0, ACK: 0, MEMBER: 0, HANDOFF: 0}


class DeliveryLog:
    """What the station appends to.

    Args:
        directory: the station's.
        signer: signs what is closed.
        tail: what the store held at the start.
        heads: the newest closed segments of all stations, by slot, as the configuration has them at the start.
    """

    def __init__(
        self,
        directory: Path,
        card: StationCard,
        signer: Signer,
        tail: Sequence[PutTail],
        heads: Mapping[int, LogHead],
        clock: Clock,
        tally: Tally,
    ) -> None:
        self._directory = directory
        self._card = card
        self._signer = signer
        self.heads: Callable[[], Mapping[int, LogHead]] = lambda: heads
        """The same, as they are now."""
        self.name_of: Callable[[int], str | None] = lambda number: None
        """The name of a host number; None: not known."""
        self.keep: Callable[[], int] = lambda: KEEP
        """How long closed segments stay, microseconds."""
        self.is_safe: Callable[[int], bool] = lambda seq: True
        """Whether a segment that is older may go; one that an upload waits for may not."""
        self._live = LiveRecords(lambda number: self.name_of(number))
        self._prune_at = 0
        self._now, self._wall = clock.now, clock.wall
        self._tally = tally
        self._named: set[int] = set()
        self._file: int | None = None
        self._waiting: list[Packed] = []
        """Events that no block holds."""
        self._kept = 0
        """So many of them are in the store's tail."""
        self._before = 0
        """Waiting events before the open tick."""
        self._synced = 0
        """Events of the open segment that no crash of the machine can take."""
        self._in_tick = False
        """Whether it is not known yet what becomes of the last tick."""
        self._tail_id = tail[-1].id if tail else 0
        self._drop = 0
        """Tail up to this id can go: synced blocks hold it."""
        self._moved = False
        """What waits goes into another segment than the tail says: the tail comes first."""
        self._oldest = 0
        """When the first of the waiting events came."""
        self._retry_at = 0
        self.problem: str | None = None
        """Why no blocks are written."""
        self.head: tuple[int, bytes] | None = None
        """Number and chain end of the last segment that was closed in this life."""
        (directory / FOLDER).mkdir(mode=0o700, exist_ok=True)
        own = heads.get(card.slot)
        self.is_new = self._start(tail, own.seq if own is not None and own.generation == card.generation else 0)
        """Nothing was ever logged here."""

    def _start(self, tail: Sequence[PutTail], anchored: int) -> bool:
        kept = [self._read(each.events) for each in tail]
        found = resume(self._directory, max([anchored, *(part.segment - 1 for part in kept)]))
        written = found.encoder.events if found.encoder is not None else 0
        reach, synced = lacking(kept, found.seq, written)
        waiting = [
            event
            for part in kept
            if part.segment >= found.seq
            for event in part.events[max(0, written - part.first) if part.segment == found.seq else 0 :]
        ]
        if reach and written >= synced:  # events about live messages, which nobody had synced
            self._moved = bool(waiting)
        elif reach:
            note = f"segment {found.seq}: events {written} to {reach - 1} are not here any more"
            prev = b"" if found.encoder is None else found.encoder.end
            found, written, self._moved = Resumed(found.seq + 1, prev, None, note, 0), 0, bool(waiting)
        self._seq, self._prev, self._note = found.seq, found.prev, found.note
        self._encoder = found.encoder
        self._synced = written
        self._reached = self._wall() if found.reached is None else found.reached
        """When the last segment was closed, UTC microseconds."""
        self._waiting = [numbered(event, number) for number, event in enumerate(waiting, written)]
        self._kept = 0 if self._moved else len(self._waiting)
        self._drop = self._tail_id if self._moved or not self._waiting else 0
        if found.note:
            self._tally.notice(Notice("alarm", "log_incomplete", {"text": found.note}))
        return found.seq == 1 and found.encoder is None and not tail

    def _read(self, data: bytes) -> TailPart:
        try:
            return decode_tail(data)
        except DecodeError as error:
            raise damaged(self._directory / STORE_NAME, f"the tail of the delivery log: {error.reason}") from None

    # ---- ticks ----

    def take(self, effects: Sequence[Effect], commits: bool) -> list[TailWrite]:
        """Take the events of a tick. commits: it has a transaction; returns what belongs into that."""
        waiting = self._waiting
        self._before, self._in_tick = len(waiting), True
        told = [effect for effect in effects if type(effect) is Logged]
        logged = [effect for effect in told if effect.event not in LIVE_EVENTS]
        wall = self._wall() if told else 0
        if len(logged) < len(told):
            self._live.take(told, wall)
        if logged:
            named = self._named
            written = self._written
            if not waiting:
                self._oldest = self._now()
            for effect in logged:
                event, values = effect.event, effect.values
                column = HOST_COLUMN.get(event)
                if column is not None and (host := values[column]) not in named:
                    named.add(host)
                    name = self.name_of(host)
                    if name is not None:
                        waiting.append(pack(HOST, written + len(waiting), wall, (host, name)))
                waiting.append(pack(event, written + len(waiting), wall, values))
        if not commits or (self._kept == len(waiting) and not self._drop):
            return []
        synced = self._synced if self._synced < self._written else None
        tail_of = encode_tail(self._seq, self._written + self._kept, waiting[self._kept :], synced)
        tail = PutTail(self._tail_id + 1, tail_of)
        return [DropTail(self._drop), tail] if self._drop else [tail]

    def closed(self, committed: bool, commits: bool) -> None:
        """The tick was committed, had nothing to commit, or was rolled back."""
        self._in_tick = False
        self._live.closed(committed, self._now())
        if not committed:
            del self._waiting[self._before :]
            self._named.clear()
        elif commits:
            self._moved = False
            self.is_new = self.is_new and not self._waiting  # a newcomer commits before it has anything to tell
            if self._kept < len(self._waiting) or self._drop:
                self._tail_id += 1
            self._kept, self._drop = len(self._waiting), 0

    @property
    def _written(self) -> int:
        """Events in the open segment."""
        return self._encoder.events if self._encoder is not None else 0

    # ---- blocks ----

    @property
    def _waits(self) -> bool:
        return bool(self._waiting) or len(self._live) > 0

    @property
    def _since(self) -> int:
        """Since when it does. Nothing is synced earlier for the sake of live messages."""
        return self._oldest if self._waiting else self._live.oldest

    def look(self) -> None:
        """Between ticks: write what is due."""
        now = self._now()
        if now >= self._prune_at:
            self._prune_at = now + PRUNE_INTERVAL
            self._prune()
        if self._moved or (self.problem is not None and now < self._retry_at):
            return
        if self._waits and (now >= self._since + BLOCK_AGE or len(self._waiting) >= BLOCK_EVENTS):
            self._try(self._write)
        if not self._waiting and self._is_over():
            self._try(self._close_segment)

    def _prune(self) -> None:
        lost = remove_old(self._directory, self._seq, self._wall() - self.keep(), self.is_safe)
        if lost:
            text = f"{lost} segments were removed although they are not uploaded: less than a tenth of the disk is free"
            self._tally.notice(Notice("alarm", "log_removed_early", {"text": text}))

    def next_deadline(self) -> int | None:
        """When `look` has something to do; None: nothing waits."""
        if self._moved or not self._waits:
            return None
        return self._retry_at if self.problem is not None else self._since + BLOCK_AGE

    @property
    def shut(self) -> str | None:
        """Why hosts must wait: so much waits for the disk; None: they need not."""
        return f"the delivery log cannot be written: {self.problem}" if len(self._waiting) >= WAITING_MAX else None

    def _is_over(self) -> bool:
        """Whether a segment must end now. One does with each UTC day, an empty one if nothing has happened."""
        encoder, wall = self._encoder, self._wall()
        if encoder is None:
            return not self.is_new and self._reached // DAY != wall // DAY
        opened = encoder.header.opened
        aged = encoder.events and wall >= opened + SEGMENT_AGE
        return bool(aged or encoder.full or opened // DAY != wall // DAY)

    def _try(self, step: Callable[[], None]) -> None:
        """A step that needs the disk; if that fails, the operator is told, and it is done later."""
        try:
            step()
        except OSError as error:
            self._failed(error)
            return
        if self.problem is not None:
            self.problem = None
            self._tally.notice(Notice("warning", "log_works_again", {}))

    def _write(self) -> None:
        """Append the waiting events as a block, and sync. Raises OSError."""
        if self._was_changed():
            self._leave_segment()
        if self._moved:
            return
        encoder = self._encoder or self._open_segment()
        live = self._live.packed(encoder.events + len(self._waiting))
        self._append(encoder, encoder.data([*self._waiting, *live]), sync=bool(self._waiting))
        self._live.written()
        if self._waiting:
            self._waiting.clear()
            self._kept = 0
            self._drop = self._tail_id

    def _append(self, encoder: SegmentEncoder, data: bytes, sync: bool = True) -> None:
        """All of `data`, or the file as it was. The encoder takes note once it is safe."""
        if self._file is None:  # of a segment that a former life has begun
            self._file = os.open(segment_path(self._directory, self._seq), os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
        size = encoder.size
        try:
            written = os.write(self._file, data)
            if written < len(data):
                raise OSError(28, os.strerror(28))
            if sync:
                os.fsync(self._file)
        except OSError:
            if os.fstat(self._file).st_size > size:
                os.ftruncate(self._file, size)
            raise
        encoder.accept(data)
        self._synced = encoder.events if sync else self._synced

    def _was_changed(self) -> bool:
        """Whether something else has cut or replaced the file that is written. What was added to it is cut off."""
        encoder, path = self._encoder, segment_path(self._directory, self._seq)
        if encoder is None:
            return False
        try:
            there = path.stat()
        except FileNotFoundError:
            return True
        mine = there if self._file is None else os.fstat(self._file)
        if (there.st_ino, there.st_dev) != (mine.st_ino, mine.st_dev) or there.st_size < encoder.size:
            return True
        if there.st_size > encoder.size:
            os.truncate(path, encoder.size)
        return False

    def _leave_segment(self) -> None:
        """Another one begins; what waits is put into the tail under its number before."""
        encoder = self._encoder
        assert encoder is not None
        note = f"segment {self._seq} was cut or replaced by something else while it was written: {encoder.size} bytes"
        self._tally.notice(Notice("alarm", "log_incomplete", {"text": note}))
        self._let_go()
        self._seq, self._prev, self._encoder, self._note, self._reached = self._seq + 1, encoder.end, None, note, 0
        self._waiting = [numbered(event, number) for number, event in enumerate(self._waiting)]
        self._kept, self._moved, self._drop = 0, bool(self._waiting), self._tail_id
        self._named.clear()

    def _open_segment(self) -> SegmentEncoder:
        path = segment_path(self._directory, self._seq)
        card, peers = self._card, {slot: (head.seq, head.end) for slot, head in self.heads().items()}
        header = SegmentHeader(
            writer=STATION, group=card.group, id=card.id, slot=card.slot, generation=card.generation, seq=self._seq,
            prev=self._prev, opened=self._wall(), key=key_id(self._signer.public), note=self._note, peers=peers,
            software=f"roamcast {version('roamcast')}",
        )  # fmt: skip
        encoder = SegmentEncoder(header)
        head = encoder.head()
        self._live.begin_segment()
        path.parent.mkdir(mode=0o700, exist_ok=True)
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        try:
            self._append(encoder, head)
        except OSError:
            self._let_go()
            raise
        self._encoder, self._note = encoder, ""
        return encoder

    def _close_segment(self) -> None:
        """End the segment; without one, begin one first. Raises OSError."""
        if self._was_changed():
            self._leave_segment()
        encoder, wall = self._encoder or self._open_segment(), self._wall()
        if encoder.header.key == key_id(self._signer.public):  # else it was renewed meanwhile: it stays open
            self._append(encoder, encoder.trailer(wall, self._signer.sign_segment))
            self.head = self._seq, encoder.end
        self._let_go()
        self._encoder, self._prev, self._reached = None, encoder.end, wall
        self._seq, self._drop = self._seq + 1, self._tail_id
        self._named.clear()

    def _failed(self, error: OSError) -> None:
        self._retry_at = self._now() + RETRY
        if self.problem is None:
            self.problem = f"{error.strerror}"
            text = f"the delivery log cannot be written: {error.strerror}; its events wait in the store"
            self._tally.notice(Notice("alarm", "log_failed", {"text": text}))

    def cut(self) -> None:
        """What waits is written, and the segment is closed: before the key that signs is renewed."""
        if self._waits:
            self._try(self._write)
        if not self._waiting and self._encoder is not None:
            self._try(self._close_segment)

    def close(self) -> list[TailWrite]:
        """The station ends. Returns what its store is to hold then.

        Within a tick it is not known what was committed: all is left as it is, as after a crash.
        """
        if self._in_tick:
            self._let_go()
            return []
        self.cut()
        self._let_go()
        return self.take((), True)

    def _let_go(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def status(self) -> dict[str, Any]:
        """For `mss-station status`."""
        encoder = self._encoder
        opened = None if encoder is None else datetime.fromtimestamp(encoder.header.opened / SECOND, UTC).isoformat()
        return {
            "segment": self._seq,
            "opened": opened,
            "events": 0 if encoder is None else encoder.events,
            "bytes": 0 if encoder is None else encoder.size,
            "waiting": len(self._waiting),
            "problem": self.problem,
        }
