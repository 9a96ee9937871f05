"""Who belongs to the group: stations, hosts, settings. One small interface, behind it files (overview section 8).

Later the stations replicate this among themselves; until then the operator carries files: `peers add`, `hosts import`.

A file that cannot be read does not stop a running station: what was known before goes on, the fault is told once, and
the file is read again when it changes (field case BL-36). As long as nothing changes, `changes` costs four calls of
stat: so a changed card is seen when it comes by a command or in one step (rename), not when an editor writes over it.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, Final, Generic, Protocol, TypeVar

from roamcast.middleware.settings import MIB, Settings
from roamcast.transport.errors import KeyFileError
from roamcast.transport.limits import BODY_BYTES_MAX, INT64_MAX, ROWS_MAX
from roamcast.transport.station_files import (
    HOSTS,
    PEERS,
    REVOKED,
    STATION_FILE,
    HostCard,
    StationCard,
    read_host_card,
    read_revoked,
    read_station,
    read_station_card,
)

C = TypeVar("C", HostCard, StationCard)
Stamp = tuple[int, int, int]
"""Of a file or folder: (time of change in ns, size, inode)."""

CARD: Final = ".pub"
ABSENT: Final[Stamp] = (-1, 0, 0)
UNSETTLED: Final[Stamp] = (0, 0, 0)
SETTLED_NS: Final = 2_000_000_000
"""What changed less than this ago may change again within the same tick of the file system's clock."""

MOST: Final = {
    "message_bytes_max": BODY_BYTES_MAX,
    "frame_bytes": 64 << 10,
    "nack_rows_max": ROWS_MAX,
    "nack_bytes_max": 2 * MIB,
    "spool_part_bytes": MIB,
    "spool_parts_per_answer": 1_024,
}
"""Settings that the wire bounds, or memory."""


@dataclass(frozen=True, slots=True)
class HostKnown:
    """A host that was not known before, or whose card is another one now."""

    card: HostCard


@dataclass(frozen=True, slots=True)
class HostRevoked:
    """A host that may not come in any more."""

    card: HostCard


@dataclass(frozen=True, slots=True)
class PeersChanged:
    """Peers came, went or have other keys. Their keys hold at once; who is counted is settled by a restart."""


@dataclass(frozen=True, slots=True)
class SettingsChanged:
    """Other settings hold from now on."""

    settings: Settings


@dataclass(frozen=True, slots=True)
class Fault:
    """A file cannot be used; `text` names it and says why."""

    text: str


Change = HostKnown | HostRevoked | PeersChanged | SettingsChanged | Fault


class Directory(Protocol):
    """What a station asks about its group. Keys are CURVE public keys in Z85."""

    def stations(self) -> list[StationCard]:
        """All stations but this one, by slot."""

    def station(self, key: str) -> StationCard | None:
        """The peer with this key."""

    def hosts(self) -> list[HostCard]:
        """All hosts that are not revoked, by number."""

    def host(self, key: str) -> HostCard | None:
        """The host with this key; None: unknown or revoked."""

    def revoked(self) -> list[HostCard]:
        """All known hosts that are revoked, by number."""

    def settings(self) -> Settings:
        """The settings that hold now."""

    def changes(self) -> list[Change]:
        """What has changed since the last call; the first call tells all hosts."""


def read_settings(values: dict[str, Any], where: str) -> Settings:
    """The table `settings` of station.toml: names and units of `middleware.settings.Settings`.

    Raises:
        KeyFileError: unknown name, no integer, or out of range; says which, and what would do.
    """
    known = {field.name: field.default for field in fields(Settings)}
    for name, value in sorted(values.items()):
        if name not in known:
            words = set(name.replace("-", "_").split("_"))
            near = sorted(known, key=lambda other: (-len(words & set(other.split("_"))), other))[:3]
            raise KeyFileError(f"{where}: settings: unknown name {name!r}; did you mean {', '.join(near)}?")
        most = MOST.get(name, INT64_MAX)
        if type(value) is not int or not 1 <= value <= most:
            raise KeyFileError(f"{where}: settings: {name} must be an integer from 1 to {most}, not {value!r}")
    settings = Settings(**values)
    for name in known:
        least = name.removesuffix("_max")
        if least != name and least in known and getattr(settings, name) < getattr(settings, least):
            raise KeyFileError(f"{where}: settings: {name} must not be below {least}")
    return settings


