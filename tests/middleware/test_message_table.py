"""The message table against a naive list of rows, and after a start on what was stored."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from roamcast.middleware.errors import InvariantError
from roamcast.middleware.message_table import MessageTable
from roamcast.middleware.rows import Kind, Row
from roamcast.middleware.writes import DropRows, DurableState, PlaceRow, PutRow

MEMBERS = (1, 2, 4)
HOSTS = (7, 8, 9)
TOPICS = (7, 8)
CHANGES = (Kind.SUB, Kind.UNSUB, Kind.NOSUB)
ON_TOPICS = (Kind.TOPIC, Kind.ONLINE, *CHANGES)


class Naive:
    """Every row that ever was, in the order of acceptance, and what the questions mean on such a list."""

    def __init__(self) -> None:
        self.rows: list[Row] = []
        self.floor = dict.fromkeys(MEMBERS, 0)
        self.last_position = 0

    def of(self, slot: int) -> list[Row]:
        return [row for row in self.rows if row.slot == slot]

    def delivered(self, slot: int) -> int:
        return sum(row.position is not None for row in self.of(slot))

    def here(self, row: Row) -> bool:
        return row.n > self.floor[row.slot]

    def log(self) -> list[Row]:
        """Delivered rows from the first that is still here on, in log order."""
        placed = sorted((row for row in self.rows if row.position), key=lambda row: row.position or 0)
        while placed and not self.here(placed[0]):
            placed.pop(0)
        return placed

    def vector_at(self, position: int) -> list[int]:
        vector = [0] * (max(MEMBERS) + 1)
        for slot in MEMBERS:
            reached = sum(row.position is not None and row.position <= position for row in self.of(slot))
            vector[slot] = max(self.floor[slot], reached)
        return vector

    def owed(self, host: int, base: list[int], after: int) -> list[tuple[int, Row]]:
        return [
            (row.position or 0, row)
            for row in self.log()
            if self.here(row) and (row.position or 0) > after and row.n > base[row.slot] and concerns(row, host)
        ]

    def first_beyond(self, base: list[int]) -> int:
        beyond = [row.position or 0 for row in self.log() if self.here(row) and row.n > base[row.slot]]
        return min(beyond, default=self.last_position + 1)


def concerns(row: Row, host: int) -> bool:
    return row.kind is Kind.BROADCAST or (row.kind in (Kind.MAIL, Kind.REFUSED) and row.addressee == host)


def random_row(rng: Random, slot: int, n: int) -> Row:
    kind = rng.choice((Kind.BROADCAST, Kind.BROADCAST, Kind.MAIL, Kind.MAIL, Kind.REFUSED, Kind.ENROL, *ON_TOPICS))
    addressee = rng.choice(HOSTS) if kind in (Kind.MAIL, Kind.REFUSED) else 0
    if kind in ON_TOPICS:
        addressee = rng.choice(TOPICS)
    size = 0 if kind is Kind.ENROL else rng.randint(1, 9)
    return Row(slot, n, (), 5, kind, rng.choice(HOSTS), 1, n, (0, 0), addressee, bytes(size), size, None)


def step(rng: Random, table: MessageTable, naive: Naive, image: DurableState) -> None:
    """One random change of all three."""
    slot = rng.choice(MEMBERS)
    origin = table.origins[slot]
    action = rng.random()
    if action < 0.5:
        row = random_row(rng, slot, origin.stored + 1)
        naive.rows.append(row)
        image.apply((PutRow(row),))
        table.append(row)
    elif action < 0.92:
        head = origin.get(origin.delivered + 1)
        if head is not None:
            naive.last_position += 1
            assert table.place(head) == naive.last_position
            image.apply((PlaceRow(slot, head.n, naive.last_position, 5),))
    else:
        floor = rng.randint(origin.floor, origin.delivered)
        naive.floor[slot] = floor
        image.apply((DropRows(slot, floor),))
        table.drop(slot, floor)
        table.trim()


def compare(rng: Random, table: MessageTable, naive: Naive, drops_counted: bool) -> None:
    """Every question, with random arguments. `drops_counted`: rows dropped in the midst of the log still count."""
    log = naive.log()
    kept = [row for row in naive.rows if naive.here(row)]
    first = (log[0].position or 0) if log else naive.last_position + 1
    assert table.last_position == naive.last_position
    assert (table.rows_total, table.bytes_total) == (len(kept), sum(row.size for row in kept))
    for slot in MEMBERS:
        origin = table.origins[slot]
        assert (origin.stored, origin.delivered) == (len(naive.of(slot)), naive.delivered(slot))
        assert origin.floor == naive.floor[slot]
        low, high = sorted((rng.randint(0, 60), rng.randint(0, 60)))
        assert table.rows(slot, low, high) == [row for row in kept if row.slot == slot and low <= row.n <= high]
    after, upto = sorted((rng.randint(first - 1, naive.last_position), rng.randint(first - 1, naive.last_position)))
    assert list(table.vector_at(after)) == naive.vector_at(after)
    within = [row for row in log if after < (row.position or 0) <= upto]
    here = [row for row in within if naive.here(row)]
    assert table.broadcasts(after, upto) == [(row.position, row) for row in here if row.kind is Kind.BROADCAST]
    for topic in TOPICS:
        told = [row for row in here if row.kind in (Kind.TOPIC, Kind.ONLINE) and row.addressee == topic]
        assert list(table.on_topic(topic, after, upto)) == [(row.position, row) for row in told]
        assert table.is_spoken_on(topic) or not told
    counted = within if drops_counted else here
    assert table.bytes_between(after, upto) == sum(row.size for row in counted)
    for row in log:
        assert table.row_at(row.position or 0) is (row if naive.here(row) else None)
    for host in HOSTS:
        own = [row.position for row in log if naive.here(row) and row.kind in CHANGES and row.host == host]
        assert [position for position in table.changes(host) if table.row_at(position) is not None] == own
        assert table.owed_count(host, after, upto) == sum(concerns(row, host) for row in counted)
        base = [rng.randint(0, len(naive.of(slot))) for slot in range(max(MEMBERS) + 1)]
        assert list(table.owed(host, tuple(base), after)) == naive.owed(host, base, after)
        assert table.first_position_beyond(tuple(base)) == naive.first_beyond(base)


@pytest.mark.parametrize("seed", range(40))
def test_every_question_as_on_a_plain_list(seed):
    rng = Random(seed)
    table, naive, image = MessageTable(MEMBERS, DurableState()), Naive(), DurableState()
    for _ in range(120):
        step(rng, table, naive, image)
        compare(rng, table, naive, drops_counted=True)


@pytest.mark.parametrize("seed", range(40))
def test_a_start_finds_the_same_table(seed):
    """Counters, floors, positions and holes survive, however far collection went."""
    rng = Random(seed)
    table, naive, image = MessageTable(MEMBERS, DurableState()), Naive(), DurableState()
    for _ in range(120):
        step(rng, table, naive, image)
    again = MessageTable(MEMBERS, image)
    for row in naive.rows:
        if naive.here(row):
            found = again.origins[row.slot].get(row.n)
            assert found is not None and replace(found, item=None) == replace(row, item=None)
    naive.rows = [again.origins[row.slot].get(row.n) or row for row in naive.rows]
    compare(rng, again, naive, drops_counted=False)
    for _ in range(40):
        step(rng, again, naive, image)
    assert again.vector("stored") == [len(naive.of(slot)) for slot in range(max(MEMBERS) + 1)]
    assert again.last_position == naive.last_position


def test_an_emptied_table_goes_on_where_it_was():
    """Without the counters beside the rows the next number would be 1 again."""
    image = DurableState()
    row = random_row(Random(1), 1, 1)
    image.apply((PutRow(row), PlaceRow(1, 1, 1, 5), DropRows(1, 1)))
    table = MessageTable(MEMBERS, image)
    assert table.rows_total == 0
    assert table.origins[1].stored == table.origins[1].delivered == table.origins[1].floor == 1
    table.append(random_row(Random(1), 1, 2))
    assert table.place(table.rows(1, 2, 2)[0]) == 2


def test_what_would_break_the_table_is_refused():
    table = MessageTable(MEMBERS, DurableState())
    table.append(random_row(Random(1), 1, 1))
    with pytest.raises(InvariantError):
        table.append(random_row(Random(1), 1, 3))
    with pytest.raises(InvariantError):
        table.drop(1, 1)
    table.place(table.rows(1, 1, 1)[0])
    with pytest.raises(InvariantError):
        table.place(table.rows(1, 1, 1)[0])


def test_a_store_that_lacks_rows_is_not_taken_for_whole():
    """'stored' says two, one row is there: starting on it would number a message twice."""
    image = DurableState()
    image.apply((PutRow(random_row(Random(1), 1, 1)), PutRow(random_row(Random(1), 1, 2))))
    del image.rows[1, 2]
    with pytest.raises(InvariantError):
        MessageTable(MEMBERS, image)
    del image.rows[1, 1]
    image.rows[1, 2] = random_row(Random(1), 1, 2)
    with pytest.raises(InvariantError):
        MessageTable(MEMBERS, image)
    with pytest.raises(InvariantError):
        MessageTable((1, 2), DurableState(streams={4: image.streams[1]}))
