"""Lean bodies when the group changes: pulled from whoever lives, handed over, held for custody that nobody guards."""

from __future__ import annotations

from dataclasses import replace

import pytest

from roamcast.middleware.effects import HandedOver, Notice
from roamcast.middleware.host_frames import Msg, Wait, Welcome
from roamcast.middleware.settings import SECOND
from roamcast.middleware.station_frames import Adopt, Body, DataBatch, Keep, Kept, Pull

LARGE = b"x" * 400


def lean(net, slot: int) -> list[tuple[int, int]]:
    """Lean rows in the store of a station."""
    return sorted(ident for ident, row in net.disks[slot].rows.items() if row.lean)


def alarms(net) -> list[str]:
    """Events of alarms so far."""
    return [fault.event for fault in net.faults if isinstance(fault, Notice) and fault.level == "alarm"]


@pytest.fixture
def world(make_net):
    """Build four stations, under mutants: w writes at the first; b, enrolled at the second, has last spoken there. c is
    at the third.
    """

    def build(*mutants: str, slots: tuple[int, ...] = (1, 2, 3, 4), **settings: int):
        net = make_net(*slots, lean_bytes=300, mutants=mutants, **settings)
        w, b = net.enrol("w"), net.enrol("b", home=2)
        w.arrive(1)
        b.arrive(2)
        b.write(b"here")
        if 3 in slots:
            net.enrol("c", home=3).arrive(3)
        net.run(12 * SECOND)
        return net, w, b

    return build


# ---- the origin is lost ----


@pytest.mark.parametrize(("mutants", "got"), [((), [LARGE, b"after"]), (("one_lacks",), [b"after"])])
def test_another_station_has_the_body_of_a_lost_one(world, mutants, got):
    """Asked in turn: the fourth lacks it, the second has it."""
    net, w, b = world(*mutants)
    b.misses = (Msg,)
    w.send(LARGE, "b")
    w.ack()
    net.run(SECOND)
    b.misses = ()
    net.lose = lambda source, target, frame: isinstance(frame, Pull | Body) and target != 4 and source != 4
    b.attach(3)
    net.run(SECOND)
    net.lose_station(1)
    net.run(3 * SECOND)
    net.lose = lambda *flight: False
    net.run(20 * SECOND)
    net.hosts["c"].send(b"after", "b")
    net.run(SECOND)
    assert b.entries() == got
    assert alarms(net) == (["body-lost"] if mutants else [])


@pytest.fixture
def gone(world):
    """The same, and both the first and the second station are lost; b is at the third, which has the header alone."""

    def build(*mutants: str):
        net, w, b = world(*mutants)
        b.misses = (Msg,)
        w.send(LARGE, "b")
        net.run(SECOND)
        b.misses = ()
        net.hold = lambda source, target, frame: isinstance(frame, Body)
        b.attach(3)
        b.ack()
        net.run(SECOND)
        net.lose_station(1)
        net.lose_station(2)
        return net, b

    return build


def test_a_body_that_no_living_station_has_is_given_up_and_never_in_silence(gone):
    net, b = gone()
    net.crash(4)
    net.run(30 * SECOND)
    assert alarms(net) == [], "the fourth may have it"
    net.hosts["c"].send(b"after", "b")
    assert b.entries() == [], "its stream waits, in order"
    net.held.clear()
    net.start(4)
    net.release()
    net.run(30 * SECOND)
    assert alarms(net) == ["body-lost"]
    assert b.entries() == [b"after"]
    fault = next(fault for fault in net.faults if isinstance(fault, Notice) and fault.event == "body-lost")
    assert (fault.fields["sender"], fault.fields["host"]) == ("w", "b")
    b.ack()
    net.hosts["c"].ack()
    for slot in (3, 4):
        net.tick(slot, lambda core: [core.release_station(ended) for ended in (1, 2)])
    net.run(60 * SECOND)
    assert [len(net.disks[slot].rows) for slot in (3, 4)] == [0, 0]
    assert net.cores[3].ledger.given_up == set()


