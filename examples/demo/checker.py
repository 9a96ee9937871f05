"""The judge: were all messages delivered exactly once and in causal order? It sees application logs and nothing else.

Program order of each host and "sent before given" make happens-before. From them every message gets a clock, one
counter per host ("so many messages of that host happened before"), and each host's deliveries are walked once.
Cost: entries x hosts.

- **lost**: a message was sent and a host that is owed it (all hosts, or the addressee) never counted it. One whose
  fate the sender cannot know (killed inside the call, or receipt `unknown`) is owed by all as soon as one has it. What
  a subscriber of a topic is owed stands in subscriptions.py.
- **doubled**: a host counted it twice. A message that was given but not acknowledged when the host's life ended comes
  again and counts once; if the life ended inside the acknowledgement it may come again or not.
- **out of order**: a host was given m before x although x happened before m, and x came later. A missing x is lost. So
  for last values, but they are no news: they count neither as delivered nor as doubled.
- **not owed**: given to a host that was not meant, or was not subscribed; or never sent, or sent and refused.
- **diverged**: hosts that are subscribed at the end hold different last values; or stamps that cannot be
  (last_values.py). **ended and not told**: a right was taken back, and its host still believes to be subscribed.
- **missed**, **repeated**: lost or doubled at a host that was told of a discontinuity or of a lost state.
- **gone**: stored, then lost with the only station that had it, and its sender was told; hosts there may have got it.

What hosts were told of each other's presence is judged in presence.py.

Alone: ``python examples/demo/checker.py LOG...`` prints the verdict and exits 0 or 1.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from demo.counting import Count
from demo.history import History, load
from demo.last_values import LastValues
from demo.ordering import Order
from demo.presence import Presence
from demo.subscriptions import Subscriptions
from demo.verdict import Case, Message, Verdict

FATES = {"unknown": "doubt", "refused": "refused", "lost": "lost"}
"""What a receipt makes of a message; any other outcome: it was sent."""


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
    trial.walk_topics(history)
    return trial.verdict


class _Trial:
    """One judgement: the tables shared by its steps."""

    def __init__(self, history: History, members: Sequence[str] | None) -> None:
        self.events = history.events
        self.hosts = sorted(set(history.events) | set(members or ()))
        self.members = frozenset(self.hosts if members is None else members)
        self.number = {host: i for i, host in enumerate(self.hosts)}
        self.case = Case(self.hosts, sent_by=[[] for _ in self.hosts])
        self.messages, self.sent_by, self.verdict = self.case.messages, self.case.sent_by, self.case.verdict
        self.counted: dict[str, dict[str, int]] = {}

    def find_messages(self) -> None:
        """Every call or sent makes a message; the later lines settle its fate."""
        for host in self.hosts:
            mine = self.sent_by[self.number[host]]
            for event in self.events.get(host, ()):
                if event.kind not in ("call", "sent", "failed", "receipt"):
                    continue
                message = self.messages.get(event.uid)
                if message is None:
                    number = self.number[host]
                    message = Message(event.uid, number, len(mine) + 1, event.to, event.t, event.topic, event.retain)
                    self.messages[event.uid] = message
                    mine.append(message)
                    if message.topic:
                        self.case.on_topic.setdefault(message.topic, []).append(message)
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
            elif message is not None and event.kind in ("given", "value"):
                if not message.clock:
                    waiting.setdefault(event.uid, []).append(host)
                    return
                known[host] = mine = [max(a, b) for a, b in zip(mine, message.clock, strict=True)]
            place[host] += 1

    def owed(self, message: Message, host: str) -> bool:
        """Whether `message` was meant for `host`, or for those who were subscribed."""
        if message.fate in ("failed", "refused"):
            return False
        if message.topic:
            return True
        return host in self.members if message.to is None else message.to == host

    def walk(self, host: str) -> None:
        """Count this host's deliveries and compare each with what had to come before it."""
        events = self.events.get(host, [])
        given = [self.messages.get(event.uid) for event in events if event.kind == "given"]
        order = Order(self.sent_by, [message for message in given if message is not None and self.owed(message, host)])
        count = Count()
        strangers: dict[str, None] = {}
        reborn = False
        for event in events:
            message = self.messages.get(event.uid)
            if event.kind in ("start", "end"):
                order.forget(self.messages[uid] for uid in count.end_life())
            elif event.kind in ("acking", "acked"):
                count.acknowledge(event)
            elif event.kind == "gap":
                self.verdict.gaps += 1
            elif event.kind == "lost":
                reborn = True
            elif event.kind not in ("given", "value"):
                continue
            elif message is None or not self.owed(message, host) or message.topic != event.topic:
                strangers[event.uid] = None
            elif event.kind == "value":
                if not message.retain:
                    strangers[event.uid] = None
                self._in_order(host, message, order.missing_before(message, but_on=message.topic))
            else:
                order.forget(self.messages[uid] for uid in count.settle(event.uid))
                earlier = order.give(message)
                if count.give(event):
                    self._in_order(host, message, earlier)
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
                why = f"which {self.hosts[known.sender]} sent to {known.audience} ({known.fate})"
            self.verdict.witness(f"{host} was given {uid}, {why}")

    def _in_order(self, host: str, message: Message, earlier: Message | None) -> None:
        if earlier is not None:
            self.verdict.out_of_order += 1
            self.verdict.witness(
                f"{host} was given {message.uid} before {earlier.uid}, "
                f"which happened before it: {self.chain(earlier, message)}"
            )

    def find_lost(self) -> None:
        """What was owed to all or to one and never counted; and the sums."""
        for host in self.hosts:
            counted = self.counted[host]
            latencies = [given - self.messages[uid].t for uid, given in counted.items()]
            self.verdict.latencies_us[host] = latencies
            self.verdict.deliveries += len(counted)
            self.verdict.on_topics += sum(bool(self.messages[uid].topic) for uid in counted)
            for message in self.messages.values():
                if not message.topic and self.owed(message, host):
                    self._miss(message, host)

    def _miss(self, message: Message, host: str) -> None:
        """`host` is owed this; if it does not have it, say what that means."""
        if message.uid in self.counted[host] or (message.fate == "doubt" and message.uid not in self.seen):
            return
        if message.fate == "lost":
            self.verdict.gone += 1
        elif any(event.kind in ("gap", "lost") for event in self.events.get(host, ())):
            self.verdict.missed += 1
        else:
            self.verdict.lost += 1
            self.verdict.witness(self._lost_story(message, host, self.counted[host]))

    @cached_property
    def seen(self) -> set[str]:
        """All that some host has counted."""
        return {uid for counted in self.counted.values() for uid in counted}

    def walk_topics(self, history: History) -> None:
        """What subscribers are owed and hold at the end, and what was said of who is there."""
        values = LastValues(self.case, history.attached)
        for host in self.hosts:
            events = self.events.get(host, [])
            revoked = {topic: times for (name, topic), times in history.revoked.items() if name == host}
            attached = history.attached.get(host, ())
            subscribed = Subscriptions(self.case, host, self.counted[host], revoked, attached)
            subscribed.walk(events)
            for message in subscribed.owed():
                if self.owed(message, host):
                    self._miss(message, host)
            values.walk(host, events, subscribed.at_the_end)
            Presence(self.case, host).walk(events)
        values.compare()

    def _lost_story(self, message: Message, host: str, counted: dict[str, int]) -> str:
        story = f"{host} never got {message.uid} of {self.hosts[message.sender]} (to {message.audience})"
        for later in self.sent_by[message.sender][message.index :]:
            if later.uid in counted:
                return f"{story}, but it got {later.uid}, which the same host sent later"
        return f"{story}, nor anything that host sent later"

    def chain(self, first: Message, last: Message) -> str:
        """Why `first` happened before `last`, in words, from the logs."""
        steps = [f"{self.hosts[last.sender]} sent {last.uid}"]
        while first.sender != last.sender:
            sender = self.hosts[last.sender]
            events = (event for event in self.events[sender] if event.kind in ("given", "value"))
            given = (self.messages[event.uid] for event in events if event.uid in self.messages)
            last = next(m for m in given if m.clock and m.clock[first.sender] >= first.index)
            steps += [f"{sender} was given {last.uid}", f"{self.hosts[last.sender]} sent {last.uid}"]
        if last is not first:
            steps.append(f"{self.hosts[first.sender]} sent {first.uid}")
        return ", then ".join(reversed(steps))


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
