"""Lives of one station's delivery log, without a station: its clock stands, and its store is a list."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from roamcast.middleware.delivery_log import CLOSED, Logged
from roamcast.middleware.settings import DAY
from roamcast.mss_station.log.files import segment_path, segments
from roamcast.mss_station.log.writer import DeliveryLog
from roamcast.mss_station.schema import LogHead
from roamcast.mss_station.signing import Signer
from roamcast.mss_station.store import DropTail, PutTail, TailWrite
from roamcast.mss_station.tally import Tally
from roamcast.transport.segment import read_segment
from roamcast.transport.segment_keys import SignedBy
from roamcast.transport.station_files import StationCard

SECRET = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
CARD = StationCard("north", 3, "g", 77, "tcp://n:1", "tcp://n:2", "k" * 40, "00" * 32)
WALL = 1_800_000_000_000_000
MIDNIGHT = DAY - WALL % DAY


class Life:
    """Lives of one station's log: its clock, and the tail as the store would hold it."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.time = 0
        self.tail: list[PutTail] = []
        self.heads: dict[int, LogHead] = {}
        self.tally = Tally()
        self.start()

    def now(self) -> int:
        return self.time

    def wall(self) -> int:
        return WALL + self.time

    def start(self) -> None:
        clock: Any = self
        self.log = DeliveryLog(self.directory, CARD, Signer(SECRET, "g"), self.tail, self.heads, clock, self.tally)
        self.log.keep = lambda: 40 * 366 * DAY  # files have the time of this machine

    def tick(self, *numbers: int, commits: bool = True, committed: bool = True) -> None:
        """A tick that tells these numbers."""
        writes = self.log.take([Logged(CLOSED, (number, 0, 0)) for number in numbers], commits)
        if committed:
            self._commit(writes)
        self.log.closed(committed, commits)

    def _commit(self, writes: list[TailWrite]) -> None:
        for write in writes:
            match write:
                case DropTail(upto):
                    self.tail = [each for each in self.tail if each.id > upto]
                case PutTail():
                    assert all(each.id < write.id for each in self.tail)
                    self.tail.append(write)

    def logged(self) -> list[int]:
        """What stands in all files, which must hold, follow each other and be numbered without a hole."""
        found: list[int] = []
        prev = b""
        for seq in segments(self.directory):
            segment = read_segment(segment_path(self.directory, seq).read_bytes(), verify)
            assert segment.status in ("closed", "open"), (segment.status, segment.reason)
            assert (segment.header.seq, segment.header.prev) == (seq, prev)
            columns = segment.columns(CLOSED)
            assert list(columns.get("seq", ())) == list(range(segment.events))
            found += list(columns.get("slot", ()))
            prev = segment.end
        return found


verify = SignedBy([SECRET.public_key().public_bytes_raw()])
