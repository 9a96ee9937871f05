"""The station: `from roamcast.mss_station import Station`, and the command `mss-station`."""

from __future__ import annotations

from roamcast.middleware.causal_unicast.errors import MailRefused
from roamcast.mss_station.errors import MailReaderBusy, MailUnknown, StationStopped
from roamcast.mss_station.mail_door import MailLoss, StationMessage
from roamcast.mss_station.station import Station

__all__ = [
    "MailLoss",
    "MailReaderBusy",
    "MailRefused",
    "MailUnknown",
    "Station",
    "StationMessage",
    "StationStopped",
]
