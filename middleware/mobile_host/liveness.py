"""The clocks of one open session: when to ping, and when silence means that the session is over.

A PING goes every 5 s while something is unacknowledged either way, and once within 5 s after traffic; else every 240 s.
No new one goes while one is unanswered. PING and LEAVE unanswered, or DATA without progress, for 10 s: the session is
over. While the last WAIT is under 15 s old no such timeout runs.
"""

from __future__ import annotations

from roamcast.middleware.host_frames import Wait
from roamcast.middleware.mobile_host.settings import AgentSettings

FAR = 1 << 62
"""Never."""


class Liveness:
    """All times are monotonic microseconds. `waiting` and `wait_until` also serve an attempt not welcomed yet."""

    def __init__(self, settings: AgentSettings) -> None:
        self._settings = settings
        self.waiting: Wait | None = None
        self.wait_until = 0
        self.ack_at = FAR
        """When the acknowledgements not yet said are due."""
        self.ping_at = FAR
        self._stirred = False
        self._pong_by = FAR
        self._uack_by = FAR
        self._left_by = FAR

    def open(self, now: int) -> None:
        """A session begins."""
        self.stop_waiting()
        self.ack_at = self._pong_by = self._uack_by = self._left_by = FAR
        self._stirred = False
        self.ping_at = now + self._settings.ping_idle

    def wait(self, frame: Wait, now: int) -> None:
        """The station said WAIT."""
        self.waiting = frame
        self.wait_until = now + self._settings.wait_grace

    def stop_waiting(self) -> None:
        """What was waited for has come."""
        self.waiting = None
        self.wait_until = 0

    def stir(self, now: int) -> None:
        """There was traffic."""
        if not self._stirred:
            self._stirred = True
            self.ping_at = min(self.ping_at, now + self._settings.ping_active)

    def progress(self, now: int, outstanding: bool) -> None:
        """DATA went out first, or was acknowledged; `outstanding`: some still is not."""
        self._uack_by = now + self._settings.answer_timeout if outstanding else FAR

    def leaving(self, now: int) -> None:
        """LEAVE was sent."""
        self._left_by = now + self._settings.answer_timeout

    def pinged(self, now: int, active: bool, timeout: int | None = None) -> None:
        """A PING was sent; `active`: something is unacknowledged. `timeout` in place of the usual one."""
        self._pong_by = now + (self._settings.answer_timeout if timeout is None else timeout)
        self._stirred = active
        self.ping_at = now + (self._settings.ping_active if active else self._settings.ping_idle)

    def ponged(self) -> None:
        """The PING was answered."""
        self._pong_by = FAR

    def restart(self, now: int, outstanding: bool) -> None:
        """The process was frozen: what fell due meanwhile says nothing about the link."""
        self.progress(now, outstanding)
        if self._left_by != FAR:
            self.leaving(now)

    @property
    def awaits_pong(self) -> bool:
        """Whether a PING is unanswered."""
        return self._pong_by != FAR

    def ping_due(self, now: int) -> bool:
        """Whether a PING is to be sent."""
        return now >= self.ping_at and not self.awaits_pong

    def overdue(self, now: int) -> str | None:
        """Why the session is over, or None."""
        if now < self.wait_until:
            return None
        for due, reason in ((self._pong_by, "no answer"), (self._uack_by, "no progress"), (self._left_by, "no answer")):
            if now >= due:
                return reason
        return None

    def next_deadline(self) -> int:
        """When to look again."""
        limit = max(min(self._pong_by, self._uack_by, self._left_by), self.wait_until)
        ping = FAR if self.awaits_pong else self.ping_at
        return min(limit, ping, self.ack_at)
