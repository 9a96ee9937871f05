"""A station dies between any two effects, all positions in turn: the durability tables (causal-broadcast.md, 3.9)."""

from __future__ import annotations

import pytest

from roamcast.middleware.effects import Persist
from roamcast.middleware.errors import Error
from roamcast.middleware.host_frames import Ack, Msg, Welcome
from roamcast.middleware.rows import Kind
from roamcast.middleware.settings import SECOND
from roamcast.middleware.station_frames import Accept, DataBatch
from roamcast.middleware.writes import PlaceRow, PutHost


def newest(net, host) -> list[int]:
    """The incarnation that each station holds for the newest of the name."""
    return [disk.hosts[host.number].incarnation for disk in net.disks.values()]


def revive(net) -> None:
    for slot in net.slots:
        if slot not in net.cores:
            net.start(slot)


def attach(net, host, slot: int) -> None:
    """Try until welcomed; then repeat what no station has acknowledged, and acknowledge what came."""
    for _ in range(6):
        revive(net)
        host.hello(slot)
        net.deliver()
        revive(net)
        net.run(2 * SECOND)
        if host.words(Welcome):
            host.resend()
            host.ack()
            net.deliver()
            if host.channel in net.links:
                return
    raise AssertionError(f"{host.name} cannot attach at {slot}")


def send(net, host, slot: int, body: bytes, to: str | None = None) -> None:
    """Send until acknowledged."""
    host.send(body, to)
    net.deliver()
    for _ in range(5):
        if host.outbox:
            attach(net, host, slot)
    assert not host.outbox, f"{host.name} sends again and again"
    host.ack()
    net.deliver()


def story(net) -> bool:
    """Broadcasts, mail, a handoff there and back, an absence with a spool. Returns whether nobody died."""
    a, b = net.enrol("a"), net.enrol("b")
    for host in (a, b):
        host.arrive(1)
    net.run(12 * SECOND)
    net.doom = dict(net.plan)
    send(net, b, 1, b"1")
    attach(net, a, 2)
    send(net, b, 1, b"2", "a")
    send(net, a, 2, b"3")
    if a.channel in net.links:
        a.cut()
    revive(net)
    send(net, b, 1, b"4")
    net.run(20 * SECOND)
    revive(net)
    attach(net, a, 1)
    send(net, a, 1, b"5", "b")
    alive = bool(net.doom)
    net.doom = {}
    revive(net)
    for host in (a, b):
        attach(net, host, 1)
    net.run(60 * SECOND)
    for host in (a, b):
        attach(net, host, 1)
    net.run(30 * SECOND)
    assert a.got == [b"1", b"2", b"3", b"4"]
    assert b.got == [b"1", b"3", b"4", b"5"]
    for host in (a, b):
        assert [record.state for slot in net.slots for record in net.records(slot, host)] == ["open"]
        assert not net.spooled(1, host)
    assert not any(disk.rows or disk.items for disk in net.disks.values())
    return alive


def every_death(make_net, slot: int, mutants: tuple[str, ...] = ()) -> int:
    """The story with a death before every effect of the station in turn. Returns how many there were."""
    for n in range(1_000):
        net = make_net(1, 2, mutants=mutants)
        net.plan = {slot: n}
        if story(net):
            return n
    raise AssertionError("the story does not end")


@pytest.mark.parametrize("slot", [1, 2])
def test_dying_before_any_effect_loses_and_doubles_nothing(make_net, slot):
    assert every_death(make_net, slot) > 30


@pytest.mark.parametrize(
    ("mutant", "slot"), [("own_split", 1), ("spool", 2), ("save:open", 2), ("save:moved", 1), ("save:deletion", 1)]
)
def test_a_line_that_is_not_durable_is_found(make_net, mutant, slot):
    with pytest.raises((AssertionError, Error)):
        every_death(make_net, slot, (mutant,))


@pytest.mark.parametrize(("mutant", "slot"), [("save:ready", 2), ("save:released", 2)])
def test_what_need_not_be_durable(make_net, mutant, slot):
    """`ready` is found again from what the host acknowledges; ACCEPT is said again and answered again."""
    assert every_death(make_net, slot, (mutant,)) > 30


# ---- what is written together ----


def test_membership_changes_with_the_position_of_its_row(make_net):
    """A crash between the two would forget, or repeat, what the row means."""
    net = make_net(1, 2)
    a = net.enrol("a")
    a.arrive(1)
    net.run(2 * SECOND)
    a.renew()
    net.hold = lambda source, target, frame: isinstance(frame, DataBatch)
    a.attach(1)
    a.ack()
    net.deliver()
    for source, target, frame in net.held:
        for effect in net.tick(target, lambda core, s=source, f=frame: core.receive_peer(s, f)):
            if isinstance(effect, Persist) and any(isinstance(write, PlaceRow) for write in effect.writes):
                assert [type(write) for write in effect.writes] in ([PlaceRow], [PlaceRow, PutHost])
                row = net.disks[target].rows[effect.writes[0].slot, effect.writes[0].n]
                assert (len(effect.writes) == 2) == (row.kind in (Kind.ENROL, Kind.BIND, Kind.JOIN, Kind.LEAVE))
    assert newest(net, a) == [a.incarnation] * 2


def test_a_join_survives_any_death(make_net):
    """The station dies before each effect of a join in turn and the host tries again: one record, all once."""
    for n in range(40):
        net = make_net(1, 2)
        a, w = net.enrol("a"), net.enrol("w", 2)
        for host, slot in ((a, 1), (w, 2)):
            host.arrive(slot)
        a.cut()
        w.write(b"1")
        net.run(20 * SECOND)
        a.renew()
        net.doom = {1: n}
        for _ in range(3):
            a.hello(1)
            net.deliver()
            a.ack()
            net.deliver()
            if 1 not in net.cores:
                net.start(1)
        alive, net.doom = bool(net.doom), {}
        w.write(b"2")
        a.attach(1)
        a.ack()
        net.run(30 * SECOND)
        a.attach(1)
        a.ack()
        assert [body for body in a.got if body in (b"1", b"2")] == [b"1", b"2"]
        assert newest(net, a) == [a.incarnation] * 2
        assert [record.mh for slot in (1, 2) for record in net.records(slot, a)] == [a.mh]
    assert alive, "every effect had its turn"


def test_a_crash_between_the_spooling_and_its_acceptance_leaves_no_guard_behind(make_net):
    """group seed 700567, retired_count=4 stations=4 crash_per_effect=0.01 one_by_one=True: the host stays away."""
    for dies_after in range(12):
        net = make_net(1, 2)
        a, w = net.enrol("a"), net.enrol("w", home=2)
        a.arrive(1)
        w.arrive(2)
        net.run(12 * SECOND)
        a.misses = (Msg,)
        w.write(b"x")
        a.attach(2)
        a.say(Ack(a.le, a.c))
        a.cut()
        net.lose = lambda source, target, frame: isinstance(frame, Accept)
        net.run(4 * SECOND)
        net.doom[2] = dies_after
        net.run(20 * SECOND)
        net.doom.clear()
        net.lose = lambda *flight: False
        net.restart(2)
        net.run(300 * SECOND)
        assert net.rows == 0, dies_after
        assert net.records(1, a) == []
