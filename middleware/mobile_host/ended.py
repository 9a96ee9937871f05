"""Subscriptions that have ended without the host's doing: who has been told of which.

A station says an end until it knows that the host has heard of it, so the host keeps it until the application has: the
notice outlives the process, and so does the memory that it was given, until no station says it any more. The id is that
of the SUB, so the end of a former subscription is never taken for that of the present one. (0, 0) stands for all
subscriptions, whenever made; it is news in every session that says it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from roamcast.middleware.mobile_host.effects import SubscriptionEnded
from roamcast.middleware.mobile_host.state import SubsEnded
from roamcast.middleware.rows import MessageId

EVERY: MessageId = (0, 0)


class EndedSubscriptions:
    """`known`: SUB -> topic; None: the application knows."""

    def __init__(self, known: Mapping[MessageId, str | None]) -> None:
        self._known = dict(known)
        self._every_in = 0
        """The last session that said `EVERY`."""

    def untold(self) -> Iterable[SubscriptionEnded]:
        """What the application is still to be told, or had not acknowledged when its process ended."""
        return [SubscriptionEnded(0, sub, topic) for sub, topic in self._known.items() if topic is not None]

    def heard(
        self, ended: Collection[tuple[int, int, str]], session: int, welcome: bool
    ) -> tuple[list[SubscriptionEnded], SubsEnded | None]:
        """A station says so in this session; in its WELCOME it says all that it has to say.

        Returns what is news for the application, and what is to be saved.
        """
        news: dict[MessageId, str] = {}
        for slot, n, topic in ended:
            sub = (slot, n)
            if self._every_in != session if sub == EVERY else sub not in self._known:
                news[sub] = topic
        if EVERY in news:
            self._every_in = session
        said = {(slot, n) for slot, n, _ in ended}
        settled = [sub for sub, topic in self._known.items() if welcome and topic is None and sub not in said]
        for sub in settled:
            del self._known[sub]
        self._known.update(news)
        fact = SubsEnded(tuple((*sub, topic) for sub, topic in news.items()), (), tuple(settled))
        return [SubscriptionEnded(0, sub, topic) for sub, topic in news.items()], fact if news or settled else None

    def told(self, subs: Collection[MessageId]) -> SubsEnded:
        """The application knows of these. Returns what is to be saved."""
        kept = tuple(sub for sub in sorted(subs) if sub != EVERY)
        self._known.update(dict.fromkeys(kept))
        if EVERY in subs:
            self._known.pop(EVERY, None)
        return SubsEnded((), kept, (EVERY,) if EVERY in subs else ())
