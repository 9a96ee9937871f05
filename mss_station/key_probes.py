"""Which peers let a new CURVE key in: found out by connecting to them under it (see `rotation`)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import zmq

from roamcast.middleware.settings import SECOND
from roamcast.transport.curve import CurveKeys
from roamcast.transport.sockets import UP, LinkMonitor, connect_host

PAUSE: Final = 10 * SECOND
"""Until a peer that did not let the key in is asked again."""

PeerAddress = tuple[str, str]
"""(endpoint for stations, CURVE public key under which that is served, Z85)."""


class KeyProbes:
    """One connection to each peer until it lets the key in. A peer's ZAP answers from what it has durably.

    Args:
        keys: the new pair.
    """

    def __init__(self, context: zmq.Context[zmq.Socket[bytes]], keys: CurveKeys) -> None:
        self._context = context
        self._keys = keys
        self._open: dict[str, tuple[zmq.Socket[bytes], LinkMonitor]] = {}
        self._due: dict[str, int] = {}
        self._let_in: set[str] = set()

    def look(self, peers: Mapping[str, PeerAddress], now: int) -> list[str]:
        """Carry on, without waiting; call it about once a second.

        Args:
            peers: every active member but this station, by id.
            now: monotonic microseconds.

        Returns:
            Ids of the peers that have not let the key in yet.
        """
        for gone in [id for id in self._open if id not in peers]:
            self._hang_up(gone)
        self._let_in &= set(peers)
        waiting = [id for id in sorted(peers) if id not in self._let_in]
        for id in waiting:
            if id in self._open:
                self._see(id, now)
            elif now >= self._due.get(id, now):
                self._open[id] = connect_host(self._context, peers[id][0], self._keys, peers[id][1])
        return [id for id in waiting if id not in self._let_in]

    def close(self) -> None:
        """Hang up."""
        for id in list(self._open):
            self._hang_up(id)

    def _see(self, id: str, now: int) -> None:
        changes = self._open[id][1].changes()
        if not changes:
            return
        self._hang_up(id)
        self._due[id] = now + PAUSE
        if UP in changes:
            self._let_in.add(id)

    def _hang_up(self, id: str) -> None:
        socket, monitor = self._open.pop(id)
        monitor.close()
        socket.close()
