"""Who may come in: the answers to ZAP, and the names and numbers behind a connection's User-Id.

A User-Id is "host:NAME", "station:ID", or "join:KEY" of a connection under the one-time key of an invitation.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from typing import Final

from roamcast.middleware.settings import MS, SECOND
from roamcast.mss_station.buckets import Buckets
from roamcast.mss_station.directory import Directory
from roamcast.mss_station.schema import ENDED, HostCard
from roamcast.mss_station.tally import Tally
from roamcast.transport.publish_sockets import PUBLISH
from roamcast.transport.station_sockets import HOSTS, STATIONS
from roamcast.transport.zap import TRY_LATER

FILES_SPARE: Final = 64
"""Files kept for the store, the peers and commands: hosts are refused before none is left (field case BL-34)."""

COUNT_INTERVAL: Final = 100 * MS

HANDSHAKES_BURST: Final = 20
HANDSHAKE_INTERVAL: Final = SECOND
"""Of each key, or as often as a host may attach. One that opens thousands wants libzmq's next id or all the files."""


class Access:
    """Decides by keys, which come from the directory.

    Args:
        files_max: files that this process may have open, connections among them.
        now: monotonic microseconds.
        invited: whether a key is that of an open invitation.
    """

    def __init__(
        self,
        directory: Directory,
        files_max: int,
        tally: Tally,
        now: Callable[[], int],
        invited: Callable[[str], bool],
    ) -> None:
        self._directory = directory
        self._invited = invited
        self._files_max = files_max
        self._tally = tally
        self._now = now
        self._bans: dict[str, int] = {}
        self._handshakes = Buckets()
        self._files = 0
        self._counted_at = -COUNT_INTERVAL

    def number_of(self, name: str) -> int | None:
        """Number of the host `name`; None if it is not enrolled or was revoked."""
        card = self._directory.named(name)
        return None if card is None else card.number

    def slot_of(self, station: str) -> int | None:
        """Slot of an active peer by its id."""
        card = self._directory.peer(station)
        return None if card is None else card.slot

    def retired(self, station: str) -> str | None:
        """What to tell a station that is no active member any more; None: it is one, or never was."""
        over = [record for record in self._directory.members() if record.id == station and record.state in ENDED]
        return f"the group has ended the membership of {station}: it is {over[0].state}" if over else None

    def ban(self, name: str, until: int) -> None:
        """Refuse the handshakes of host `name` until a time: it has sent what is no frame."""
        if self._directory.named(name) is not None:
            self._bans[name] = until

    def allow(self, domain: str, key: str, address: str) -> str | None:
        """The User-Id for a key that asks to come in at `domain`; TRY_LATER: too often; None: refused.

        A station whose membership has ended comes in to be told so.
        """
        former = self._directory.former(key) if domain == STATIONS else None
        station = former or (self._directory.station(key) if domain in (STATIONS, PUBLISH) else None)
        host = self._directory.host(key) if domain == HOSTS else None
        joins = station is None and domain == STATIONS and self._invited(key)
        if station is None and host is None and not joins:
            return None
        settings = self._directory.settings()
        burst = max(HANDSHAKES_BURST, settings.attach_burst)
        interval = min(HANDSHAKE_INTERVAL, settings.attach_interval)
        if not self._handshakes.take((domain, key), self._now(), burst, interval):
            self._tally.count("refused.handshake_rate")
            return TRY_LATER
        if station is not None:
            return f"station:{station.id}"
        if joins:
            return f"join:{key}"
        return None if host is None else self._allow_host(host)

    def _allow_host(self, host: HostCard) -> str | None:
        if self._bans.get(host.name, 0) > self._now():
            self._tally.count("refused.banned")
            return None
        self._bans.pop(host.name, None)
        if self._out_of_files():
            self._tally.count("refused.out_of_files")
            self._tally.line(
                logging.ERROR,
                "out_of_files",
                f"this process may open {self._files_max} files; hosts are refused until some are free",
            )
            return None
        return f"host:{host.name}"

    def report(self, domain: str, count: int, key: str, address: str) -> None:
        """Log refusals; ZAP calls it now and then. A public key is no secret, and tells whose it is."""
        text = f"{count} connections to {domain}, the last from {address} with key {key or 'none'}"
        self._tally.line(logging.WARNING, "keys_refused", text, domain)

    def _out_of_files(self) -> bool:
        now = self._now()
        if now - self._counted_at >= COUNT_INTERVAL:
            self._counted_at = now
            try:
                self._files = len(os.listdir("/dev/fd"))
            except OSError:  # no such view of the process here, or no file left to look at it
                self._files = self._files_max if os.path.isdir("/dev/fd") else 0
        else:
            self._files += 1
        return self._files + FILES_SPARE >= self._files_max
