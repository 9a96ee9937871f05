"""The judge: were all messages delivered exactly once and in causal order? It sees application logs and nothing else.

Program order of each host and "sent before given" make happens-before. From them every message gets a clock, one
counter per host ("so many messages of that host happened before"), and each host's deliveries are walked once.
Cost: entries x hosts.

- **lost**: a message was sent and a host that is owed it (all hosts, or the addressee) never counted it. One whose
  fate the sender cannot know (killed inside the call, or receipt `unknown`) is owed by all as soon as one has it.
- **doubled**: a host counted it twice. A message that was given but not acknowledged when the host's life ended comes
  again and counts once; if the life ended inside the acknowledgement it may come again or not.
- **out of order**: a host was given m before x although x happened before m, and x came later. A missing x is lost.
- **not owed**: given to a host that was not meant, or never sent, or sent and refused.
- **missed**, **repeated**: lost or doubled at a host that was told of a discontinuity or of a lost state.
- **gone**: stored, then lost with the only station that had it, and its sender was told; hosts there may have got it.

Alone: ``python examples/demo/checker.py LOG...`` prints the verdict and exits 0 or 1.
"""

from __future__ import annotations

import sys
from bisect import bisect_left
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from demo.history import Event, History, load

FATES = {"unknown": "doubt", "refused": "refused", "lost": "lost"}
"""What a receipt makes of a message; any other outcome: it was sent."""

WITNESSES_MAX = 8
INFINITE = 1 << 62


@dataclass(slots=True)
class Message:
    """One message as its sender's log tells it."""

    uid: str
    sender: int
    """Index of the sending host."""
    index: int
    """Its number among the sender's messages, from 1."""
    to: str | None
    t: int
    fate: str = "doubt"
    """'sent', 'doubt' (killed inside the call, or receipt unknown), 'failed', 'refused', or 'lost'."""
    clock: list[int] = field(default_factory=list)
    """Per host: how many of its messages happened before this one, this one included. Empty = not known."""


@dataclass(slots=True)
class Verdict:
    """What the judge found. Counts are (message, host) pairs; `latencies_us` has one entry per counted delivery."""

    messages: int = 0
    deliveries: int = 0
    lost: int = 0
    doubled: int = 0
    out_of_order: int = 0
    not_owed: int = 0
    missed: int = 0
    repeated: int = 0
    gaps: int = 0
    gone: int = 0
    """A station that was lost for good had taken it along, and its sender was told so."""
    witnesses: list[str] = field(default_factory=list)
    latencies_us: dict[str, list[int]] = field(default_factory=dict)
    """Per receiving host: sent to given, microseconds."""

    @property
    def good(self) -> bool:
        """Nothing lost, doubled, out of order or delivered to the wrong host. What the host was told of is no fault."""
        return not (self.lost or self.doubled or self.out_of_order or self.not_owed)

    def line(self) -> str:
        """The verdict in one line."""
        text = f"lost {self.lost}, doubled {self.doubled}, out of order {self.out_of_order}"
        more = {"not owed": self.not_owed, "missed and told": self.missed, "repeated and told": self.repeated}
        more |= {"gone with a station and told": self.gone}
        for word, count in more.items():
            text += f", {word} {count}" if count else ""
        return text

    def witness(self, text: str) -> None:
        """Keep the first few stories."""
        if len(self.witnesses) < WITNESSES_MAX:
            self.witnesses.append(text)


def judge(history: History, members: Sequence[str] | None = None) -> Verdict:
    """Judge a history.

    Args:
        history: the hosts' events in program order.
        members: the hosts that are owed every broadcast; default: all that have a log.
    """
    trial = _Trial(history, members)
    trial.find_messages()
    trial.find_clocks()
    for host in trial.hosts:
        trial.walk(host)
    trial.find_lost()
    return trial.verdict


