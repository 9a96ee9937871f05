"""What a message to one destination has to wait for there, and the lists of that for all destinations.

A list has entries (stamp, sender) and a horizon: the newest stamp that was ever cut from it. Entries are newer than
the horizon; they are kept in ascending order. Lists of several destinations are the same unless somebody has sent to a
part of the group: `Lists` holds one list for all, `rest`, and those that differ. A broadcast carries that one list.
Source: paper 003 section 3.2 (CB); delta-causal.md D1, D5, D7, B.b.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

Id = tuple[int, int]
"""(stamp, sender): the name of a message, and its place in the order of stamps."""


class Past(NamedTuple):
    """CB[k] and H[k] of one destination k."""

    entries: tuple[Id, ...] = ()
    horizon: int = 0
    """0: nothing was cut that is not over."""


NOTHING = Past()


@dataclass(frozen=True, slots=True)
class Lists:
    """CB and H of all destinations. Never changed, so stations and messages may share them."""

    rest: Past = NOTHING
    """Of every destination that `each` does not name, also of those that join later."""
    each: Mapping[int, Past] = field(default_factory=dict)
    """Ascending; none of them equals `rest`."""

    def of(self, destination: int) -> Past:
        """The list of one destination."""
        return self.each.get(destination, self.rest)

    @property
    def size(self) -> int:
        """Entries that a tag of these lists carries; horizons, one a list at most, are not counted."""
        return len(self.rest.entries) + sum(len(past.entries) for past in self.each.values())

    def without(self, before: int) -> Lists:
        """Without what has a stamp below `before`: it is over. The same object if there is nothing of that."""
        rest = _without(self.rest, before)
        each = {slot: _without(past, before) for slot, past in self.each.items()}
        is_same = rest is self.rest and all(past is self.each[slot] for slot, past in each.items())
        return self if is_same else lists_of(rest, each)


def lists_of(rest: Past, each: Mapping[int, Past]) -> Lists:
    """Lists in their one form: what equals `rest` is not named."""
    return Lists(rest, {destination: past for destination, past in sorted(each.items()) if past != rest})


def _without(past: Past, before: int) -> Past:
    entries, horizon = past
    if horizon >= before or not (horizon or (entries and entries[0][0] < before)):
        return past  # entries are newer than the horizon
    return Past(tuple(entry for entry in entries if entry[0] >= before))


class HorizonRule:
    """Keyed lists, replaced when a message is sent to their destination; what is cut leaves its stamp behind."""

    def __init__(self, entries_max: int | None) -> None:
        self._entries_max = entries_max

    def sent(self, past: Past, message: Id) -> Past:
        """The list of k once `message` was sent to k: it stands for all that it waits for itself."""
        return self._cut({message[1]: message[0]}, 0)

    def delivered(self, mine: Past, its: Past, message: Id, addressed: bool) -> Past:
        """The list of k when `message` is delivered at another destination. `its`: the list of k in its tag.

        If `message` is addressed to k too, it stands for all that it waits for there: its entries, older ones of the
        same senders, and whatever is over before its horizon is.
        """
        if not addressed:
            return self._cut(_newest(mine, its), max(mine.horizon, its.horizon))
        theirs = _newest(its)
        floor = its.horizon
        newest = {sender: stamp for stamp, sender in mine.entries if stamp > max(theirs.get(sender, 0), floor)}
        newest[message[1]] = max(message[0], newest.get(message[1], 0))  # it may be older, and unrelated
        return self._cut(newest, mine.horizon if mine.horizon > floor else 0)

    def awaited(self, past: Past) -> Past:
        """What a message with this list waits for: every entry, and that the horizon is over."""
        return past

    def _cut(self, newest: Mapping[int, int], horizon: int) -> Past:
        entries = sorted((stamp, sender) for sender, stamp in newest.items() if stamp > horizon)
        excess = 0 if self._entries_max is None else len(entries) - self._entries_max
        if excess > 0:
            horizon = entries[excess - 1][0]
            entries = [entry for entry in entries[excess:] if entry[0] > horizon]
        return Past(tuple(entries), horizon)


class PaperRule:
    """Every message is listed until it is over; a list as long as may be counts as cut (paper 003 section 3.2).

    What is cut is older than all that stays. So while it matters the list is full of what matters too, if entries
    leave by age alone: nothing is replaced, nothing that is known to be delivered is taken out (delta-causal.md B.a).
    """

    def __init__(self, entries_max: int | None) -> None:
        self._entries_max = entries_max

    def sent(self, past: Past, message: Id) -> Past:
        """The list of k once `message` was sent to k."""
        return self._cut({*past.entries, message})

    def delivered(self, mine: Past, its: Past, message: Id, addressed: bool) -> Past:
        """The list of k when `message` is delivered at another destination. `its`: the list of k in its tag."""
        return self._cut({*mine.entries, *its.entries, *([message] if addressed else [])})

    def awaited(self, past: Past) -> Past:
        """What a message with this list waits for: every entry; if it is full, that the newest is over."""
        is_full = self._entries_max is not None and len(past.entries) >= self._entries_max
        return Past((), past.entries[-1][0]) if is_full else past

    def _cut(self, entries: Collection[Id]) -> Past:
        ordered = sorted(entries)
        return Past(tuple(ordered if self._entries_max is None else ordered[-self._entries_max :]))


def _newest(*pasts: Past) -> dict[int, int]:
    """Sender -> its newest stamp."""
    newest: dict[int, int] = {}
    for past in pasts:
        for stamp, sender in past.entries:
            if stamp > newest.get(sender, 0):
                newest[sender] = stamp
    return newest
