"""Channels whose frames are ignored: a ROUTER cannot close one peer (overview section 3)."""

from __future__ import annotations

from typing import Final

CHANNELS_MAX: Final = 16_384


class DropList:
    """The newest `channels_max` channels that were closed. An older one that speaks again has no session any more."""

    def __init__(self, channels_max: int = CHANNELS_MAX) -> None:
        self._channels_max = channels_max
        self._channels: dict[bytes, bool] = {}

    def add(self, channel: bytes, *, answer: bool) -> None:
        """Ignore frames of `channel` from now on. answer: its next frame is to be answered, once."""
        self._channels.pop(channel, None)
        self._channels[channel] = answer
        if len(self._channels) > self._channels_max:
            del self._channels[next(iter(self._channels))]

    def take_answer(self, channel: bytes) -> bool:
        """Whether this frame of a dropped channel is the one to be answered."""
        answer = self._channels[channel]
        self._channels[channel] = False
        return answer

    def __contains__(self, channel: bytes) -> bool:
        return channel in self._channels

    def __len__(self) -> int:
        return len(self._channels)
