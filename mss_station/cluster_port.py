"""Clusters as an operator wants to see them: who forwards, who has taken over, who is behind, what is parted."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from typing import Final

from roamcast.middleware.effects import Notice
from roamcast.middleware.fifo_broadcast.core import FifoEntity
from roamcast.middleware.fifo_broadcast.layout import Layout
from roamcast.mss_station.control import Json
from roamcast.mss_station.directory import LanDirectory
from roamcast.mss_station.server import Server
from roamcast.mss_station.tally import Tally

STATION: Final = "station"
GATEWAY: Final = "gateway"
STANDBY: Final = "standby"


@dataclass(frozen=True, slots=True)
class Joint:
    """Clusters that the same gateways join."""

    clusters: tuple[int, ...]
    gateways: tuple[int, ...]
    """Slots, the active one first, then its standbys by rank; those that have ended are left out."""
    forwards: int
    """Who forwards now; 0: nobody, and what goes between them goes directly."""


def groups(layout: Layout, living: tuple[int, ...]) -> dict[tuple[int, ...], tuple[int, ...]]:
    """Clusters by the living gateways that join them; those in which nobody lives are left out."""
    inhabited = [k for k in range(len(layout.clusters)) if layout.members(k, living)]
    found: dict[tuple[int, ...], set[int]] = {}
    for pair in combinations(inhabited, 2):
        gateways = tuple(slot for slot in layout.group(*pair) if slot in living)
        found.setdefault(gateways, set()).update(pair)
    return {gateways: tuple(sorted(clusters)) for gateways, clusters in found.items()}


def leader(fifo: FifoEntity, group: tuple[int, ...], now: int) -> int:
    """Who of a group of gateways forwards now; of one that is far: as gateways that see it tell. 0: nobody."""
    if fifo.own in group or not set(group).isdisjoint(fifo.place.near):
        return fifo.leader(group, now)
    return next((slot for slot in group if fifo.is_live(slot, now)), 0)


def behind(fifo: FifoEntity, claims: list[int]) -> int:
    """Rows that are known to exist and that these claims do not cover."""
    known = fifo.known
    return sum(max(0, known[origin] - claims[origin]) for origin in fifo.origins)


class ClusterPort:
    """What is told of the clusters: in the status, and in the log when another gateway forwards."""

    def __init__(self, directory: LanDirectory, server: Server, tally: Tally) -> None:
        self._directory = directory
        self._server = server
        self._tally = tally
        self._forwarding: dict[tuple[int, ...], int] = {}
        """By clusters: who was seen to forward."""
        self._groups: dict[tuple[int, ...], tuple[int, ...]] = {}
        self._groups_of: tuple[Layout, tuple[int, ...]] = Layout(), ()
        """The layout, and who lives: they seldom change."""

    def look(self) -> None:
        """Once a second: tell who forwards to and from the own clusters, if that is another one than before."""
        before, self._forwarding = self._forwarding, {}
        own = set(self._fifo.layout.of(self._fifo.own))
        for joint in self._joints():
            if own.isdisjoint(joint.clusters):
                continue
            self._forwarding[joint.clusters] = joint.forwards
            if before.get(joint.clusters, joint.forwards) != joint.forwards:
                between = ",".join(map(self._cluster, joint.clusters))
                fields = {"clusters": between, "forwards": self._name(joint.forwards) if joint.forwards else "nobody"}
                self._tally.notice(Notice("warning", "gateway_changed", fields))

    def status(self) -> Json | None:
        """Plain data; None: the group is one flat cluster."""
        fifo, now = self._fifo, self._server.clock.now()
        layout = fifo.layout
        if not layout.clusters:
            return None
        own, living = layout.of(fifo.own), fifo.words.view.living
        found = self._joints()
        return {
            "own": [self._cluster(k) for k in own],
            "role": STATION if len(own) < 2 else STANDBY if fifo.own in layout.standbys else GATEWAY,
            "forwards": any(joint.forwards == fifo.own for joint in found),
            "clusters": [
                {
                    "name": self._cluster(k),
                    "stations": [self._name(slot) for slot in layout.members(k, living)],
                    "behind": [self._behind(slot, now) for slot in layout.members(k, living) if self._lags(slot, now)],
                }
                for k in range(len(layout.clusters))
            ],
            "joints": [
                {
                    "clusters": [self._cluster(k) for k in joint.clusters],
                    "gateways": [self._name(slot) for slot in joint.gateways],
                    "standbys": [self._name(slot) for slot in joint.gateways if slot in layout.standbys],
                    "forwards": self._name(joint.forwards) if joint.forwards else None,
                }
                for joint in found
            ],
            "beyond": [
                {
                    "gateway": self._name(slot),
                    "rows": behind(fifo, claims),
                    "silent": [self._name(down) for down in fifo.down.get(slot, ())],
                }
                for slot, claims in fifo.accepted.beyond.items()
                if slot in fifo.place.near
            ],
            "parted": [[self._cluster(k) for k in joint.clusters] for joint in found if not joint.gateways],
        }

    @property
    def _fifo(self) -> FifoEntity:
        return self._server.core.ledger.fifo

    def _joints(self) -> list[Joint]:
        fifo, now = self._fifo, self._server.clock.now()
        if self._groups_of != (fifo.layout, fifo.words.view.living):
            self._groups_of = fifo.layout, fifo.words.view.living
            self._groups = groups(*self._groups_of)
        return [Joint(clusters, group, leader(fifo, group, now)) for group, clusters in self._groups.items()]

    def _cluster(self, k: int) -> str:
        parts = self._directory.clusters.clusters.parts
        return parts[k][0] if k < len(parts) else f"cluster {k}"

    def _name(self, slot: int) -> str:
        return next((one.id for one in self._directory.members() if one.slot == slot), f"slot {slot}")

    def _lags(self, slot: int, now: int) -> bool:
        told = self._behind(slot, now)
        return bool(told["rows"]) or not told["live"]

    def _behind(self, slot: int, now: int) -> Json:
        """What a station lacks; rows None: it is far and only its gateway knows."""
        claims = self._fifo.accepted.claims.get(slot)
        rows = None if claims is None else behind(self._fifo, claims)
        return {"station": self._name(slot), "rows": rows, "live": self._fifo.is_live(slot, now)}


# ---- the table ----


def lines(told: Json | None) -> list[str]:
    """The clusters for a person: one line for each, and alarms."""
    if told is None:
        return []
    taken = ", and has taken over" if told["role"] == STANDBY and told["forwards"] else ""
    role = "" if told["role"] == STATION else f"a {told['role']} "
    use = "not in use, see the alarm; by the setting " if told["parted"] else ""
    out = [f"clusters: {use}this station is {role}in {' and '.join(told['own'])}{taken}"]
    out += [f"cluster {one['name']}: {', '.join(one['stations'])}{_lagging(one['behind'])}" for one in told["clusters"]]
    out += [_joint(joint) for joint in told["joints"] if joint["gateways"]]
    out += [_beyond(one) for one in told["beyond"] if one["rows"] or one["silent"]]
    out += [
        f"alarm: {' and '.join(pair)} are parted, their gateways have ended: the group is one flat cluster until "
        "settings/clusters is set anew"
        for pair in told["parted"]
    ]
    return out


def _joint(joint: Json) -> str:
    names = ", ".join(f"{id} (standby)" if id in joint["standbys"] else id for id in joint["gateways"])
    forwards = (
        f"{joint['forwards']} forwards"
        if joint["forwards"]
        else "all are silent, so stations send to each other directly"
    )
    return f"between {' and '.join(joint['clusters'])}: {names}; {forwards}"


def _beyond(told: Json) -> str:
    rows = f"some stations lack messages, {told['rows']} at most" if told["rows"] else ""
    silent = f"{', '.join(told['silent'])} not heard" if told["silent"] else ""
    return f"beyond {told['gateway']}: {'; '.join(filter(None, [rows, silent]))}"


def _messages(count: int) -> str:
    return f"{count} message" + "s" * (count != 1)


def _lagging(behind: list[Json]) -> str:
    words = []
    for one in behind:
        rows = f"{_messages(one['rows'])} behind" if one["rows"] else ""
        words.append(f"{one['station']} is " + ", ".join(filter(None, [rows, "" if one["live"] else "silent"])))
    return "; " + "; ".join(words) if words else ""
