"""What test applications write down, and how it is read back.

Each agent process appends JSON lines to a file of its own, each line in one write, so a killed process leaves at most a
torn last line. Per host (`host`, with `uid` naming a message and `t` in microseconds of the machine's monotonic clock):

    start   a life begins: the host's agent was opened          end      it was closed in good order
    call    about to send: uid, to (a host, or null: everybody)  sent     broadcast() or send() returned
    failed  broadcast() or send() raised: nothing was sent       receipt  what became of it: stored | unknown | refused,
                                                                     or stored and later lost or refused
    given   the application was given uid                        gap      a Discontinuity: messages were missed
    acking  about to acknowledge all up to uid                   acked    ack() returned
    lost    StateLost: the host goes on as a new incarnation

    On topics: `topic`, `retain` of call and sent, `topic`, `stamp` of given, and
    asking  about to subscribe: topic, state "in" or "out"       value    given uid as the topic's last value: stamp
    change  a Subscription: topic, state                         changed  it is acknowledged, in session epoch (0: none)
    presence  of (a host), attempt, online                       attached  session epoch is open (by another thread)

A host without `end` before its next `start` was killed. `call` and `acking` make the moment before a kill decidable;
where they are missing, `sent` and `acked` stand for them. An operator writes `revoke` before it takes the right to
receive on `topic` from `host`. Other events (moves, attachments) may be in the file too.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

KINDS = frozenset({"start", "end", "call", "sent", "failed", "receipt", "given", "acking", "acked", "gap", "lost"})
KINDS |= {"asking", "value", "change", "changed", "presence"}


@dataclass(slots=True, frozen=True)
class Event:
    """One line of one host. `uid` is empty where no message is meant."""

    kind: str
    uid: str = ""
    to: str | None = None
    t: int = 0
    outcome: str = ""
    topic: str = ""
    retain: bool = False
    state: str = ""
    stamp: tuple[int, ...] = ()
    of: str = ""
    attempt: int = 0
    online: bool = False
    epoch: int = 0


@dataclass(slots=True)
class History:
    """Per host name: its events in program order, all lives one after the other. Plus every line of another kind."""

    events: dict[str, list[Event]] = field(default_factory=dict)
    revoked: dict[tuple[str, str], list[int]] = field(default_factory=dict)
    """Host and topic: when an operator began to take the right to receive."""
    attached: dict[str, list[tuple[int, int]]] = field(default_factory=dict)
    """By host: when its sessions were open, and their epochs."""
    others: list[dict[str, object]] = field(default_factory=list)

    def take(self, entry: dict[str, Any]) -> None:
        """A line that is not in the order of a host's own."""
        if entry["event"] == "revoke":
            self.revoked.setdefault((entry["host"], entry["topic"]), []).append(entry["t"])
            return
        if entry["event"] == "attached":
            self.attached.setdefault(entry["host"], []).append((entry["t"], entry.get("epoch", 0)))
        self.others.append(entry)


def load(paths: Iterable[Path]) -> History:
    """Read log files. A host's lives stand in several files: they are put in the order of their first line.

    Raises:
        ValueError: a line in the middle of a file is not JSON, or lacks a field.
    """
    blocks: dict[str, list[tuple[int, list[Event]]]] = {}
    history = History()
    for path in sorted(paths):
        mine: dict[str, list[Event]] = {}
        lines = path.read_text(encoding="utf-8").split("\n")
        for number, line in enumerate(lines, 1):
            if not line:
                continue
            try:
                entry = json.loads(line)
                if entry["event"] in KINDS:
                    mine.setdefault(entry["host"], []).append(event_of(entry))
                else:
                    history.take(entry)
            except (json.JSONDecodeError, KeyError) as error:
                if number == len(lines):
                    continue  # torn by a kill
                raise ValueError(f"{path}, line {number}: not a line of an application log: {line!r}") from error
        for host in mine:
            blocks.setdefault(host, []).append((mine[host][0].t, mine[host]))
    for host in sorted(blocks):
        blocks[host].sort(key=lambda block: block[0])
        history.events[host] = [event for _, block in blocks[host] for event in block]
    return history


def event_of(entry: dict[str, Any]) -> Event:
    """A line as an event. Raises KeyError."""
    more = {
        name: entry[name] for name in ("topic", "retain", "state", "of", "attempt", "online", "epoch") if name in entry
    }
    stamp = tuple(entry.get("stamp", ()))
    main = (entry["event"], entry.get("uid", ""), entry.get("to"), entry["t"], entry.get("outcome", ""))
    return Event(*main, stamp=stamp, **more)
