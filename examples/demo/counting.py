"""Which deliveries of a host count: those that it acknowledged, once each."""

from __future__ import annotations

from demo.history import Event


class Count:
    """Which deliveries of one host count: those acknowledged, once each. Lives end in `start` (killed) or `end`."""

    def __init__(self) -> None:
        self.counted: dict[str, int] = {}
        """uid: time at which it was first given, for the deliveries that count."""
        self._given: dict[str, int] = {}
        """Given in this life and not acknowledged, in order."""
        self._doubt: dict[str, int] = {}
        """Given and perhaps acknowledged when the life before ended, in order."""
        self._asked = ""
        """Last uid of an acknowledgement that has begun and not returned."""

    def give(self, event: Event) -> bool:
        """False: this is a second delivery."""
        if event.uid in self.counted or event.uid in self._given:
            return False
        self._given[event.uid] = event.t
        return True

    def acknowledge(self, event: Event) -> None:
        """Begin (`acking`) or finish (`acked`) the acknowledgement of everything up to a uid."""
        if event.uid not in self._given:
            return
        if event.kind == "acking":
            self._asked = event.uid
            return
        self._asked = ""
        self.counted.update(self._take(event.uid))

    def _take(self, last: str) -> dict[str, int]:
        taken = {}
        for uid in list(self._given):
            taken[uid] = self._given.pop(uid)
            if uid == last:
                break
        return taken

    def end_life(self) -> list[str]:
        """The life ends: what was just being acknowledged is in doubt. Returns what comes again for certain."""
        if self._asked in self._given:
            self._doubt = self._take(self._asked)
        self._asked = ""
        gone, self._given = list(self._given), {}
        return gone

    def settle(self, uid: str) -> list[str]:
        """The next life's first delivery tells whether the last acknowledgement held. Returns what did not count."""
        doubt, self._doubt = self._doubt, {}
        void: list[str] = []
        for one in doubt:
            if void or one == uid:
                void.append(one)
            else:
                self.counted[one] = doubt[one]
        return void

    def story(self, event: Event) -> str:
        """When the two deliveries were."""
        first = self.counted.get(event.uid, self._given.get(event.uid, 0))
        return f"the second time {(event.t - first) / 1e6:.3f} s after the first"
