"""Mail under way to one station: a window of it, repeated until it is acknowledged."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping

from roamcast.middleware.causal_unicast.records import Mail
from roamcast.middleware.causal_unicast.settings import MailSettings


class Sending:
    """Volatile: a start sends the outbox from its beginning. Times in microseconds."""

    def __init__(self, outgoing: Mapping[int, Mail], settings: MailSettings) -> None:
        self.bytes = sum(mail.size for mail in outgoing.values())
        """Of all that is not acknowledged."""
        self.due: int | None = None
        """When what is under way goes out again; None: nothing is."""
        self._settings = settings
        self._under_way: dict[int, int] = {}
        """Number -> size."""
        self._window = 0
        """Bytes under way."""
        self._queue = deque(outgoing)
        """Numbers of what was not sent yet, ascending; some may be acknowledged by now."""
        self._retry = settings.retry

    def configure(self, settings: MailSettings) -> None:
        """Other settings hold from now on."""
        self._settings = settings

    def add(self, mail: Mail) -> None:
        """A new mail."""
        self.bytes += mail.size
        self._queue.append(mail.number)

    def acknowledged(self, mail: Mail, now: int) -> None:
        """It needs no sending any more; the wait for the rest begins anew."""
        self.bytes -= mail.size
        self._window -= self._under_way.pop(mail.number, 0)
        self._retry = self._settings.retry
        self.due = now + self._retry if self._under_way else None

    def link_up(self, now: int) -> None:
        """There is a new connection: what is under way goes out again at once."""
        self._retry = self._settings.retry
        if self._under_way:
            self.due = now

    def take(self, outgoing: Mapping[int, Mail], now: int) -> Iterator[Mail]:
        """What is sent now: all that is under way if it is due, and what the window has room for."""
        if self.due is not None and self.due <= now:
            self._retry = min(2 * self._retry, self._settings.retry_max)
            self.due = now + self._retry
            yield from [outgoing[number] for number in self._under_way]
        while self._queue:
            mail = outgoing.get(self._queue[0])
            if mail is not None:
                if not self._has_room(mail.size):
                    break
                self._under_way[mail.number] = mail.size
                self._window += mail.size
                yield mail
            self._queue.popleft()
        if self._under_way and self.due is None:
            self.due = now + self._retry

    def _has_room(self, size: int) -> bool:
        settings = self._settings
        return not self._under_way or (
            len(self._under_way) < settings.window_mails and self._window + size <= settings.window_bytes
        )