class FileDirectory:
    """The directory as files in a station's own directory (see `transport.station_files`).

    Args:
        wall_ns: UTC, nanoseconds; compared with the times of files.

    Raises:
        KeyFileError: at the start, when station.toml, a key or a peer's card is not as it must be. A fault in a host's
            card, and every fault later, comes out of `changes`.
    """

    def __init__(self, directory: Path, wall_ns: Callable[[], int] = time.time_ns) -> None:
        self._directory = directory
        self._config = read_station(directory)
        self._settings = read_settings(self._config.settings, str(directory / STATION_FILE))
        own = self._config.card
        self._peers = _Folder(directory / PEERS, read_station_card, own.group, (own.id, own.slot, own.key), wall_ns)
        self._hosts = _Folder(directory / HOSTS, read_host_card, None, None, wall_ns)
        self._station_file = _File(directory / STATION_FILE, wall_ns)
        self._revoked_file = _File(directory / REVOKED, wall_ns)
        self._station_file.changed()
        self._stations: dict[str, StationCard] = {}
        self._known: dict[str, HostCard] = {}
        self._by_key: dict[str, HostCard] = {}
        self._revoked: dict[str, HostCard] = {}
        self._revoked_names: frozenset[str] = frozenset()
        self._told: dict[Path, str] = {}
        if faults := [change.text for change in self._read_peers() if isinstance(change, Fault)]:
            raise KeyFileError("; ".join(faults))

    def stations(self) -> list[StationCard]:
        """All stations but this one, by slot."""
        return sorted(self._stations.values(), key=lambda card: card.slot)

    def station(self, key: str) -> StationCard | None:
        """The peer with this key."""
        return self._stations.get(key)

    def hosts(self) -> list[HostCard]:
        """All hosts that are not revoked, by number."""
        return sorted(self._by_key.values(), key=lambda card: card.number)

    def host(self, key: str) -> HostCard | None:
        """The host with this key; None: unknown or revoked."""
        return self._by_key.get(key)

    def revoked(self) -> list[HostCard]:
        """All known hosts that are revoked, by number."""
        return sorted(self._revoked.values(), key=lambda card: card.number)

    def settings(self) -> Settings:
        """The settings that hold now."""
        return self._settings

    def changes(self) -> list[Change]:
        """What has changed since the last call; the first call tells all hosts."""
        return [*self._read_peers(), *self._read_hosts(), *self._read_settings()]

    def _read_peers(self) -> list[Change]:
        faults = self._peers.scan()
        stations = {card.key: card for card in self._peers.cards.values()}
        changed = stations != self._stations
        self._stations = stations
        return [*map(Fault, faults), *([PeersChanged()] if changed else [])]

    def _read_hosts(self) -> list[Change]:
        changes: list[Change] = [Fault(text) for text in self._hosts.scan()]
        if self._revoked_file.changed():
            try:
                self._revoked_names = frozenset(read_revoked(self._directory))
            except KeyFileError as error:
                changes += self._tell(self._revoked_file, str(error))
        elif self._hosts.cards is self._known:
            return changes
        cards, known = self._hosts.cards, self._known
        revoked = {name: card for name, card in cards.items() if name in self._revoked_names}
        changes += [HostKnown(card) for name, card in cards.items() if known.get(name) != card]
        changes += [HostRevoked(card) for name, card in revoked.items() if self._revoked.get(name) != card]
        self._known, self._revoked = cards, revoked
        self._by_key = {card.key: card for name, card in cards.items() if name not in revoked}
        return changes

    def _read_settings(self) -> list[Change]:
        if not self._station_file.changed():
            return []
        path = self._directory / STATION_FILE
        try:
            config = read_station(self._directory)
            settings = read_settings(config.settings, str(path))
        except KeyFileError as error:
            return self._tell(self._station_file, str(error))
        changes: list[Change] = []
        if replace(config, settings={}) != replace(self._config, settings={}):
            text = f"{path}: of a running station only the settings can change; restart it for the rest"
            changes += self._tell(self._station_file, text)
        if settings != self._settings:
            self._settings = settings
            changes.append(SettingsChanged(settings))
        return changes

    def _tell(self, file: _File, text: str) -> list[Change]:
        """The fault of a file, unless it was the last one told of it; the file is looked at again in any case."""
        file.look_again()
        before, self._told[file.path] = self._told.get(file.path), text
        return [] if before == text else [Fault(text)]


