"""Live messages in the composite world: hosts that send and are given them, stations that are watched doing so."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

from roamcast.middleware.effects import Broadcast, Effect, SendLive
from roamcast.middleware.errors import LocalProtocolError
from roamcast.middleware.host_frames import DownFrame, LiveMsg
from roamcast.middleware.live_frames import LiveCast
from roamcast.middleware.mobile_host.core import AgentCore
from roamcast.middleware.mobile_host.effects import Delivered, LiveDelivered, Notice
from roamcast.middleware.rows import Kind
from roamcast.middleware.simulator.host_node import HostNode
from roamcast.middleware.simulator.links import Connection
from roamcast.middleware.simulator.station_node import StationNode

if TYPE_CHECKING:
    from roamcast.middleware.simulator.run import Simulation


def label_in(body: bytes) -> str:
    """The name that the simulator gave the message."""
    return body.partition(b" ")[0].decode()


class LiveHost(HostNode):
    """A host whose application sends and takes live messages too."""

    def send_live(self, label: str, to: str | None, is_topic: bool, deadline: int) -> None:
        """Send one, if the host is attached."""
        if self.core is None or self.frozen_until > self._world.now:
            return

        deadline = max(1, deadline)

        def call(core: AgentCore) -> None:
            try:
                kind = Kind.TOPIC if is_topic else Kind.BROADCAST
                reason = core.send_live(label.encode() + b" .", deadline, to, kind).reason
            except LocalProtocolError as error:
                reason = type(error).__name__
            if reason:
                self._trace.note("not taken", self.name, label, reason)
                return
            self._trace.tell("live sent", self.name, label, to, is_topic, deadline)

        self.act(call, pump=False)
        self.act(None)

    def hear(self, connection: Connection, frame: DownFrame) -> None:
        """As any frame; the judge is told until when what is live may be given."""
        if isinstance(frame, LiveMsg) and connection is self.connection:
            self.act(lambda core: self._came(core, connection, frame))
        else:
            super().hear(connection, frame)

    def _came(self, core: AgentCore, connection: Connection, frame: LiveMsg) -> None:
        if connection is self.connection:
            self._trace.tell("live came", self.name, label_in(frame.body), self._world.now + frame.left)
            core.receive(frame)

    def _take(self, given: Delivered | LiveDelivered | Notice) -> str | None:
        if isinstance(given, LiveDelivered):
            self._trace.tell("live given", self.name, label_in(given.body))
            return None
        return super()._take(given)


class LiveStationNode(StationNode):
    """A station whose live messages are watched, and go worse ways than its rows."""

    live_loss = live_slow = 0.0
    """Shares of live frames that are lost, or come later by up to delta."""

    def step(self, by: int) -> None:
        """Its clock is set."""
        self._skew += by

    def ahead_of(self, other: LiveStationNode) -> int:
        """By how much its clock is."""
        return self._skew - other._skew

    def _perform(self, effect: Effect) -> None:
        match effect:
            case SendLive(channels, frame):
                self.disk.sync()
                self._trace.tell("live handed", self.slot, label_in(frame.body))
                for channel in channels:
                    if channel not in self._full:
                        self._send_host(channel, frame)
                return
            case Broadcast(LiveCast() as cast):
                self.disk.sync()
                self._trace.tell("live taken", self.slot, label_in(cast.body))
                for peer in self.core.ledger.fifo.peers if self.core is not None else ():
                    self._cast(peer, cast)
                return
        super()._perform(effect)

    def _cast(self, peer: int, cast: LiveCast) -> None:
        if self._rng.random() >= self.live_loss:
            slow = self._rng.random() < self.live_slow
            delay = self._rng.randint(0, cast.delta) if slow else 0
            self._world.after(delay, self._wired.send, self.slot, peer, cast)


class LiveLoad:
    """What hosts send live in the fault phase: to all, to one, on a topic; some of it in answer, close together."""

    def __init__(self, simulation: Simulation) -> None:
        self._sim = simulation
        self._sent = 0

    def send(self, rng: Random) -> None:
        """One or some messages, perhaps with rows between them."""
        host = rng.choice(self._sim.hosts)
        options = self._sim.options
        for _ in range(rng.choice((1, 1, 1, 3))):
            self._sent += 1
            what = rng.random()
            to, is_topic = None, False
            if what < options.mail / 2:
                to = rng.choice(self._sim.hosts).name
            elif options.topics and what < 0.6:
                to, is_topic = rng.choice(self._sim.rights.names), True
            deadline = options.live_delta if rng.random() < 0.7 else rng.randint(0, options.live_delta)
            if isinstance(host, LiveHost):
                host.send_live(f"l{self._sent}", to, is_topic, deadline)
            if rng.random() < 0.3:
                self._sent += 1
                label = f"l{self._sent}"
                host.submit(label, label.encode() + b" ", None, True)
