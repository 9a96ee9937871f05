"""A store whose station mail went back is noticed at the link set-up, by either side, and an overtaken Link is not."""

from __future__ import annotations

from collections.abc import Callable

from roamcast.middleware.causal_unicast.records import Mail, MailAcks, MailImage, PutCount, PutOutgoing
from roamcast.middleware.causal_unicast.settings import MailSettings
from roamcast.middleware.causal_unicast.station import MailStation
from roamcast.middleware.effects import Notice
from roamcast.middleware.link_effects import Answer, Identity, Linked, LinkEffect, Member, Remember, SayLink, Seen, Stop
from roamcast.middleware.links import Links
from roamcast.middleware.settings import SECOND
from roamcast.middleware.station_frames import Link, WentBack

WALL = 1_700_000_000 * SECOND


class Station:
    """One of two stations, 1 and 2: its books of mail, and its links in several lives."""

    def __init__(self, slot: int, image: MailImage | None = None) -> None:
        self.slot, self.other = slot, 3 - slot
        self.seen: dict[int, Seen] = {}
        self.starts = 0
        self.live(image or MailImage())

    def live(self, image: MailImage) -> None:
        """A start on this content of the store; starts go up whatever it is, as if only the mail in it were old."""
        self.starts += 1
        self.image = image
        self.mail = MailStation(self.slot, {self.other}, image, MailSettings())
        me = Identity("g", f"s{self.slot}", self.slot, self.slot, self.starts, self.starts)
        members = [Member(self.other, f"s{self.other}", self.other)]
        self.links = Links(me, members, self.seen, lambda slot: 0, False, self.mail)

    def keep(self, effects: list[LinkEffect]) -> list[LinkEffect]:
        self.seen.update({effect.slot: effect.seen for effect in effects if isinstance(effect, Remember)})
        return effects

    def say(self, now: int = 0) -> Link:
        return next(effect.frame for effect in self.links.expire(now, WALL) if isinstance(effect, SayLink))

    def send(self, count: int) -> list[Mail]:
        """Send mails to the other one; nobody gets them yet."""
        self.mail.begin(0)
        for _ in range(count):
            self.mail.send(self.other, b"x")
        self.mail.flush()
        return list(self.image.outgoing[self.other].values())

    def take(self, *frames: Mail | MailAcks) -> None:
        self.mail.begin(0)
        for frame in frames:
            self.mail.receive(self.other, frame)
        self.mail.flush()


def set_up(caller: Station, called: Station, now: int = 0) -> tuple[list[LinkEffect], list[LinkEffect]]:
    """What the called station makes of the Link, and the caller of the answer."""
    told = called.keep(called.links.introduced("c", caller.slot, caller.say(now), now, WALL))
    answer = next(effect.frame for effect in told if isinstance(effect, Answer))
    return told, caller.keep(caller.links.answered(called.slot, answer, now, WALL))


def stops(effects: list[LinkEffect]) -> list[str]:
    return [effect.text for effect in effects if isinstance(effect, Stop)]


def events(effects: list[LinkEffect]) -> list[str]:
    return [effect.event for effect in effects if isinstance(effect, Notice)]


def test_both_say_what_they_know_and_are_linked() -> None:
    a, b = Station(1), Station(2)
    b.take(*a.send(3))
    a.take(MailAcks((1, 2, 3)))
    link = a.say()
    assert (link.mail_own, link.mail_yours) == (3, 0)
    told, heard = set_up(b, a)
    assert Linked(1) in heard and not stops(told) + stops(heard)
    assert b.mail.known_of(1) == 3 and a.mail.acknowledged_by(2) == 3


def without(change: Callable[[MailImage], object]) -> tuple[Station, Station]:
    """Station 1 has sent 3 mails, station 2 has acknowledged them; then station 1 starts on a changed store."""
    a, b = Station(1), Station(2)
    b.take(*a.send(3))
    a.take(MailAcks((1, 2, 3)))
    set_up(a, b)
    image = a.image.copy()
    change(image)
    a.live(image)
    return a, b


def test_a_sender_that_went_back_is_told_and_stops() -> None:
    a, b = without(lambda image: image.counts.update({1: 2}))
    told, heard = set_up(a, b)
    assert "peer_store_went_back" in events(told)
    assert [effect.frame for effect in told if isinstance(effect, Answer)] == [WentBack(1, 0, 3, 0)]
    (text,) = stops(heard)
    assert "--rejoin" in text and "own number 0, mail 2" in text and "number 0, mail 3" in text


def test_a_sender_that_went_back_stops_also_when_it_is_called() -> None:
    a, b = without(lambda image: image.counts.update({1: 2}))
    assert stops(a.links.introduced("c", 2, b.say(), 0, WALL))


def test_an_addressee_that_went_back_is_told_and_stops() -> None:
    """What it had acknowledged is nowhere; only its sender knows."""
    a, b = Station(1), Station(2)
    b.take(*a.send(2))
    old = b.image.copy()
    b.take(*a.send(1))
    a.take(MailAcks((1, 2, 3)))
    set_up(b, a)
    b.live(old)
    told, heard = set_up(b, a)
    assert [effect.frame for effect in told if isinstance(effect, Answer)] == [WentBack(1, 0, 0, 3)]
    (text,) = stops(heard)
    assert "its mail 3 is here, where 2 is known" in text


def test_a_link_that_mail_has_overtaken_is_said_again_and_stops_nobody() -> None:
    a, b = Station(1), Station(2)
    set_up(a, b)
    a.live(a.image)
    link = a.say()
    b.take(*a.send(1))
    told = b.links.introduced("c", 1, link, 0, WALL)
    answer = next(effect.frame for effect in told if isinstance(effect, Answer))
    assert isinstance(answer, WentBack) and not stops(a.links.answered(2, answer, SECOND, WALL))
    again = a.links.next_deadline() or 0
    told = b.links.introduced("c", 1, a.say(again), again, WALL)
    assert isinstance(next(effect.frame for effect in told if isinstance(effect, Answer)), Link)


def test_a_boot_that_has_passed_is_not_compared_again() -> None:
    """Mail overtakes the answer to a Link of its own life."""
    a, b = Station(1), Station(2)
    answer = next(effect.frame for effect in b.links.introduced("c", 1, a.say(), 0, WALL) if isinstance(effect, Answer))
    assert isinstance(answer, Link)
    set_up(b, a)
    a.take(*b.send(2))
    assert a.mail.known_of(2) > answer.mail_own
    heard = a.links.answered(2, answer, 0, WALL)
    assert Linked(2) in heard and "peer_store_went_back" not in events(heard)


def test_mail_that_only_waits_here_is_known_too() -> None:
    held = Mail(1, 2, ((1, 2),), ((1, 2, 1),), b"x")
    b, a = Station(2), Station(1)
    b.take(held)
    assert b.image.held and not b.image.counts
    a.image.apply(PutCount(1, 1))
    a.image.apply(PutOutgoing(held))
    assert b.say().mail_yours == 2 and stops(a.links.introduced("c", 2, b.say(SECOND), 0, WALL))
