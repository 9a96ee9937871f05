"""The downlink: shared frames, frames of one's own, windows, full queues (overview 7; hot-path.md rules 4-10)."""

from __future__ import annotations

import itertools

import pytest

from roamcast.middleware.effects import Deliver
from roamcast.middleware.host_frames import Ack, Data, Msg, Ping, Pong
from roamcast.middleware.settings import SECOND
from roamcast.middleware.simulator.items import decode_item
from roamcast.middleware.station_frames import DataBatch


@pytest.fixture
def crowd(make_net):
    """One station with hosts a, b, c at the front and a writer w; settings by keyword."""

    def build(**settings):
        net = make_net(1, **settings)
        hosts = [net.enrol(name) for name in ("a", "b", "c", "w")]
        for host in hosts:
            host.arrive(1)
        write(hosts[-1], b"first")
        for host in hosts:
            host.ack()
            host.got.clear()
        net.run(12 * SECOND)
        return net, *hosts

    return build


def write(w, *messages: bytes | tuple[bytes, str]):
    """Messages of w, all taken in one tick: b'x' to all, (b'x', 'a') to a. Returns the tick's frames."""
    net, calls = w.net, []
    for message in messages:
        body, to = message if isinstance(message, tuple) else (message, None)
        w.own += 1
        frame = Data(w.le, w.own, w.in_hand, to, body)
        calls.append(lambda core, frame=frame: core.receive_host(w.channel, w.number, frame))
    return frames(net, net.tick(1, *calls))


def frames(net, effects) -> list[tuple[str, int, int, list[bytes]]]:
    """(names of the receivers, prev, last, bodies) of the MSG frames among effects."""
    found = []
    for effect in effects:
        if isinstance(effect, Deliver):
            names = "".join(net.links[channel][1].name for channel in effect.channels)
            found.append((names, effect.prev, effect.last, [body(holder) for _, holder in effect.entries]))
    return found


def body(holder) -> bytes:
    return decode_item(holder.item).body


def test_one_frame_for_all_at_the_front(crowd):
    """However many messages the tick took and however many hosts stand there."""
    net, *_, w = crowd()
    others = [net.enrol(f"x{i}") for i in range(50)]
    for host in others:
        host.arrive(1)
    front = net.cores[1].downlink.position
    tick = write(w, b"1", b"2", b"3")
    assert len(tick) == 1
    names, prev, last, bodies = tick[0]
    assert (prev, last, bodies) == (front, net.disks[1].last_position, [b"1", b"2", b"3"])
    assert all(host.name in names for host in others)
    assert len(net.cores[1].ledger.channels) == 54
    assert all(host.got == [b"1", b"2", b"3"] for host in [*others, w])


def test_mail_beside_a_broadcast(crowd):
    """The addressee has a frame of its own with the same head; both stand at the front afterwards."""
    _net, _, _, _, w = crowd()
    (shared, own) = write(w, b"1", (b"mail", "a"), b"2")
    assert shared[0] == "bcw" and shared[3] == [b"1", b"2"]
    assert own[0] == "a" and own[3] == [b"1", b"mail", b"2"]
    assert shared[1:3] == own[1:3]
    assert [sorted(names) for names, *_ in write(w, b"3")] == [sorted("abcw")]


def test_mail_last_in_the_tick_moves_the_front_over_it(crowd):
    """A shared frame's last is the last position of its tick, mail included."""
    _, _, _, _, w = crowd()
    (shared, own) = write(w, b"1", (b"mail", "a"))
    assert shared[2] == own[2] == shared[1] + 2
    assert [(len(names), prev) for names, prev, *_ in write(w, b"2")] == [(4, shared[2])]


def test_mail_without_a_broadcast_then_a_broadcast(crowd):
    """No shared frame in the first tick: its owner stands ahead, is served apart once, and is back at the front."""
    _, _, _, _, w = crowd()
    (own,) = write(w, (b"mail", "a"))
    assert (own[0], own[3]) == ("a", [b"mail"])
    shared, apart = sorted(write(w, b"1"), key=lambda frame: -len(frame[0]))
    assert shared[0] == "bcw" and apart[0] == "a"
    assert shared[1] == own[1] and apart[1] == own[2]
    assert shared[2] == apart[2]
    assert [len(names) for names, *_ in write(w, b"2")] == [4]


def test_hosts_owed_nothing_hear_nothing(crowd):
    _, a, b, _, w = crowd()
    write(w, (b"1", "a"))
    write(w, (b"2", "a"))
    assert a.got == [b"1", b"2"] and b.words(Msg)[-1].last < a.in_hand
    write(w, b"3")
    assert b.got == [b"3"]


def test_the_only_empty_advance_is_to_the_front(crowd):
    net, a, _, _, w = crowd()
    write(w, b"1")
    a.ack()
    net.run(SECOND)
    a.attach(1)
    (advance,) = a.words(Msg)
    assert (advance.prev, advance.last, advance.entries) == (-1, net.cores[1].downlink.position, ())
    assert [len(names) for names, *_ in write(w, b"2")] == [4]


def test_frames_are_cut(crowd):
    """At frame_bytes, one entry at least; the parts follow each other and the last reaches the tick's end."""
    _, a, _, _, w = crowd(frame_bytes=300)
    tick = write(w, *[bytes(100)] * 4, bytes(1_000), b"x")
    assert [len(bodies) for *_, bodies in tick] == [2, 2, 1, 1]
    assert all(before[2] == after[1] for before, after in itertools.pairwise(tick))
    assert tick[-1][2] - tick[0][1] == 6
    assert len(a.got) == 6