class _Trial:
    """One judgement: the tables shared by its steps."""

    def __init__(self, history: History, members: Sequence[str] | None) -> None:
        self.events = history.events
        self.hosts = sorted(set(history.events) | set(members or ()))
        self.members = frozenset(self.hosts if members is None else members)
        self.number = {host: i for i, host in enumerate(self.hosts)}
        self.messages: dict[str, Message] = {}
        self.sent_by: list[list[Message]] = [[] for _ in self.hosts]
        self.counted: dict[str, dict[str, int]] = {}
        self.verdict = Verdict()

    def find_messages(self) -> None:
        """Every call or sent makes a message; the later lines settle its fate."""
        for host in self.hosts:
            mine = self.sent_by[self.number[host]]
            for event in self.events.get(host, ()):
                if event.kind not in ("call", "sent", "failed", "receipt"):
                    continue
                message = self.messages.get(event.uid)
                if message is None:
                    message = Message(event.uid, self.number[host], len(mine) + 1, event.to, event.t)
                    self.messages[event.uid] = message
                    mine.append(message)
                if event.kind == "sent" and message.fate == "doubt":
                    message.fate = "sent"
                elif event.kind == "failed":
                    message.fate = "failed"
                elif event.kind == "receipt":
                    message.fate = FATES.get(event.outcome, "sent")
        self.verdict.messages = sum(m.fate in ("sent", "doubt") for m in self.messages.values())

    def find_clocks(self) -> None:
        """Replay all hosts together; a host stops where it is given a message whose sending was not replayed yet."""
        known = [[0] * len(self.hosts) for _ in self.hosts]
        place = [0] * len(self.hosts)
        waiting: dict[str, list[int]] = {}
        ready = deque(range(len(self.hosts)))
        while True:
            while ready:
                self._replay(ready.popleft(), known, place, waiting, ready)
            stuck = [host for hosts in waiting.values() for host in hosts]
            if not stuck:
                return
            host = min(stuck)  # given before it was sent: only a faulty log or clock can say so
            event = self.events[self.hosts[host]][place[host]]
            self.verdict.out_of_order += 1
            self.verdict.witness(f"{self.hosts[host]} was given {event.uid} before it was sent: a circle")
            waiting[event.uid].remove(host)
            place[host] += 1
            ready.append(host)

    def _replay(
        self, host: int, known: list[list[int]], place: list[int], waiting: dict[str, list[int]], ready: deque[int]
    ) -> None:
        events = self.events.get(self.hosts[host], [])
        mine = known[host]
        while place[host] < len(events):
            event = events[place[host]]
            message = self.messages.get(event.uid)
            if message is not None and event.kind in ("call", "sent") and not message.clock:
                mine[host] = message.index
                message.clock = list(mine)
                ready.extend(waiting.pop(event.uid, ()))
            elif message is not None and event.kind == "given":
                if not message.clock:
                    waiting.setdefault(event.uid, []).append(host)
                    return
                known[host] = mine = [max(a, b) for a, b in zip(mine, message.clock, strict=True)]
            place[host] += 1

    def owed(self, message: Message, host: str) -> bool:
        """Whether `message` was meant for `host`."""
        if message.fate in ("failed", "refused"):
            return False
        return host in self.members if message.to is None else message.to == host

    def walk(self, host: str) -> None:
        """Count this host's deliveries and compare each with what had to come before it."""
        events = self.events.get(host, [])
        order = _Order(self, host, [event.uid for event in events if event.kind == "given"])
        count = _Count()
        strangers: dict[str, None] = {}
        reborn = False
        for event in events:
            if event.kind in ("start", "end"):
                order.forget(count.end_life())
            elif event.kind in ("acking", "acked"):
                count.acknowledge(event)
            elif event.kind == "gap":
                self.verdict.gaps += 1
            elif event.kind == "lost":
                reborn = True
            elif event.kind == "given":
                message = self.messages.get(event.uid)
                if message is None or not self.owed(message, host):
                    strangers[event.uid] = None
                    continue
                order.forget(count.settle(event.uid))
                if count.give(event):
                    order.check(message)
                elif reborn:
                    self.verdict.repeated += 1
                else:
                    self.verdict.doubled += 1
                    self.verdict.witness(f"{host} was given {event.uid} twice: {count.story(event)}")
        count.end_life()
        count.settle("")
        self.counted[host] = count.counted
        for uid in strangers:
            self.verdict.not_owed += 1
            known = self.messages.get(uid)
            why = "which nobody sent"
            if known is not None:
                why = f"which {self.hosts[known.sender]} sent to {known.to or 'all'} ({known.fate})"
            self.verdict.witness(f"{host} was given {uid}, {why}")

    def find_lost(self) -> None:
        """What was owed and never counted; and the sums."""
        seen = {uid for counted in self.counted.values() for uid in counted}
        for host in self.hosts:
            told = any(event.kind in ("gap", "lost") for event in self.events.get(host, ()))
            counted = self.counted[host]
            latencies = []
            for uid in counted:
                latencies.append(counted[uid] - self.messages[uid].t)
            self.verdict.latencies_us[host] = latencies
            self.verdict.deliveries += len(counted)
            for message in self.messages.values():
                if message.uid in counted or not self.owed(message, host):
                    continue
                if message.fate == "doubt" and message.uid not in seen:
                    continue
                if message.fate == "lost":
                    self.verdict.gone += 1
                    continue
                if told:
                    self.verdict.missed += 1
                    continue
                self.verdict.lost += 1
                self.verdict.witness(self._lost_story(message, host, counted))

    def _lost_story(self, message: Message, host: str, counted: dict[str, int]) -> str:
        story = f"{host} never got {message.uid} of {self.hosts[message.sender]} (to {message.to or 'all'})"
        for later in self.sent_by[message.sender][message.index :]:
            if later.uid in counted:
                return f"{story}, but it got {later.uid}, which the same host sent later"
        return f"{story}, nor anything that host sent later"

    def chain(self, first: Message, last: Message) -> str:
        """Why `first` happened before `last`, in words, from the logs."""
        steps = [f"{self.hosts[last.sender]} sent {last.uid}"]
        while first.sender != last.sender:
            sender = self.hosts[last.sender]
            given = (self.messages[e.uid] for e in self.events[sender] if e.kind == "given" and e.uid in self.messages)
            last = next(m for m in given if m.clock and m.clock[first.sender] >= first.index)
            steps += [f"{sender} was given {last.uid}", f"{self.hosts[last.sender]} sent {last.uid}"]
        if last is not first:
            steps.append(f"{self.hosts[first.sender]} sent {first.uid}")
        return ", then ".join(reversed(steps))


