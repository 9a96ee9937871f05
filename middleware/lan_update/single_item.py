"""The information update algorithm of paper 004 for its single item, as a readable reference.

Promise (theorem 1): an update that a node has stored reaches every node along any path of nodes that run together
for k Tw each, over any nodes between, whoever stops and recovers when. Ground: Saitoh, Tsushi, Tsujino, Tokura,
section 4. The node's three processes are three inputs of one core:

| paper | here |
|--|--|
| `kaifuku`, figure 4.3: at recovery | the constructor; `resume` gives the first step |
| `receipt`, figure 4.4: fills the queue | `receive` |
| `local_request`, figure 4.5: fills the queue | `request` |
| `management`, figure 4.6: all the rest | `resume`: what it asked for last is done, the next step please |

Where this differs from the paper, and why:

| place | paper | here |
|--|--|--|
| 4.6, send | sends `myinf`, which nothing assigns | `myinfo` |
| 4.6, msgprocess | NOTUPDATED and IGNORED, of two types | one `Result` |
| 4.5 | `src_node` is left unset | it is the own name |
| 4.3 | does not load `myinfo` (4.2.2 says that it does) | it is handed to the constructor |
| 4.6, foreach | any order; in a fixed one the last may wait longer than theorem 1 says | told longest ago first |
| 4.6, generated | stored without comparison: with a slow clock the store goes back | above what is stored |
| 4.6, NEWER | also leaves out `src_node`, which is never told again when its store went back | only the sender |
| 4.6, OLDER | not answered once the queue held an update | always answered |
| 3.1 (4) | equal stamps of two nodes are not ordered | by stamp, then node |
| 3.1 (5) | a stopped node stays down for Tu | for Tw, which lemma 3 needs |
| theorem 2 | steady after (N-1)Tw; in the proof, plus (N+3)(N-1)/Tc | 2(N-1)Tw + (N+3)(N-1)Tc |

A fixed order of telling: lemma 5 takes a pass without updates for the longest. But a node that recovers may be given
ever newer information, none of it the newest, by nodes that come up for a moment each, and starts over every time: the
last in its order is reached after (N-2)(N-2) sends, which is more than 3(N-1) from N = 6 on. Theorem 2: the pass under
way may be followed by a pass of answers to older information. The result of send stays unused: within the model,
whoever was down distributes at its recovery. Between two halves of a network that is cut while both run, nobody
recovers and nothing is repaired.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from enum import IntEnum


@dataclass(slots=True, frozen=True)
class Message:
    """The information with its origin: the one kind of message, and what every node stores (figure 4.1)."""

    stamp: int
    src_node: int
    data: str = ""


INITIAL = Message(0, -1)
"""What a node has stored before it knows of any update."""


@dataclass(slots=True, frozen=True)
class QueueEntry:
    """What happened, in the order in which it did (figure 4.1)."""

    generated: bool
    sender: int
    mes: Message


@dataclass(slots=True, frozen=True)
class Taken:
    """A step: an entry has left the queue; its processing takes up to Tc."""


@dataclass(slots=True, frozen=True)
class Store:
    """A step: store it; it is durable (Tf) before `resume`."""

    mes: Message


@dataclass(slots=True, frozen=True)
class Send:
    """A step: send it; `resume` when the send has ended, well or not, within Tw."""

    mes: Message
    dst: int


Step = Taken | Store | Send
Process = Generator[Step | None, None, None]
"""A part of `management`; None: it waits in `dequeue`."""


class Result(IntEnum):
    """What came of the entries in the queue."""

    IGNORED = 0
    OLDINFO = 1
    UPDATED = 2


class SingleItemNode:
    """One life of one node, from its recovery until it stops. An input returns the next step; None: no new one."""

    def __init__(self, myname: int, net: Sequence[int], myinfo: Message, mutants: frozenset[str] = frozenset()) -> None:
        """`net` names all nodes, in the order in which they are told first; `myinfo` is what this one has stored."""
        self.myname = myname
        self.myinfo = myinfo
        self.queue: deque[QueueEntry] = deque()
        self.busy = True
        """`management` has asked for a step and waits for its end; False: it rests, and the queue is empty."""
        self._others = [node for node in net if node != myname]
        """Whoever was told longest ago comes first."""
        self._range = [] if "no_recovery" in mutants else list(self._others)
        """Whom to tell."""
        self._mutants = mutants
        self._management = self._run()

    def request(self, data: str, clock: int) -> Step | None:
        """The local user updates the information, at `clock` of this node."""
        return self._enqueue(QueueEntry(True, self.myname, Message(clock, self.myname, data)))

    def receive(self, sender: int, mes: Message) -> Step | None:
        """A message of another node has come."""
        return self._enqueue(QueueEntry(False, sender, mes))

    def resume(self) -> Step | None:
        """The node has recovered, or the last step is done."""
        step = next(self._management)
        self.busy = step is not None
        return step

    def _enqueue(self, entry: QueueEntry) -> Step | None:
        self.queue.append(entry)
        return None if self.busy else self.resume()

    # ---- management ----

    def _run(self) -> Process:
        """The main program of figure 4.6."""
        while True:
            while self._range:
                yield from self._distribute()
            while (yield from self._process_queue()) is Result.IGNORED:
                pass

    def _distribute(self) -> Process:
        """Tell all in range; an update on the way sets a new range, in which all are that were not told yet."""
        telling = self._range
        if "range_late" not in self._mutants:
            self._range = []
        for dst in telling:
            if self.queue and (yield from self._process_queue()) is Result.UPDATED:
                return
            yield Send(self.myinfo, dst)
            if "fixed_order" not in self._mutants:
                self._others.remove(dst)
                self._others.append(dst)
        if "range_late" in self._mutants:
            self._range = []

    def _process_queue(self) -> Generator[Step | None, None, Result]:
        """`msgprocess`: wait for an entry if there is none, then take entries until the queue is empty."""
        result = Result.IGNORED
        while True:
            while not self.queue:
                yield None
            entry = self.queue.popleft()
            yield Taken()
            if entry.generated:
                yield from self._store(self._stamped(entry.mes))
                self._range = list(self._others)
                result = Result.UPDATED
            elif self._age(entry.mes) > self._age(self.myinfo):
                yield from self._store(entry.mes)
                self._range = self._after_update(entry)
                result = Result.UPDATED
            elif self._age(entry.mes) < self._age(self.myinfo) and self._is_answered(result):
                self._range = [node for node in self._others if node in self._range or node == entry.sender]
                result = max(result, Result.OLDINFO)
            if not self.queue:
                return result

    def _store(self, mes: Message) -> Process:
        """`store_info`: the store first, then `myinfo`."""
        yield Store(mes)
        self.myinfo = mes

    def _stamped(self, mes: Message) -> Message:
        """`store_newinfo`: a new update is newer than all that its author has."""
        stamp = mes.stamp if "raw_clock" in self._mutants else max(mes.stamp, self.myinfo.stamp + 1)
        return Message(stamp, mes.src_node, mes.data)

    def _age(self, mes: Message) -> tuple[int, int]:
        """What `compare` compares: of two updates every node names the same newer one."""
        return (mes.stamp, 0 if "stamp_alone" in self._mutants else mes.src_node)

    def _after_update(self, entry: QueueEntry) -> list[int]:
        """All others but the one that has told it."""
        if "no_relay" in self._mutants:
            return []
        left_out = [] if "sender_told" in self._mutants else [entry.sender]
        if "source_left_out" in self._mutants:
            left_out.append(entry.mes.src_node)
        return [node for node in self._others if node not in left_out]

    def _is_answered(self, result: Result) -> bool:
        """Whether the sender of older information is told."""
        if "source_left_out" in self._mutants:
            return result is not Result.UPDATED
        return "no_answer" not in self._mutants
