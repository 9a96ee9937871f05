"""Presence: nobody is heard who is said to be away, and no word about a host is older than the one before.

A station says that a host is there before anything that the host says, and all that a host says comes before the word
that it is away. Both are entries of the one order, so this holds at every host that follows the presence of another.
"""

from __future__ import annotations

from collections.abc import Sequence

from demo.history import Event
from demo.verdict import Case

PREFIX = "$presence/"


class Presence:
    """Walks what one host was told of others, life by life: after a kill words come again."""

    def __init__(self, case: Case, host: str) -> None:
        self._case = case
        self._host = host
        self._last: dict[str, tuple[int, bool]] = {}
        """By host: its attempt, and whether it is away."""

    def walk(self, events: Sequence[Event]) -> None:
        """Complain of what cannot be."""
        for event in events:
            message = self._case.messages.get(event.uid)
            if event.kind in ("start", "lost"):
                self._last.clear()
            elif event.kind == "change" and event.state != "subscribed":
                self._last.pop(event.topic.removeprefix(PREFIX), None) if event.topic else self._last.clear()
            elif event.kind == "presence":
                word = (event.attempt, not event.online)
                if word < self._last.get(event.of, word):
                    self._complain(f"was told something old of {event.of}: attempt {event.attempt}")
                self._last[event.of] = word
            elif event.kind == "given" and message is not None:
                sender = self._case.hosts[message.sender]
                if self._last.get(sender, (0, False))[1]:
                    self._complain(f"was given {message.uid} of {sender}, which it had been told is away")

    def _complain(self, text: str) -> None:
        self._case.verdict.out_of_order += 1
        self._case.verdict.witness(f"{self._host} {text}")
