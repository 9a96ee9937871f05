"""Stamps that are sent as steps above the row before: what arrives is what was stored, whatever links and starts do."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from roamcast.middleware.effects import Reject
from roamcast.middleware.fifo_broadcast.stamps import BEYOND, UNKNOWN_BASE, StampBook
from roamcast.middleware.rows import CLOCK_MAX, COUNTER_MAX, Kind, Row, Steps
from roamcast.middleware.settings import MS, SECOND
from roamcast.middleware.station_frames import DataBatch, Nack
from roamcast.middleware.writes import PutRow

WALL = 1_700_000_000_000_000


def make(n: int, *stamp: tuple[int, int], slot: int = 1, hlc: int = WALL, **more: Any) -> Row:
    return Row(slot, n, stamp, hlc + n, Kind.BROADCAST, 1, 1, n, (0, 0), 0, b"x", 1, None, **more)


def say(group: Any, slot: int, *stamp: tuple[int, int], send: bool = True) -> None:
    """A new row of `slot` with this stamp."""
    new = make(group.stored(slot, slot) + 1, *stamp, slot=slot)
    group.images[slot].apply((PutRow(new),))
    group.up[slot].accept_own(new, group.now)
    if send:
        group.flush(slot)


def is_same_everywhere(group: Any) -> bool:
    """Whether every station has the rows of every other as that one made them."""
    told = [{key: (row.stamp, row.hlc, row.steps) for key, row in group.images[slot].rows.items()} for slot in group.up]
    return all(one == told[0] for one in told)


def short_rows(group: Any) -> list[Row]:
    return [row for batch in group.sent_of(DataBatch) for row in batch.rows if row.steps is not None]


def forget_rows(group: Any, slot: int) -> None:
    """The station restarts, and all rows have been dropped everywhere."""
    for image in group.images.values():
        for stream in image.streams.values():
            stream.floor = stream.delivered = stream.stored
        image.rows.clear()
    group.stop(slot)
    group.start(slot)


# ---- one book ----


def test_what_was_said_before_is_said_as_a_step_and_the_rest_as_a_value() -> None:
    book = StampBook()
    first, second = make(1, (2, 9)), make(2, (2, 11), (3, 7))
    assert book.shorten(first) is first, "nothing is known"
    short = book.shorten(second)
    assert (short.stamp, short.steps) == (((3, 7),), Steps(1, ((2, 2),)))
    assert (second.stamp, second.steps) == (((2, 11), (3, 7)), None), "the row itself stays as it is"
    assert StampBook([first]).resolve(short) is None and short == second


def test_an_entry_that_falls_is_said_as_a_value() -> None:
    """The void rule: the cut of a station that has ended may be below what was said of it."""
    book = StampBook([make(1, (2, 9))])
    short = book.shorten(make(2, (2, 8)))
    assert (short.stamp, short.steps) == (((2, 8),), Steps(1, ()))


def test_a_clock_that_does_not_rise_is_said_as_a_value() -> None:
    book = StampBook([make(1)])
    row = make(2, hlc=WALL - 5)
    assert book.shorten(row) is row


def test_a_gap_in_what_is_sent_forgets_all() -> None:
    book = StampBook([make(1, (2, 9))])
    row = make(3, (2, 11))
    assert book.shorten(row) is row


def test_a_book_that_was_told_to_forget_says_values_and_is_understood() -> None:
    here, there = StampBook(), StampBook()
    for n, forgets in enumerate((False, False, True, False), 1):
        if forgets:
            here.forget()
        row = make(n, (2, 10 * n), (3, n))
        came = replace(here.shorten(row))
        assert (came.steps is None) == (n in (1, 3))
        assert there.resolve(came) is None
        assert came == row
        there.add(came)


@pytest.mark.parametrize(
    ("steps", "why"),
    [
        (Steps(0, ((3, 1),)), UNKNOWN_BASE),
        (Steps(0, ((2, 1), (3, 1))), UNKNOWN_BASE),
        (Steps(0, ((2, COUNTER_MAX - 9),)), None),
        (Steps(0, ((2, COUNTER_MAX - 8),)), BEYOND),
        (Steps(CLOCK_MAX - WALL - 1, ()), None),
        (Steps(CLOCK_MAX - WALL, ()), BEYOND),
    ],
)
def test_steps_that_stand_on_nothing_or_go_too_far(steps: Steps, why: str | None) -> None:
    book = StampBook([make(1, (2, 9))])
    row = make(2, steps=steps)
    before = replace(row)
    assert book.resolve(row) == why
    assert (row == before) == (why is not None), "refused as a whole"


def test_a_clock_step_without_a_clock_before_stands_on_nothing() -> None:
    assert StampBook().resolve(make(1, steps=Steps(1, ()))) == UNKNOWN_BASE


# ---- between stations ----


def test_steps_go_over_the_wire_and_values_into_the_table(group: Any) -> None:
    group.run(SECOND)
    for value in (5, 6, 9):
        say(group, 1, (2, value))
    group.run(SECOND)
    assert [row.steps for row in short_rows(group)] == 2 * [Steps(1, ((2, 1),))] + 2 * [Steps(1, ((2, 3),))]
    assert is_same_everywhere(group)
    assert not group.sent_of(Nack) and not group.faults


def test_rows_out_of_order_are_resolved_when_their_turn_comes(group: Any) -> None:
    group.run(SECOND)
    group.lose = lambda source, target, frame: isinstance(frame, DataBatch)
    for value in (5, 6, 9, 10):
        say(group, 1, (2, value))
    flights = [flight for flight in group.sent if isinstance(flight[2], DataBatch) and flight[1] == 3]
    for flight in (flights[0], flights[3], flights[2], flights[1]):
        group.hand(*flight)
    assert not group.sent_of(Nack)
    rows = [group.images[3].rows[1, n] for n in (1, 2, 3, 4)]
    assert [row.stamp for row in rows] == [((2, 5),), ((2, 6),), ((2, 9),), ((2, 10),)]
    assert [row.hlc for row in rows] == [WALL + n for n in (1, 2, 3, 4)]


def test_resolved_on_arrival_they_would_be_wrong(make_group: Any) -> None:
    group = make_group(1, 2, 3, mutants=frozenset({"base_newest"}))
    group.run(SECOND)
    group.lose = lambda source, target, frame: isinstance(frame, DataBatch)
    for value in (5, 6, 9):
        say(group, 1, (2, value))
    flights = [flight for flight in group.sent if isinstance(flight[2], DataBatch) and flight[1] == 3]
    for flight in (flights[0], flights[2], flights[1]):
        group.hand(*flight)
    assert group.images[3].rows[1, 3].stamp != ((2, 9),)


def test_every_frame_twice_and_the_second_late(group: Any) -> None:
    group.run(SECOND)
    late: list[Any] = []
    group.lose = lambda source, target, frame: late.append((source, target, frame)) is not None
    for value in range(5, 15):
        say(group, 1, (2, value), (3, 2 * value))
    copies = [(s, t, replace(f, rows=tuple(map(replace, f.rows)))) for s, t, f in late if isinstance(f, DataBatch)]
    group.run(MS)
    for flight in copies:
        group.hand(*flight)
    group.run(SECOND)
    assert is_same_everywhere(group) and not group.faults


def test_repairs_are_in_values(group: Any) -> None:
    group.run(SECOND)
    say(group, 1, (2, 5))
    group.run(SECOND)
    group.lose = lambda source, target, frame: isinstance(frame, DataBatch) and target == 2
    for value in (6, 7):
        say(group, 1, (2, value))
    group.deliver()
    group.lose = lambda source, target, frame: False
    group.sent.clear()
    group.run(SECOND)
    (repair,) = group.sent_of(DataBatch)
    assert [(row.stamp, row.steps) for row in repair.rows] == [(((2, 6),), None), (((2, 7),), None)]
    say(group, 1, (2, 8))
    group.run(SECOND)
    assert is_same_everywhere(group)


def test_a_repair_is_not_replaced_by_steps_that_come_again(group: Any) -> None:
    """Row 3 came in values and waits for row 2; its first copy, delayed, must not take its place."""
    group.run(SECOND)
    say(group, 1, (2, 5))
    group.deliver()
    group.hand(1, 3, DataBatch(1, (make(3, (2, 9)),)))
    group.hand(1, 3, DataBatch(1, (make(3, steps=Steps(1, ((9, 1),))),)))
    group.faults.clear()
    group.hand(1, 3, DataBatch(1, (make(3, steps=Steps(1, ((2, 1),))),)))
    group.hand(1, 3, DataBatch(1, (make(2),)))
    assert group.images[3].rows[1, 3].stamp == ((2, 9),)


def test_after_a_start_steps_above_what_is_dropped_are_asked_for_once(group: Any) -> None:
    """The sender does not know yet that the peer has started: one NACK, at once, and then it is told values."""
    group.run(SECOND)
    say(group, 1, (2, 5), (3, 5))
    group.run(SECOND)
    forget_rows(group, 3)
    group.sent.clear()
    group.lose = lambda source, target, frame: source == 3 and not isinstance(frame, Nack)  # its CLAIMS
    say(group, 1, (2, 6))
    group.deliver()
    assert group.sent_of(Nack) == [Nack(1, 2, 2)], "it is not waited for what cannot come"
    assert group.stored(3, 1) == 2
    say(group, 1, (2, 7))
    group.deliver()
    assert len(group.sent_of(Nack)) == 1, "the entry is known again"
    say(group, 1, (3, 6))
    group.deliver()
    assert group.sent_of(Nack) == [Nack(1, 2, 2), Nack(1, 4, 4)]
    assert is_same_everywhere(group) and not group.faults


def test_who_hears_of_a_start_says_values(group: Any) -> None:
    group.run(SECOND)
    say(group, 1, (2, 5), (3, 5))
    group.run(SECOND)
    forget_rows(group, 3)
    group.run(SECOND)  # full CLAIMS that want an answer
    group.sent.clear()
    for value in (6, 7):
        say(group, 1, (2, value))
        group.deliver()
    assert [row.steps for row in short_rows(group)] == 2 * [Steps(1, ((2, 1),))]
    assert not group.sent_of(Nack) and is_same_everywhere(group)


def test_what_kept_rows_say_is_known_after_a_start(group: Any) -> None:
    group.run(SECOND)
    say(group, 1, (2, 5))
    group.run(SECOND)
    group.stop(3)
    group.start(3)
    group.lose = lambda source, target, frame: source == 3
    group.sent.clear()
    say(group, 1, (2, 6))
    group.deliver()
    assert group.stored(3, 1) == 2 and not group.sent_of(Nack)
    assert is_same_everywhere(group)


def test_a_start_of_the_sender_begins_with_values(group: Any) -> None:
    group.run(SECOND)
    say(group, 1, (2, 5))
    group.run(SECOND)
    group.stop(1)
    group.start(1)
    group.run(SECOND)
    group.sent.clear()
    say(group, 1, (2, 6))
    assert not short_rows(group)
    group.run(SECOND)
    assert is_same_everywhere(group) and not group.faults


@pytest.mark.parametrize(
    "change",
    [
        {"steps": Steps(1, ((2, 0),))},
        {"steps": Steps(1, ((2, -1),))},
        {"steps": Steps(1, ((1, 1),))},
        {"steps": Steps(1, ((9, 1),))},
        {"steps": Steps(1, ((3, 1), (2, 1)))},
        {"steps": Steps(1, ((2, 1), (2, 1)))},
        {"steps": Steps(-1, ())},
        {"steps": Steps(1, ((2, 1),)), "stamp": ((2, 9),)},
        {"steps": Steps(1, ((2, COUNTER_MAX),))},
        {"steps": Steps(CLOCK_MAX, ())},
    ],
    ids=str,
)
def test_steps_that_make_no_sense_are_refused_and_the_row_is_repaired(group: Any, change: dict[str, Any]) -> None:
    group.run(SECOND)
    say(group, 1, (2, 5))
    group.run(SECOND)
    say(group, 1, (2, 6), send=False)
    group.hand(1, 3, DataBatch(1, (replace(make(2), **change),)))
    ((_, reject),) = group.faults
    assert type(reject) is Reject and (reject.source, reject.code) == (1, "bad-row")
    assert group.stored(3, 1) == 1
    group.run(SECOND)
    assert group.stored(3, 1) == 2 and is_same_everywhere(group)


def lossy(random: Random, hold: list[Any]) -> Callable[[int, int, Any], bool]:
    """Loses and delays rows; what is delayed is put into `hold`."""

    def lose(source: int, target: int, frame: Any) -> bool:
        if not isinstance(frame, DataBatch):
            return random.random() < 0.1
        if random.random() < 0.3:
            hold.append((source, target, replace(frame, rows=tuple(map(replace, frame.rows)))))
        return random.random() < 0.4

    return lose


@pytest.mark.parametrize("seed", range(40))
def test_any_history_of_losses_repeats_and_starts_gives_the_same_rows_everywhere(make_group: Any, seed: int) -> None:
    random = Random(seed)
    group = make_group(1, 2, 3, 4)
    group.run(SECOND)
    held: list[Any] = []
    group.lose = lossy(random, held)
    values = {slot: dict.fromkeys(group.slots, 0) for slot in group.slots}
    for _ in range(60):
        slot = random.choice(group.slots)
        changed = [other for other in group.slots if other != slot and random.random() < 0.6]
        for other in changed:
            values[slot][other] += random.randint(1, 300)
        say(group, slot, *((other, values[slot][other]) for other in changed), send=random.random() < 0.8)
        if random.random() < 0.1:
            again = random.choice(group.slots)
            group.stop(again)
            group.start(again)
        if held and random.random() < 0.5:
            group.hand(*held.pop(random.randrange(len(held))))
        group.run(random.choice((0, MS, 30 * MS)))
    group.lose = lambda source, target, frame: False
    group.run(20 * SECOND)
    assert short_rows(group)
    assert all(len(group.images[slot].rows) == 60 for slot in group.slots)
    assert is_same_everywhere(group)
    assert {fault.code for _, fault in group.faults} <= {"bad-origin"}, "late answers of third parties"
