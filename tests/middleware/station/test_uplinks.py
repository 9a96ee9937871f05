"""When hosts' messages are not taken, what they are told, and how it goes on (overview 7, 8, 10; Q3)."""

from __future__ import annotations

import json

from roamcast.middleware.host_frames import Data, Uack, Wait, Welcome
from roamcast.middleware.settings import SECOND
from roamcast.middleware.station_frames import DataBatch, HandoffReq


def waits(words) -> list[str]:
    return [word.reason for word in words if isinstance(word, Wait)]


# ---- closed by the driver ----


def test_closed_uplinks_take_nothing_and_say_why(duo):
    net, a, w = duo()
    net.tick(1, lambda core: core.set_uplinks("disk full"))
    assert waits(w.send(b"x")) == ["disk full"]
    assert not w.words(Uack) and a.got == []
    assert net.cores[1].status()["uplinks"] == "disk full"
    net.tick(1, lambda core: core.set_uplinks(None))
    w.resend()
    assert not w.outbox and a.got == [b"x"]
    assert net.cores[1].status()["uplinks"] == "open"


def test_the_reason_is_repeated_but_not_for_every_frame(duo):
    net, _, w = duo()
    net.tick(1, lambda core: core.set_uplinks("disk full"))
    said = [waits(w.say(Data(w.le, 1, 0, None, b"x"))) for _ in range(10)]
    assert said == [["disk full"], *[[]] * 9]
    net.run(net.settings.wait_interval)
    assert waits(w.say(Data(w.le, 1, 0, None, b"x"))) == ["disk full"]


def test_closed_uplinks_close_nothing_else(duo):
    """Acknowledgements, attachments, custody and what comes from elsewhere go on."""
    net, a, w = duo()
    w.arrive(2)
    net.tick(1, lambda core: core.set_uplinks("disk full"))
    w.send(b"m")
    net.deliver()
    a.ack()
    w.ack()
    net.run(12 * SECOND)
    assert a.got == [b"m"] and not any(disk.rows for disk in net.disks.values())
    a.hello(1)
    assert [type(word) for word in a.heard[:2]] == [Welcome, Wait]
    a.arrive(2)
    a.send(b"n")
    assert w.got[-1] == b"n"


# ---- nothing new before a peer has answered ----


def test_no_number_before_a_peer_has_answered(make_net):
    """This store may have gone back in time: numbers that a peer knows must not be given twice."""
    net = make_net(1, 2)
    a = net.enrol("a")
    a.arrive(1)
    net.run(12 * SECOND)
    stored = net.disks[1].streams[1].stored
    net.crash(1)
    net.start(1, linked=False)
    a.hello(1)
    assert a.words(Welcome) and len(waits(a.heard)) == 1
    a.ack()
    a.send(b"x")
    net.run(2 * SECOND)
    assert net.disks[1].streams[1].stored == stored
    net.tick(1, lambda core: core.set_linked())
    a.resend()
    net.run(2 * SECOND)
    assert not a.outbox and net.disks[2].streams[1].stored == stored + 1


def test_a_first_attach_waits_for_a_number(make_net):
    """Its BIND row needs one: held, told to wait, welcomed when a peer has answered."""
    net = make_net(1, 2)
    a = net.enrol("a")
    net.crash(1)
    net.start(1, linked=False)
    a.hello(1)
    assert not a.words(Welcome) and len(waits(a.heard)) == 1
    net.run(11 * SECOND)
    assert len(waits(a.heard)) == 3, "told again every five seconds"
    net.tick(1, lambda core: core.set_linked())
    assert a.words(Welcome)
    a.ack()
    net.run(2 * SECOND)
    assert net.disks[2].hosts[a.number].incarnation == a.incarnation


def test_a_held_hello_goes_with_its_channel(make_net):
    net = make_net(1, 2)
    a = net.enrol("a")
    net.crash(1)
    net.start(1, linked=False)
    a.hello(1)
    a.cut()
    net.tick(1, lambda core: core.set_linked())
    assert not a.words(Welcome)
    assert [record.mh[1] for record in net.records(1, a)] == [0]


# ---- log full ----


def test_a_full_log_makes_hosts_wait_for_the_station_that_holds_it(duo):
    """Rows kept for a station that is down fill the log; hosts are told which one; with its return all goes on."""
    net, a, w = duo(retain_rows=20)
    net.crash(2)
    for i in range(40):
        w.send(b"%d" % i)
        w.ack()
        a.ack()
    net.run(6 * SECOND)
    w.send(b"last")
    (wait,) = w.words(Wait)
    assert (wait.reason, wait.station) == ("the log is full; a station holds back its collection", 2)
    stored = len(net.disks[1].rows)
    w.resend()
    net.run(20 * SECOND)
    assert len(net.disks[1].rows) == stored
    net.start(2)
    net.run(20 * SECOND)
    assert not net.disks[1].rows
    w.resend()
    net.deliver()
    assert not w.outbox and w.got == a.got == [b"%d" % i for i in range(40)] + [b"last"]


# ---- a former station that is down ----


def test_waiting_for_the_former_station(duo):
    """WAIT(former station) at once and every five seconds; welcomed soon after its return."""
    net, a, _ = duo()
    net.crash(1)
    net.run(20 * SECOND)
    since = net.now
    a.hello(2)
    first = a.word(Wait)
    assert (first.reason, first.station) == ("former station", 1) and first.since > since
    net.run(11 * SECOND)
    assert len(a.words(Wait)) == 3 and not a.words(Welcome)
    net.start(1)
    net.run(SECOND)
    assert a.words(Welcome)


