"""What a write of the configuration has done, for who made it: what it replaced, and what it overruled unseen."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from roamcast.middleware.lan_update.records import Entry, PutHistory, Version
from roamcast.mss_station import config_text
from roamcast.mss_station.store import read_history


@dataclass(frozen=True, slots=True)
class Written:
    """An entry that was written at this station."""

    entry: Entry
    before: Entry | None
    """What it replaced."""
    unseen: tuple[Entry, ...]
    """What that had overruled: concurrent writes whose authors it had not heard of."""

    def remarks(self) -> list[str]:
        """The same for a person, one line each."""
        lines = []
        if self.before is not None:
            author, at = self.before.version.node, config_text.time_of(self.before.version)
            lines.append(f"it replaces {config_text.shown(self.before)}, written at {author} on {at} UTC")
        return lines + [remark_unseen(entry) for entry in self.unseen]


def look_up(path: Path, key: str, version: Version) -> Written:
    """What became of the write of `key` at the station in `path` that made this version. Raises StoreError."""
    lines = {line.entry.version: line for line in read_history(path, key)}
    entry = lines[version].entry
    before = None if entry.after is None else lines.get(entry.after)
    unseen = () if entry.after is None else tuple(line.entry for line in lost_to(lines.values(), entry.after))
    return Written(entry, None if before is None else before.entry, unseen)


def lost_to(lines: Iterable[PutHistory], version: Version) -> list[PutHistory]:
    """The concurrent writes that this version has won over without its author having seen them."""
    return [line for line in lines if line.lost_to == version]


def remark_unseen(entry: Entry) -> str:
    """A line on a concurrent write that was overruled."""
    author, at = entry.version.node, config_text.time_of(entry.version)
    return f"which overruled {config_text.shown(entry)}, written at {author} on {at} UTC, without having seen it"
