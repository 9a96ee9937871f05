"""Which station next, and when: the station of the last session first, then the others in random order.

After a full round without a WELCOME the agent pauses: 0.5 s doubling to 8 s, with full jitter, so that agents that
lost the same station grow apart. A session that ends young counts as a failed round, the first one without a pause.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Sequence

from roamcast.middleware.mobile_host.settings import AgentSettings


class Roaming:
    """The order of one round of attempts, and the length of the pause after it."""

    def __init__(self, stations: Sequence[int], settings: AgentSettings, rng: random.Random) -> None:
        self.stations = tuple(stations)
        self._settings = settings
        self._rng = rng
        self._round: deque[int] = deque()
        self._failures = 0

    def begin_round(self, *first: int) -> None:
        """Start a round: the known ones of `first` in order, then the others shuffled."""
        head = [slot for slot in dict.fromkeys(first) if slot in self.stations]
        rest = [slot for slot in self.stations if slot not in head]
        self._rng.shuffle(rest)
        self._round = deque(head + rest)

    def next_station(self) -> int | None:
        """The next slot of the round; None when the round is over."""
        return self._round.popleft() if self._round else None

    def pause_after_round(self) -> int:
        """Microseconds to wait after a round, or a refusal, has failed."""
        self._failures += 1
        return self._jitter()

    def pause_after_session(self, age: int) -> int:
        """Microseconds to wait after a session of this age (microseconds) was lost; 0 = attach at once."""
        if age >= self._settings.settled:
            self._failures = 0
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

    def _jitter(self) -> int:
        window = min(self._settings.backoff << min(self._failures - 1, 16), self._settings.backoff_max)
        return self._rng.randint(0, window)
