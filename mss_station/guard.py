"""Commits, and what the station does while they fail: nothing is acknowledged, and it resumes by itself.

`open`: all is well. `reserve`: there was no room; the reserve file was given up so that acknowledgements, collection
and handoffs still commit; hosts' messages and peers' rows are not taken. `closed`: not even that goes through, or the
store cannot be written or is locked by another process; nothing is taken in.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from typing import Final

from roamcast.middleware.settings import SECOND
from roamcast.middleware.writes import PutStart
from roamcast.mss_station.errors import StoreFull, StoreNotCommitted
from roamcast.mss_station.kill_points import KillPoint
from roamcast.mss_station.store import Store, StoreWrite
from roamcast.mss_station.tally import Tally

PROBE_INTERVAL: Final = SECOND
TELL_INTERVAL: Final = 10 * SECOND
NO_ROOM: Final = "the disk of the station's store is almost full: it has no room for the reserve"

_log = logging.getLogger("roamcast.station")


class StoreGuard:
    """The store behind its failures.

    Args:
        starts: count of this life; writing it again is the probe.
        wall: reads the clock, UTC microseconds.
    """

    def __init__(self, store: Store, starts: int, tally: Tally, kill: KillPoint, wall: Callable[[], int]) -> None:
        self._store = store
        self._probe_write = (PutStart(starts),)
        self._tally = tally
        self._kill = kill
        self._wall = wall
        self.state = "open" if store.restore_reserve() else "reserve"
        self.reason: str | None = None if self.state == "open" else NO_ROOM
        """What hosts and operators are told; None while all is well."""
        self.since = 0
        self._probe_at = 0
        self._tell_at = 0

    def commit(self, writes: Sequence[StoreWrite], now: int) -> bool:
        """Make `writes` durable; False: rolled back, and the state of the guard has changed.

        Raises:
            StoreUnusable: the store is damaged.
        """
        self._kill.reached("before-commit")
        begin = time.perf_counter()
        try:
            self._store.commit(writes)
        except StoreNotCommitted as error:
            self._failed(error, now)
            return False
        self._tally.committed(time.perf_counter() - begin)
        self._kill.reached("after-commit")
        return True

    def _failed(self, error: StoreNotCommitted, now: int) -> None:
        self._tally.count("commits_failed")
        spare = isinstance(error, StoreFull) and self.state == "open" and self._store.release_reserve()
        self.state = "reserve" if spare else "closed"
        self.reason = str(error)
        self.since = self._wall()
        self._probe_at = now + PROBE_INTERVAL
        self._tell_at = now + TELL_INTERVAL
        self._tell()

    def unreadable(self, error: StoreNotCommitted, now: int) -> None:
        """The store could not be read; it is treated like a failed commit."""
        self.state = "closed"
        self._failed(error, now)

    def probe(self, now: int) -> bool:
        """If one is due, try whether commits go through again; True: the state has improved."""
        if self.state == "open" or now < self._probe_at:
            return False
        self._probe_at = now + PROBE_INTERVAL
        if now >= self._tell_at:
            self._tell_at = now + TELL_INTERVAL
            self._tell()
        before = self.state
        try:
            self._store.commit(self._probe_write)
        except StoreNotCommitted as error:
            self.reason = str(error)
            return False
        if self._store.restore_reserve():
            self.state, self.reason = "open", None
            _log.warning("store_works_again: messages are taken again")
        else:
            self.state, self.reason = "reserve", NO_ROOM
        return self.state != before

    def _tell(self) -> None:
        taken = "no messages are taken" if self.state == "reserve" else "nothing is taken in"
        _log.error("store_failed: %s; %s until it works again", self.reason, taken)
