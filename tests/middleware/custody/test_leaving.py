"""Leaving, revocation, refused mail (overview 6, 7, 8)."""

from __future__ import annotations

from dataclasses import replace

from roamcast.middleware.host_frames import Leave, Left, Msg, Refused, Welcome
from roamcast.middleware.rows import Kind
from roamcast.middleware.settings import SECOND
from roamcast.middleware.station_frames import Cancel, DataBatch, HandoffNack, HandoffReq, Probe, Query, Spooled, State

# ---- leaving and revocation ----


def test_leave_is_answered_when_it_is_durable(trio):
    net, a, w = trio()
    assert a.say(Leave(a.le)) == [Left()]
    assert net.records(1, a)[0].state == "tomb"
    net.restart(1)
    w.arrive(1)
    net.run(2 * SECOND)
    assert all(disk.hosts[a.number].gone for disk in net.disks.values())
    for slot in (1, 2, 3):
        (word,) = a.hello(slot)
        assert isinstance(word, Refused) and word.code == "gone"
    w.write(b"after")
    net.run(60 * SECOND)
    assert not any(disk.rows or net.records(slot, a) for slot, disk in net.disks.items())


def test_leave_ends_what_other_stations_still_hold(trio):
    """A tentative record that nobody has cancelled."""
    net, a, _ = trio()
    a.misses = (Welcome, Msg)
    a.hello(3)
    net.deliver()
    a.misses = ()
    net.lose = lambda source, target, frame: isinstance(frame, Cancel)
    a.attach(2)
    assert [record.state for record in net.records(3, a)] == ["open"]
    a.say(Leave(a.le))
    net.deliver()
    assert [record.state for record in net.records(3, a)] != ["open"]


def test_leave_frees_the_former_station(trio):
    net, a, _ = trio()
    a.attach(2)
    a.say(Leave(a.le))
    net.run(10 * SECOND)
    assert not net.records(1, a)


def test_custody_that_comes_after_the_host_has_left_ends(trio):
    """Its name has left by another incarnation, and STATE was on its way: the host would never call for it again."""
    net, a, _ = trio()
    net.hold = lambda source, target, frame: isinstance(frame, State)
    a.misses = (Welcome, Msg)
    a.hello(3)
    net.deliver()
    for slot in (1, 3):
        entry = net.cores[slot].ledger.hosts[a.number]
        net.cores[slot].ledger.hosts[a.number] = replace(entry, gone=True)
    net.release()
    assert [record.state for record in net.records(3, a)] == ["open"]
    net.run(120 * SECOND)
    net.sent.clear()
    net.run(600 * SECOND)
    assert not net.frames(Query, Probe, Spooled)
    assert not [record for slot in (1, 3) for record in net.records(slot, a) if record.state in ("open", "moved")]


def revoke(net, host) -> None:
    for slot in net.slots:
        net.tick(slot, lambda core: core.revoke(host.number))
    net.deliver()


def test_revoked(trio):
    """Told, hung up, refused everywhere; nothing is kept for it."""
    net, a, w = trio()
    channel = a.channel
    revoke(net, a)
    assert a.word(Refused).code == "revoked" and channel in net.closed
    for slot in (1, 2, 3):
        (word,) = a.hello(slot)
        assert isinstance(word, Refused) and word.code == "revoked"
    w.write(b"m")
    net.run(60 * SECOND)
    assert not any(disk.rows or net.records(slot, a) for slot, disk in net.disks.items())


def test_revoked_before_its_enrolment_is_heard_of(make_net):
    """The row that arrives later makes it no member again."""
    net = make_net(1, 2)
    net.hold = lambda source, target, frame: isinstance(frame, DataBatch)
    a = net.enrol("a")
    net.tick(2, lambda core: core.revoke(a.number))
    net.release()
    net.run(SECOND)
    assert net.disks[2].streams[1].delivered == 1
    assert net.disks[2].hosts[a.number].gone


def test_custody_of_a_revoked_host_does_not_move(trio):
    """The other station has not heard of it yet."""
    net, a, _ = trio()
    net.tick(1, lambda core: core.revoke(a.number))
    net.sent.clear()
    a.hello(2)
    net.deliver()
    assert len(net.frames(HandoffReq)) == len(net.frames(HandoffNack)) == 1
    assert not net.records(2, a)


def test_mail_to_one_that_has_left_or_was_revoked(trio):
    """one-order 18: refused where it enters."""
    net, a, w = trio()
    revoke(net, a)
    c = net.enrol("c", 2)
    c.arrive(2)
    c.say(Leave(c.le))
    net.deliver()
    w.write(b"1", to="a")
    w.write(b"2", to="c")
    assert w.got == [b"refused", b"refused"]


# ---- refused mail ----


def test_refused_mail_is_answered_in_order_and_takes_its_number(trio):
    net, a, w = trio()
    w.write(b"1")
    w.write(b"2", to="nobody")
    w.write(b"3")
    assert w.got == [b"1", b"refused", b"3"] and a.got == [b"1", b"3"]
    rows = [row for key, row in sorted(net.disks[2].rows.items()) if row.host == w.number and row.number]
    assert [(row.number, row.kind) for row in rows] == [(1, Kind.BROADCAST), (2, Kind.REFUSED), (3, Kind.BROADCAST)]


def test_a_refusal_waits_like_mail(trio):
    """UACK lost, host gone: it comes from the spool, once."""
    net, _, w = trio()
    w.misses = (object,)
    w.send(b"x", "nobody")
    w.cut()
    w.misses = ()
    net.run(30 * SECOND)
    assert w.attach(2).lastseq == 1
    w.ack()
    assert w.got == [b"refused"]
    w.attach(2)
    assert w.entries() == []