class _File:
    """Whether a file, or the list of names in a folder, may have changed."""

    def __init__(self, path: Path, wall_ns: Callable[[], int]) -> None:
        self.path = path
        self._wall_ns = wall_ns
        self._stamp: Stamp | None = None

    def changed(self) -> bool:
        """True at the first call, when it has changed since the last one, and for a while after it has."""
        before, self._stamp = self._stamp, self._read()
        return self._stamp == UNSETTLED or self._stamp != before

    @property
    def unsettled(self) -> bool:
        """It changed so lately that another change may not show."""
        return self._stamp == UNSETTLED

    def look_again(self) -> None:
        """The next `changed` is true: what was found there may be mended without a trace in its time of change."""
        self._stamp = None

    def _read(self) -> Stamp:
        try:
            status = self.path.stat()
        except OSError:
            return ABSENT
        if abs(self._wall_ns() - status.st_mtime_ns) < SETTLED_NS:
            return UNSETTLED
        return status.st_mtime_ns, status.st_size, status.st_ino


class _Folder(Generic[C]):
    """The cards of one folder: the last good one of each file, as far as they agree with each other.

    Args:
        group: the group that every card must name; None: cards name none.
        own: name, number and key that no card may have.
    """

    def __init__(
        self,
        folder: Path,
        read: Callable[[Path], C],
        group: str | None,
        own: tuple[str, int, str] | None,
        wall_ns: Callable[[], int],
    ) -> None:
        self._folder = _File(folder, wall_ns)
        self._read: Callable[[Path], C] = read
        self._group = group
        self._own = own
        self._wall_ns = wall_ns
        self._files: dict[str, _File] = {}
        self._good: dict[str, C] = {}
        self._told: dict[str, str] = {}
        self.cards: dict[str, C] = {}
        """By name, in the order of file names; another object when anything has changed."""

    def scan(self) -> list[str]:
        """Read what has changed; returns the faults that were not told before."""
        if not self._folder.changed():
            return []
        folder = self._folder.path
        try:
            names = sorted(path.name for path in folder.iterdir() if path.suffix == CARD and path.name[0] != ".")
        except OSError as error:
            return self._tell({"": f"{folder} cannot be read: {error.strerror}"})
        faults: dict[str, str] = {}
        self._files = {name: self._files.get(name) or _File(folder / name, self._wall_ns) for name in names}
        self._good = {name: card for name, card in self._good.items() if name in self._files}
        for name, file in self._files.items():
            if file.changed() or name in self._told:
                try:
                    self._good[name] = self._read(file.path)
                except KeyFileError as error:
                    faults[name] = str(error)
        cards = self._agreed(faults)
        if cards != self.cards:
            self.cards = cards
        return self._tell(faults)

    def _agreed(self, faults: dict[str, str]) -> dict[str, C]:
        """The good cards without those that claim what another one has; of two, the first by file name holds."""
        cards: dict[str, C] = {}
        taken: dict[str | int, str] = dict.fromkeys(self._own or (), "this station")
        for file, card in sorted(self._good.items()):
            name, number = (card.id, card.slot) if isinstance(card, StationCard) else (card.name, card.number)
            claims = (name, number, card.key)
            other = next((taken[claim] for claim in claims if claim in taken), None)
            path = self._folder.path / file
            if file != name + CARD:
                faults[file] = f"{path} is the card of {name!r}: its name must be {name + CARD}"
            elif other is not None:
                faults[file] = f"{path}: its name, number or key is that of {other}"
            elif isinstance(card, StationCard) and card.group != self._group:
                faults[file] = f"{path}: it belongs to group {card.group!r}, this station to {self._group!r}"
            else:
                cards[name] = card
                taken.update(dict.fromkeys(claims, name))
        return cards

    def _tell(self, faults: dict[str, str]) -> list[str]:
        new = [text for file, text in faults.items() if self._told.get(file) != text]
        self._told = faults
        if faults or any(file.unsettled for file in self._files.values()):
            self._folder.look_again()
        return new
