"""The claim matrix of OP: who says it has what, with the column minima kept incrementally.

Source: paper 001 (AL and PAL); fifo-broadcast.md section 0 point 4 and (b).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass


class ClaimMatrix:
    """claims[i][k]: station i claims all of stream k up to that number. Claims are true for ever, merged by max."""

    __slots__ = ("_at_minimum", "claims", "minima")

    def __init__(self, members: Iterable[int], start: Sequence[int]) -> None:
        self.claims = {i: list(start) for i in members}
        self.minima = list(start)
        self._at_minimum = [len(self.claims)] * len(start)

    def merge(self, station: int, stream: int, value: int) -> bool:
        """Station claims `value` of `stream`. Returns whether the column minimum rose."""
        row = self.claims[station]
        old = row[stream]
        if value <= old:
            return False
        row[stream] = value
        if old > self.minima[stream]:
            return False
        self._at_minimum[stream] -= 1
        if self._at_minimum[stream]:
            return False
        self._count(stream)
        return True

    def _count(self, stream: int) -> None:
        column = [row[stream] for row in self.claims.values()]
        self.minima[stream] = min(column, default=0)
        self._at_minimum[stream] = column.count(self.minima[stream])

    def reshape(self, members: Iterable[int], width: int, start: Mapping[int, Sequence[int]]) -> None:
        """Other members, or more streams. A row that is new begins with `start` of it, or with nothing claimed."""
        rows = {i: self.claims.get(i) or list(start.get(i, ())) for i in members}
        self.claims = {i: row + [0] * (width - len(row)) for i, row in rows.items()}
        self.minima = [0] * width
        self._at_minimum = [0] * width
        for stream in range(width):
            self._count(stream)


@dataclass(slots=True, frozen=True)
class Beyond:
    """What all stations in the clusters of a gateway claim themselves, it included: the lowest of each entry."""

    mark: int
    """Of the layout and the members that it is for; it counts at stations with the same mark."""
    stored: tuple[tuple[int, int], ...] = ()
    stable: tuple[tuple[int, int], ...] = ()
    reduce: tuple[tuple[int, int], ...] = ()
    down: tuple[int, ...] = ()
    """Slots of stations in its clusters that the gateway does not hear; from a station that is none: of gateways."""


class Level:
    """One kind of claim of all stations: what those near claim themselves, and what gateways claim for all they see.

    Near are the stations of the own clusters, this one among them. `minima`, by stream, hold everywhere: whoever is not
    near is seen by a gateway that is (any two clusters share one). Flat, all are near and there are no gateways.
    """

    __slots__ = ("_beyond", "_near", "minima", "speaks")

    def __init__(self, near: Iterable[int], gateways: Iterable[int], start: Sequence[int], speaks: bool) -> None:
        self._near = ClaimMatrix(near, start)
        self._beyond = ClaimMatrix(gateways, start)
        self.speaks = speaks
        """This station is a gateway itself: it tells when `seen` rises."""
        self._combine()

    @property
    def claims(self) -> dict[int, list[int]]:
        """By station near: what it claims itself; by GUARD - r in place of a lost station r."""
        return self._near.claims

    @property
    def seen(self) -> list[int]:
        """By stream: what all stations near claim themselves."""
        return self._near.minima

    @property
    def beyond(self) -> dict[int, list[int]]:
        """By gateway near: what it has told of all that it sees."""
        return self._beyond.claims

    def _combine(self) -> None:
        near, beyond = self._near.minima, self._beyond.minima
        self.minima = list(map(min, near, beyond)) if self._beyond.claims else near

    def merge(self, station: int, stream: int, value: int) -> bool:
        """The station claims `value` itself. Returns whether that changes what is told of it."""
        return self._near.merge(station, stream, value) and (self._rise(stream) or self.speaks)

    def merge_beyond(self, gateway: int, stream: int, value: int) -> bool:
        """The gateway claims `value` for all that it sees. Returns whether the minimum rose."""
        return self._beyond.merge(gateway, stream, value) and self._rise(stream)

    def _rise(self, stream: int) -> bool:
        if not self._beyond.claims:
            return True
        value = min(self._near.minima[stream], self._beyond.minima[stream])
        rose = value > self.minima[stream]
        self.minima[stream] = value
        return rose

    def reshape(
        self,
        near: Sequence[int],
        gateways: Sequence[int],
        width: int,
        start: Mapping[int, Sequence[int]],
        beyond: Mapping[int, Sequence[int]],
        anew: bool,
    ) -> None:
        """Other stations, or more streams. A row that is new begins with `start` (`beyond`) of it, or with nothing.

        `anew`: what gateways have told so far means something else now.
        """
        self._near.reshape(near, width, start)
        if anew:
            self._beyond.claims.clear()
        self._beyond.reshape(gateways, width, beyond)
        self._combine()
