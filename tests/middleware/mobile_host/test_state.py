"""The image: every fact's meaning, and that a snapshot rebuilds it."""

from __future__ import annotations

import pytest

from roamcast.middleware.mobile_host.state import (
    Acked,
    AgentImage,
    Checkpoint,
    Epoch,
    LateAck,
    NewIncarnation,
    OutboxTrimmed,
    Queued,
    Sent,
    Stations,
    SubsEnded,
    Told,
    Welcomed,
    from_plain,
    to_plain,
)  # fmt: skip


def image_of(*facts) -> AgentImage:
    image = AgentImage()
    for fact in facts:
        image.apply(fact)
    return image


START = (NewIncarnation(99, 3, False), Queued(1, None, b"a"), Queued(2, "bob", b"b"), Queued(3, None, b"c"))


def test_new_incarnation_starts_from_the_enrolling_station():
    image = image_of(*START, Welcomed(5, 4, -3, True, 0), NewIncarnation(100, 3, True))
    assert (image.incarnation, image.last, image.le, image.c, image.highest) == (100, 3, 0, 0, 0)
    assert (image.outbox, image.epoch, image.gap, image.lost) == ({}, 4, True, True)


def test_highest_number_outlives_the_outbox():
    image = image_of(*START, OutboxTrimmed(3))
    assert (image.outbox, image.highest) == ({}, 3)


def test_what_may_have_been_on_a_link_is_the_highest_that_was():
    waiting = Queued(4, None, b"d", sent=False)
    assert [image_of(*START, *more).tx for more in [(), (waiting,), (waiting, Sent(4))]] == [3, 3, 4]
    image = image_of(*START, waiting)
    assert image_of(*image.snapshot()).tx == 3


def test_of_a_state_of_a_former_release_all_may_have_been_on_a_link():
    tag, number, to, body, *_ = to_plain(Queued(1, None, b"a", sent=False))
    assert image_of(from_plain([tag, number, to, body])).tx == 1
    *plain, _ = to_plain(Checkpoint(99, 1, 3, 0, 0, 7, False, False, 2))
    assert image_of(from_plain(plain)).tx == 7


def test_without_topics_a_former_release_can_read_it():
    assert to_plain(Queued(1, "bob", b"a")) == [3, 1, "bob", b"a", True]
    assert to_plain(Queued(1, "t", b"", False, 11)) == [3, 1, "t", b"", False, 11]
    assert not any(isinstance(fact, SubsEnded) for fact in image_of(*START).snapshot())


@pytest.mark.parametrize("plain", [[3, 1, "t", b"", True, 99], [3, 1, "t", b"", True, 11, 0], [12, 1]])
def test_what_a_later_release_has_written_is_an_error(plain):
    with pytest.raises((TypeError, ValueError, IndexError)):
        from_plain(plain)


def test_ended_subscriptions_are_to_be_told_known_and_forgotten():
    image = image_of(*START, SubsEnded(((1, 5, "t"), (2, 6, "u"))), SubsEnded((), ((1, 5),)))
    assert image.ended == {(1, 5): None, (2, 6): "u"}
    image.apply(SubsEnded((), (), ((1, 5), (8, 8))))
    assert image.ended == {(2, 6): "u"}
    image.apply(NewIncarnation(100, 3, True))
    assert image.ended == {}


def test_trimming_is_by_number():
    assert list(image_of(*START, OutboxTrimmed(1)).outbox) == [2, 3]


def test_what_was_seen_is_of_one_incarnation_and_outlives_sessions():
    image = image_of(*START, Acked(0, 0, (), ((2, 7), (5, 1))), Welcomed(5, 4, 0, False, 0), Acked(4, 1, (), ((2, 9),)))
    assert image.seen == {2: 9, 5: 1}
    image.apply(NewIncarnation(100, 3, True))
    assert image.seen == {}


def test_the_list_of_stations_outlives_everything():
    listed = (("hill", 3, "tcp://hill:1", b"k" * 40),)
    assert image_of(*START, Stations(listed), NewIncarnation(100, 3, True)).stations == listed


def test_welcome_sets_the_session_and_trims():
    image = image_of(*START, Welcomed(5, 4, -3, False, 2))
    assert (image.last, image.le, image.c, image.epoch, list(image.outbox)) == (5, 4, -3, 4, [3])


def test_c_of_another_session_is_not_taken():
    image = image_of(*START, Welcomed(5, 4, 0, False, 0), Acked(4, 7), Acked(3, 99))
    assert image.c == 7


def test_late_acknowledgements_go_with_the_c_that_covers_them():
    image = image_of(*START, LateAck(1, 5), LateAck(1, 6), Acked(0, 0, ((1, 5),)))
    assert list(image.late) == [(1, 6)]


def test_epoch_only_rises():
    assert image_of(Epoch(7), Epoch(5)).epoch == 7


def test_told_clears_both_notices():
    image = image_of(NewIncarnation(1, 1, True), Welcomed(1, 1, 0, True, 0), Welcomed(1, 2, 0, False, 0))
    assert image.gap
    image.apply(Told())
    assert not (image.gap or image.lost)


LATER = (
    Welcomed(5, 4, -3, True, 1), LateAck(2, 9), LateAck(2, 8), Acked(4, -1, (), ((2, 7),)),
    Stations((("hill", 3, "tcp://hill:1", b"k" * 40),)), SubsEnded(((1, 5, "t"), (0, 0, ""))), SubsEnded((), ((1, 5),)),
)  # fmt: skip


@pytest.mark.parametrize("more", [(), LATER])
def test_snapshot_makes_an_equal_image(more):
    image = image_of(*START, Queued(4, "weather", b"", False, 11), *more)
    old = (
        NewIncarnation(1, 1, True),
        Queued(8, None, b"old"),
        Acked(0, 0, (), ((9, 9),)),
        Stations((("x", 1, "", b""),)),
        SubsEnded(((7, 7, "old"),)),
    )
    copy = image_of(*old, *image.snapshot())
    assert copy == image
    assert list(copy.late) == list(image.late)
