"""The order of what one host was given: everything that happened before a message, and ever comes, comes before it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from demo.verdict import Message


class Order:
    """Walks one host's deliveries: per sender, which of its messages comes next here.

    Args:
        sent_by: the messages of each host, in order.
        given: all that this host was ever given and is meant for it, repeats too.
    """

    def __init__(self, sent_by: Sequence[Sequence[Message]], given: Sequence[Message]) -> None:
        self._sent_by = sent_by
        self._left = Counter(message.uid for message in given)
        """How often each is still to be given."""
        self._due: list[list[int]] = [[] for _ in sent_by]
        """Per sender: indices of its messages that this host is ever given, ascending."""
        for message in {message.uid: message for message in given}.values():
            self._due[message.sender].append(message.index)
        for due in self._due:
            due.sort()
        self._next = [0] * len(sent_by)
        self._here: set[tuple[int, int]] = set()

    def give(self, message: Message) -> Message | None:
        """`message` is given now. Returns one that happened before it and is given later, if there is any."""
        self._left[message.uid] -= 1
        self._here.add((message.sender, message.index))
        return self.missing_before(message)

    def missing_before(self, message: Message, but_on: str | None = None) -> Message | None:
        """One, not on this topic, that happened before `message` and is given later, if there is any."""
        for sender, due in enumerate(self._due):
            place = self._next[sender]
            while place < len(due) and (sender, due[place]) in self._here:
                place += 1
            self._next[sender] = place
            while place < len(due) and due[place] <= message.clock[sender]:
                earlier = self._sent_by[sender][due[place] - 1]
                if (sender, due[place]) not in self._here and (but_on is None or earlier.topic != but_on):
                    return earlier
                place += 1
        return None

    def forget(self, messages: Iterable[Message]) -> None:
        """These deliveries did not count. They come again; or never, if they are of a subscription that has ended."""
        for message in messages:
            self._here.discard((message.sender, message.index))
            if not self._left[message.uid]:
                self._due[message.sender].remove(message.index)
            self._next[message.sender] = 0
