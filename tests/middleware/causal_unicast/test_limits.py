"""Limits refuse and put off; they lose nothing and block nothing for ever."""

from __future__ import annotations

import pytest

from roamcast.middleware.causal_unicast.errors import MailRefused
from roamcast.middleware.causal_unicast.records import Mail, MailAcks, MailImage
from roamcast.middleware.causal_unicast.settings import MailSettings
from roamcast.middleware.causal_unicast.station import MailStation
from roamcast.middleware.errors import InvariantError, LocalProtocolError
from roamcast.middleware.settings import MS, SECOND

A, B, C = range(3)
SIZE = Mail(A, B, ((A, 1),), (), bytes(100)).size
"""Of a first mail with 100 bytes."""


def refusal(net, source, target, body):
    """Code of the refusal; nothing has changed."""
    before = net.images[source].copy()
    with pytest.raises(MailRefused) as caught:
        net.tick(source, MailStation.send, target, body)
    assert net.images[source] == before
    assert net.up[source].flush() == []
    return caught.value.code


def test_send_refuses_what_it_cannot_keep(office):
    net = office(2, body_bytes_max=100, outbox_bytes_max=SIZE)
    assert refusal(net, A, 5, b"m") == "unknown-station"
    assert refusal(net, A, B, bytes(101)) == "too-large"
    assert refusal(net, A, A, bytes(101)) == "too-large"
    net.send(A, B, bytes(100))
    assert refusal(net, A, B, b"") == "mailbox-full"
    net.settle(A, B)
    assert net.send(A, B, bytes(60)).number == 2
    net.crash(A)
    net.start(A)
    assert refusal(net, A, B, bytes(60)) == "mailbox-full"


def test_the_limit_is_one_of_each_addressee(office):
    net = office(3, outbox_bytes_max=SIZE)
    net.send(A, B, bytes(100))
    assert refusal(net, A, B, b"") == "mailbox-full"
    net.send(A, C, bytes(10))
    net.send(A, A, bytes(100))


def test_mail_to_itself_stops_when_the_application_does_not_read(office):
    net = office(1, inbox_bytes_max=200)
    net.send(A, A, bytes(100))
    net.send(A, A, bytes(100))
    assert refusal(net, A, A, b"") == "inbox-full"
    net.tick(A, MailStation.taken, 1)
    net.send(A, A, b"")


def test_what_is_taken_was_given(office):
    net = office(2)
    net.send(A, B, b"m")
    net.arrive(b"m")
    with pytest.raises(LocalProtocolError):
        net.tick(B, MailStation.taken, 2)
    net.tick(B, MailStation.taken, 1)
    net.tick(B, MailStation.taken, 0)
    assert net.effects == [] and net.images[B].inbox_taken == 1


def test_over_the_limit_of_held_mail_only_what_is_deliverable_is_taken(office):
    net = office(2, held_bytes_max=2 * SIZE + 200)
    bodies = [b"%d" % number + bytes(99) for number in range(5)]
    for body in bodies:
        net.send(A, B, body)
    net.arrive(*reversed(bodies[1:]))
    assert net.held(B) == [bodies[4], bodies[3]] and net.acked(B, A) == [5, 4]
    assert net.up[B].status()["postponed"] == 2
    assert net.up[B].status()["held_bytes"] <= net.settings.held_bytes_max
    net.arrive(bodies[0])
    assert net.got(B) == [bodies[0]]
    net.arrive(bodies[2], bodies[1], bodies[2])
    assert net.got(B) == bodies and net.up[B].status()["held_bytes"] == 0


def test_nothing_is_held_at_all_if_there_is_no_room(office):
    net = office(2, held_bytes_max=0)
    for body in (b"1", b"2"):
        net.send(A, B, body)
    net.arrive(b"2", b"1", b"2")
    assert net.got(B) == [b"1", b"2"]


def test_a_full_inbox_takes_nothing_new_and_still_answers_copies(office):
    net = office(2, inbox_bytes_max=100)
    for body in (b"1" * 60, b"2", b"3"):
        net.send(A, B, body)
    net.arrive(b"1" * 60, b"2", b"3", b"1" * 60)
    assert net.acked(B, A) == [1, 1]
    net.tick(B, MailStation.taken, 1)
    net.arrive(b"2", b"3")
    assert net.got(B) == [b"1" * 60, b"2", b"3"]


