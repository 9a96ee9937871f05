"""What a station writes of spools, and of items that outlive their rows. `apply_spool` is the meaning of it."""

from __future__ import annotations

from dataclasses import dataclass

from roamcast.middleware.rows import MessageId, SpoolItem

RecordKey = tuple[int, int, int]
"""(host number, incarnation, arr): a custody record; arr = epoch at which custody came here."""

SpoolLine = tuple[int, int, int, int, MessageId]
"""(pos, slot, n, topic, sub): a spool entry; the last two as in `SpoolItem`."""


@dataclass(slots=True, frozen=True)
class SpoolAdd:
    """Append entries, pos ascending; `items` are those not yet in the spool item table."""

    key: RecordKey
    entries: tuple[SpoolLine, ...]
    items: tuple[SpoolItem, ...]


@dataclass(slots=True, frozen=True)
class SpoolTrim:
    """Entries with pos <= upto go."""

    key: RecordKey
    upto: int


@dataclass(slots=True, frozen=True)
class SpoolDrop:
    """The entries at these positions go."""

    key: RecordKey
    positions: tuple[int, ...]


@dataclass(slots=True, frozen=True)
class SpoolRenumber:
    """The L entries of the record get positions -L .. -1, in order."""

    key: RecordKey


@dataclass(slots=True, frozen=True)
class SpoolMove:
    """All entries of `source` become entries of `target` (which has none)."""

    source: RecordKey
    target: RecordKey


@dataclass(slots=True, frozen=True)
class DropSpoolItems:
    """Items that no spool names any more."""

    ids: tuple[MessageId, ...]


@dataclass(slots=True, frozen=True)
class PutItems:
    """Items that are kept as last values, from before their rows go; `item` None: copied from the row."""

    items: tuple[SpoolItem, ...]


SpoolWrite = SpoolAdd | SpoolTrim | SpoolDrop | SpoolRenumber | SpoolMove | DropSpoolItems | PutItems


def apply_spool(write: SpoolWrite, spools: dict[RecordKey, list[SpoolLine]], items: dict[MessageId, SpoolItem]) -> None:
    """Change the two tables as the write says."""
    match write:
        case SpoolAdd(key, entries, fresh):
            spools.setdefault(key, []).extend(entries)
            items.update(((item.slot, item.n), item) for item in fresh)
        case SpoolTrim(key, upto):
            spools[key] = [entry for entry in spools.get(key, []) if entry[0] > upto]
        case SpoolDrop(key, positions):
            spools[key] = [entry for entry in spools.get(key, []) if entry[0] not in positions]
        case SpoolRenumber(key):
            spool = spools.get(key, [])
            spools[key] = [(i - len(spool), *line[1:]) for i, line in enumerate(spool)]
        case SpoolMove(source, target):
            spools[target] = spools.pop(source, [])
        case DropSpoolItems(ids):
            for message_id in ids:
                items.pop(message_id, None)
        case PutItems(kept):
            items.update(((item.slot, item.n), item) for item in kept)