def test_an_answer_of_an_older_group_does_not_count(gone):
    """A station that lacked it may have got it since, from one that is lost now."""
    net, _ = gone()
    net.hold = lambda *flight: False
    net.lose = lambda source, target, frame: source == 4 and isinstance(frame, Body)
    net.run(10 * SECOND)
    (row,) = [row for row in net.disks[3].rows.values() if row.lean]
    old = net.frames(Pull)[0]
    net.hand(4, 3, Body(row.slot, old.since - 1, (), (row.n,)))
    net.run(SECOND)
    assert alarms(net) == []
    net.lose = lambda *flight: False
    net.run(10 * SECOND)
    assert alarms(net) == ["body-lost"]


def test_the_last_station_gives_up_by_itself(world):
    net, w, b = world(slots=(1, 2, 3))
    b.misses = (Msg,)
    w.send(LARGE, "b")
    net.run(12 * SECOND)
    net.lose_station(1)
    net.lose_station(2)
    b.hello(3)
    net.deliver()
    for _ in range(2):
        b.say(net.seen(b, stands=((2, 1),)))
        net.run(SECOND)
    assert b.word(Welcome)
    assert alarms(net) == ["body-lost"]


# ---- custody that nobody guards for ----


@pytest.mark.parametrize("mutants", [(), ("lean_unguarded",)])
def test_a_host_of_a_lost_station_is_admitted_once_no_body_below_r_is_missing(world, mutants):
    net, w, b = world(*mutants)
    b.misses = (Msg,)
    w.send(LARGE, "b")
    w.ack()
    net.run(12 * SECOND)
    net.hold = lambda source, target, frame: isinstance(frame, Body)
    net.lose_station(2)
    b.misses = ()
    b.hello(3)
    net.deliver()
    b.say(net.seen(b, stands=((2, 1),)))
    net.run(2 * SECOND)
    admitted = bool(net.records(3, b))
    assert admitted is bool(mutants)
    assert bool([wait for wait in b.words(Wait) if "bodies" in wait.reason]) is not admitted
    net.release()
    net.run(SECOND)
    b.say(net.seen(b, stands=((2, 1),)))
    net.run(SECOND)
    assert LARGE in b.entries()


@pytest.fixture
def asleep(world):
    """b sleeps at the second station, which hands over to the third; the body of the mail is at the first two alone."""

    def build(*mutants: str):
        net, w, b = world(*mutants, slots=(1, 2, 3))
        b.cut()
        net.run(20 * SECOND)
        return net, w, b

    return build


@pytest.mark.parametrize(("mutants", "rows"), [((), 1), (("lean_held",), 0)])
def test_r_of_an_heir_does_not_pass_a_body_that_a_held_record_lacks(asleep, mutants, rows):
    net, w, b = asleep(*mutants)
    net.hand_over(2, 3)
    net.hold = lambda source, target, frame: isinstance(frame, Body)
    w.send(LARGE, "b")
    w.ack()
    net.run(20 * SECOND)
    assert len(lean(net, 3)) == 1
    net.end(2, 3)
    net.run(30 * SECOND)
    assert [len(net.disks[slot].rows) for slot in (1, 3)] == [rows, rows]
    net.release()
    net.run(20 * SECOND)
    assert net.spooled(3, b) == ([LARGE] if rows else [])
    assert [len(net.disks[slot].rows) for slot in (1, 3)] == [0, 0]


