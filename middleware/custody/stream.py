"""The stream of a record: the log filtered by audience, and how far the host is in it.

Subscriptions evolve along the stream: a host is owed what was sent on a topic iff its SUB was passed before it and no
end of that since; `record.subs` are those as of `base`. `passed` steps over entries that the host is not owed.
Source: one-order.md 3.2, 4.1 and the cheap form 3.8.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Sequence
from heapq import merge
from itertools import takewhile
from operator import itemgetter

from roamcast.middleware.custody.extras import Subs
from roamcast.middleware.custody.ledger import Ledger
from roamcast.middleware.custody.record import Record
from roamcast.middleware.rows import Kind, MessageId, Row, SpoolItem, Vector
from roamcast.middleware.vectors import covers, entry, raised
from roamcast.middleware.writes import Write

Owed = tuple[int, Row | SpoolItem]
"""(position, what is owed); with topic and SUB where it is for the sake of one."""


def is_sub(holder: Row | SpoolItem) -> bool:
    """Whether what `owed` has told, or a spool holds, is a SUB."""
    return isinstance(holder, SpoolItem) and holder.topic > 0 and holder.sub == (holder.slot, holder.n)


def is_change(item: SpoolItem) -> bool:
    """Whether this entry of a spool, on a topic, is a SUB or the end of one."""
    return item.sub in ((0, 0), (item.slot, item.n))


def changes(ledger: Ledger, record: Record) -> Iterator[tuple[int, Row]]:
    """(position, row) of the host's SUBs and their ends in the log that `base` does not cover."""
    for position in ledger.table.changes(record.mh[0]):
        row = ledger.table.row_at(position)
        if row is not None and row.incarnation == record.mh[1] and row.n > entry(record.base, row.slot):
            yield position, row


def subs_after(ledger: Ledger, record: Record, position: int) -> Subs:
    """The subscriptions after all entries up to `position`."""
    if not ledger.table.changes(record.mh[0]) or "no_subs" in ledger.mutants:
        return record.subs
    subs = dict(record.subs)
    for at, row in changes(ledger, record):
        if at > position and "subs_now" not in ledger.mutants:
            break
        subs.pop(row.addressee, None)
        if row.kind is Kind.SUB and row.id not in record.dead:
            subs[row.addressee] = row.id
    return subs


def owed(ledger: Ledger, record: Record, after: int) -> Iterator[Owed]:
    """Everything behind `after` that the host is owed and that `base` does not cover, in order."""
    table, host = ledger.table, record.mh[0]
    plain = table.owed(host, record.base, after)
    if given_up := ledger.given_up:
        plain = (one for one in plain if one[1].id not in given_up)
    if not record.subs and not table.changes(host):
        return plain
    after = max(after, table.first_position_beyond(record.base) - 1)
    sources: list[Iterable[Owed]] = [plain]
    own: list[Owed] = []
    now: dict[int, tuple[MessageId, int] | None] = {}
    """Topics whose subscription has changed: that in force and since when; None: there is none."""

    def close(topic: int, upto: int) -> None:
        begun = now[topic] if topic in now else _since_base(record, topic)
        if begun is not None and begun[1] < upto and table.is_spoken_on(topic):
            sub, begin = begun
            sources.append(_on_topic(ledger, record.base, topic, sub, max(after, begin), upto))

    local = "sub_local" in ledger.mutants
    for position, row in changes(ledger, record):
        close(row.addressee, position)
        now[row.addressee] = None
        if row.kind is Kind.SUB and row.id in record.dead:
            continue  # its end was told, or will be, by other means
        if row.kind is Kind.SUB:
            now[row.addressee] = (row.id, 0 if local else position)
        if position > after:
            sub = row.id if row.kind is Kind.SUB else (0, 0)
            own.append((position, SpoolItem(row.slot, row.n, row.item, row.size, row.addressee, sub)))
    unchanged = record.subs if not now else record.subs.keys() - now.keys()
    end = table.last_position
    if table.spoken_behind(after) <= len(unchanged):
        sources.append(_on_any(ledger, record, unchanged, after))
    else:
        for topic in unchanged:
            close(topic, end)
    for topic in now:
        close(topic, end)
    return merge(*sources, own, key=itemgetter(0)) if len(sources) > 1 or own else plain


