"""The witness journal of an agent: its core, which also notes what the application was given and has sent.

Off unless asked for, and loaded only then. What a tick notes counts once the tick is over, for then the same facts are
in the agent's state; it is written a second later at most, or as soon as BATCH_EVENTS wait, by the agent's thread. Of a
process that is killed so much may be missing; the next header says so. Source: docs/protocols/delivery-log.md.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Final

from roamcast.middleware.delivery_log import GAP, GIVEN, HEARD, LOST, SENT
from roamcast.middleware.host_frames import DownFrame, LiveMsg
from roamcast.middleware.mobile_host import effects as do
from roamcast.middleware.mobile_host.core import AgentCore
from roamcast.middleware.rows import Kind, MessageId
from roamcast.middleware.settings import SECOND
from roamcast.transport.segment_blocks import JOURNAL, SegmentHeader
from roamcast.transport.segment_folder import SegmentFolder
from roamcast.transport.segment_rows import Event

BATCH_EVENTS: Final = 256
BATCH_AGE: Final = SECOND
LIVE_MAX: Final = 4_096
"""Live messages that are remembered, and that wait for an acknowledgement before them; of more nothing is noted."""
_log = logging.getLogger(__name__)


def _wall() -> int:
    return time.time_ns() // 1_000


def _software() -> str:
    try:
        return f"roamcast {version('roamcast')}"
    except PackageNotFoundError:
        return "roamcast"


def _addressee(to: str | None, kind: int) -> str:
    """What `sent` says: the host, '' for all of them, or the topic behind a sign that no host's name begins with."""
    return to or "" if kind in (Kind.BROADCAST, Kind.MAIL) else f"#{to}"


def witnessed(path: Path, group: str, held: ExitStack) -> Callable[..., AgentCore]:
    """What makes a core that journals into the folder `path` until `held` is closed. Its arguments: as of AgentCore.

    It raises FolderInUse or OSError if the folder cannot be used. A disk that is full later stops nothing: it is said
    once, and `status` has it.
    """
    return partial(WitnessedCore, path, group, held)


class WitnessedCore(AgentCore):
    """See `witnessed`."""

    def __init__(self, path: Path, group: str, held: ExitStack, **arguments: Any) -> None:
        self._group = group
        self._host: str = arguments["name"]
        self._software = _software()
        self._noted: list[Event] = []
        """Of the open tick, or of the last one."""
        self._waiting: list[Event] = []
        """Of ticks before."""
        self._due: int | None = 1
        """When the thread is to write. At once at first: also a life that is soon killed has begun a segment."""
        self._given: deque[tuple[int, str, tuple[int, ...]]] = deque()
        """(token, event, values) of what is given and not acknowledged."""
        self._until: dict[MessageId, int] = {}
        """Live message that came -> until when it may be given, monotonic: by its frame alone."""
        self._owner: int = arguments["image"].incarnation
        self._folder = SegmentFolder(path, self._header)
        held.callback(self._release)
        super().__init__(**arguments)

    def begin(self, now: int) -> None:
        """See AgentCore. The tick before is over."""
        super().begin(now)
        if self._noted:
            self._waiting += self._noted
            self._noted = []

    def expire(self) -> None:
        """See AgentCore. Also writes what has waited long enough."""
        super().expire()
        due = self._due_at()
        if due is not None and self._now >= due:
            self._write()

    def next_deadline(self) -> int | None:
        """See AgentCore."""
        return min((at for at in (super().next_deadline(), self._due_at()) if at is not None), default=None)

    def flush(self) -> list[do.AgentEffect]:
        """See AgentCore."""
        effects = super().flush()
        if self.session.incarnation != self._owner:
            self._begin_incarnation(effects)
        if self._noted and self._due is None:
            self._due = self._now + BATCH_AGE
        return effects

    def submit(self, body: bytes, to: str | None = None, kind: Kind = Kind.BROADCAST) -> int:
        """See AgentCore."""
        inbox = self.session.inbox
        number = super().submit(body, to, kind)
        self._note(SENT, number, inbox.le, inbox.given_position, _addressee(to, kind))
        return number

    def take(self) -> do.Given | None:
        """See AgentCore."""
        inbox = self.session.inbox
        e, c = inbox.le, inbox.given_position
        given = super().take()
        if isinstance(given, do.Delivered) and not given.retained:  # a last value has no place in the order
            self._given.append((given.token, GIVEN, (*given.place, *given.id, given.incarnation32, given.number)))
        elif isinstance(given, do.LiveDelivered):
            self._heard(given)
        elif isinstance(given, do.Discontinuity):
            self._given.append((given.token, GAP, (e, c)))
        return given

    def receive(self, frame: DownFrame) -> None:
        """See AgentCore."""
        if isinstance(frame, LiveMsg):
            if len(self._until) >= LIVE_MAX:
                self._until = {name: until for name, until in self._until.items() if until >= self._now}
            if len(self._until) < LIVE_MAX:
                self._until[frame.id] = self._now + frame.left
        super().receive(frame)

    def _heard(self, live: do.LiveDelivered) -> None:
        """It is noted behind what was given before it; it needs no acknowledgement of its own."""
        stamp, slot = live.id
        until = self._until.get(live.id)
        if until is None or len(self._given) >= LIVE_MAX:
            return
        inbox, sent = self.session.inbox, self.session.outbox.highest
        values = (inbox.le, inbox.given_position, slot, stamp, sent, until - self._now)
        if self._given:
            self._given.append((live.token, HEARD, values))
        else:
            self._note(HEARD, *values)

    def ack(self, token: int) -> None:
        """See AgentCore."""
        super().ack(token)
        while self._given and self._given[0][0] <= token:
            _, event, values = self._given.popleft()
            self._note(event, *values)

    def status(self) -> dict[str, Any]:
        """See AgentCore. `journal`: why its last events could not be written, and how many could not so far."""
        return super().status() | {"journal": {"problem": self._folder.problem, "unwritten": self._folder.unwritten}}

    def _release(self) -> None:
        """The last tick is over: write everything. Without a tick behind that, the last one may have failed."""
        if self._waiting:
            self._write()
        self._folder.close(_wall(), whole=not self._noted)

    def _note(self, event: str, *values: Any) -> None:
        self._noted.append((event, _wall(), values))

    def _due_at(self) -> int | None:
        """When the thread must write; it may find that the last tick has to be over first."""
        return self._now if len(self._waiting) + len(self._noted) >= BATCH_EVENTS else self._due

    def _write(self) -> None:
        waiting, self._waiting = self._waiting, []
        self._due = self._now + BATCH_AGE if self._noted else None
        before = self._folder.problem
        self._folder.write(waiting, _wall(), self._owner)
        if self._folder.problem is not None and before is None:
            _log.error("%s: the journal cannot be written: %s", self._host, self._folder.problem)

    def _begin_incarnation(self, effects: list[do.AgentEffect]) -> None:
        """What waits is of the one before. What goes on under a new number counts as sent anew."""
        if self._waiting:
            self._write()
        self._owner = self.session.incarnation
        self._note(LOST)
        entries = self.session.outbox.entries
        for effect in effects:
            if isinstance(effect, do.Receipt) and effect.state == "renumbered":
                entry = entries[effect.became]
                self._note(SENT, effect.became, 0, 0, _addressee(entry.to, entry.kind))

    def _header(self, seq: int, prev: bytes, note: str, opened: int) -> SegmentHeader:
        return SegmentHeader(
            writer=JOURNAL, group=self._group, id=self._host, incarnation=self._owner, seq=seq, prev=prev,
            opened=opened, software=self._software, note=note,
        )  # fmt: skip