def backlog(net, a, w, *bodies: bytes) -> None:
    """Host a is away while w writes; then it attaches."""
    a.cut()
    for text in bodies:
        write(w, text)
    a.attach(1)


@pytest.mark.parametrize("spooled", [False, True])
def test_window_of_entries(crowd, spooled):
    """What is sent and not acknowledged never exceeds the window, from the log and from the spool."""
    net, a, _, _, w = crowd(window_entries=2)
    a.cut()
    for i in range(5):
        write(w, b"%d" % i)
        w.ack()
    net.run(60 * SECOND if spooled else SECOND)
    assert len(net.spooled(1, a)) == (5 if spooled else 0)
    a.attach(1)
    for count in (2, 4, 5):
        assert len(a.got) == count
        a.ack()
    assert a.got == [b"0", b"1", b"2", b"3", b"4"]


def test_window_of_bytes(crowd):
    """Items have about 50 bytes more than their bodies; one that is larger than the window goes alone."""
    net, a, _, _, w = crowd(window_bytes=400)
    backlog(net, a, w, bytes(100), bytes(100), bytes(1_000), bytes(100))
    for count in (2, 3, 4):
        assert len(a.got) == count
        a.ack()


def test_a_partial_acknowledgement_opens_as_much(crowd):
    net, a, _, _, w = crowd(window_entries=2)
    backlog(net, a, w, b"0", b"1", b"2", b"3")
    first = a.words(Msg)[0].entries[0][0]
    a.say(Ack(a.le, first))
    assert a.got == [b"0", b"1", b"2"]


def test_a_host_that_does_not_acknowledge_leaves_the_front(crowd):
    """Swept once per quarter of a window; the others are not slowed, and it comes back when it has caught up."""
    _, a, b, c, w = crowd(window_entries=4)
    for i in range(20):
        write(w, b"%d" % i)
        for host in (b, c, w):
            host.ack()
    assert len(b.got) == 20
    assert 4 <= len(a.got) <= 4 + 1
    for _ in range(5):
        a.ack()
    assert a.got == b.got
    assert [len(names) for names, *_ in write(w, b"end")] == [4]


def test_a_full_queue_blocks_one_host_only(crowd):
    """The driver says from where on nothing was taken: served again from there, on the next sign of life."""
    net, a, b, _, w = crowd()
    write(w, b"0")
    net.choke(a)
    write(w, b"1")
    net.report_full(a)
    write(w, b"2")
    assert a.got == [b"0"] and b.got == [b"0", b"1", b"2"]
    a.ack()
    assert a.got == [b"0", b"1", b"2"]
    assert [len(names) for names, *_ in write(w, b"3")] == [4]


def test_a_full_queue_in_the_middle_of_a_cut_frame(crowd):
    """The first part went through, the second did not."""
    net, a, _, _, w = crowd(frame_bytes=150)
    tick = write(w, bytes(100))
    assert len(tick) == 1
    seen = a.in_hand
    net.choke(a)
    write(w, b"1" + bytes(100), b"2" + bytes(100))
    assert net.choked[a.channel] == seen
    net.report_full(a)
    a.say(Ping(a.le, a.in_hand))
    assert [body[:1] for body in a.got] == [b"\0", b"1", b"2"]


def test_a_lost_frame_shows_in_pong(crowd):
    """`sent` above what the host has in hand: it attaches again and gets the rest."""
    _, a, _, _, w = crowd()
    a.misses = (Msg,)
    write(w, b"1")
    a.misses = ()
    (pong,) = a.say(Ping(a.le, a.in_hand))
    assert isinstance(pong, Pong) and pong.sent > a.in_hand
    a.attach(1)
    assert a.got == [b"1"]


def test_a_host_that_has_more_than_is_logged_here(make_net):
    """It stands apart until the log covers it, is given nothing twice, and then joins the front."""
    net = make_net(1, 2, 3)
    a, b, c, d = net.enrol("a"), net.enrol("b"), net.enrol("c", 2), net.enrol("d", 3)
    for host, slot in ((a, 1), (b, 1), (c, 2), (d, 3)):
        host.arrive(slot)
    net.run(12 * SECOND)
    net.hold = lambda source, target, frame: isinstance(frame, DataBatch) and frame.origin == 1
    b.send(b"early")
    a.ack()
    a.arrive(2)
    d.send(b"other")
    net.deliver()
    assert a.got == [b"early", b"other"] and c.got == [b"other"]
    net.release()
    assert a.got == [b"early", b"other"] and c.got == [b"other", b"early"]
    for host in (a, c):
        host.ack()
    c.own += 1
    effects = net.tick(2, lambda core: core.receive_host(c.channel, c.number, Data(c.le, 1, c.in_hand, None, b"x")))
    assert [sorted(names) for names, *_ in frames(net, effects)] == [["a", "c"]]
    assert a.got == [b"early", b"other", b"x"]


def test_nothing_before_the_welcome(crowd):
    """A HELLO on a living channel ends what went there; frames of the old session do not follow the new WELCOME."""
    net, a, _, _, w = crowd()
    write(w, b"1")
    a.attach(1)
    kinds = [type(frame).__name__ for frame in a.heard]
    assert kinds[0] == "Welcome" and kinds.count("Welcome") == 1
    assert a.got == [b"1"]
    assert len(net.cores[1].ledger.channels) == 4
