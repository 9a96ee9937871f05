"""The judge: sees what applications sent, were given and acknowledged, and nothing of the protocol.

Happens-before is rebuilt from program order alone: a host's message follows what the host sent and was given
before. The vectors here count messages per sender and are the judge's own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from roamcast.middleware.simulator.accounts import Life, Sent
from roamcast.middleware.simulator.audiences.rules import TopicRules
from roamcast.middleware.simulator.chains import chain
from roamcast.middleware.simulator.world import Event

if TYPE_CHECKING:
    from roamcast.middleware.simulator.losses import Losses


class Violation(Exception):
    """A promise was broken. `rule` names it; `witness` explains it in words, one sentence each."""

    def __init__(self, rule: str, witness: list[str]) -> None:
        super().__init__(f"{rule}: " + "; ".join(witness))
        self.rule = rule
        self.witness = witness


class Judge:
    """Feed it events by `observe`; it raises Violation at the first broken promise."""

    def __init__(self, gaps_allowed: bool, losses: Losses | None = None) -> None:
        self.messages: list[Sent] = []
        self.by_label: dict[str, Sent] = {}
        self.lives: list[Life] = []
        self.current: dict[str, Life] = {}
        self.gone: dict[str, int] = {}
        self.deliveries = 0
        self._streams: list[list[Sent | None]] = []
        self.topics = TopicRules(self)
        self._settled: dict[str, int] = {}
        self._gaps_allowed = gaps_allowed
        self.losses = losses
        self._rules: dict[str, Callable[..., None]] = {
            "member": self._member,
            "identity": self._identity,
            "born": self._born,
            "sent": self._sent,
            "given": self._given,
            "changed": self._changed,
            "value": self._value,
            "ended": self._ended,
            "not ended": self._not_ended,
            "rights": self._touched,
            "refused": self._refused,
            "gap": self._gap,
            "acked": self._acked,
            "receipt": self._receipt,
            "left": self._left,
        }

    def observe(self, event: Event) -> None:
        """Judge one event (time, kind, host, details...)."""
        self._rules[event[1]](event[0], *event[2:])

    # ---- who ----

    def _member(self, time: int, host: str) -> None:
        self._open(host, time, frozenset())

    def _open(self, host: str, excused_before: int, inherited: frozenset[str]) -> Life:
        life = Life(host, len(self.lives), excused_before, inherited=inherited)
        self.lives.append(life)
        self._streams.append([])
        self.current[host] = life
        self._settled[host] = 0
        return life

    def _identity(self, time: int, host: str, why: str, *carried: str) -> None:
        """A new incarnation. `carried`: messages of the older one that it still has and sends as its own."""
        old = self.current[host]
        if why != "wiped" and not self._gaps_allowed and host not in self.gone:
            told = f"{host} was told at {time} us that its session is unknown"
            raise Violation("state lost", [told, "its state was never lost, and nothing can expire in this run"])
        inherited = old.inherited | {label for label, acked in old.given.items() if acked}
        life = self._open(host, old.excused_before if old.first else time, frozenset(inherited))
        life.first = False
        life.given = {label: False for label, acked in old.given.items() if not acked}
        life.given_at = dict(old.given_at)
        for label in carried:
            message = self.by_label[label]
            self._streams[message.sender][message.index - 1] = None
            self._enter(life, message)

    def _born(self, time: int, host: str) -> None:
        """The process started anew: what was not durably acknowledged comes again."""
        life = self.current[host]
        life.given = {label: True for label, acked in life.given.items() if acked}
        life.passed.clear()
        self.topics.born(life)
        for message in self.messages:
            if message.host == host:
                message.forgotten = True

    def _left(self, time: int, host: str) -> None:
        self.gone[host] = time
        for message in self.messages:
            if message.to == host:
                message.known = None

    # ---- what ----

    def fail(self, rule: str, witness: list[str]) -> None:
        """A promise was broken. Raises Violation."""
        raise Violation(rule, witness)

    def _sent(
        self, time: int, host: str, label: str, to: str | None, known: bool | None, topic: str | None = None,
        kind: str = "send",
    ) -> None:  # fmt: skip
        life = self.current[host]
        message = Sent(label, host, to, None if to in self.gone else known, time, 0, 0, {}, topic=topic, kind=kind)
        self.messages.append(message)
        self.by_label[label] = message
        self._enter(life, message)

    def _enter(self, life: Life, message: Sent) -> None:
        stream = self._streams[life.number]
        stream.append(message)
        message.sender, message.index = life.number, len(stream)
        message.past = dict(life.past)
        life.past[life.number] = len(stream)
        life.log.append(("sent", message.label))

    def _changed(self, time: int, host: str, label: str, state: str) -> None:
        """A change of a subscription came in its place: as if the host had sent itself a mail."""
        self._given(time, host, label)
        self.topics.changed(self.current[host], self.by_label[label], state)

    def _value(self, time: int, host: str, label: str, stamp: tuple[int, int]) -> None:
        life, message = self.current[host], self.by_label[label]
        self._check_past(life, message)
        self._merge_past(life, message)
        message.given_to_any = True
        self.topics.value(life, message, stamp)

    def _not_ended(self, time: int, host: str) -> None:
        self.topics.not_ended(self.current[host])

    def _ended(self, time: int, host: str, topic: str) -> None:
        life = self.current[host]
        lost = self.losses is not None and self.losses.may_have_gap(host)
        self.topics.ended(life, topic, self._gaps_allowed or lost or not life.first or host in self.gone)

    def _touched(self, time: int, host: str, topic: str, what: str) -> None:
        if what == "receive":
            self.topics.touched(host, topic)
            return
        for message in self.messages:
            if message.host == host and message.topic == topic and not (message.stored or message.given_to_any):
                message.known = None

    def _given(self, time: int, host: str, label: str, stamp: tuple[int, int] = (0, 0)) -> None:
        message = self._take(time, host, label)
        life = self.current[host]
        self._joined(life, time)
        if message.to is not None and message.to != host:
            raise Violation("not owed", [f"{label} is mail of {message.host} to {message.to}", f"{host} was given it"])
        if message.known is False or message.refused:
            raise Violation("refused and delivered", [f"{label} to {message.to} was refused, yet {host} was given it"])
        if label in life.skipped:
            self._out_of_order(life, message, self.by_label[life.skipped[label]])
        self._check_past(life, message)
        message.given_to_any = True
        self.topics.given(life, message, stamp)
        self._merge_past(life, message)
        self.deliveries += 1

    def _merge_past(self, life: Life, message: Sent) -> None:
        past = life.past
        for sender, count in message.past.items():
            if past.get(sender, 0) < count:
                past[sender] = count
        if past.get(message.sender, 0) < message.index:
            past[message.sender] = message.index

    def _take(self, time: int, host: str, label: str) -> Sent:
        """What holds for deliveries and refusals: known, once."""
        if label not in self.by_label:
            raise Violation("never sent", [f"{host} was given {label}, which nobody has sent"])
        life = self.current[host]
        if label in life.given:
            how = "acknowledged" if life.given[label] else "not acknowledged"
            first = f"{host} had been given {label} at {life.given_at[label]} us (since {how})"
            raise Violation("twice", [first, f"{host} was given it again at {time} us"])
        life.given[label] = False
        life.given_at[label] = time
        life.log.append(("given", label))
        return self.by_label[label]

    def _check_past(self, life: Life, message: Sent) -> None:
        passed = life.passed
        for sender, count in message.past.items():
            start = passed.get(sender, 0)
            if start < count:
                for before in self._streams[sender][start:count]:
                    if before is not None and before.label not in life.given and before.to in (None, life.host):
                        if self._owed(before, life) and not self.is_gone(before):
                            self._out_of_order(life, before, message)
                        life.skipped[before.label] = message.label
                passed[sender] = count

    def _owed(self, message: Sent, life: Life) -> bool:
        """Must `life` be given `message`, if it entered the system at all?"""
        if message.label in life.inherited or message.time < life.excused_before or life.joining:
            return False
        if message.topic is not None:
            return self.topics.owed(message, life)
        return message.to is None or (message.to == life.host and message.known is True)

    def is_gone(self, message: Sent) -> bool:
        """Whether nobody has it any more, since a station was lost."""
        if message.lost or (message.unknown and not message.stored and not message.given_to_any):
            return True
        if self.losses is None:
            return False
        untold = message.forgotten and not message.given_to_any and self.losses.may_have_gap(message.host)
        return untold or self.losses.gone(message.label)

    def _refused(self, time: int, host: str, label: str, reference: object) -> None:
        """May be told again (a receipt has no acknowledgement), but of the same row `reference` of the system."""
        message = self.by_label[label]
        if message.host != host:
            raise Violation("refused to another", [f"{label} is of {message.host}", f"{host} was told of a refusal"])
        if message.kind not in ("send", "retain"):
            return  # its place in the stream says the same
        mistaken = message.known is True if message.topic is None else not self.topics.refused(message)
        if mistaken or (message.to is None and message.topic is None):
            to = message.to or message.topic or "all"
            raise Violation("refused wrongly", [f"{label} of {host} to {to} was refused", "it could be delivered"])
        if message.given_to_any:
            told = f"{host} was told that it is refused"
            raise Violation("refused and delivered", [f"{label} was delivered to {message.to}", told])
        if message.refused_by not in (None, reference):
            how = f"by {message.refused_by} and by {reference}"
            raise Violation("refused twice", [f"{label} of {host} was refused {how}"])
        message.refused, message.refused_by = True, reference

    def _gap(self, time: int, host: str) -> None:
        life = self.current[host]
        excused = self.losses is not None and self.losses.may_have_gap(host)
        if not self._gaps_allowed and life.first and host not in self.gone and not excused:
            told = f"{host} was told of a gap at {time} us"
            raise Violation("gap without cause", [told, "nothing can expire in this run"])
        self.topics.gap(life)
        life.excused_before = life.gap_told = time
        life.joining = not life.first

    def _joined(self, life: Life, time: int) -> None:
        if life.joining:
            life.joining = False
            life.excused_before = time

    def _acked(self, time: int, host: str, label: str) -> None:
        life = self.current[host]
        if label not in life.given:
            raise Violation("acknowledged unseen", [f"{host} acknowledged {label} without having been given it"])
        life.given[label] = True

    def _receipt(self, time: int, host: str, label: str, what: str) -> None:
        message = self.by_label[label]
        if what == "stored":
            message.stored = True
            self._joined(self.current[host], time)
        elif what == "unknown":
            message.unknown = True
        elif what == "lost":
            if self.losses is not None and self.losses.copied and message.stored:
                raise Violation(
                    "acknowledged and lost", [f"{host} was told that {label} is stored, then that it is lost"]
                )
            holders = [] if self.losses is None else self.losses.holders(label)
            if holders or self.losses is None:
                raise Violation("told lost", [f"{host} was told that {label} is lost", f"stations {holders} have it"])
            message.lost = True

    # ---- the end ----

    def missing(self, hosts: Sequence[str]) -> tuple[str, str] | None:
        """(host, label) of something owed to one of `hosts` and not yet durably acknowledged there, or None."""
        for host in hosts:
            life = self.current[host]
            at = self._settled[host]
            while at < len(self.messages) and self._is_settled(self.messages[at], life, hosts):
                at += 1
            if self.losses is None:  # what is gone may still turn up
                self._settled[host] = at
            if at < len(self.messages):
                return host, self.messages[at].label
        return None

    def _is_settled(self, message: Sent, life: Life, hosts: Sequence[str]) -> bool:
        if life.given.get(message.label):
            return True
        same = self.lives[message.sender] is self.current[message.host]
        mine = same and message.host in hosts and not message.unknown
        mail = message.to is not None or message.topic is not None
        mail = mail and message.kind in ("send", "retain") and message.host == life.host and not message.forgotten
        if mail and mine and message.time >= life.excused_before and not message.lost:
            if message.known is False:
                return message.refused
            settled = message.refused or message.given_to_any or message.topic is not None
            if message.known is None and message.to in self.current and not self._gaps_allowed:
                life_there = self.current[message.to]
                missed = not life_there.first or message.time < life_there.gap_told
                return settled or message.to not in hosts or missed
        certain = message.stored or message.given_to_any or mine
        return not (certain and self._owed(message, life)) or self.is_gone(message)

    def look_again(self) -> None:
        """`missing` begins anew: a message that nobody was sure of may have been given to somebody since."""
        self._settled = dict.fromkeys(self._settled, 0)

    def finish(self, hosts: Sequence[str]) -> None:
        """Demand that everything owed to `hosts` (those that came back) has arrived."""
        self.look_again()
        found = self.missing(hosts)
        if found is None:
            if untold := self.untold(hosts):
                raise Violation("loss not told", [untold, "only a lost station had it"])
            return
        host, label = found
        message = self.by_label[label]
        kind = f"mail to {message.to}" if message.to else f"{message.kind} on {message.topic}"
        kind = "a broadcast" if message.to is None and message.topic is None else kind
        why = "its receipt said stored" if message.stored else "its sender came back"
        if message.given_to_any:
            why = "another host was given it" if message.to is None else "it was given before"
        state = "was given it but could not acknowledge it" if label in self.current[host].given else "never had it"
        raise Violation(
            "lost",
            [
                f"{label} is {kind}, sent by {message.host} at {message.time} us; {why}",
                f"{host} is owed everything sent since {self.current[host].excused_before} us",
                f"{host} {state}",
            ],
        )

    def untold(self, hosts: Sequence[str]) -> str | None:
        """Who sent what is gone, and still holds its receipt, must be told. In words, the first that was not."""
        for message in self.messages:
            ours = self.lives[message.sender] is self.current[message.host] and message.host in hosts
            bodies = set() if self.losses is None else self.losses.bodies
            told = message.forgotten or message.lost or message.label in bodies
            if message.stored and ours and not told and self.is_gone(message):
                return f"{message.host} was told that {message.label} is stored, and not that it is lost"
        return None

    def _out_of_order(self, life: Life, first: Sent, second: Sent) -> None:
        steps = chain(self, first, second)
        if first.label in life.given:
            end = f"{life.host} was given {second.label} first and {first.label} at {life.given_at[first.label]} us"
        else:
            end = f"{life.host} was given {second.label} without {first.label}"
        raise Violation("order", [f"{first.label} before {second.label} because {', '.join(steps)}", end])
