"""The station: `from roamcast.mss_station import Station`, and the command `mss-station`."""

from __future__ import annotations

from roamcast.mss_station.station import Station

__all__ = ["Station"]
