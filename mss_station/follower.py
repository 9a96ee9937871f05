"""Lets the running station follow what its directory learns: hosts, revocations, topics, settings, peers."""

from __future__ import annotations

import logging

from roamcast.middleware.effects import Notice
from roamcast.mss_station.directory import (
    Change,
    Fault,
    HostKnown,
    HostRevoked,
    HostShut,
    LanDirectory,
    LayoutChanged,
    MembersChanged,
    OwnChanged,
    SettingsChanged,
    StationsChanged,
    TopicsChanged,
)
from roamcast.mss_station.errors import StationRetired
from roamcast.mss_station.group_port import GroupPort
from roamcast.mss_station.group_settings import LOG_LEVELS, SETTINGS
from roamcast.mss_station.own_record import OwnRecord, check_membership
from roamcast.mss_station.peer_connections import PeerConnections
from roamcast.mss_station.server import Server
from roamcast.mss_station.tally import Tally
from roamcast.transport.station_files import StationCard

PACKAGE_LOG = logging.getLogger("roamcast")
EARLY = (TopicsChanged, LayoutChanged, MembersChanged, SettingsChanged)
"""Changes after which something may be at fault until more have come."""


class Follower:
    """Carries changes to where they count.

    Args:
        own: this station.
        log_level: the setting decides on what is logged; else the command that has started this process.
    """

    def __init__(
        self,
        own: StationCard,
        directory: LanDirectory,
        server: Server,
        connections: PeerConnections,
        group: GroupPort,
        own_record: OwnRecord,
        tally: Tally,
        log_level: bool,
    ) -> None:
        self._own = own
        self._directory = directory
        self._server = server
        self._connections = connections
        self._group = group
        self._own_record = own_record
        self._tally = tally
        self._log_level = log_level
        self._set_log_level()
        self._told = frozenset(directory.early_faults())
        self._faults_due = False

    def follow(self, changes: list[Change], tell_core: bool) -> None:
        """Take over the changes, in an open tick if the core is to be told (a new core is greeted with all of it)."""
        for change in changes:
            self._take(change)
            if tell_core:
                self._tell_core(change)
        if tell_core and MembersChanged() in changes:
            self._group.tell()
        self._faults_due = self._faults_due or any(type(change) in EARLY for change in changes)
        if tell_core and TopicsChanged() in changes:
            self._server.core.set_topics(self._directory.topics())
        if tell_core and LayoutChanged() in changes:
            self._server.core.set_layout(self._directory.layout())

    def _take(self, change: Change) -> None:
        match change:
            case HostRevoked(card):
                self._server.hosts.forget(card.number)
            case HostShut(card):
                self._server.hosts.hang_up(card.number)
            case SettingsChanged(settings, name):
                self._server.configure(settings)
                self._set_log_level()
                value = self._directory.value(name)
                shown = "default" if value is None else SETTINGS[name].show(value)
                self._tally.notice(Notice("info", "setting_changed", {"name": name, "value": shown}))
            case StationsChanged(before, after):
                self._connections.follow(after)
                self._dismiss([card for card in before if card.slot not in [other.slot for other in after]])
                changed = sorted({card.id for card in {*before} ^ {*after}})
                peers = {"changed": ",".join(changed), "peers": ",".join(card.id for card in after)}
                self._tally.notice(Notice("info", "stations_changed", peers))
            case OwnChanged(record, by):
                self._own_record.due = True
                if by != self._own.id:
                    try:
                        check_membership(self._own, record)
                    except StationRetired as error:
                        self._server.end(error)
            case Fault(text):
                self._tally.notice(Notice("alarm", "configuration_fault", {"text": text}))

    def _dismiss(self, former: list[StationCard]) -> None:
        """Tell these stations, once that is durable, that the group has ended their membership."""

        def tell(committed: bool) -> None:
            for card in former if committed else ():
                self._server.peers.dismiss(card.slot, card.id)

        self._server.then(tell)

    def _tell_core(self, change: Change) -> None:
        core = self._server.core
        match change:
            case HostKnown(card):
                core.learn_host(card.number, card.name)
            case HostRevoked(card):
                core.revoke(card.number)

    def look(self) -> None:
        """Once a second: the own record, the group, peers that refuse the connection, linked ones that had lapsed."""
        server = self._server
        if server.guard.state != "closed":
            self._own_record.publish()
            for slot in server.lan.lapsed():
                if server.peers.links.is_linked(slot):
                    server.open_tick()
                    server.lan.heard(slot)
        self._group.look()
        self._connections.look()
        if self._faults_due:
            self._faults_due = False
            self._tell_faults()

    def _tell_faults(self) -> None:
        """What is at fault with topics and clusters now and was not: told late, for entries come in any order."""
        before, self._told = self._told, frozenset(self._directory.early_faults())
        for text in sorted(self._told - before):
            self._tally.notice(Notice("warning", "configuration_fault", {"text": text}))

    def _set_log_level(self) -> None:
        if self._log_level:
            PACKAGE_LOG.setLevel(LOG_LEVELS.get(str(self._directory.value("log-level")), logging.NOTSET))
