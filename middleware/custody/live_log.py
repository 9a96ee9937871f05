"""What a station tells its delivery log of live messages. Source: docs/protocols/delivery-log.md.

Misses are added up over a tick, so a flood of them is a few events. None of it is a fact of the store.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from roamcast.middleware.custody.ledger import Ledger
from roamcast.middleware.custody.record import Record
from roamcast.middleware.delivery_log import CAUSES, HANDED, LIVE, MISSED
from roamcast.middleware.delta_causal.past import Id
from roamcast.middleware.live_frames import LiveCast

_CODES = {cause: code for code, cause in enumerate(CAUSES)}
_NO_MISSES = frozenset({"taken", "given"})


class LiveLog:
    """Of one life of one station."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._told: Counter[str] = Counter()
        """What was counted before this tick."""
        self._by_slot: Counter[tuple[str, int]] = Counter()
        """Of this tick, where it is known whose message it was."""

    def taken(self, record: Record, number: int, cast: LiveCast) -> None:
        """A host's live message goes out. number: of the last own message that it comes after."""
        past = [value for stamp, slot in cast.past.entries for value in (slot, stamp)]
        floor = [value for pair in cast.floor for value in pair]
        self._ledger.log(
            LIVE, cast.stamp, *record.mh, record.sess, number, cast.kind, cast.addressee, cast.delta, cast.deadline,
            len(cast.body), cast.past.horizon, past, floor,
        )  # fmt: skip

    def handed(self, name: Id, reading: int, hosts: int) -> None:
        """It goes to so many hosts here, behind all rows that have places; the clock reads `reading`."""
        if hosts:
            self._ledger.log(HANDED, name[1], name[0], self._ledger.table.last_position, reading, hosts)

    def dropped(self, cause: str, slot: int) -> None:
        """The core has not taken a message of that station; it is among the counts of this tick."""
        self._by_slot[cause, slot] += 1

    def flush(self, counts: Mapping[str, int]) -> None:
        """The tick ends. counts: by cause, since the start."""
        if counts == self._told:
            return
        for cause, count in counts.items():
            more = count - self._told[cause]
            if more and cause not in _NO_MISSES:
                self._miss(cause, more)
        self._told = Counter(counts)
        self._by_slot.clear()

    def _miss(self, cause: str, more: int) -> None:
        code = _CODES.get(cause, 0)
        for (why, slot), count in sorted(self._by_slot.items()):
            if why == cause:
                self._ledger.log(MISSED, code, slot, count)
                more -= count
        if more:
            self._ledger.log(MISSED, code, 0, more)
