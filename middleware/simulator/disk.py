"""A disk that loses unsynced writes in a crash, and, for mutants, writes that should have been there.

A *unit* is what one write call hands over: it survives whole or not at all. Units survive in order: a crash keeps
a prefix of those that were not synced.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Any, Generic, TypeVar

from roamcast.middleware.errors import ensure
from roamcast.middleware.lan_update.records import LanImage
from roamcast.middleware.membership.invitations import InvitationImage
from roamcast.middleware.writes import DurableState

State = TypeVar("State")

Apply = Callable[[State, tuple[Any, ...]], None]


@dataclass(frozen=True, slots=True)
class DiskFault:
    """A durability mutant: what happens to facts of one class in a crash.

    'disk' = every one since the last start is lost, 'late' = the newest ones are lost though they were synced,
    'split' = the step it is written in is no longer atomic.
    """

    how: str
    fact: str
    """Class name."""
    field: str = ""
    value: str = ""
    """Only facts (or their `image`) whose `field` has this value; '' = all."""

    def hits(self, fact: Any) -> bool:
        """Is `fact` one of those?"""
        if type(fact).__name__ != self.fact:
            return False
        holder = getattr(fact, "image", fact)
        return not self.field or str(getattr(holder, self.field)) == self.value


def disk_faults(mutants: Sequence[str], owner: str) -> tuple[DiskFault, ...]:
    """Parse '<how>:<Fact>' and '<how>:<Fact>:<field>=<value>'; `owner` is 'station' or 'agent' ('agent-<how>:...')."""
    faults = []
    prefix = "agent-" if owner == "agent" else ""
    for mutant in mutants:
        how, _, rest = mutant.partition(":")
        if how in (prefix + "disk", prefix + "late", prefix + "split"):
            fact, _, condition = rest.partition(":")
            name, _, value = condition.partition("=")
            faults.append(DiskFault(how.removeprefix(prefix), fact, name, value))
    return tuple(faults)


class Disk(Generic[State]):
    """Durable image of one process. `state` is what is safe; `load()` gives a start its own copy."""

    def __init__(
        self,
        state: State,
        apply: Apply[State],
        copy: Callable[[State], State],
        rng: Random,
        faults: tuple[DiskFault, ...] = (),
    ) -> None:
        self.state = state
        self.writes = 0
        self._apply = apply
        self._copy = copy
        self._rng = rng
        self._faults = faults
        self._unsynced: list[tuple[tuple[Any, ...], Callable[[], None] | None]] = []
        self._base = copy(state)
        self._journal: list[tuple[Any, ...]] = []

    def write(self, facts: Sequence[Any], durable: Callable[[], None] | None = None) -> None:
        """Hand over one unit; `durable` is called once it is safe (perhaps only in a crash that keeps it)."""
        if any(fault.how == "split" and fault.hits(fact) for fault in self._faults for fact in facts):
            for fact in facts[:-1]:
                self._unsynced.append(((fact,), None))
            facts = facts[-1:]
        self._unsynced.append((tuple(facts), durable))

    def sync(self) -> None:
        """Everything handed over is safe from here."""
        if self._unsynced:
            self._keep(len(self._unsynced))

    def crash(self) -> None:
        """The process is gone: a prefix of the unsynced units is kept."""
        if self._unsynced:
            self._keep(self._rng.randint(0, len(self._unsynced)))
        if self._journal:
            self._lose()

    def load(self) -> State:
        """What a start finds. Unsynced units of a process that still runs are not seen."""
        return self._copy(self.state)

    def reset(self, state: State) -> None:
        """The store is wiped and holds `state`."""
        self.state = state
        self._unsynced, self._journal = [], []
        self._base = self._copy(state)

    def _keep(self, count: int) -> None:
        units, self._unsynced = self._unsynced[:count], []
        for facts, durable in units:
            self._apply(self.state, facts)
            self.writes += 1
            if self._faults:
                self._journal.append(facts)
            if durable is not None:
                durable()

    def _lose(self) -> None:
        """Build the image again without the facts that the mutants forget."""
        state = self._base
        late_from = len(self._journal) - self._rng.randint(1, 4)
        for number, facts in enumerate(self._journal):
            for fact in facts:
                gone = any(
                    fault.hits(fact) and (fault.how == "disk" or (fault.how == "late" and number >= late_from))
                    for fault in self._faults
                )
                if not gone:
                    try:
                        self._apply(state, (fact,))
                    except (KeyError, IndexError, AttributeError):
                        continue  # it spoke of something that was forgotten
        self.state = state
        self._base = self._copy(state)
        self._journal = []


def apply_writes(state: DurableState, writes: tuple[Any, ...]) -> None:
    """The reference meaning of a station's writes."""
    state.apply(writes)


def copy_lan(image: LanImage) -> LanImage:
    """A copy that shares only immutable parts."""
    history = {key: dict(lines) for key, lines in image.history.items()}
    return LanImage(dict(image.entries), image.alive, list(image.found), history)


def copy_state(state: DurableState) -> DurableState:
    """A copy that shares only immutable parts."""
    return DurableState(
        rows={key: replace(row) for key, row in state.rows.items()},
        streams={slot: replace(stream) for slot, stream in state.streams.items()},
        last_position=state.last_position,
        hlc=state.hlc,
        starts=state.starts,
        records=dict(state.records),
        spools={key: list(entries) for key, entries in state.spools.items()},
        items=dict(state.items),
        last=dict(state.last),
        hosts=dict(state.hosts),
        held=dict(state.held),
        view=state.view,
        reserved=dict(state.reserved),
        invitations=InvitationImage(dict(state.invitations.invitations)),
        lan=copy_lan(state.lan),
    )


def stored_item(disk: Disk[DurableState], slot: int, n: int) -> bytes:
    """The item of a message that a core no longer holds in memory."""
    disk.sync()
    row = disk.state.rows.get((slot, n))
    item = row.item if row is not None and not row.lean else disk.state.items[slot, n].item
    ensure(item is not None, "the store holds no item")
    return item or b""