def _since_base(record: Record, topic: int) -> tuple[MessageId, int] | None:
    sub = record.subs.get(topic)
    return None if sub is None else (sub, 0)


def _on_any(ledger: Ledger, record: Record, topics: Container[int], after: int) -> Iterator[Owed]:
    """What was said on these topics behind `after`: for a host with more of them than there are messages."""
    for position, row in ledger.table.on_any_topic(after):
        topic = row.addressee
        if topic in topics and row.n > entry(record.base, row.slot):
            yield position, SpoolItem(row.slot, row.n, row.item, row.size, topic, record.subs[topic])


def _on_topic(ledger: Ledger, base: Vector, topic: int, sub: MessageId, after: int, upto: int) -> Iterator[Owed]:
    for position, row in ledger.table.on_topic(topic, after, upto):
        if row.n > entry(base, row.slot):
            yield position, SpoolItem(row.slot, row.n, row.item, row.size, topic, sub)


def owed_count(ledger: Ledger, record: Record, after: int, upto: int) -> int:
    """How many entries in (after, upto] the host is owed, or, if it has no subscriptions, at most."""
    if not record.subs and not ledger.table.changes(record.mh[0]):
        return ledger.table.owed_count(record.mh[0], after, upto)
    return sum(1 for _ in takewhile(lambda one: one[0] <= upto, owed(ledger, record, after)))


def first_owed(ledger: Ledger, record: Record) -> int:
    """Position of the first log entry that the host is owed and has not acknowledged; last position + 1 if none."""
    table = ledger.table
    if record.acked_c >= table.last_position:
        return table.last_position + 1
    first = next(owed(ledger, record, record.acked_c), None)
    return first[0] if first is not None else table.last_position + 1


def passed(ledger: Ledger, record: Record) -> Vector:
    """The vector after all entries before the first owed one: up to acked_c and over what is not owed behind it."""
    return raised(record.base, ledger.table.vector_at(first_owed(ledger, record) - 1))


def advance(ledger: Ledger, record: Record, position: int, vector: Vector | None = None) -> None:
    """The host needs nothing up to `position` any more, or its spool holds it: base and subscriptions follow.

    vector: DELIV at that position, where the caller knows it. The caller saves the record.
    """
    if "ckpt_no_subs" not in ledger.mutants:
        record.set_subs(subs_after(ledger, record, position))
    record.base = raised(record.base, ledger.table.vector_at(position) if vector is None else vector)
    if record.dead:
        base = record.base
        stand = {ledger.topic_name(topic) for topic in record.subs}  # the host has a later SUB, and acknowledged it
        kept = {
            sub: (name, told)
            for sub, (name, told) in record.dead.items()
            if sub[1] > entry(base, sub[0]) or not (told or name in stand)
        }
        if kept != record.dead:
            record.set_dead(kept)


def fold(ledger: Ledger, record: Record, entries: Sequence[Owed], end: int, vector: Vector) -> list[Write]:
    """Put `entries`, all that is owed of the log up to `end`, into the spool: base := DELIV there, which is `vector`.

    Returns the writes; the caller saves the record in the same.
    """
    trimmed = ledger.spools.trim(record, record.acked_c)
    advance(ledger, record, end, vector)
    record.base_c = record.acked_c
    return [*trimmed, *ledger.spools.add(record, entries)]


def is_unsettled(ledger: Ledger, record: Record) -> bool:
    """Whether some SUB of the host, or an end of one, may stand elsewhere in the order of another station.

    One that `base` does not cover; perhaps it is not here yet, where not all that the host has sent is.
    """
    return not covers(ledger.vector(), record.sdep) or any(True for _ in changes(ledger, record))


def statement(ledger: Ledger, vector: Vector) -> tuple[tuple[int, int], ...]:
    """`vector` in a WELCOME or PONG: (slot, n); never empty, for nothing is no statement."""
    return tuple((slot, n) for slot, n in enumerate(vector) if n or slot == ledger.own)


def settled(ledger: Ledger, record: Record) -> bool:
    """Whether the host needs nothing any more that its former station guards: it is past the arrival position."""
    return first_owed(ledger, record) > record.t_position