def test_a_restart_knows_how_full_everything_is(office):
    net = office(2)
    for body in (b"1", b"2", b"3"):
        net.send(A, B, body)
    net.arrive(b"3", b"1")
    before = {slot: net.up[slot].status() for slot in net.slots}
    for slot in net.slots:
        net.crash(slot)
        net.start(slot)
    assert {slot: net.up[slot].status() for slot in net.slots} == before


# ---- sending ----


def mails(net, source):
    """Numbers of the mail that a station has sent, in order."""
    return [frame.number for sender, _, frame in net.sent if sender == source and isinstance(frame, Mail)]


def test_repeats_double_from_250_ms_to_5_s(office):
    net = office(2)
    net.send(A, B, b"m")
    times = []
    start = net.now
    for _ in range(8):
        net.now = net.up[A].next_deadline()
        net.tick(A)
        times.append((net.now - start) // MS)
    assert times == [250, 750, 1750, 3750, 7750, 12750, 17750, 22750]
    assert mails(net, A) == [1] * 9
    net.tick(A, MailStation.link_up, B)
    assert mails(net, A) == [1] * 10
    assert net.up[A].next_deadline() == net.now + 500 * MS


def test_a_window_of_mails_is_under_way_and_the_rest_follows(office):
    net = office(2, window_mails=3)
    for number in range(6):
        net.send(A, B, b"%d" % number)
    assert mails(net, A) == [1, 2, 3]
    net.hand(B, A, MailAcks((2,)))
    assert mails(net, A) == [1, 2, 3, 4]
    net.run(250 * MS)
    assert mails(net, A) == [1, 2, 3, 4, 1, 3, 4]
    net.hand(B, A, MailAcks((1, 3, 4)))
    assert mails(net, A)[7:] == [5, 6]


def test_a_window_of_bytes_but_always_one_mail(office):
    net = office(2, window_bytes=2 * SIZE)
    for body in (bytes(1000), b"", b"", bytes(100)):
        net.send(A, B, body)
    assert mails(net, A) == [1]
    net.hand(B, A, MailAcks((1,)))
    assert mails(net, A) == [1, 2, 3]


def test_a_start_sends_what_is_not_acknowledged(office):
    net = office(3, window_mails=2)
    for body in (b"1", b"2", b"3"):
        net.send(A, B, body)
    net.send(A, C, b"4")
    net.crash(A)
    net.sent.clear()
    net.start(A)
    assert mails(net, A) == [1, 2, 4]
    net.run(10 * SECOND)
    assert 3 not in mails(net, A)


def test_acknowledgements_of_one_tick_are_one_frame(office):
    net = office(3)
    for source, body in [(A, b"1"), (C, b"2"), (A, b"3")]:
        net.send(source, B, body)
    station = net.up[B]
    station.begin(net.now)
    for body in (b"3", b"1", b"2", b"3"):
        station.receive(net.mails[body].src, net.mails[body])
    frames = [(effect.peer, effect.frame) for effect in station.flush() if hasattr(effect, "frame")]
    assert frames == [(A, MailAcks((2, 1))), (C, MailAcks((1,)))]


@pytest.mark.parametrize(("peers", "retired"), [([1], set()), ([], {1})])
def test_a_station_is_not_its_own_peer(peers, retired):
    with pytest.raises(InvariantError):
        MailStation(1, peers, MailImage(retired=retired), MailSettings())


def test_what_is_acknowledged_before_it_is_sent_again_is_not_sent(office):
    """After a start: the acknowledgement was under way."""
    net = office(2, window_mails=1)
    for body in (b"1", b"2", b"3"):
        net.send(A, B, body)
    net.crash(A)
    net.start(A)
    net.hand(B, A, MailAcks((2,)))
    net.hand(B, A, MailAcks((1,)))
    assert mails(net, A) == [1, 1, 3]
    net.hand(B, A, MailAcks((3,)))
    assert net.up[A].next_deadline() is None and net.up[A].status()["unacknowledged"] == {}