def test_a_slow_former_station_is_asked_again_with_growing_pauses(duo):
    """250 ms doubling to 5 s."""
    net, a, _ = duo()
    net.lose = lambda source, target, frame: isinstance(frame, HandoffReq)
    net.sent.clear()
    a.hello(2)
    net.run(30 * SECOND)
    assert 8 <= len(net.frames(HandoffReq)) <= 12
    net.lose = lambda source, target, frame: False
    net.run(6 * SECOND)
    assert a.words(Welcome)


# ---- silence ----


def test_a_silent_channel_is_hung_up(duo):
    """After twice its ping interval and ten seconds; custody stays."""
    net, a, _ = duo()
    a.ping_s = 5
    a.arrive(1)
    channel = a.channel
    net.run(19 * SECOND)
    assert channel not in net.closed
    net.run(8 * SECOND)
    assert net.closed[channel] == "silent"
    assert "a" not in net.cores[1].status()["attached"]
    assert [record.state for record in net.records(1, a)] == ["open"]


# ---- rolled back, restarted ----


def test_a_tick_that_could_not_be_stored_is_as_if_it_had_not_been(duo):
    """A full disk: the core is built again from the store; its inputs were not acknowledged and come again."""
    net, a, w = duo()
    core = net.cores[1]
    core.begin(net.now, net.now)
    core.receive_host(w.channel, w.number, Data(w.le, 1, w.in_hand, None, b"x"))
    core.flush()
    net.restart(1)
    assert net.disks[1].streams[1].stored == net.disks[1].streams[1].floor
    w.own, w.outbox[1] = 1, (None, b"x")
    for host in (a, w):
        host.attach(1)
    w.resend()
    assert a.got == w.got == [b"x"]


def test_a_start_on_an_emptied_log(duo):
    """All rows collected, then a restart of both stations: numbers and positions go on, nothing comes twice."""
    net, a, w = duo()
    w.send(b"1")
    a.ack()
    w.ack()
    net.run(12 * SECOND)
    assert not net.disks[1].rows and not net.disks[2].rows
    position = net.disks[1].last_position
    for slot in (1, 2):
        net.restart(slot)
    for host in (a, w):
        host.attach(1)
    w.send(b"2")
    net.deliver()
    assert a.got == w.got == [b"1", b"2"]
    assert net.disks[1].last_position == position + 1


def test_the_hybrid_clock_never_falls(duo):
    """A wall clock that is set back makes no row older than the one before."""
    net, _a, w = duo()
    w.send(b"1")
    net.skews[1] = -3_600 * SECOND
    w.send(b"2")
    net.restart(1)
    w.attach(1)
    w.send(b"3")
    rows = [net.disks[1].rows[key] for key in sorted(net.disks[1].rows)]
    assert [row.hlc for row in rows] == sorted({row.hlc for row in rows})


def test_the_hybrid_clock_follows_what_is_delivered(duo):
    """A row is not older than what its station had delivered, however far its clock is behind."""
    net, a, w = duo()
    net.skews[2] = -3_600 * SECOND
    w.arrive(2)
    a.send(b"1")
    net.deliver()
    w.send(b"2")
    assert net.disks[2].rows[2, 1].hlc > net.disks[1].rows[1, net.disks[1].streams[1].stored].hlc


def test_the_hybrid_clock_travels_with_custody(duo):
    """What a host sends at a station whose clock is behind is not older than what it sent before."""
    net, a, _ = duo()
    net.skews[2] = -3_600 * SECOND
    net.hold = lambda source, target, frame: isinstance(frame, DataBatch) and source == 1
    a.send(b"1")
    first = net.disks[1].rows[1, net.disks[1].streams[1].stored].hlc
    a.arrive(2)
    a.send(b"2")
    assert net.disks[2].rows[2, 1].hlc > first


# ---- status ----


def test_status_names_what_an_operator_asks(make_net):
    """Plain data: attached hosts, records, queues, what the oldest undelivered message waits for, who holds rows."""
    net = make_net(1, 2, 3)
    a, w = net.enrol("a"), net.enrol("w", 2)
    a.arrive(1)
    w.arrive(2)
    net.run(12 * SECOND)
    net.hold = lambda source, target, frame: (source, target) == (1, 3) and isinstance(frame, DataBatch)
    a.send(b"first")
    net.deliver()
    w.send(b"second")
    net.deliver()
    status = json.loads(json.dumps(net.cores[3].status()))
    first = net.disks[1].streams[1].stored
    second = net.disks[2].streams[2].stored
    assert status["oldest_undelivered"] == {"message": [2, second], "waits_for": [1, first]}
    assert [stream["waiting"] for stream in status["streams"]] == [0, 1, 0]
    assert [(peer["slot"], peer["live"]) for peer in status["peers"]] == [(1, True), (2, True)]
    net.release()
    status = net.cores[1].status()
    assert status["attached"] == ["a"] and status["oldest_undelivered"] is None
    assert [(record["host"], record["state"]) for record in status["records"]] == [("a", "open")]
    assert status["rows"] == 2
    assert status["collection_held_by"] in (1, 2, 3)


def test_idle_stations_only_claim(duo):
    """The idle promise at the station: nothing but one CLAIMS per heartbeat, though hosts are away and spooled."""
    net, a, w = duo()
    a.cut()
    w.send(b"m")
    w.ack()
    net.run(60 * SECOND)
    net.sent.clear()
    net.run(100 * SECOND)
    kinds = {type(frame).__name__ for _, _, frame in net.sent}
    assert kinds == {"Claims"}
    assert len(net.sent) <= 2 * (100 // 5 + 1)
