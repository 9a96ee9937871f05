"""A row is the same at every station: what one stores of another is compared with what that one has stored itself."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from roamcast.middleware.rows import Row
from roamcast.middleware.simulator.checkers import Violation
from roamcast.middleware.simulator.disk import apply_writes
from roamcast.middleware.writes import DurableState, PutRow

if TYPE_CHECKING:
    from roamcast.middleware.simulator.station_node import StationNode


class SameRows:
    """Sees every write of every station as it becomes durable."""

    def __init__(self, stations: Mapping[int, StationNode]) -> None:
        self._stations = stations

    def apply(self, state: DurableState, writes: tuple[Any, ...]) -> None:
        """Apply the writes of one station. Raises Violation where a row is not what its origin says."""
        apply_writes(state, writes)
        for write in writes:
            if type(write) is PutRow:
                self._compare(write.row)

    def _compare(self, row: Row) -> None:
        origin = self._stations.get(row.slot)
        there = origin.disk.state.rows.get(row.id) if origin is not None else None
        if there is not None and (there.stamp, there.hlc) != (row.stamp, row.hlc):
            ours, theirs = (f"stamp {one.stamp}, clock {one.hlc}" for one in (there, row))
            raise Violation("rows differ", [f"row {row.id} has {ours} at its origin", f"another one stores {theirs}"])
