"""A folder of segments that one process appends to: files 000001.rclog, 000002.rclog and so on, never signed.

A segment ends when it is full, with the UTC day, and with the life of its writer. One that was not closed stays as it
is, but for a torn block at its end, which is cut off; the header of the next one says so. What cannot be written is
counted, never waited for: then too a new segment begins, and says how much is missing before it.
"""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

from roamcast.middleware.errors import Error
from roamcast.transport.segment_blocks import SegmentHeader
from roamcast.transport.segment_files import end_of, segment_file, segments_in
from roamcast.transport.segment_rows import Event, pack
from roamcast.transport.segment_writer import SegmentEncoder

DIGITS: Final = 6
FOLDER_SEGMENT_BYTES: Final = 16 << 20
DAY_US: Final = 86_400_000_000


class FolderInUse(Error):
    """Another process writes segments into this folder."""


class SegmentFolder:
    """The writer of one folder, which is made if it is not there.

    Args:
        header: makes the header of a segment of (seq, prev, note, opened).

    Raises: FolderInUse, OSError.
    """

    def __init__(self, path: Path, header: Callable[[int, bytes, str, int], SegmentHeader]) -> None:
        self._path = path
        self._header = header
        self._encoder: SegmentEncoder | None = None
        self._owner: Any = None
        self._file = -1
        self._whole = 0
        """Bytes that it holds for sure."""
        self.problem: str | None = None
        """Why the last events could not be written; None: they were."""
        self.unwritten = 0
        """Events of this life that could not be written."""
        self._missing = 0
        """Of these: not told yet by a header."""
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._lock = os.open(path / ".lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            self._keep_others_out()
            self._seq, self._prev, self._note = self._resume()
        except BaseException:
            os.close(self._lock)
            raise

    def _keep_others_out(self) -> None:
        with contextlib.suppress(ImportError):  # no such locks on this system
            import fcntl

            try:
                fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise FolderInUse(f"{self._path} is in use by another process") from None

    def _resume(self) -> tuple[int, bytes, str]:
        """Number of the next segment, chain end before it, and what its header has to say of that one."""
        last = max(segments_in(self._path, DIGITS), default=0)
        if not last:
            return 1, b"", ""
        data = self._file_of(last).read_bytes()
        if not data:  # its writer was killed before it wrote anything
            self._file_of(last).unlink()
            return self._resume()
        end, whole, closed = end_of(data)
        if closed:
            return last + 1, end, ""
        if not end:
            return last + 1, b"", f"segment {last} has no header"
        note = f"segment {last} was not closed: what came last may be missing"
        if whole < len(data):
            os.truncate(self._file_of(last), whole)
            note += f"; {len(data) - whole} bytes of a torn block were cut off"
        return last + 1, end, note

    def _file_of(self, number: int) -> Path:
        return segment_file(self._path, number, DIGITS)

    def write(self, events: Sequence[Event], wall: int, owner: Any = None) -> None:
        """Append the events as one block; none: begin a segment if there is none. Never raises OSError: see `problem`.

        wall: now, microseconds UTC. owner: what the header depends on; with another one a new segment begins.
        """
        try:
            if self._encoder is not None and (owner != self._owner or self._is_over(self._encoder, wall)):
                self._close_segment(self._encoder, wall)
            self._owner = owner
            self._append(events, wall)
        except OSError as error:
            self.problem = f"{error.strerror}"
            self.unwritten += len(events)
            self._missing += len(events)
            self._leave_segment()
        else:
            self.problem = None

    def close(self, wall: int, whole: bool = True) -> None:
        """End the segment, and let others in. whole: nothing of what happened is missing at its end."""
        try:
            if self._encoder is not None and whole:
                self._close_segment(self._encoder, wall)
        except OSError as error:
            self.problem = f"{error.strerror}"
        finally:
            self._leave_segment()
            os.close(self._lock)

    def _is_over(self, encoder: SegmentEncoder, wall: int) -> bool:
        return encoder.size >= FOLDER_SEGMENT_BYTES or encoder.full or encoder.header.opened // DAY_US != wall // DAY_US

    def _append(self, events: Sequence[Event], wall: int) -> None:
        """Write one block, behind a header if there is no segment yet: a file with less is never there."""
        head = b""
        if self._encoder is None:
            missing = f"{self._missing} events before this could not be written" if self._missing else ""
            note = "; ".join(filter(None, (self._note, missing)))
            flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
            self._file = os.open(self._file_of(self._seq), flags, 0o600)
            self._encoder = SegmentEncoder(self._header(self._seq, self._prev, note, wall))
            head = self._encoder.head()
            self._encoder.accept(head)
            self._whole = 0
        numbered = enumerate(events, self._encoder.events)
        packed = [pack(event, number, at, values) for number, (event, at, values) in numbered]
        data = self._encoder.data(packed) if packed else b""
        self._write(head + data)
        if packed:
            self._encoder.accept(data)
        if head:
            self._note, self._missing = "", 0

    def _write(self, data: bytes) -> None:
        if os.write(self._file, data) < len(data):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self._whole += len(data)

    def _close_segment(self, encoder: SegmentEncoder, wall: int) -> None:
        self._write(encoder.trailer(wall))
        os.fsync(self._file)
        self._leave_segment()

    def _leave_segment(self) -> None:
        """Close the file, with its whole blocks; without any it is not there."""
        encoder, self._encoder = self._encoder, None
        file, self._file = self._file, -1
        if file < 0:
            return
        with contextlib.suppress(OSError):
            if encoder is None or not self._whole:
                self._file_of(self._seq).unlink()
            else:
                self._seq, self._prev = self._seq + 1, encoder.end
                os.ftruncate(file, self._whole)
        os.close(file)
