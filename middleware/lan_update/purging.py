"""Tombstones go by their holders, not by their age: the second half of deleting a key (lan-update.md C.b, PURGE).

A tombstone goes once every member has held it durably for longer than Q: then nobody holds the older live entry. What
Q is for: a disk that goes back by less holds the tombstone as well, one that goes back by more is stale at its start.
"""

from __future__ import annotations

from roamcast.middleware.lan_update.replica import Replica


def purge(replica: Replica, purge_after: int, mutants: frozenset[str]) -> None:
    """Drop what is old enough. Only a node that speaks with authority may."""
    for key in list(replica.tombstones):
        entry = replica.entries[key]
        if replica.is_settled(entry):
            since = replica.settled_since(entry)
        elif "purge_by_age" in mutants:
            since = entry.version.time
        else:
            continue
        if replica.wall - since > purge_after:
            replica.drop(key)
