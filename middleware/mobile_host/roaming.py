"""Which station next, and when: the station of the last session first, then the others in random order.

The list is the newest that a station told, else that of the enrolment. If a whole round of it has failed, those of the
enrolment that are not, or otherwise, in the list are tried behind it: a list that leads nowhere must not be the end.
Stations that have sent the host away (MOVE) come last, until a session has settled.

After a full round without a WELCOME the agent pauses: 0.5 s doubling to 8 s, with full jitter, so that agents that
lost the same station grow apart. A session that ends young counts as a failed round, the first one without a pause.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Sequence

from roamcast.middleware.errors import LocalProtocolError
from roamcast.middleware.mobile_host.settings import AgentSettings
from roamcast.middleware.mobile_host.state import Station


class Roaming:
    """The order of one round of attempts, and the length of the pause after it.

    Args:
        enrolled: the stations of the credential.
        told: the newest list that a station told; () = none.
    """

    def __init__(
        self, enrolled: Sequence[Station], told: Sequence[Station], settings: AgentSettings, rng: random.Random
    ) -> None:
        self.stations = tuple(told or enrolled)
        self._enrolled = tuple(enrolled)
        self._settings = settings
        self._rng = rng
        self._round: deque[Station] = deque()
        self._failures = 0
        self._sent_away: set[int] = set()

    def begin_round(self, *first: int) -> None:
        """Start a round: the known ones of `first` (slots) in order, then the others shuffled."""
        head = [station for slot in dict.fromkeys(first) for station in self.stations if station[1] == slot]
        rest = [station for station in self.stations if station not in head]
        self._rng.shuffle(rest)
        if self._failures:
            rest += [station for station in self._enrolled if station not in self.stations]
        self._round = deque(sorted(head + rest, key=lambda station: station[1] in self._sent_away))

    def next_station(self) -> Station | None:
        """The next of the round; None when the round is over."""
        return self._round.popleft() if self._round else None

    def name_of(self, slot: int) -> str | None:
        """Id of the station with this slot, if it is known here."""
        return next((name for name, known, _, _ in (*self.stations, *self._enrolled) if known == slot), None)

    def wanted(self, station: int | str) -> int:
        """The application wants the station with this slot, or id, whatever it has said before. Returns its slot.

        Raises:
            LocalProtocolError: there is none in the list.
        """
        for name, slot, _, _ in self.stations:
            if station in (name, slot):
                self._sent_away.discard(slot)
                return slot
        raise LocalProtocolError(f"no station is called {station!r}")

    def sent_away(self, slot: int, age: int) -> bool:
        """This station has ended a session of this age (microseconds; 0: an attempt) by MOVE.

        Returns whether another is to be called at once. No such answer without end, where all send each other hosts.
        """
        self._settle(age)
        news = slot not in self._sent_away
        self._sent_away.add(slot)
        return news and any(other not in self._sent_away for _, other, _, _ in self.stations)

    def pause_after_round(self) -> int:
        """Microseconds to wait after a round, or a refusal, has failed."""
        self._failures += 1
        return self._jitter()

    def pause_after_session(self, age: int) -> int:
        """Microseconds to wait after a session of this age (microseconds) was lost; 0 = attach at once."""
        if self._settle(age):
            return 0
        pause = self._jitter() if self._failures else 0
        self._failures += 1
        return pause

    def forget_failures(self) -> None:
        """The surroundings have changed: the next pause is a short one."""
        self._failures = 0

    def hold(self) -> int:
        """Microseconds to stay away after another holder of this identity has attached."""
        return self._rng.randint(self._settings.hold_min, self._settings.hold_max)

    def _settle(self, age: int) -> bool:
        """Whether a session of this age proves that all is well; what failed before counts no more then."""
        if age < self._settings.settled:
            return False
        self._failures = 0
        self._sent_away.clear()
        return True

    def _jitter(self) -> int:
        window = min(self._settings.backoff << min(self._failures - 1, 16), self._settings.backoff_max)
        return self._rng.randint(0, window)