class _Count:
    """Which deliveries of one host count: those acknowledged, once each. Lives end in `start` (killed) or `end`."""

    def __init__(self) -> None:
        self.counted: dict[str, int] = {}
        """uid: time at which it was first given, for the deliveries that count."""
        self._given: dict[str, int] = {}
        """Given in this life and not acknowledged, in order."""
        self._doubt: dict[str, int] = {}
        """Given and perhaps acknowledged when the life before ended, in order."""
        self._asked = ""
        """Last uid of an acknowledgement that has begun and not returned."""

    def give(self, event: Event) -> bool:
        """False: this is a second delivery."""
        if event.uid in self.counted or event.uid in self._given:
            return False
        self._given[event.uid] = event.t
        return True

    def acknowledge(self, event: Event) -> None:
        """Begin (`acking`) or finish (`acked`) the acknowledgement of everything up to a uid."""
        if event.uid not in self._given:
            return
        if event.kind == "acking":
            self._asked = event.uid
            return
        self._asked = ""
        self.counted.update(self._take(event.uid))

    def _take(self, last: str) -> dict[str, int]:
        taken = {}
        for uid in list(self._given):
            taken[uid] = self._given.pop(uid)
            if uid == last:
                break
        return taken

    def end_life(self) -> list[str]:
        """The life ends: what was just being acknowledged is in doubt. Returns what comes again for certain."""
        if self._asked in self._given:
            self._doubt = self._take(self._asked)
        self._asked = ""
        gone, self._given = list(self._given), {}
        return gone

    def settle(self, uid: str) -> list[str]:
        """The next life's first delivery tells whether the last acknowledgement held. Returns what did not count."""
        doubt, self._doubt = self._doubt, {}
        void: list[str] = []
        for one in doubt:
            if void or one == uid:
                void.append(one)
            else:
                self.counted[one] = doubt[one]
        return void

    def story(self, event: Event) -> str:
        """When the two deliveries were."""
        first = self.counted.get(event.uid, self._given.get(event.uid, 0))
        return f"the second time {(event.t - first) / 1e6:.3f} s after the first"


class _Order:
    """Walks one host's deliveries: per sender, which of its messages comes next here."""

    def __init__(self, trial: _Trial, host: str, given: Iterable[str]) -> None:
        self._trial = trial
        self._host = host
        self._due: list[list[int]] = [[] for _ in trial.hosts]
        """Per sender: indices of its messages that this host is ever given, ascending."""
        for uid in dict.fromkeys(given):
            message = trial.messages.get(uid)
            if message is not None and trial.owed(message, host):
                self._due[message.sender].append(message.index)
        for due in self._due:
            due.sort()
        self._next = [0] * len(trial.hosts)
        self._here: set[tuple[int, int]] = set()

    def check(self, message: Message) -> None:
        """`message` is given now: everything that happened before it and ever comes must be here."""
        self._here.add((message.sender, message.index))
        for sender, due in enumerate(self._due):
            place = self._next[sender]
            while place < len(due) and (sender, due[place]) in self._here:
                place += 1
            self._next[sender] = place
            first = due[place] if place < len(due) else INFINITE
            if first <= message.clock[sender]:
                earlier = self._trial.sent_by[sender][first - 1]
                verdict = self._trial.verdict
                verdict.out_of_order += 1
                if len(verdict.witnesses) < WITNESSES_MAX:
                    verdict.witness(
                        f"{self._host} was given {message.uid} before {earlier.uid}, "
                        f"which happened before it: {self._trial.chain(earlier, message)}"
                    )
                return

    def forget(self, uids: Iterable[str]) -> None:
        """These deliveries did not count and will come again."""
        for uid in uids:
            message = self._trial.messages[uid]
            self._here.discard((message.sender, message.index))
            place = bisect_left(self._due[message.sender], message.index)
            self._next[message.sender] = min(self._next[message.sender], place)


def main(arguments: Sequence[str]) -> int:
    """Judge the log files named on the command line. Exit code 0 good, 1 bad, 2 wrong use."""
    if not arguments:
        print("usage: checker.py LOG...", file=sys.stderr)
        return 2
    verdict = judge(load(Path(argument) for argument in arguments))
    for story in verdict.witnesses:
        print(story)
    print(f"messages {verdict.messages}, deliveries {verdict.deliveries}: {verdict.line()}")
    return 0 if verdict.good else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
