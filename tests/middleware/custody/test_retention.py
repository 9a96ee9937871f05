"""Collection, expiry by time and by size, clocks, tombs (overview 5, 10; one-order.md O-4, 3.5)."""

from __future__ import annotations

import pytest

from roamcast.middleware.custody.retention import RANGES_MAX, with_numbers
from roamcast.middleware.host_frames import Reset
from roamcast.middleware.settings import SECOND

HOUR = 3_600 * SECOND
SLOW = {"heartbeat": 600 * SECOND, "down_after": 1_800 * SECOND, "away_max": 10 * HOUR}


def write(w, body: bytes = b"-", to: str | None = "w") -> None:
    """A message, to w itself unless said otherwise; every collection that it causes is over afterwards."""
    if w.channel in w.net.closed:
        w.arrive(1)
    w.send(body, to)
    w.ack()
    w.net.run(12 * SECOND)


def state(net, host) -> list[str]:
    return [record.state for record in net.records(1, host)]


def test_rows_go_everywhere_once_all_have_them(duo):
    net, a, w = duo()
    w.send(b"m", None)
    net.deliver()
    net.run(12 * SECOND)
    assert all(len(disk.rows) == 1 for disk in net.disks.values()), "a and w have not acknowledged"
    a.ack()
    net.run(12 * SECOND)
    assert all(len(disk.rows) == 1 for disk in net.disks.values()), "w has not"
    w.ack()
    net.run(12 * SECOND)
    assert not any(disk.rows for disk in net.disks.values())
    assert net.disks[1].streams == net.disks[2].streams


def test_a_station_that_is_down_holds_rows_back_and_is_named(duo):
    net, a, w = duo()
    net.crash(2)
    w.send(b"m", None)
    a.ack()
    w.ack()
    net.run(60 * SECOND)
    assert len(net.disks[1].rows) == 1
    assert net.cores[1].status()["collection_held_by"] == 2
    net.start(2)
    net.run(20 * SECOND)
    assert not net.disks[1].rows and not net.disks[2].rows


def test_a_large_log_is_collected_by_its_size(duo):
    """After collect_rows rows, not only when the interval is over."""
    net, a, w = duo(collect_rows=50, collect_interval=1_000 * SECOND)
    most = 0
    for i in range(300):
        w.send(b"m", None)
        a.ack()
        w.ack()
        if i % 10 == 0:
            net.run(50_000)
        most = max(most, *[len(disk.rows) for disk in net.disks.values()])
    assert 50 <= most <= 150


def test_expiry_by_time(duo):
    net, a, w = duo(**SLOW, spool_grace=SECOND)
    a.cut()
    write(w, b"m", None)
    net.run(9 * HOUR)
    write(w)
    assert state(net, a) == ["open"] and net.spooled(1, a) == [b"m"]
    net.run(2 * HOUR)
    write(w)
    assert state(net, a) == ["tomb"] and not net.disks[1].items
    assert a.attach(1).gap
    a.ack()
    write(w, b"n", None)
    assert a.got[1:] == [b"n"]


@pytest.mark.parametrize("jump", [9_000 * HOUR, -9_000 * HOUR])
def test_a_jump_of_the_wall_clock_expires_nobody(duo, jump):
    """Not within an hour of it: a dead clock battery expires nobody."""
    net, a, w = duo(**SLOW)
    net.run(2 * HOUR)
    a.cut()
    net.skews[1] = jump
    for _ in range(4):
        write(w)
        net.run(10 * 60 * SECOND)
    assert state(net, a) == ["open"]
    net.skews[1] = 0
    write(w)
    net.run(2 * HOUR)
    write(w)
    assert state(net, a) == ["open"]


def test_nobody_expires_in_the_first_hour_of_a_life(duo):
    """A station that was switched off for longer than the limit waits for its hosts first."""
    net, a, w = duo(**SLOW)
    a.cut()
    write(w)
    net.crash(1)
    net.run(15 * HOUR)
    net.start(1)
    w.arrive(1)
    write(w)
    assert state(net, a) == ["open"]
    net.run(2 * HOUR)
    write(w)
    assert state(net, a) == ["tomb"]


def test_expiry_by_size(duo):
    """The limit is per host's spool; told as a gap."""
    net, a, w = duo(spool_bytes_max=1_000, spool_grace=SECOND)
    a.cut()
    for _ in range(5):
        write(w, bytes(100), None)
    assert state(net, a) == ["open"]
    for _ in range(5):
        write(w, bytes(100), None)
    assert state(net, a) == ["tomb"] and not net.disks[1].items
    assert a.attach(2).gap


def test_a_tomb_is_purged_and_its_host_reset(duo):
    net, a, w = duo(**SLOW)
    a.cut()
    net.run(11 * HOUR)
    write(w)
    assert state(net, a) == ["tomb"]
    net.run(8 * HOUR)
    write(w)
    assert state(net, a) == ["tomb"]
    net.run(2 * HOUR)
    write(w)
    assert state(net, a) == []
    assert a.hello(1) == [Reset(a.e)]


def test_an_ephemeral_member_goes_after_a_minute(duo):
    net, a, w = duo(clock_settle=9_000 * HOUR)
    a.attach(1, ephemeral=True)
    a.ack()
    a.cut()
    net.run(50 * SECOND)
    write(w)
    net.run(10 * SECOND)
    write(w)
    assert state(net, a) in (["tomb"], [])


def test_time_alone_ends_an_ephemeral_member(duo):
    """Also when nothing is sent any more."""
    net, a, _ = duo()
    a.attach(1, ephemeral=True)
    a.ack()
    a.cut()
    net.run(120 * SECOND)
    assert state(net, a) in (["tomb"], [])


def test_items_are_kept_once_for_all_spools(make_net):
    net = make_net(1, 2)
    hosts = [net.enrol(name) for name in "abc"]
    w = net.enrol("w")
    for host in (*hosts, w):
        host.arrive(1)
    for host in hosts:
        host.cut()
    write(w, b"m", None)
    net.run(20 * SECOND)
    assert [net.spooled(1, host) for host in hosts] == [[b"m"]] * 3
    assert len(net.disks[1].items) == 1
    for host in hosts[:2]:
        host.arrive(1)
    write(w)
    assert len(net.disks[1].items) == 1
    hosts[2].arrive(2)
    write(w)
    assert not net.disks[1].items
    assert all(host.got == [b"m"] for host in hosts)


def test_a_start_finds_spools_and_their_size(duo):
    net, a, w = duo(spool_grace=SECOND)
    a.cut()
    write(w, bytes(100), None)
    before = next(record for record in net.cores[1].status()["records"] if record["host"] == "a")
    assert before["spooled"] == 1 and before["spool_bytes"] > 100
    net.restart(1)
    after = next(record for record in net.cores[1].status()["records"] if record["host"] == "a")
    assert (after["spooled"], after["spool_bytes"]) == (1, before["spool_bytes"])
    a.arrive(1)
    assert a.got == [bytes(100)]


def test_numbers_that_were_taken_are_kept_as_few_ranges():
    assert with_numbers((), [3, 1, 2, 7]) == ((1, 3), (7, 7))
    assert with_numbers(((1, 3), (7, 7)), [5, 6]) == ((1, 3), (5, 7))
    assert with_numbers(((1, 3), (5, 7)), [4, 4]) == ((1, 7),)
    apart = with_numbers((), range(1, 2 * RANGES_MAX + 4, 2))
    assert len(apart) == RANGES_MAX
    assert (apart[0], apart[-1]) == ((1, 5), (2 * RANGES_MAX + 3, 2 * RANGES_MAX + 3))
