"""The newest closed segment of every station, in the configuration that all share: no station can hide its own end.

Source: audit.md R4 and 2.4.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from roamcast.middleware.effects import Notice
from roamcast.middleware.lan_update.errors import LanRefused
from roamcast.middleware.lan_update.records import Entry
from roamcast.mss_station.errors import SchemaError
from roamcast.mss_station.log.writer import DeliveryLog
from roamcast.mss_station.own_record import Put
from roamcast.mss_station.schema import LOGS, LogHead, log_key, log_value, read_log
from roamcast.mss_station.tally import Tally
from roamcast.transport.station_files import StationCard


def read_heads(entries: Mapping[str, Entry]) -> dict[int, LogHead]:
    """By slot. What cannot be read is left out."""
    heads: dict[int, LogHead] = {}
    for key, entry in entries.items():
        if key.startswith(LOGS) and entry.value is not None:
            try:
                head = read_log(key, entry.value)
            except SchemaError:
                continue
            heads[head.slot] = head
    return heads


class OwnHead:
    """Puts the head of this station's log after each segment that was closed.

    Args:
        open_tick: to be called before `put`.
    """

    def __init__(
        self,
        card: StationCard,
        log: DeliveryLog,
        open_tick: Callable[[], None],
        put: Put,
        tally: Tally,
    ) -> None:
        self._card = card
        self._log = log
        self._open_tick = open_tick
        self._put = put
        self._tally = tally
        self._told = 0

    def publish(self) -> None:
        """If there is a new one: put it. Where that is refused now, it is tried again."""
        head = self._log.head
        if head is None or head[0] == self._told:
            return
        card = self._card
        self._open_tick()
        try:
            self._put(log_key(card.id), log_value(LogHead(card.slot, card.generation, *head)))
        except LanRefused as error:
            self._tally.notice(Notice("warning", "log_head_not_published", {"reason": str(error)}))
            return
        self._told = head[0]
