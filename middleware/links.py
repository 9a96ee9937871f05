"""Links between stations: who speaks on which connection, and is it still the same store (overview section 8).

A station says `Link` on its DEALER to each peer and repeats it until the peer's ROUTER has answered; the peer binds
the channel on which the Link came to the station's slot and answers on that channel. A DEALER reconnects silently, so
a frame on a channel without Link is dropped and answered `NoLink`, which makes the other side say Link again.

A store that went back in time must not give numbers that others know already. Each side compares a Link with what it
has seen: a lower start count, an equal one under another boot number (a copied directory), a lower own number, of rows
or of station mail, or less known of our mail than it had acknowledged means that the sender went back; it is told
`WentBack` on the channel its Link came on and stops. A Link that was overtaken can look the same (its rows or its mail
came by way of a third station): the station that is told WentBack compares with what it has *now*, and says Link again
if the claim does not hold. A boot number that has passed is not compared again: a store does not go back while its
process lives.

A linked peer is asked every PROBE: Link once more, which it answers. Whoever does not answer is called anew by the
driver (`is_mute`). The heartbeats of ZMTP would do the same, but libzmq 4.3.5 ends the process when it reads one behind
a connection that has broken while its queue was full (its issue 4364), as after a pause of the process.

New numbers wait until every peer has answered, or one has and `SETTLE` has passed since the first Link was said (the
design asks for one answer; the pause lets the others object).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from roamcast.middleware.effects import Channel, Notice, Reject
from roamcast.middleware.errors import ensure
from roamcast.middleware.host_frames import PROTOCOL_VERSION
from roamcast.middleware.link_effects import (
    Answer,
    Identity,
    Linked,
    LinkEffect,
    MailBooks,
    Member,
    NoMail,
    Remember,
    SayLink,
    Seen,
    Stop,
)
from roamcast.middleware.link_peer import RETRY_MAX, RETRY_MIN, LinkPeer
from roamcast.middleware.settings import MS, SECOND
from roamcast.middleware.station_frames import Link, NoLink, Refusal, StationFrame, WentBack

NOLINK_INTERVAL = 200 * MS
SETTLE = SECOND
CHANNELS_MAX = 2
"""Channels bound to one slot: the present one, and one that may still hold frames of the connection before."""
SKEW_MAX = 300 * SECOND

REMEDY = (
    "this station's store is older than what its peers have seen of it: an old copy, or a second, newer copy of "
    "the directory is running somewhere. Stop all copies but the newest, or bring back the newer directory and start "
    "again; the numbers it would give now have been given before. If the newer one is gone for good, give this station "
    "up at another one (mss-station stations retire DIR ID --lost), and let it join under another id (mss-station join "
    "DIR TOKEN --rejoin)"
)


class Links:
    """Link state of one station process towards all its peers. Sans-IO; `now` and `wall` in microseconds.

    A driver that does not see its DEALERs' connections may leave `connected` and `disconnected` out: NoLink and the
    timer find out later.

    Args:
        me: what this process says of itself.
        members: the configured peers, without the own station.
        seen: per slot the newest life seen, from before this process.
        highest: highest number known of a slot's stream (of the own slot: highest given).
        alone: give numbers without any answer (`run --alone`).
        mail: the station mail that is known of here.
    """

    def __init__(
        self,
        me: Identity,
        members: Sequence[Member],
        seen: Mapping[int, Seen],
        highest: Callable[[int], int],
        alone: bool,
        mail: MailBooks | None = None,
    ) -> None:
        self._me = me
        self._highest = highest
        self._alone = alone
        self._mail = mail or NoMail()
        self._peers: dict[int, LinkPeer] = {}
        self._slots: dict[Channel, int] = {}
        self._nolink_at: dict[Channel, int] = {}
        self._first_said: int | None = None
        self._effects: list[LinkEffect] = []
        self.set_members(members, seen)

    def set_members(self, members: Sequence[Member], seen: Mapping[int, Seen]) -> None:
        """The configuration changed: new peers are linked, peers that went lose their channels."""
        wanted = {member.slot: member for member in sorted(members, key=lambda member: member.slot)}
        ensure(self._me.slot not in wanted, "a station is not its own peer")
        for slot in [slot for slot in self._peers if self._peers[slot].member != wanted.get(slot)]:
            for channel in self._peers.pop(slot).channels:
                self._slots.pop(channel, None)
        for slot, member in wanted.items():
            if slot not in self._peers:
                self._peers[slot] = LinkPeer(member, seen.get(slot, Seen(0, 0)))

    # ---- questions ----

    def slot_of(self, channel: Channel) -> int | None:
        """The slot a ROUTER channel speaks for; None: it has not said Link."""
        return self._slots.get(channel)

    def is_linked(self, slot: int) -> bool:
        """Whether the DEALER to `slot` stands on a connection whose Link was answered, as far as is known."""
        return slot in self._peers and self._peers[slot].answered

    def may_number(self, now: int) -> bool:
        """Whether new numbers may be given: no peers, `alone`, all answered, or one answered and the pause is over."""
        if self._alone or not self._peers:
            return True
        answered = sum(peer.ever_answered for peer in self._peers.values())
        settled = self._first_said is not None and now >= self._first_said + SETTLE
        return answered == len(self._peers) or (answered > 0 and settled)

    def next_deadline(self) -> int | None:
        """When `expire` has something to do; None: nothing to wait for."""
        return min((peer.due for peer in self._peers.values()), default=None)

    def is_mute(self, slot: int) -> bool:
        """Whether the connection of the DEALER to `slot`, which was linked, is dead: it has to be made anew."""
        return self._peers[slot].mute

    def ahead(self, slot: int) -> int:
        """How far the clock of a linked peer was ahead of the own one when it was linked, microseconds."""
        return self._peers[slot].skew

    def status(self, now: int) -> list[dict[str, object]]:
        """One entry per peer: id, slot, linked, seconds since heard, refusal, clock skew in seconds, starts seen."""
        return [
            {
                "id": peer.member.id,
                "slot": slot,
                "linked": peer.answered,
                "heard_s": None if peer.heard_at is None else (now - peer.heard_at) / SECOND,
                "refusal": peer.refusal,
                "skew_s": peer.skew / SECOND,
                "starts": peer.seen.starts,
            }
            for slot, peer in self._peers.items()
        ]

    # ---- inputs ----

    def expire(self, now: int, wall: int) -> list[LinkEffect]:
        """Say the Links that are due."""
        for slot, peer in self._peers.items():
            if peer.take_turn(now):
                self._say(slot, peer, now, wall)
        return self._take()

    def connected(self, slot: int, now: int) -> None:
        """The DEALER to `slot` has a new connection: nothing was said on it yet."""
        self._peers[slot].begin(now)

    def disconnected(self, slot: int) -> None:
        """The DEALER to `slot` has lost its connection."""
        self._peers[slot].end()

    def unsent(self, slot: int, now: int) -> None:
        """The DEALER to `slot` has no connection, or its queue is full: try again; without a connection soon."""
        self._peers[slot].unsent(now)

    def heard(self, slot: int, now: int) -> None:
        """A frame of `slot` came on a bound channel."""
        self._peers[slot].heard_at = now

    def stray(self, channel: Channel, now: int) -> list[LinkEffect]:
        """A frame other than Link on an unbound channel: dropped, and answered NoLink now and then."""
        if now - self._nolink_at.get(channel, -NOLINK_INTERVAL) >= NOLINK_INTERVAL:
            if len(self._nolink_at) >= 4 * CHANNELS_MAX * (1 + len(self._peers)):
                self._nolink_at.clear()
            self._nolink_at[channel] = now
            self._effects.append(Answer(channel, NoLink()))
        return self._take()

    def introduced(self, channel: Channel, user: int | None, frame: Link, now: int, wall: int) -> list[LinkEffect]:
        """A Link on the ROUTER. `user` = slot of the connection's User-Id, None if it is no member's."""
        peer = self._peers.get(frame.slot)
        if user is None or peer is None or frame.slot != user:
            self._refuse(
                channel, frame, Refusal("slot", f"slot {frame.slot} is not that of the key of this connection")
            )
            return self._take()
        refusal = self._mismatch(peer.member, frame)
        if refusal is not None:
            peer.refusal = f"{refusal.code}: {refusal.text}"
            self._refuse(channel, frame, refusal)
            return self._take()
        if self._judge(peer, frame):
            return self._take()
        if self._went_back(peer, frame):
            self._notice("alarm", "peer_store_went_back", peer, frame)
            mail = self._mail.known_of(frame.slot), self._mail.acknowledged_by(frame.slot)
            self._effects.append(Answer(channel, WentBack(peer.seen.starts, self._highest(frame.slot), *mail)))
            return self._take()
        self._passed(peer, frame, now, wall)
        self._bind(channel, peer)
        self._effects.append(Answer(channel, self._link(peer, wall)))
        return self._take()

    def answered(self, slot: int, frame: StationFrame, now: int, wall: int) -> list[LinkEffect]:
        """A frame on the DEALER to `slot`: the answer to a Link, WentBack, NoLink or Refusal."""
        peer = self._peers[slot]
        match frame:
            case Link():
                self._answer(peer, frame, now, wall)
            case NoLink():
                self._again(peer, now)
            case Refusal(code, text):
                self._told_refusal(peer, code, text, now)
            case WentBack():
                self._told_went_back(peer, frame, now)
            case _:
                self._effects.append(Reject(slot, "unexpected", f"{type(frame).__name__} on a DEALER"))
        return self._take()

    # ---- the rules ----

    def _answer(self, peer: LinkPeer, frame: Link, now: int, wall: int) -> None:
        refusal = self._mismatch(peer.member, frame)
        if refusal is not None:
            self._told_refusal(peer, refusal.code, refusal.text, now)
        elif self._judge(peer, frame):
            pass
        elif self._went_back(peer, frame):  # it is told when it says Link itself
            self._notice("alarm", "peer_store_went_back", peer, frame)
        else:
            self._passed(peer, frame, now, wall)
            if not peer.answered:
                self._notice("info", "linked", peer, frame)
                self._effects.append(Linked(peer.member.slot))
            peer.take_answer(now)

    def _passed(self, peer: LinkPeer, frame: Link, now: int, wall: int) -> None:
        """`frame` is a true Link of the peer's newest life."""
        seen = Seen(frame.starts, frame.boot)
        if seen != peer.seen:
            peer.seen = seen
            self._effects.append(Remember(frame.slot, seen))
            self._again(peer, now)  # a new life: what was said to the one before is void
        peer.heard_at = now
        was_near, peer.skew = abs(peer.skew) <= SKEW_MAX, frame.wall - wall
        if was_near and abs(peer.skew) > SKEW_MAX:
            self._notice("warning", "clock_skew", peer, frame)

    def _again(self, peer: LinkPeer, now: int) -> None:
        """The connection under the DEALER is not linked (any more): say Link now, but not twice within an instant."""
        if peer.answered:
            peer.begin(now)
        elif peer.said_at is None or now - peer.said_at >= NOLINK_INTERVAL:
            peer.due, peer.retry = now, RETRY_MIN

    def _mismatch(self, member: Member, frame: Link) -> Refusal | None:
        if frame.version[0] != PROTOCOL_VERSION[0]:
            return Refusal("version", f"yours {_dotted(frame.version)}, mine {_dotted(PROTOCOL_VERSION)}")
        if frame.group != self._me.group:
            return Refusal("group", f"yours {frame.group!r}, mine {self._me.group!r}")
        if (frame.slot, frame.id) != (member.slot, member.id):
            return Refusal("slot", f"slot {member.slot} is {member.id!r} here, not {frame.id!r} of slot {frame.slot}")
        if frame.generation != member.generation:
            return Refusal("generation", f"slot {member.slot} belongs to another generation of {member.id!r}")
        return None

    def _judge(self, peer: LinkPeer, frame: Link) -> bool:
        """True, and Stop, if the peer knows more of this station than the station itself."""
        told = WentBack(frame.your_starts, frame.highest_yours, frame.mail_yours)
        if frame.your_starts <= self._me.starts and not self._knows_more(peer, told):
            return False
        self._stop(peer, told)
        return True

    def _knows_more(self, peer: LinkPeer, told: WentBack) -> bool:
        """Whether the peer knows more of this station's rows or mail than the station itself, now."""
        mail = self._mail
        ahead = told.highest > self._highest(self._me.slot) or told.mail_sent > mail.sent_number
        return ahead or told.mail_acked > mail.known_of(peer.member.slot)

    def _went_back(self, peer: LinkPeer, frame: Link) -> bool:
        if frame.boot == peer.seen.boot and frame.starts == peer.seen.starts:
            return False
        mail, slot = self._mail, frame.slot
        older = frame.mail_own < mail.known_of(slot) or frame.mail_yours < mail.acknowledged_by(slot)
        return older or frame.starts <= peer.seen.starts or frame.highest_own < self._highest(slot)

    def _told_went_back(self, peer: LinkPeer, told: WentBack, now: int) -> None:
        if told.starts >= self._me.starts or self._knows_more(peer, told):
            self._stop(peer, told)
        else:
            self._again(peer, now)  # that Link was overtaken by rows or mail

    def _told_refusal(self, peer: LinkPeer, code: str, text: str, now: int) -> None:
        peer.answered = False
        peer.due, peer.retry = now + RETRY_MAX, RETRY_MAX
        told = f"{code}: {text}"
        if told != peer.refusal:
            peer.refusal = told
            fields = {"peer": peer.member.id, "slot": peer.member.slot, "code": code, "text": text}
            self._effects.append(Notice("alarm", "link_refused", fields))
        self._effects.append(Reject(peer.member.slot, code, text))

    def _refuse(self, channel: Channel, frame: Link, refusal: Refusal) -> None:
        fields = {"peer": frame.id, "slot": frame.slot, "code": refusal.code, "text": refusal.text}
        self._effects.append(Notice("warning", "link_refused", fields))
        self._effects.append(Reject(channel, refusal.code, refusal.text))
        self._effects.append(Answer(channel, refusal))

    def _bind(self, channel: Channel, peer: LinkPeer) -> None:
        if channel not in peer.channels:
            peer.channels.append(channel)
            self._slots[channel] = peer.member.slot
        if len(peer.channels) > CHANNELS_MAX:
            del self._slots[peer.channels.pop(0)]

    def _say(self, slot: int, peer: LinkPeer, now: int, wall: int) -> None:
        peer.said_at = now
        if self._first_said is None:
            self._first_said = now
        self._effects.append(SayLink(slot, self._link(peer, wall)))

    def _link(self, peer: LinkPeer, wall: int) -> Link:
        return Link(
            version=PROTOCOL_VERSION,
            group=self._me.group,
            id=self._me.id,
            slot=self._me.slot,
            generation=self._me.generation,
            boot=self._me.boot,
            starts=self._me.starts,
            highest_own=self._highest(self._me.slot),
            highest_yours=self._highest(peer.member.slot),
            your_starts=peer.seen.starts,
            wall=wall,
            mail_own=self._mail.sent_number,
            mail_yours=self._mail.known_of(peer.member.slot),
        )

    def _stop(self, peer: LinkPeer, told: WentBack) -> None:
        mail, slot = self._mail, peer.member.slot
        mine = f"own start {self._me.starts}, own number {self._highest(self._me.slot)}, mail {mail.sent_number}"
        theirs = f"{peer.member.id} has seen start {told.starts}, number {told.highest}, mail {told.mail_sent}"
        if told.mail_acked > mail.known_of(slot):
            theirs += f", and was told that its mail {told.mail_acked} is here, where {mail.known_of(slot)} is known"
        self._effects.append(Stop(f"{REMEDY} ({mine}; {theirs})"))

    def _notice(self, level: str, event: str, peer: LinkPeer, frame: Link) -> None:
        fields = {
            "peer": peer.member.id,
            "slot": peer.member.slot,
            "starts": frame.starts,
            "highest": frame.highest_own,
            "seen_starts": peer.seen.starts,
            "skew_s": round(peer.skew / SECOND),
        }
        self._effects.append(Notice(level, event, fields))

    def _take(self) -> list[LinkEffect]:
        effects, self._effects = self._effects, []
        return effects


def _dotted(version: tuple[int, int]) -> str:
    return ".".join(map(str, version))
