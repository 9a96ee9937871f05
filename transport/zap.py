"""ZAP (RFC 27) answered inside the station's poll loop: if the loop stops, nobody gets in.

libzmq asks over inproc whether a CURVE key may come in. The answer is the connection's User-Id, or 400. A request that
is not as it must be is answered 400 too, or not at all: then its handshake times out.

The answer also gives the connection its routing id, as the property "Identity": random, and unknown to the client.
libzmq takes it instead of what the client brought, unless the answer is there before it has read that; so the answer is
held back for an instant. A client that chooses its id could take the one which the ROUTER counts up to next; libzmq
(4.3.5 and before) then ends the process by an assertion. It could also take that of a former connection of another.
"""

from __future__ import annotations

import secrets
import struct
import time
from collections.abc import Callable
from typing import Final

import zmq
from zmq.utils import z85

ENDPOINT: Final = "inproc://zeromq.zap.01"
VERSION: Final = b"1.0"
REPORT_S: Final = 10.0
KEY_BYTES: Final = 32
ADDRESS_CHARS_MAX: Final = 64
ANSWERS_MAX: Final = 512
HELD_BACK_S: Final = 0.0005
"""libzmq's thread needs a microsecond, but may lose its turn by asking: unheld, it came too late 4 times of 5."""
ID_BYTES: Final = 8

TRY_LATER: Final = ""
Allow = Callable[[str, str, str], str | None]
"""(domain, key in Z85, address) -> User-Id, TRY_LATER, or None: refused."""

Report = Callable[[str, int, str, str], None]
"""(domain, refusals since the last report, key of the last one, its address)."""


class ZapResponder:
    """The one who answers. Make it before any socket binds; poll `socket`, then call `answer`.

    Args:
        report: told of refusals, at most once in ten seconds for each domain.
        clock: seconds, monotonic.
    """

    def __init__(
        self,
        context: zmq.Context[zmq.Socket[bytes]],
        allow: Allow,
        report: Report,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._allow = allow
        self._report = report
        self._clock = clock
        self._unreported: dict[str, int] = {}
        self._report_at: dict[str, float] = {}
        self.refused: dict[str, int] = {}
        """Refusals by domain, since the start."""
        self.socket = context.socket(zmq.ROUTER)
        self.socket.setsockopt(zmq.LINGER, 0)
        self.socket.bind(ENDPOINT)

    def answer(self) -> int:
        """Answer what waits, at most 512 requests; returns how many there were."""
        answers: list[list[bytes]] = []
        taken = 0
        while taken < ANSWERS_MAX:
            try:
                parts = self.socket.recv_multipart(zmq.NOBLOCK)
            except zmq.Again:
                break
            taken += 1
            if len(parts) >= 4 and parts[1] == b"":
                answers.append([parts[0], b"", VERSION, parts[3], *_verdict(self._user(parts[2:]))])
        if any(answer[4] == b"200" for answer in answers):
            time.sleep(HELD_BACK_S)
        for answer in answers:
            self.socket.send_multipart(answer, zmq.NOBLOCK)
        return taken

    def close(self) -> None:
        """Nobody gets in from now on."""
        self.socket.close()

    def _user(self, request: list[bytes]) -> str | None:
        """User-Id for version, request id, domain, address, routing id, mechanism, credentials."""
        domain = request[2].decode("ascii", "replace") if len(request) > 2 else ""
        if len(request) != 7 or request[0] != VERSION or request[5] != b"CURVE" or len(request[6]) != KEY_BYTES:
            self._count(domain, "", "malformed request")
            return None
        key = z85.encode(request[6]).decode()
        address = request[3].decode("ascii", "replace")[:ADDRESS_CHARS_MAX]
        user = self._allow(domain, key, address)
        if not user:
            self._count(domain, key, address)
        return user

    def _count(self, domain: str, key: str, address: str) -> None:
        self.refused[domain] = self.refused.get(domain, 0) + 1
        self._unreported[domain] = self._unreported.get(domain, 0) + 1
        now = self._clock()
        if now >= self._report_at.get(domain, now):
            self._report_at[domain] = now + REPORT_S
            self._report(domain, self._unreported.pop(domain), key, address)


def _verdict(user: str | None) -> tuple[bytes, bytes, bytes, bytes]:
    """Status, its text, User-Id, properties of the connection."""
    if user is None:
        return (b"400", b"refused", b"", b"")
    if user == TRY_LATER:
        return (b"500", b"try again later", b"", b"")  # after 300, libzmq lets the client wait for its time-out
    name, value = b"Identity", secrets.token_hex(ID_BYTES).encode()
    return (b"200", b"", user.encode(), struct.pack(">B8sI", len(name), name, len(value)) + value)
