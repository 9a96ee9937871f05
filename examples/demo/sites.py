"""Two sites as clusters: who is where, which station joins them, and which one is to take over."""

from __future__ import annotations

from collections.abc import Sequence

from demo.cluster import Station, station_command

NORTH, SOUTH = "north", "south"
STATIONS_MIN = 5
"""A gateway, a standby, one more at each site, and one that joins late."""
HEARTBEAT, DOWN_AFTER = "300ms", "1500ms"
"""So that the standby takes over within seconds, and not within `down-after` as it is by itself (15 s)."""


class Sites:
    """The first of these stations is the gateway, the second its standby; the others are north and south by turns.

    One that joins later is in the north.
    """

    def __init__(self, stations: Sequence[Station]) -> None:
        self.gateway, self.standby, *others = stations
        self._north, self._south = others[::2], others[1::2]

    def set(self) -> None:
        """Write the settings."""
        at = self.gateway.directory
        station_command("config", "set", at, "settings/heartbeat", HEARTBEAT)
        station_command("config", "set", at, "settings/down-after", DOWN_AFTER)
        station_command("config", "set", at, "settings/clusters", self.value())

    def value(self) -> str:
        """The value of settings/clusters."""
        both = [self.gateway.id, self.standby.id]
        sides = {NORTH: self._north, SOUTH: self._south}
        parts = [f"{name}: {' '.join([*both, *(one.id for one in side)])}" for name, side in sides.items()]
        return " / ".join([*parts, f"standbys: {self.standby.id}"])

    def story(self) -> str:
        """For the person who watches."""
        north, south = (", ".join(one.id for one in side) for side in (self._north, self._south))
        joined = f"{self.gateway.id} joins them, {self.standby.id} stands by"
        return f"two sites: {north} in the north, {south} in the south; {joined}"

    def taken_over(self) -> bool:
        """Whether the standby forwards."""
        clusters = (self.standby.status() or {}).get("clusters")
        return clusters is not None and bool(clusters["forwards"])
