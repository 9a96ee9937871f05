"""Frames of the group with every number that the wire can carry: nothing crashes, nothing grows without bound."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import pytest

from roamcast.middleware.custody.heir import RECORDS_AT_ONCE
from roamcast.middleware.custody.ledger import HLC_LIMIT
from roamcast.middleware.custody.record import Record
from roamcast.middleware.host_frames import Refused, Seen, Welcome
from roamcast.middleware.membership.view import Closing, GroupView, View
from roamcast.middleware.rows import SpoolItem
from roamcast.middleware.settings import SECOND
from roamcast.middleware.station_frames import (
    Adopt,
    Adopted,
    AdoptPart,
    Claimed,
    Claims,
    GroupQuery,
    Noted,
    Reserve,
    Reserved,
    Snapshot,
    SnapshotReq,
)

SLOT = 1_023
COUNTER = (1 << 40) - 1
PLACE = (1 << 62) - 1
NATURAL = (1 << 63) - 1
WIDE = (COUNTER,) * (SLOT + 1)
"""A vector as long as the wire takes, of the highest numbers."""

NOBODY = (3 << 32 | 77, 5)
ITEM = SpoolItem(1, COUNTER, b"item", 4)
IMAGE = Record(NOBODY, NATURAL, le=NATURAL, base=WIDE, sdep=WIDE, t_vector=WIDE, moved_to=(SLOT, NATURAL)).image()
GROUP = GroupView((1, 2, 3))


def claims(view: GroupView | None = GROUP, **said: object) -> Claims:
    return replace(Claims(True, (), (), (), 0, 0, (), view), **said)


FRAMES = {
    "adopt an unknown host": Adopt(IMAGE, 0, PLACE, NATURAL),
    "adopt, parts never come": Adopt(IMAGE, 65_536, -PLACE, NATURAL),
    "part of nothing": AdoptPart((*NOBODY, 1), 0, 1, ((PLACE, ITEM),)),
    "adopted nothing": Adopted((*NOBODY, NATURAL)),
    "reserve nothing": Reserve(0, NATURAL),
    "reserve a member": Reserve(1, NATURAL),
    "reserved nothing": Reserved(SLOT, NATURAL, True, SLOT),
    "request behind the end": SnapshotReq(PLACE, NATURAL),
    "request before the beginning": SnapshotReq(-PLACE, 0),
    "snapshot": Snapshot(0, 0, 0, (), (), (), True, ((SLOT, COUNTER, COUNTER),), PLACE, NATURAL, View((SLOT,))),
    "claimed": Claimed(NOBODY, NATURAL),
    "noted": Noted(NOBODY, NATURAL),
    "group query": GroupQuery(NOBODY, 0),
    "closings of nobody": claims(replace(GROUP, closings=(Closing(SLOT, SLOT, COUNTER, COUNTER, WIDE),))),
    "closing of the receiver": claims(replace(GROUP, closings=(Closing(2, 3, COUNTER, COUNTER, WIDE),))),
    "released and off": claims(replace(GROUP, released=(SLOT, 1), off=(SLOT, 1), final=(SLOT, 1))),
    "nobody is a member": claims(GroupView(())),
    "without a view": claims(None),
    "streams of nobody": claims(stored=((SLOT, COUNTER),)),
    "more of the own stream than there is": claims(stored=((2, COUNTER),)),
}


@pytest.mark.parametrize("name", FRAMES)
def test_a_frame_that_makes_no_sense_changes_nothing_that_is_served(three, name):
    net, a, w = three
    view, records = net.cores[2].ledger.view, dict(net.disks[2].records)
    for _ in range(3):
        net.hand(3, 2, FRAMES[name])
    net.run(5 * SECOND)
    assert net.cores[2].ledger.view == view
    assert net.disks[2].records == records
    assert len(net.disks[2].held) <= 1
    w.write(b"m")
    assert a.got == w.got == [b"m"]
    net.restart(2)
    w.attach(2)
    w.write(b"n")
    assert w.got == [b"m", b"n"]


def test_repeated_they_leave_nothing_behind(three):
    net, *_ = three
    heir = net.cores[2].heir
    for _, frame in product(range(200), FRAMES.values()):
        net.hand(3, 2, frame)
    assert len(heir._arriving) <= 1
    assert len(net.cores[2].reservation._open) == 0
    assert net.disks[2].reserved == {}
    assert len(net.cores[2].ledger.fifo.words.views) <= 2


def test_a_newcomer_believes_its_sponsor_alone_and_only_what_it_asked_for(make_net):
    net = make_net(1, 2)
    net.lose = lambda source, target, frame: isinstance(frame, SnapshotReq)
    net.join(1, 3)
    part = Snapshot(0, 0, 0, (), (), (), False, (), 0, 0, View((1, 2, 3)))
    for source, frame in (
        (2, part),
        (1, replace(part, after=9)),
        (1, replace(part, host=9)),
        (1, replace(part, view=View((1, 2)))),
        *((1, frame) for frame in FRAMES.values() if not isinstance(frame, Claims)),
    ):
        net.hand(source, 3, frame)
    assert (net.disks[3].rows, net.disks[3].hosts, net.view(3).sponsor) == ({}, {}, 1)
    net.lose = lambda *flight: False
    net.run(3 * SECOND)
    net.renewed(3)
    assert net.view(3).serving


def test_an_heir_of_impossible_vectors_serves_on(three):
    """A record whose vectors name what nobody has; its end is settled, and it is ours."""
    net, a, w = three
    net.hand(1, 2, Adopt(IMAGE, 0, PLACE, NATURAL))
    net.crash(1)
    net.end(1, 2)
    net.run(60 * SECOND)
    net.restart(2)
    net.run(60 * SECOND)
    w.attach(2)
    w.write(b"m")
    assert a.got == []
    assert net.cores[3].ledger.table.origins[2].stored == net.disks[2].streams[2].stored


@pytest.mark.parametrize(
    "frame",
    [
        Seen(1, ((2, COUNTER),), 0, 0, ()),
        Seen(1, tuple((slot, COUNTER) for slot in range(SLOT + 1)), 0, 0, ()),
        Seen(1, ((2, 0),), 0, NATURAL, ()),
        Seen(1, ((2, 0),), 5, 5, (9,)),
        Seen(1, ((2, 0),), 5, 5, (0,)),
    ],
    ids=["a number that nobody has", "a vector of them", "more sent than can be", "stored beyond ack", "no number"],
)
def test_what_a_host_cannot_have_seen_is_refused(three, frame):
    net, a, _ = three
    a.cut()
    net.lose_station(1)
    a.hello(2)
    net.deliver()
    a.say(replace(frame, e=a.e))
    assert a.word(Refused).code == "bad-seen"
    assert net.records(2, a) == []


def test_what_a_host_says_of_slots_that_nobody_has_is_nothing(three):
    net, a, _ = three
    a.cut()
    net.lose_station(1)
    a.hello(2)
    net.deliver()
    a.say(Seen(a.e, ((2, 0), (SLOT, COUNTER)), 0, 0, ()))
    assert a.words(Welcome)
    assert len(net.records(2, a)[0].base) == net.cores[2].ledger.table.width


def test_seen_out_of_turn_says_nothing(three):
    net, a, w = three
    before = len(a.heard)
    a.say(Seen(a.le + 1, ((2, COUNTER),), 0, 0, ()))
    net.tick(2, lambda core: core.receive_host(w.channel, a.number, Seen(w.le, (), 0, 0, ())))
    net.tick(2, lambda core: core.receive_host(999, a.number, Seen(1, (), 0, 0, ())))
    assert len(a.heard) == before


@pytest.mark.parametrize("vector", ["base", "sdep", "t_vector"])
def test_an_adopted_record_has_no_more_slots_than_there_are(three, vector):
    net, *_ = three
    image = replace(IMAGE, base=(0,), sdep=(0,), t_vector=(0,))
    net.hand(1, 2, Adopt(replace(image, **{vector: WIDE}), 0, 0, 0))
    assert (net.rejected(), net.disks[2].held) == (["bad-adopt"], {})
    net.hand(1, 2, Adopt(image, 0, 0, 0))
    assert net.disks[2].held.keys() == {image.key}


def test_no_more_records_are_on_their_way_than_are_offered_together(three):
    """The oldest makes room; it is offered again."""
    net, *_ = three
    images = [Record((3 << 32 | 77 + i, 5), 1).image() for i in range(RECORDS_AT_ONCE + 1)]
    for image in images:
        net.hand(1, 2, Adopt(image, 1, 0, 0))
    for image in images:
        net.hand(1, 2, AdoptPart(image.key, 0, 1, ((1, ITEM),)))
    assert list(net.disks[2].held) == [image.key for image in images[1:]]


def test_an_order_that_is_no_clock_is_not_followed(three):
    net, *_ = three
    net.hand(1, 2, Adopt(Record(NOBODY, 1).image(), 0, 0, NATURAL))
    assert len(net.disks[2].held) == 1
    assert net.cores[2].ledger.next_join_order() < HLC_LIMIT
