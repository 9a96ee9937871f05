"""How far a run is, from the applications' logs while they grow. For people to follow; the verdict is the judge's."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


class Progress:
    """Reads what was added to ``*.jsonl`` of one directory since the last `read`."""

    def __init__(self, directory: Path, members: list[str]) -> None:
        """`members`: the hosts that are owed every broadcast."""
        self._directory = directory
        self._at: dict[Path, int] = {}
        self._broadcasts: set[str] = set()
        self._mails: dict[str, set[str]] = {name: set() for name in members}
        self._void: set[str] = set()
        self._given: dict[str, dict[Path, list[str]]] = {name: {} for name in members}
        self._acked: dict[str, set[str]] = {name: set() for name in members}
        self.sent = 0
        self.moves = 0
        self.first_at: dict[str, str] = {}
        """By station: the host that attached there first."""
        self.changes: dict[tuple[str, str], list[str]] = {}
        """By host and topic: what it was told of its subscription."""
        self.away: dict[str, bool] = {}
        """By host: what was said last of it to some host that follows its presence."""
        self.others: list[dict[str, Any]] = []
        """Lines of other kinds (gap, lost, errors, what an application chose to note), in the order read."""

    @property
    def delivered(self) -> int:
        """(message, host) pairs acknowledged so far."""
        return sum(map(len, self._acked.values()))

    def missing(self, without: frozenset[str] = frozenset()) -> int:
        """(message, host) pairs sent and not yet acknowledged, the hosts of `without` left out."""
        return sum(len(self.missing_at(name)) for name in self._acked if name not in without)

    def missing_at(self, host: str) -> set[str]:
        """Messages that `host` is owed and has not acknowledged."""
        return (self._broadcasts | self._mails[host]) - self._acked[host] - self._void

    def read(self) -> None:
        """Take in all complete lines that were added."""
        for path in sorted(self._directory.glob("*.jsonl")):
            with path.open("rb") as file:
                file.seek(self._at.get(path, 0))
                data = file.read()
            whole = data[: data.rfind(b"\n") + 1]
            self._at[path] = self._at.get(path, 0) + len(whole)
            for line in whole.splitlines():
                self._take(path, json.loads(line))

    def _take(self, path: Path, entry: dict[str, Any]) -> None:
        kind, host = entry["event"], entry.get("host", "")
        if kind == "sent":
            self.sent += 1
            if entry.get("topic"):
                return  # who is owed it is the judge's matter
            if entry["to"] is None:
                self._broadcasts.add(entry["uid"])
            elif entry["to"] in self._mails:
                self._mails[entry["to"]].add(entry["uid"])
        elif kind == "receipt":
            if entry["outcome"] != "stored":
                self._void.add(entry["uid"])
        elif kind in ("given", "acked", "start") and host not in self._acked:
            return
        elif kind == "given":
            self._given[host].setdefault(path, []).append(entry["uid"])
        elif kind == "acked":
            given = self._given[host].pop(path, [])
            last = given.index(entry["uid"]) + 1 if entry["uid"] in given else 0
            self._acked[host].update(given[:last])
            self._given[host][path] = given[last:]
        elif kind == "start":
            self._given[host].pop(path, None)
        elif kind == "move":
            self.moves += 1
        elif kind == "attached":
            self.first_at.setdefault(entry["station"], host)
        elif kind == "change":
            self.changes.setdefault((host, entry["topic"]), []).append(entry["state"])
        elif kind == "presence":
            self.away[entry["of"]] = not entry["online"]
        elif kind not in ("call", "failed", "acking", "end", "asking", "changed", "value"):
            self.others.append(entry)
