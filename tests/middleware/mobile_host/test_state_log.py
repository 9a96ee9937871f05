"""The log of the state: records, compaction, damage; over a store in memory and a plain encoder."""

from __future__ import annotations

import ast
import zlib

import pytest

from roamcast.middleware.mobile_host.errors import StateError
from roamcast.middleware.mobile_host.state import (
    Acked,
    Checkpoint,
    Epoch,
    LateAck,
    NewIncarnation,
    OutboxTrimmed,
    Queued,
    Stations,
    SubsEnded,
    Told,
    Welcomed,
)  # fmt: skip
from roamcast.middleware.mobile_host.state_log import COMPACT_BYTES, StateLog


class Appended:
    """The least store there can be."""

    def __init__(self, content: bytes = b"") -> None:
        self.content = content

    def load(self) -> bytes:
        return self.content

    def append(self, data: bytes) -> None:
        self.content += data


class Replaced(Appended):
    """One that can be compacted and synced."""

    syncs = 0

    def replace(self, data: bytes) -> None:
        self.content = data

    def sync(self) -> None:
        self.syncs += 1


def open_log(store) -> StateLog:
    return StateLog(store, lambda plain: repr(plain).encode(), lambda data: ast.literal_eval(data.decode()), zlib.crc32)


EVERY_FACT = (
    Checkpoint(5, 2, 1, 2, -3, 4, False, True),
    NewIncarnation(9, 1, False),
    Epoch(3),
    Queued(1, None, b"a"),
    Queued(2, "bob", b"b"),
    Queued(3, None, b"c"),
    Queued(4, "weather", b"d", False, 9),
    OutboxTrimmed(1),
    Welcomed(2, 4, -7, True, 0),
    LateAck(1, 5),
    LateAck(1, 6),
    Acked(4, -2, ((1, 5),), ((1, 5), (2, 8))),
    Acked(4, -1, (), ((1, 6), (3, 1 << 40))),
    Told(),
    Stations((("hill", 3, "tcp://hill:7001", b"k" * 40), ("dale", 0, "tcp://dale:7001", b"l" * 40))),
    SubsEnded(((1, 5, "weather"), (0, 0, ""), (2, 2, "x"))),
    SubsEnded((), ((1, 5),), ((2, 2),)),
)


@pytest.mark.parametrize("store", [Appended(), Replaced()])
def test_every_fact_comes_back(store):
    log = open_log(store)
    image = log.image
    for fact in EVERY_FACT:
        image.apply(fact)
    log.save(EVERY_FACT[:4])
    for fact in EVERY_FACT[4:]:
        log.save((fact,))
    assert open_log(store).image == image
    assert open_log(store).image == image


def test_lone_acknowledgements_have_a_short_form():
    store = Appended()
    log = open_log(store)
    log.save((Welcomed(1, 1, 0, False, 0),))
    before = len(store.content)
    log.save((Acked(1, -(1 << 40)),))
    assert len(store.content) == before + 24
    log.save((Acked(1, 5, (), ((1023, (1 << 40) - 1),)),))
    assert len(store.content) == before + 24 + 34
    image = open_log(store).image
    assert (image.c, image.seen) == (5, {1023: (1 << 40) - 1})


def test_nothing_is_kept_without_a_store():
    log = open_log(None)
    log.save(EVERY_FACT)
    log.sync()
    log.close()
    assert log.image.incarnation == 0


def test_compaction_keeps_it_small():
    store = Replaced()
    log = open_log(store)
    log.save((NewIncarnation(1, 1, False),))
    for number in range(1, 200):
        log.save((Queued(number, None, b"x" * 10_000), OutboxTrimmed(number)))
    log.save((Queued(200, None, b"kept"),))
    assert len(store.content) < COMPACT_BYTES + 30_000
    assert open_log(store).image.outbox == {200: (None, b"kept", 0)}
    assert len(store.content) < 200


def test_large_outbox_is_not_compacted_again_and_again():
    store = Replaced()
    log = open_log(store)
    log.save(tuple(Queued(number, None, b"x" * 1_000) for number in range(1, 2_001)))
    compacted = len(store.content)
    log.save((Acked(0, 0),))
    assert len(store.content) == compacted + 24


def test_sync_only_when_something_was_saved():
    store = Replaced()
    log = open_log(store)
    log.sync()
    log.save((Epoch(1),))
    log.sync()
    log.sync()
    assert store.syncs == 1


def test_damage_at_the_end_is_cut_where_it_can_be():
    log = open_log(store := Replaced())
    log.save((Epoch(7),))
    log.save((Epoch(8),))
    damaged = store.content[:-1] + bytes([store.content[-1] ^ 1])
    log = open_log(Replaced(damaged))
    assert log.image.epoch == 7
    assert log.cut > 0
    with pytest.raises(StateError, match="damaged"):
        open_log(Appended(damaged))


def test_zeros_behind_the_end_are_cut():
    log = open_log(store := Replaced())
    log.save((Epoch(7),))
    assert open_log(Replaced(store.content + bytes(100))).image.epoch == 7


def test_damage_from_the_beginning_is_an_error():
    with pytest.raises(StateError, match="damaged"):
        open_log(Replaced(b"\0" * 50))


@pytest.mark.parametrize("plain", [b"[[99, 1]]", b"[[2]]", b"5", b"(", b"[[3, 1, 't', b'', True, 99]]"])
def test_records_of_another_release_are_an_error(plain):
    record = len(plain).to_bytes(4, "big") + zlib.crc32(plain).to_bytes(4, "big") + plain
    with pytest.raises(StateError, match="another release"):
        open_log(Replaced(record))


def test_a_log_that_cannot_begin_lets_go_of_its_store():
    class Closed(Replaced):
        closed = 0

        def close(self) -> None:
            self.closed += 1

    store = Closed(b"\0" * 50)
    with pytest.raises(StateError, match="damaged"):
        open_log(store)
    assert store.closed == 1


def test_a_sync_that_failed_is_not_tried_again():
    class Failing(Replaced):
        def sync(self) -> None:
            super().sync()
            raise OSError(5, "Input/output error")

    log = open_log(store := Failing())
    log.save((Epoch(1),))
    with pytest.raises(OSError, match="Input/output"):
        log.sync()
    log.close()
    assert store.syncs == 1
