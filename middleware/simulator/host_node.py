"""Drives one AgentCore and plays the application on it: sends, takes, acknowledges; killed, frozen, out of coverage."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from random import Random
from typing import Any

from roamcast.middleware.errors import LocalProtocolError
from roamcast.middleware.host_frames import DownFrame
from roamcast.middleware.mobile_host.core import AgentCore
from roamcast.middleware.mobile_host.effects import (
    AgentEffect,
    Connect,
    Delivered,
    Disconnect,
    Discontinuity,
    Ended,
    LiveDelivered,
    Notice,
    Receipt,
    Report,
    Save,
    SendUp,
    StateLost,
    SubscriptionEnded,
)
from roamcast.middleware.mobile_host.settings import AgentSettings
from roamcast.middleware.mobile_host.state import AgentImage, NewIncarnation
from roamcast.middleware.rows import PRESENCE_KINDS, SUBSCRIPTION_KINDS, Item, Kind, MessageId
from roamcast.middleware.simulator.disk import Disk
from roamcast.middleware.simulator.habits import STATES, Habits
from roamcast.middleware.simulator.links import Connection, RadioNet, StationSide
from roamcast.middleware.simulator.world import Trace, World


class _Killed(Exception):
    """The process dies here."""


class HostNode:
    """One mobile host: its agent's process, its state, its radio, its application."""

    def __init__(
        self, world: World, trace: Trace, radio: RadioNet, stations: Mapping[int, StationSide], name: str, number: int,
        settings: AgentSettings, habits: Habits, disk: Disk[AgentImage], rng: Random, mutants: frozenset[str],
    ) -> None:  # fmt: skip
        self.name = name
        self.number = number
        self.life = 0
        self.frozen_until = 0
        self.radio_on = True
        self.vanished = self.left = False
        self.kill_in: int | None = None
        self.habits = habits
        self.disk = disk
        self.core: AgentCore | None = None
        self.connection: Connection | None = None
        self.kills = 0
        self._world = world
        self._trace = trace
        self._radio = radio
        self._stations = stations
        self._enrolled = tuple((f"s{slot}", slot, "", b"") for slot in stations)
        self._settings = settings
        self._rng = rng
        self._mutants = mutants
        self._zero = 0
        self._timer_at: int | None = None
        self._labels: dict[int, str] = {}
        self._former: dict[int, dict[int, str]] = {}
        """Labels of earlier incarnations."""
        self.peers: Mapping[str, HostNode] = {}
        self.presence: dict[str, bool] = {}
        """What the application was told last of other hosts."""
        self._held: list[tuple[int, str | None]] = []
        """(token, label)."""
        self._unsaved_ends: list[MessageId] = []
        """SUBs whose ends this tick has told and not saved yet."""
        self._take_at = 0
        self._ack_timer = False

    @property
    def home(self) -> int:
        """Slot of the station that enrolled it."""
        return self.number >> 32

    # ---- life ----

    def start(self) -> None:
        """A start of the process on the state that its disk holds."""
        self.life += 1
        self._zero = self._world.now - self._rng.randint(0, 1_000_000_000)
        self._timer_at = None
        self._held, self._unsaved_ends = [], []
        self._take_at = 0
        self._ack_timer = False
        self.kill_in = None
        self._trace.tell("born", self.name)
        self.core = AgentCore(
            name=self.name, stations=self._enrolled, enrolled_at=self.home, image=self.disk.load(),
            settings=self._settings, rng=Random(self._rng.random()), mutants=self._mutants,
        )  # fmt: skip
        self.act(AgentCore.start)
        if self.left:
            self.act(AgentCore.leave)

    def kill(self) -> None:
        """SIGKILL of the agent's process."""
        if self.core is None:
            return
        self.core = None
        self.kills += 1
        self.frozen_until = 0
        self._trace.note("kill", self.name)
        if self.connection is not None:
            self._radio.close(self.connection)
            self.connection = None
        self.disk.crash()

    def wipe(self) -> None:
        """The application is installed anew: no state."""
        self.kill()
        self._former[self.disk.state.incarnation & 0xFFFFFFFF] = self._labels
        self.disk.reset(AgentImage())
        self._labels = {}
        self._trace.tell("identity", self.name, "wiped")

    def known_stations(self) -> set[int]:
        """Slots of all stations that the agent would call."""
        return {slot for _, slot, _, _ in (*self._enrolled, *self.disk.state.stations)}

    def provision(self, stations: tuple[tuple[str, int, str, bytes], ...]) -> None:
        """The operator gives it a credential with other stations; its state stays."""
        self.kill()
        self._enrolled = stations

    def leave(self) -> None:
        """The application ends the membership, and says so again after each restart."""
        if not self.left:
            self.left = True
            self._trace.tell("left", self.name)
        self.act(AgentCore.leave)

    # ---- radio ----

    def covered(self, slot: int) -> bool:
        """Does the radio reach a station now?"""
        return self.radio_on

    def set_radio(self, on: bool) -> None:
        """Walk out of, or back into, coverage."""
        self.radio_on = on
        self._trace.note("radio", self.name, "on" if on else "off")
        if not on and self.connection is not None:
            self._radio.break_(self.connection)

    def linked(self, connection: Connection) -> None:
        """A handshake is done."""
        self._later(lambda: self._linked(connection))

    def _linked(self, connection: Connection) -> None:
        if connection is self.connection:
            self.act(None)

    def cut(self, connection: Connection, reason: str) -> None:
        """A connection is known to be gone."""
        self._later(lambda: self._cut(connection, reason))

    def _cut(self, connection: Connection, reason: str) -> None:
        if connection is self.connection:
            self.connection = None
            self.act(lambda core: core.link_lost(reason))

    def hear(self, connection: Connection, frame: DownFrame) -> None:
        """A frame has arrived on one of its connections; only the present one counts."""
        if connection is self.connection:
            self.act(lambda core: core.receive(frame))

    def _later(self, action: Callable[[], None], life: int | None = None) -> None:
        """Now, or at the end of a freeze; what waits dies with the process."""
        life = self.life if life is None else life
        if self.frozen_until > self._world.now:
            self._world.at(self.frozen_until, self._later, action, life)
        elif life == self.life:
            action()

    # ---- application ----

    def submit(self, label: str, body: bytes, to: str | None, known: bool | None) -> None:
        """Broadcast, or send mail; accepted once it is durable here."""
        self._enter(label, lambda core: core.submit(body, to), to, known)

    def publish(self, label: str, what: str, topic: str, body: bytes, known: bool | None) -> None:
        """On a topic: 'send', 'retain'; 'sub', 'unsub', which are mail to oneself as far as the judge can see."""
        to = self.name if what in ("sub", "unsub") else None
        kind = {"send": Kind.TOPIC, "retain": Kind.RETAINED, "sub": Kind.SUB, "unsub": Kind.UNSUB}[what]
        self._enter(label, lambda core: core.submit(body, topic, kind), to, known, topic, what)

    def _enter(self, label: str, submit: Callable[[AgentCore], int], *told: Any) -> None:
        if self.core is None or self.frozen_until > self._world.now:
            return
        accepted: list[Callable[[], None]] = []

        def call(core: AgentCore) -> None:
            try:
                number = submit(core)
            except LocalProtocolError as error:
                self._trace.note("not taken", self.name, label, type(error).__name__)
                return
            self._labels[number] = label
            accepted.append(lambda: self._trace.tell("sent", self.name, label, *told))

        self.act(call, accepted, pump=False)
        self.act(None)

    def act(
        self,
        call: Callable[[AgentCore], Any] | None,
        durable: list[Callable[[], None]] | None = None,
        pump: bool = True,
    ) -> None:
        """One step of the agent's driver: an input, what is due, the application, then the effects."""
        core = self.core
        if core is None:
            return
        if self.frozen_until > self._world.now:
            self._later(lambda: self.act(call, durable, pump))
            return
        done: list[Callable[[], None]] = [] if durable is None else durable
        core.begin(self._world.now - self._zero)
        if call is not None:
            call(core)
        core.expire()
        if pump:
            self._pump(core, done)
        try:
            self._perform(core.flush(), [self._unsaved_ends.clear, *done])
        except _Killed:
            self.kill()
            for _ in set(self._unsaved_ends) - self.disk.state.ended.keys():  # a driver gives what is saved alone
                self._trace.tell("not ended", self.name)
            return
        deadline = core.next_deadline()
        if deadline is not None:
            self._wake(max(deadline + self._zero, self._world.now + 1))

    def _pump(self, core: AgentCore, done: list[Callable[[], None]]) -> None:
        """The application takes what there is, as its habits allow, and acknowledges."""
        if self._take_at > self._world.now:
            return
        habits = self.habits
        for _ in range(habits.take_max):
            given = core.take()
            if given is None or isinstance(given, Ended):
                break
            self._held.append((given.token, self._take(given)))
        else:
            if habits.take_gap:
                self._take_at = self._world.now + habits.take_gap
                self._world.at(self._take_at, self._again, self.life)
        surplus = len(self._held) - habits.lag
        if surplus > 0:
            self._acknowledge(core, surplus, done)
        if self._held and not self._ack_timer:
            self._ack_timer = True
            self._world.after(max(habits.ack_delay, 1), self._ack_rest, self.life)

    def _take(self, given: Delivered | LiveDelivered | Notice) -> str | None:
        """Tell the judge what the application was given; returns the label to acknowledge."""
        match given:
            case Delivered(kind=kind) if kind in PRESENCE_KINDS:
                self.presence[given.sender] = kind is Kind.ONLINE
                self._trace.note("presence", self.name, given.sender, kind.name)
            case Delivered(kind=kind) if kind in SUBSCRIPTION_KINDS:
                label = self._labels[given.number]
                self._trace.tell("changed", self.name, label, STATES[kind])
                return label
            case Delivered():
                label = given.body.partition(b" ")[0].decode() or self.peers[given.sender].label_of(given)
                stamp = (given.hlc, given.id[0])
                if given.retained:
                    self._trace.tell("value", self.name, label, stamp)
                    return None
                self._trace.tell("given", self.name, label, stamp)
                return label
            case SubscriptionEnded(topic=topic):
                self._unsaved_ends.append(given.sub)
                self._trace.tell("ended", self.name, topic)
            case Discontinuity():
                self._trace.tell("gap", self.name)
            case StateLost():
                self._trace.note("state lost", self.name)
        return None

    def label_of(self, given: Delivered | Item) -> str:
        """Of a message of this host without a body."""
        if given.incarnation32 == self.disk.state.incarnation & 0xFFFFFFFF:
            return self._labels[given.number]
        return self._former.get(given.incarnation32, {}).get(given.number, "")

    def _acknowledge(self, core: AgentCore, count: int, done: list[Callable[[], None]]) -> None:
        token = self._held[count - 1][0]
        labels = [label for _, label in self._held[:count] if label is not None]
        del self._held[:count]
        core.ack(token)
        done.extend(partial(self._trace.tell, "acked", self.name, label) for label in labels)

    def _again(self, life: int) -> None:
        if life == self.life:
            self.act(None)

    def _ack_rest(self, life: int) -> None:
        if life != self.life or self.core is None:
            return
        if self.frozen_until > self._world.now:
            self._world.at(self.frozen_until, self._ack_rest, life)
            return
        self._ack_timer = False
        if self._held:
            done: list[Callable[[], None]] = []
            self.act(lambda core: self._acknowledge(core, len(self._held), done), done)

    # ---- effects ----

    def _perform(self, effects: list[AgentEffect], done: list[Callable[[], None]]) -> None:
        renewed = self._identity(effects)
        done = renewed + done
        if not any(isinstance(effect, Save) for effect in effects):
            self._durable(done)
        for effect in effects:
            self._gate()
            match effect:
                case Save(facts):
                    self.disk.write(facts, partial(self._durable, done))
                    done = []
                    self._gate()
                    self.disk.sync()
                case Connect(slot):
                    if self.connection is not None:
                        self._radio.close(self.connection)
                    self.connection = self._radio.connect(self, self._stations[slot])
                    self._trace.note("connect", self.name, slot, self.connection.number)
                case Disconnect():
                    if self.connection is not None:
                        self._radio.close(self.connection)
                        self.connection = None
                case SendUp(frame):
                    if self.connection is not None:
                        self._radio.send_up(self.connection, frame)
                case Receipt(number, state, message_id):
                    if state == "refused":
                        self._trace.tell("refused", self.name, self._labels[number], message_id)
                    elif state in ("stored", "lost") or (state == "unknown" and not renewed):
                        self._trace.tell("receipt", self.name, self._labels[number], state)
                case Report(event):
                    self._trace.note("report", self.name, event)

    def _identity(self, effects: list[AgentEffect]) -> list[Callable[[], None]]:
        """If the agent takes a new incarnation here: what tells the judge, once that is durable."""
        facts = [fact for effect in effects if isinstance(effect, Save) for fact in effect.facts]
        if not self.disk.state.incarnation or not any(isinstance(fact, NewIncarnation) for fact in facts):
            return []
        receipts = [effect for effect in effects if isinstance(effect, Receipt)]
        label, before = self._labels, self.disk.state.incarnation & 0xFFFFFFFF
        unknown = [label[receipt.number] for receipt in receipts if receipt.state == "unknown"]
        carried = {receipt.became: label[receipt.number] for receipt in receipts if receipt.state == "renumbered"}

        def change() -> None:
            for label in unknown:
                self._trace.tell("receipt", self.name, label, "unknown")
            self._former[before] = self._labels
            self._labels = carried
            self._trace.tell("identity", self.name, "unknown here", *carried.values())

        return [change]

    def _durable(self, done: list[Callable[[], None]]) -> None:
        for action in done:
            action()

    def _gate(self) -> None:
        if self.kill_in is not None:
            self.kill_in -= 1
            if self.kill_in < 0:
                raise _Killed
        if self.habits.kill_per_effect and self._rng.random() < self.habits.kill_per_effect:
            raise _Killed

    def _wake(self, time: int) -> None:
        if self._timer_at is None or time < self._timer_at or self._timer_at <= self._world.now:
            self._timer_at = time
            self._world.at(time, self._timer, self.life, time)

    def _timer(self, life: int, time: int) -> None:
        if life != self.life or time != self._timer_at or self.core is None:
            return
        self._timer_at = None
        self.act(None)