@pytest.mark.parametrize("mutants", [(), ("lean_unguarded",)])
def test_an_heir_holds_a_record_once_no_body_below_its_r_is_missing(asleep, mutants):
    """R of the heir has passed the mail, since nobody there is owed it; the record comes with a base before that."""
    net, w, _ = asleep(*mutants)
    net.hold = lambda source, target, frame: isinstance(frame, Body | Adopt)
    net.tick(2, lambda core: core.retire(3))
    net.run(5 * SECOND)
    adopt = next(flight for flight in net.held if isinstance(flight[2], Adopt))
    w.send(LARGE, "b")
    w.ack()
    net.run(12 * SECOND)
    (ident,) = lean(net, 3)
    assert net.cores[3].ledger.fifo.reduce.claims[3][1] >= ident[1]
    net.hold = lambda source, target, frame: isinstance(frame, Body)
    image = replace(adopt[2].image)
    net.hand(2, 3, replace(adopt[2], image=image))
    assert bool(net.disks[3].held) is bool(mutants)
    net.release()
    net.run(5 * SECOND)
    assert (bool(net.disks[3].held), lean(net, 3)) == (True, [])


# ---- a station leaves in order, or comes ----


@pytest.mark.parametrize("mutants", [(), ("no_keep",)])
def test_a_station_that_ends_in_order_leaves_no_body_behind(world, mutants):
    """The first one goes; its mail waits for b, whose station has only the header and does not get at the body."""
    net, w, b = world(*mutants, slots=(1, 2, 3))
    net.cores[1].ledger.fifo.body_to = lambda row: frozenset()
    net.lose = lambda source, target, frame: isinstance(frame, Pull | Body) and 2 in (source, target)
    w.send(LARGE, "b")
    w.arrive(3)
    net.run(2 * SECOND)
    net.tick(1, lambda core: core.retire(3))
    net.run(30 * SECOND)
    assert [slot for slot, _ in net.told(HandedOver)] == [1]
    net.end(1, 3)
    net.crash(1)
    net.lose = lambda *flight: False
    net.run(20 * SECOND)
    assert (LARGE in b.entries()) is not bool(mutants)
    assert alarms(net) == (["body-lost"] if mutants else [])


def test_what_is_still_to_be_handed_over_is_named_and_said_again_to_another_heir(world):
    net, w, b = world()
    b.misses = (Msg,)
    net.cores[1].ledger.fifo.body_to = lambda row: frozenset()
    net.lose = lambda source, target, frame: isinstance(frame, Pull | Kept)
    w.send(LARGE, "b")
    w.arrive(3)
    net.run(2 * SECOND)
    net.tick(1, lambda core: core.retire(3))
    net.run(30 * SECOND)
    assert net.told(HandedOver) == []
    assert net.cores[1].heir.obstacles() == ["bodies of mail not handed over yet: 1"]
    net.lose = lambda *flight: False
    net.sent.clear()
    net.tick(1, lambda core: core.retire(4))
    net.run(30 * SECOND)
    assert {target for _, target, frame in net.sent if isinstance(frame, Keep)} == {4}
    assert [effect.heir for _, effect in net.told(HandedOver)] == [4]
    assert lean(net, 4) == []


def test_a_newcomer_gets_lean_rows_as_lean(world):
    net, w, b = world(slots=(1, 2))
    net.cores[1].ledger.fifo.body_to = lambda row: frozenset()
    net.lose = lambda source, target, frame: isinstance(frame, Pull)
    w.send(LARGE, "b")
    net.run(SECOND)
    net.join(2, 3)
    net.run(5 * SECOND)
    net.renewed(3)
    assert lean(net, 3) == lean(net, 2) != []
    assert net.cores[3].ledger.table.lean_total == 1
    net.lose = lambda *flight: False
    b.attach(3)
    net.run(5 * SECOND)
    assert b.entries()[-1] == LARGE


def test_rows_of_a_lost_station_are_fetched_as_they_are(world):
    """The fourth missed it; what it gets from the third is a header, from the second the whole."""
    net, w, b = world()
    b.misses = (Msg,)
    net.lose = lambda source, target, frame: isinstance(frame, DataBatch) and target == 4
    w.send(LARGE, "b")
    net.run(0)
    net.lose = lambda source, target, frame: isinstance(frame, DataBatch) and (source, target) in ((1, 4), (2, 4))
    net.lose_station(1)
    net.run(10 * SECOND)
    assert len(lean(net, 4)) == len(lean(net, 3)) == 1
