"""Random runs against a plain model of one station's stream: every message is acknowledged by the application exactly
once, in order, across lost links, lost frames, crashes between any two effects, and late acknowledgements. What it
answers to ASK lies at any time between what the station was told and what the application has acknowledged. With some
SUBs comes a last value, which changes: before c passes the SUB, the value that came with it was acknowledged.
"""

from __future__ import annotations

import random

import pytest

from roamcast.middleware.host_frames import Ack, Ask, Data, Hello, Msg, Ping, Pong, Seen, TopicData, Uack
from roamcast.middleware.mobile_host.core import AgentCore
from roamcast.middleware.mobile_host.effects import Connect, Delivered, Save, SendUp
from roamcast.middleware.rows import Item, Kind
from roamcast.middleware.settings import SECOND


class StreamModel:
    """What stations owe one host, seen as a single log: claims move the base, sessions count positions anew."""

    def __init__(self, rng: random.Random) -> None:
        self.log: list[Item] = []
        self.base = 0
        self.session = 0
        self.confirmed = 0
        self.origin = {0: 0}
        """Session -> number of log entries before its first."""
        self.at = {0: 0}
        self.sent = 0
        self.lastseq = 0
        self.stored: list[bytes] = []
        self.value = 0
        """Number of the last value of every topic; 0: there is none."""
        self.offered: dict[int, int] = {}
        """Of a SUB in the log: the value that came with it in this session."""
        self._rng = rng

    def hello(self, frame: Hello) -> None:
        if frame.le == self.session:
            self.claim(frame.c)
        else:
            assert frame.le == self.confirmed, "the agent names a session that was never welcomed"
        self.session = frame.e
        self.origin[frame.e] = self.base
        self.at[frame.e] = self._rng.randrange(-50, 50)
        self.sent = self.base

    def claim(self, c: int) -> None:
        self.confirmed = self.session
        count = self.origin[self.session] + c - self.at[self.session]
        assert self.base <= count <= len(self.log), "a claim goes back, or beyond what there is"
        self.base = count

    def position(self, index: int) -> int:
        return self.at[self.session] + index - self.origin[self.session]

    def next_msg(self) -> Msg:
        upto = self._rng.randint(self.sent, min(len(self.log), self.sent + 5))
        entries = []
        for i in range(self.sent, upto):
            item = self.log[i]
            entries.append((self.position(i + 1), item))
            if item.kind is Kind.SUB:
                self.offered[i] = self.value
                if self.value:
                    value = Item(1, self.value, "other", 7, 1, Kind.RETAINED, b"", item.topic)
                    entries.append((self.position(i + 1), value))
        frame = Msg(self.position(self.sent), self.position(upto), tuple(entries))
        self.sent = upto
        return frame


