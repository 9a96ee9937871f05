"""What a peer must not say: refused with a code, nothing changes, nothing is acknowledged."""

from __future__ import annotations

from dataclasses import replace

import pytest

from roamcast.middleware.causal_unicast.records import COUNT_MAX, Mail, MailAcks
from roamcast.middleware.causal_unicast.station import MailStation

A, B, C, D = range(4)
GOOD = Mail(A, B, ((A, 5), (C, 3)), ((A, C, 4), (C, A + D, 2)), b"body")
MANY = tuple((sender, receiver, 1) for sender in range(10) for receiver in range(10) if sender != receiver)

FOOLISH = {
    "of somebody else": (replace(GOOD, src=C), "mail-foreign"),
    "to somebody else": (replace(GOOD, dst=C), "mail-misdirected"),
    "too large": (replace(GOOD, body=bytes(2000)), "mail-too-large"),
    "no number": (replace(GOOD, vector=((C, 3),), records=()), "mail-header"),
    "number 0": (replace(GOOD, vector=((A, 0), (C, 3)), records=()), "mail-header"),
    "number below 0": (replace(GOOD, vector=((A, -4), (C, 3)), records=()), "mail-header"),
    "number beyond 2^63": (replace(GOOD, vector=((A, COUNT_MAX + 1), (C, 3))), "mail-header"),
    "number far beyond the last": (replace(GOOD, vector=((A, 1 << 40), (C, 3))), "mail-header"),
    "count of another one far beyond": (replace(GOOD, vector=((A, 5), (C, 1 << 40))), "mail-header"),
    "count of this station beyond its own": (replace(GOOD, vector=((A, 5), (B, 1), (C, 3))), "mail-ahead"),
    "vector with a slot twice": (replace(GOOD, vector=((A, 5), (A, 6), (C, 3))), "mail-header"),
    "vector not ascending": (replace(GOOD, vector=((C, 3), (A, 5))), "mail-header"),
    "vector with an unknown slot": (replace(GOOD, vector=((A, 5), (C, 3), (9, 1))), "mail-unknown-slot"),
    "vector with a slot below 0": (replace(GOOD, vector=((-1, 1), (A, 5), (C, 3))), "mail-header"),
    "record of a station to itself": (replace(GOOD, records=((C, C, 1),)), "mail-header"),
    "record to the sender": (replace(GOOD, records=((C, A, 1),)), "mail-header"),
    "record of an unknown slot": (replace(GOOD, records=((9, C, 1),)), "mail-unknown-slot"),
    "record to an unknown slot": (replace(GOOD, records=((C, 9, 1),)), "mail-unknown-slot"),
    "record of the mail itself": (replace(GOOD, records=((A, B, 5),)), "mail-header"),
    "record beyond its vector": (replace(GOOD, records=((C, D, 4),)), "mail-header"),
    "record 0": (replace(GOOD, records=((C, D, 0),)), "mail-header"),
    "record below 0": (replace(GOOD, records=((C, D, -1),)), "mail-header"),
    "two records of a pair": (replace(GOOD, records=((C, D, 1), (C, D, 2))), "mail-header"),
    "records not ascending": (replace(GOOD, records=((C, D, 1), (A, D, 2))), "mail-header"),
    "more than (N-1)^2 records": (replace(GOOD, records=MANY), "mail-header"),
}


@pytest.mark.parametrize("what", FOOLISH)
def test_foolish_mail_is_refused(office, what):
    net = office(4, body_bytes_max=1000)
    mail, code = FOOLISH[what]
    before = net.images[B].copy()
    net.hand(A, B, mail)
    assert net.rejected(B) == [code]
    assert net.images[B] == before and net.acked(B, A) == []
    net.hand(A, B, GOOD)
    assert net.acked(B, A) == [5]


def test_the_sound_one_is_taken(office):
    net = office(4)
    net.hand(A, B, GOOD)
    assert net.rejected(B) == [] and net.got(B) == [b"body"]


def test_strangers_and_acknowledgements_of_what_was_never_sent(office):
    net = office(2)
    net.hand(7, B, replace(GOOD, src=7))
    net.hand(B, B, GOOD)
    assert net.rejected(B) == ["mail-unknown-slot"] * 2
    net.send(A, B, b"m")
    for numbers in [(2,), (1, 2), (0,), (-1,)]:
        net.hand(B, A, MailAcks(numbers))
    assert net.rejected(A) == ["mail-ahead"] * 4
    assert list(net.images[A].outgoing[B]) == [1]
    net.hand(B, A, MailAcks(()))
    net.hand(B, A, MailAcks((1, 1)))
    net.hand(B, A, MailAcks((1,)))
    assert net.images[A].outgoing[B] == {} and len(net.rejected(A)) == 4


def test_an_acknowledgement_of_mail_to_somebody_else_takes_nothing(office):
    net = office(3)
    net.send(A, B, b"m")
    net.hand(C, A, MailAcks((1,)))
    assert list(net.images[A].outgoing[B]) == [1] and net.images[A].acknowledged == {}


def test_mail_of_a_newcomer_is_taken_once_the_slot_is_known_here(office):
    """Another station may have heard of it earlier: its headers name the slot."""
    net = office(3)
    newcomer = Mail(7, B, ((7, 1),), (), b"hello")
    of_a = Mail(A, B, ((A, 1), (7, 2)), ((7, B, 1), (7, C, 2)), b"heard")
    net.hand(7, B, newcomer)
    net.hand(A, B, of_a)
    assert net.got(B) == [] and net.acked(B, A) == net.acked(B, 7) == []
    net.tick(B, MailStation.add, 7)
    net.hand(A, B, of_a)
    net.hand(7, B, newcomer)
    assert net.got(B) == [b"hello", b"heard"] and net.acked(B, 7) == net.acked(B, A) == [1]


def test_what_a_lying_station_can_do_is_what_is_written(office):
    """Counts of others that are too high, within reason: their mail is taken for copies. A valid key that lies."""
    net = office(3)
    net.hand(A, B, Mail(A, B, ((A, 1), (C, 1)), (), b"lie"))
    net.send(C, B, b"true")
    net.arrive(b"true")
    assert net.got(B) == [b"lie"]
