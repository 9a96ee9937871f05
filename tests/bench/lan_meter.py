"""What the LAN update layer does at one station process: when a setting came to hold, and what it said to its peers."""

from __future__ import annotations

import time

from bench.child import Json
from bench.split import ENCODE_PEER, PeerFrames

from roamcast.middleware.effects import Notice
from roamcast.mss_station import lan_port
from roamcast.mss_station.lan_port import LanPort
from roamcast.mss_station.tally import Tally


class LanMeter:
    """Puts itself between the station and its parts at the first `take`; before that nothing is added."""

    def __init__(self, tally: Tally) -> None:
        self._tally = tally
        self._frames = PeerFrames(ENCODE_PEER, lan_port)
        self._held_at: dict[str, int] | None = None
        self._news: list[str] = []
        """Settings of the tick that is not committed yet."""

    def take(self) -> Json:
        """Settings that came to hold here, "name value" -> monotonic ns of the commit; frames since the last call."""
        if self._held_at is None:
            self._held_at = {}
            self._watch(self._held_at)
        return {"held_at": dict(self._held_at), "frames": self._frames.take()}

    def _watch(self, held_at: dict[str, int]) -> None:
        notice, committed = self._tally.notice, LanPort.committed

        def noticed(effect: Notice) -> None:
            if effect.event == "setting_changed":
                self._news.append(f"{effect.fields['name']} {effect.fields['value']}")
            notice(effect)

        def sent(port: LanPort) -> None:
            now = time.monotonic_ns()
            while self._news:
                held_at[self._news.pop()] = now
            committed(port)

        self._tally.notice = noticed  # type: ignore[method-assign]
        LanPort.committed = sent  # type: ignore[method-assign]
