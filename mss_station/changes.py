"""What the directory tells the running station: the configuration has changed, and in what."""

from __future__ import annotations

from dataclasses import dataclass

from roamcast.middleware.settings import Settings
from roamcast.mss_station.host_cards import HostChange
from roamcast.mss_station.schema import StationRecord
from roamcast.transport.station_files import StationCard


@dataclass(frozen=True, slots=True)
class StationsChanged:
    """Other peers are active members, or one of them has another key or endpoint. By slot, without this station."""

    before: tuple[StationCard, ...]
    after: tuple[StationCard, ...]


@dataclass(frozen=True, slots=True)
class MembersChanged:
    """The record of some station is another one."""


@dataclass(frozen=True, slots=True)
class OwnChanged:
    """The group's record of this station is another one."""

    record: StationRecord
    by: str
    """Id of the station where it was made."""


@dataclass(frozen=True, slots=True)
class SettingsChanged:
    """Other settings hold from now on, since the one of this name is another one."""

    settings: Settings
    name: str


@dataclass(frozen=True, slots=True)
class TopicsChanged:
    """`LanDirectory.topics` says something else than before: of topics, rights, groups, hosts in them, or presence."""


@dataclass(frozen=True, slots=True)
class LayoutChanged:
    """`LanDirectory.layout` may say something else than before: of clusters, or of which slot a station has."""


Change = HostChange | StationsChanged | MembersChanged | OwnChanged | SettingsChanged | TopicsChanged | LayoutChanged
