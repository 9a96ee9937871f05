"""A chat as an application of the agent: rooms are topics, the subject of a room is its topic's last value.

This is the part to copy: it needs `roamcast.mh_agent` and nothing else of this folder. A body is JSON with "what" and
"text", and means:

    says      text, in a room                   subject   text, in a room and retained: who joins later gets it first
    joins     in a room, by who has come in     here      mail that answers `joins`: the room in which the sender is
    leaves    in a room, by who goes            tells     mail: text for one person

All of it is in one causal order, so nobody sees an answer before its question, or words of somebody who is said to be
away. Subscriptions and what is owed outlive the process: who comes back under his name is given what he missed.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field

from roamcast.mh_agent import Agent, Discontinuity, Message, Presence, Receipt, StateLost, Subscription

Event = Message | Subscription | Presence | Discontinuity | StateLost
WATCHED = 100
"""So many of the newest receipts are watched."""


@dataclass(frozen=True, slots=True)
class News:
    """What somebody at a terminal wants to know.

    `what` is says, sets (the subject), subject (the one there is, for who comes in), joins, leaves, tells; of oneself:
    in, out, refused, unsaid, missed; of a person: comes, goes. `who` is the person: oneself, too, for one's own words
    come back in their place in the order.
    """

    what: str
    room: str = ""
    who: str = ""
    text: str = ""


@dataclass(slots=True)
class Room:
    """A room that one is in."""

    subject: str = ""
    stamp: tuple[int, int] = (0, 0)
    """Of the message that set the subject. Everybody keeps the largest, so all end with the same subject."""
    people: set[str] = field(default_factory=set)


class ChatClient:
    """One person in the chat. Give `take` every event of the agent, and look at `troubles` now and then."""

    def __init__(self, agent: Agent) -> None:
        self.agent = agent
        self.rooms: dict[str, Room] = {}
        self.online: dict[str, bool] = {}
        """Everybody who was met, and whether a station has that host."""
        self._receipts: deque[tuple[str, Receipt]] = deque(maxlen=WATCHED)

    # ---- what one does ----

    def join(self, room: str) -> None:
        """Ask to be let in; News `in` or `refused` tells what became of it."""
        self.agent.subscribe(room)

    def leave(self, room: str) -> None:
        """Go out. What others say in the room before that is still given."""
        self._post(room, "leaves")
        self.agent.unsubscribe(room)

    def say(self, room: str, text: str) -> Receipt:
        """Say something in a room."""
        return self._post(room, "says", text)

    def set_subject(self, room: str, text: str) -> None:
        """Say what the room is about, also to those who come later."""
        self._post(room, "subject", text, retain=True)

    def tell(self, person: str, text: str) -> None:
        """Tell one person something; it waits for who is away."""
        self._receipts.append((person, self.agent.send(person, _body("tells", text))))

    def troubles(self) -> Iterator[News]:
        """What was not said after all: refused for want of the right, or lost."""
        for one in [one for one in self._receipts if one[1].state in ("refused", "lost", "unknown")]:
            self._receipts.remove(one)
            where, receipt = one
            yield News("unsaid", where, text=receipt.reason or receipt.state)

    # ---- what one is given ----

    def take(self, event: Event) -> News | None:
        """Keep what an event changes; returns what is worth showing."""
        if isinstance(event, Message):
            return self._take_message(event)
        if isinstance(event, Presence):
            return self._take_presence(event)
        if isinstance(event, Subscription):
            return self._take_subscription(event)
        if isinstance(event, StateLost):
            self._subscribe_again()
        return News("missed")

    def _take_message(self, message: Message) -> News | None:
        what, text = _read(message.body)
        if not message.own:
            self._meet(message.sender)
        if message.topic is None:
            if what == "here":
                if text in self.rooms:
                    self.rooms[text].people.add(message.sender)
                return None
            return News("tells" if message.mail else "says", "" if message.mail else "all rooms", message.sender, text)
        room = self.rooms.setdefault(message.topic, Room())
        if what == "subject":
            if message.stamp <= room.stamp:
                return None  # an older one that came later: it was overtaken
            room.subject, room.stamp = text, message.stamp
            return News("subject" if message.retained else "sets", message.topic, message.sender, text)
        (room.people.discard if what == "leaves" else room.people.add)(message.sender)
        if message.own and what != "says":
            return None
        if what == "joins":
            self.agent.send(message.sender, _body("here", message.topic))
        return News(what, message.topic, message.sender, text)

    def _take_subscription(self, change: Subscription) -> News | None:
        room = change.topic
        if room.startswith(Presence.topic("")):
            return None
        if change.state == "subscribed":
            self.rooms.setdefault(room, Room())
            self._post(room, "joins")
            return News("in", room)
        if not room:  # all at once: a station was lost, or this host was away for too long
            self._subscribe_again()
            return News("missed")
        self.rooms.pop(room, None)
        if change.state == "refused":
            return News("refused", room, text=change.reason)
        return News("out", room, text="the right was taken back" if change.state == "ended" else "")

    def _take_presence(self, presence: Presence) -> News | None:
        before = self.online.get(presence.host)
        self.online[presence.host] = presence.online
        if presence.retained or before == presence.online:
            return None
        return News("comes" if presence.online else "goes", who=presence.host)

    def _meet(self, person: str) -> None:
        """From now on it is known when this person comes and goes."""
        if person not in self.online:
            self.online[person] = True
            self.agent.subscribe(Presence.topic(person))

    def _subscribe_again(self) -> None:
        for topic in [*self.rooms, *map(Presence.topic, self.online)]:
            self.agent.subscribe(topic)

    def _post(self, room: str, what: str, text: str = "", retain: bool = False) -> Receipt:
        receipt = self.agent.broadcast(_body(what, text), room, retain)
        self._receipts.append((room, receipt))
        return receipt


def _body(what: str, text: str) -> bytes:
    return json.dumps({"what": what, "text": text}).encode()


def _read(body: bytes) -> tuple[str, str]:
    """What a body says. Whoever has the right may have sent it: what is no chat is shown as it is."""
    try:
        told = json.loads(body)
        what, text = told["what"], told["text"]
        if what in ("says", "subject", "joins", "leaves", "here", "tells") and isinstance(text, str):
            return what, text
    except (ValueError, KeyError, TypeError):
        pass
    return "says", body.decode(errors="backslashreplace")