class Run:
    """One host's life: its application, its link, its crashes; all drawn from `rng`."""

    def __init__(self, rig, rng: random.Random) -> None:
        self.rig = rig
        self.rng = rng
        self.model = StreamModel(rng)
        self.acknowledged: list[int | tuple[int, int]] = []
        self.accepted: list[bytes] = []
        self.held: list[tuple[int, int | tuple[int, int]]] = []
        """(token, number) given and not acknowledged; of a last value (place of its SUB in the log, its number)."""
        self.values: set[tuple[int, int]] = set()
        """Last values that this process was given."""
        self.answers: list[object] = []
        self.quiet = False
        self.said = [0]
        """What SEEN said, each time."""
        self.step(AgentCore.start)

    def step(self, call, done=()) -> None:
        """A tick; perhaps the process dies between two of its effects. `done`: what is true once the Save is made."""
        rig = self.rig
        rig.now += self.rng.choice((0, 0, 1000, SECOND, 3 * SECOND))
        rig.core.begin(rig.now)
        if call is not None:
            call(rig.core)
        rig.core.expire()
        effects = rig.core.flush()
        cut = self.rng.randrange(len(effects) + 1) if self.rng.random() < 0.05 else len(effects)
        for effect in effects[:cut]:
            self.perform(effect)
        if cut == len(effects) or any(isinstance(effect, Save) for effect in effects[:cut]):
            for action, argument in done:
                action(argument)
        if cut < len(effects):
            self.held.clear()
            self.values.clear()
            self.answers.clear()
            rig.core = rig.start_core()
            self.step(AgentCore.start)

    def perform(self, effect) -> None:
        model, kept = self.model, self.rng.random() < 0.9
        match effect:
            case Save(facts):
                for fact in facts:
                    self.rig.disk.apply(fact)
            case Connect():
                self.answers.clear()
            case SendUp(Hello() as frame) if kept:
                model.hello(frame)
                if self.rng.random() < 0.9:
                    self.answers.append("welcome")
            case SendUp(Ack(e, c)) if e == model.session and kept:
                model.claim(c)
            case SendUp(Ping(e, c)) if e == model.session:
                model.claim(c)
                self.answers.append(Pong(model.position(model.sent)))
            case SendUp(Data(e, number, _, _, body)):
                self.store(e, number, body, Kind.BROADCAST, "")
            case SendUp(TopicData(e, number, _, kind, topic, body)):
                self.store(e, number, topic.encode() + body, kind, topic)
            case SendUp(Seen(_, seen, ack, tx, doubtful)):
                self.said.append(dict(seen).get(1, 0))
                assert (
                    max(model.base, self.said[-2])
                    <= self.said[-1]
                    <= sum(isinstance(one, int) for one in self.acknowledged)
                )
                assert ack <= model.lastseq <= tx
                assert not doubtful or max(doubtful) <= ack

    def store(self, e: int, number: int, what: bytes, kind: Kind, topic: str) -> None:
        model = self.model
        if e == model.session and number == model.lastseq + 1:
            model.lastseq = number
            model.stored.append(what)
            self.answers.append(Uack(e, number, 1, number))
            low = self.rig.disk.incarnation & 0xFFFFFFFF
            model.log.append(Item(1, len(model.log) + 1, "me", low, number, kind, what, topic))

    def take(self, given: Delivered) -> None:
        what: int | tuple[int, int] = given.id[1]
        if given.retained:
            e, position = given.place
            what = (self.model.origin[e] + position - self.model.at[e] - 1, given.id[1])
            assert what not in self.values, "given before, by this process"
            self.values.add(what)
        self.held.append((given.token, what))

    def hear(self, frame) -> None:
        if self.quiet or self.rng.random() < 0.95:
            self.step(lambda core: core.receive(frame))

    def go_on(self) -> None:
        """One random thing happens. In the quiet phase nothing is sent, lost or cut any more."""
        rng, model, core, dice = self.rng, self.model, self.rig.core, self.rng.random()
        if not self.quiet and dice < 0.05:
            self.step(lambda core: core.link_lost("cut"))
        elif not self.quiet and dice < 0.2:
            model.log.append(Item(1, len(model.log) + 1, "other", 7, 1, Kind.BROADCAST, b""))
        elif not self.quiet and dice < 0.25:
            body = b"mine %d" % rng.getrandbits(64)
            self.step(lambda core: core.submit(body), [(self.accepted.append, body)])
        elif not self.quiet and dice < 0.29:
            topic = f"topic {rng.getrandbits(64)}"
            self.step(lambda core: core.submit(b"", topic, Kind.SUB), [(self.accepted.append, topic.encode())])
        elif not self.quiet and dice < 0.31 and model.log:
            model.value = rng.choice((0, *[rng.randint(1, len(model.log))] * 3))
        elif dice < 0.5 and isinstance(given := core.take(), Delivered):
            self.take(given)
        elif dice < 0.6 and self.held:
            count = rng.randint(1, len(self.held))
            token, numbers = self.held[count - 1][0], [number for _, number in self.held[:count]]
            del self.held[:count]
            self.step(lambda core: core.ack(token), [(self.acknowledged.extend, numbers)])
        elif not self.quiet and dice < 0.65:
            self.hear(Ask(self.rig.epoch))
        elif self.answers:
            answer = self.answers.pop(0)
            if answer != "welcome":
                self.hear(answer)
            elif self.rig.epoch == model.session:
                stands = ((1, model.base),)
                self.hear(self.rig.welcome(at=model.at[model.session], lastseq=model.lastseq, passed=stands))
        elif core.status()["state"] == "open" and self.rig.epoch == model.session:
            self.hear(model.next_msg())
        else:
            self.step(None)


@pytest.mark.parametrize("seed", range(60))
def test_exactly_once_in_order(make_rig, seed):
    rig = make_rig()
    rig.seed = seed * 1000
    run = Run(rig, random.Random(seed))
    for count in range(2_500):
        run.quiet = count > 2_000
        run.go_on()
    model, stored = run.model, set(run.model.stored)
    messages = [number for number in run.acknowledged if isinstance(number, int)]
    assert messages == list(range(1, len(messages) + 1))
    assert len(messages) > 50
    owed = {(i, value) for i, value in model.offered.items() if value and i < model.base}
    assert owed <= set(run.acknowledged)
    assert len(owed) > 1
    assert len(set(run.said)) > 10
    assert run.model.stored == [body for body in run.accepted if body in stored]
    assert rig.core.status()["outbox"] == len(run.accepted) - len(run.model.stored)
