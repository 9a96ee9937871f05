"""A host without an agent: it keeps the agent's books and checks what comes; what it does, the test says."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from roamcast.middleware.host_frames import (
    PROTOCOL_VERSION,
    Ack,
    Data,
    DownFrame,
    Hello,
    LiveData,
    LiveMsg,
    Msg,
    TopicData,
    Uack,
    Unsubscribed,
    UpFrame,
    Welcome,
)
from roamcast.middleware.rows import Kind, MessageId
from roamcast.middleware.settings import SECOND

if TYPE_CHECKING:
    from conftest import Net

SIGNS = {Kind.SUB: b"+", Kind.UNSUB: b"-", Kind.NOSUB: b"!", Kind.ONLINE: b"on ", Kind.OFFLINE: b"off "}
GAP = b"<gap>"  # stands in Host.got where the application was told that messages were missed


class Host:
    """What a host says and hears. It keeps the agent's books and checks what comes; what it does, the test says."""

    def __init__(self, net: Net, name: str, number: int, incarnation: int) -> None:
        self.net = net
        self.name = name
        self.number = number
        self.incarnation = incarnation
        self.ping_s = 240
        self.e = 0
        self.last = number >> 32
        self.le = 0
        self.c = 0
        self.in_hand = 0
        self.own = 0
        self.outbox: dict[int, tuple[str | None, bytes]] = {}
        self.channel = 0
        self.misses: tuple[type, ...] = ()
        """Kinds of frames down that vanish on the air."""
        self.heard: list[DownFrame] = []
        """On the present connection."""
        self.got: list[bytes] = []  # what the application was given, in order
        self.given: dict[MessageId, bool] = {}  # message -> acknowledged
        self.ended: list[tuple[int, int, str]] = []  # subscriptions, as told

    @property
    def mh(self) -> tuple[int, int]:
        return (self.number, self.incarnation)

    # ---- up ----

    def hello(self, slot: int, **changes: Any) -> list[DownFrame]:
        """A new attempt on a fresh connection, as the books say but for `changes`. Returns what is heard at once."""
        self.e += 1
        self.channel = self.net.connect(self, slot)
        self.heard = []
        una = min(self.outbox, default=self.own + 1)
        frame = Hello(
            PROTOCOL_VERSION, self.name, self.incarnation, False, self.e, self.last, self.le, self.c, una, self.ping_s
        )
        return self.say(replace(frame, **changes))

    def attach(self, slot: int, **changes: Any) -> Welcome:
        """HELLO, and whatever the stations have to settle first."""
        self.hello(slot, **changes)
        self.net.deliver()
        return self.word(Welcome)

    def arrive(self, slot: int) -> None:
        """Attach and acknowledge all that comes."""
        self.attach(slot)
        self.ack()
        self.net.deliver()

    def say(self, frame: UpFrame) -> list[DownFrame]:
        """One frame up on the present connection. Returns what is heard in the same tick."""
        before = len(self.heard)
        self.net.up(self.channel, frame)
        return self.heard[before:]

    def ack(self) -> list[DownFrame]:
        """Everything in hand is acknowledged."""
        self.c = self.in_hand
        for frame in self.words(Msg):
            self.given.update({(item.slot, item.n): True for _, item in frame.entries})
        return self.say(Ack(self.le, self.c))

    def send(self, body: bytes, to: str | None = None) -> list[DownFrame]:
        """A new message, queued and sent."""
        self.own += 1
        self.outbox[self.own] = (to, body)
        return self.say(Data(self.le, self.own, self.in_hand, to, body))

    def publish(self, kind: Kind, topic: str, body: bytes = b"") -> list[DownFrame]:
        """The same on a topic; SUB, UNSUB."""
        self.own += 1
        self.outbox[self.own] = (None, body)
        return self.say(TopicData(self.le, self.own, self.in_hand, kind, topic, body))

    def live(
        self, body: bytes, to: str | None = None, *, topic: bool = False, deadline: int = SECOND, tag: int = 0
    ) -> list[Any]:
        """A live message."""
        return self.say(LiveData(self.le, self.own, to, topic, deadline, body, tag))

    def write(self, *bodies: bytes, to: str | None = None) -> None:
        """Messages that arrive everywhere; what comes back of them is acknowledged."""
        for body in bodies:
            self.send(body, to)
        self.ack()
        self.net.deliver()

    def busy(self, seconds: int) -> None:
        """Time passes while the host writes to itself."""
        for _ in range(seconds // 2):
            self.write(b"-", to=self.name)
            self.net.run(2 * SECOND)

    def resend(self) -> None:
        """Everything that no station has acknowledged."""
        for number, (to, body) in list(self.outbox.items()):
            self.say(Data(self.le, number, self.in_hand, to, body))

    def renew(self) -> None:
        """All state is lost: a new incarnation."""
        self.__init__(self.net, self.name, self.number, self.incarnation + 1)  # type: ignore[misc]

    def cut(self) -> None:
        """The link breaks and the station notices."""
        self.net.lost(self.channel)

    # ---- down ----

    def hear(self, channel: int, frame: DownFrame) -> None:
        if channel != self.channel or isinstance(frame, self.misses):
            return
        self.heard.append(frame)
        match frame:
            case Welcome() if frame.e == self.e:
                self.last, self.le, self.c, self.in_hand = self.net.links[channel][0], frame.e, frame.at, frame.at
                self._stored(frame.lastseq)
                if frame.gap:
                    self.got.append(GAP)
                self._ended(frame.ended)
            case Msg(prev, last, entries):
                assert prev == self.in_hand, f"{self.name} has {self.in_hand} in hand, the frame follows {prev}"
                self.in_hand = last
                behind_sub = False
                for position, item in entries:
                    if position == prev and behind_sub:
                        self.got.append(b"=" + item.body)
                        continue
                    assert prev < position <= last, f"entry at {position} in a frame of ({prev}, {last}]"
                    prev, behind_sub = position, item.kind is Kind.SUB
                    ident = (item.slot, item.n)
                    assert not self.given.get(ident), f"{self.name} has acknowledged {ident} {item.body!r} before"
                    if ident not in self.given:
                        self.given[ident] = False
                        told = SIGNS[item.kind] + item.topic.encode() if item.kind in SIGNS else item.body
                        self.got.append(told if item.kind is not Kind.REFUSED else b"refused")
            case LiveMsg(last=last):
                assert last == self.in_hand, f"{self.name} has {self.in_hand} in hand, what is live follows {last}"
                self.got.append(b"*" + frame.body)
            case Unsubscribed():
                self._ended(frame.ended)
            case Uack():
                self._stored(frame.lastseq)

    def _ended(self, ended: tuple[tuple[int, int, str], ...]) -> None:
        news = [one for one in ended if one not in self.ended or not one[2]]
        self.ended += news
        self.got += [b"~" + topic.encode() for _, _, topic in news]

    def _stored(self, lastseq: int) -> None:
        self.outbox = {number: what for number, what in self.outbox.items() if number > lastseq}

    def entries(self) -> list[bytes]:
        """Bodies of all entries heard on the present connection."""
        return [item.body for frame in self.words(Msg) for _, item in frame.entries]

    def words(self, kind: type) -> list[Any]:
        return [frame for frame in self.heard if isinstance(frame, kind)]

    def word(self, kind: type) -> Any:
        """The last frame of that kind on the present connection."""
        assert self.words(kind), f"{self.name} heard {self.heard}"
        return self.words(kind)[-1]
