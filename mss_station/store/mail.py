"""Station mail in the store: what `MailImage` of middleware/causal_unicast/records.py holds, and losses to be told.

The writes of a tick are gathered, so that counters and records that every mail changes are written once. Bodies and
headers have a checksum together with their keys.
"""

from __future__ import annotations

import sqlite3
import struct
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, Final, get_args

from roamcast.middleware.causal_unicast.records import (
    DropHeldMail,
    DropInbox,
    DropOutgoing,
    DropSRecord,
    InboxItem,
    Key,
    Mail,
    MailId,
    MailImage,
    MailWrite,
    PutCount,
    PutHeldMail,
    PutInbox,
    PutOutgoing,
    PutRetired,
    PutSRecord,
)
from roamcast.mss_station.store.sums import checked, summed


@dataclass(slots=True, frozen=True)
class PutMailLost:
    """The station's program is to be told that these mails to a station that has ended were given up."""

    to: int
    numbers: tuple[int, ...]


@dataclass(slots=True, frozen=True)
class DropMailLost:
    """It was told."""

    to: int


MailStoreWrite = MailWrite | PutMailLost | DropMailLost
MAIL_WRITES: Final = get_args(MailStoreWrite)

PUT_COUNT: Final = "INSERT OR REPLACE INTO mail_count (slot, count, checksum) VALUES (?,?,?)"
PUT_RECORD: Final = "INSERT OR REPLACE INTO mail_record (sender, receiver, number, checksum) VALUES (?,?,?,?)"
PUT_OUT: Final = "INSERT OR REPLACE INTO mail_out (addressee, number, stamp, checksum, content) VALUES (?,?,?,?,?)"
PUT_HELD: Final = "INSERT OR REPLACE INTO mail_held (sender, number, stamp, checksum, content) VALUES (?,?,?,?,?)"
PUT_INBOX: Final = "INSERT OR REPLACE INTO mail_inbox (position, sender, number, checksum, content) VALUES (?,?,?,?,?)"
PUT_ACKED: Final = "INSERT OR REPLACE INTO mail_acked (slot, number, checksum) VALUES (?,?,?)"
PUT_RETIRED: Final = "INSERT OR REPLACE INTO mail_retired (slot, checksum) VALUES (?,?)"
PUT_ENDS: Final = "INSERT OR REPLACE INTO mail_ends (one, last, taken, checksum) VALUES (?,?,?,?)"
PUT_LOST: Final = "INSERT OR REPLACE INTO mail_lost (slot, numbers, checksum) VALUES (?,?,?)"


def _pack(values: Sequence[int]) -> bytes:
    return struct.pack(f"<{len(values)}q", *values)


def _unpack(data: bytes) -> tuple[int, ...]:
    return struct.unpack(f"<{len(data) // 8}q", data)


def _header(mail: Mail) -> bytes:
    """V and R, 8 bytes a number; first, how many entries V has."""
    return _pack([len(mail.vector), *chain.from_iterable(mail.vector), *chain.from_iterable(mail.records)])


def _parts(header: bytes) -> tuple[tuple[tuple[int, int], ...], tuple[tuple[int, int, int], ...]]:
    count, *numbers = _unpack(header)
    vector, records = numbers[: 2 * count], numbers[2 * count :]
    return (
        tuple(zip(vector[::2], vector[1::2], strict=True)),
        tuple(zip(records[::3], records[1::3], records[2::3], strict=True)),
    )


def _sum(keys: Sequence[int], header: bytes, body: bytes) -> int:
    return zlib.crc32(body, zlib.crc32(header, zlib.crc32(_pack(keys))))


def _mail_columns(key: int, mail: Mail) -> tuple[Any, ...]:
    header = _header(mail)
    return key, mail.number, header, _sum((mail.src, mail.dst, mail.number), header, mail.body), mail.body


class _Gathered:
    """The writes of one transaction: of each line the last word."""

    def __init__(self) -> None:
        self.counts: dict[int, int] = {}
        self.records: dict[Key, int | None] = {}
        self.out: dict[tuple[int, int], Mail | None] = {}
        self.held: dict[MailId, Mail | None] = {}
        self.inbox: dict[int, InboxItem] = {}
        self.last: int | None = None
        self.taken: int | None = None
        self.acked: dict[int, int] = {}
        self.retired: dict[int, None] = {}
        self.lost: dict[int, tuple[int, ...] | None] = {}

    def take(self, write: MailStoreWrite) -> None:
        match write:
            case PutCount(slot, count):
                self.counts[slot] = count
            case PutSRecord(sender, receiver, number):
                self.records[sender, receiver] = number
            case DropSRecord(sender, receiver):
                self.records[sender, receiver] = None
            case PutOutgoing(mail):
                self.out[mail.dst, mail.number] = mail
            case DropOutgoing(peer, numbers):
                self.out |= {(peer, number): None for number in numbers}
                self.acked[peer] = max(self.acked.get(peer, 0), *numbers)
            case PutHeldMail(mail):
                self.held[mail.id] = mail
            case DropHeldMail(src, number):
                self.held[src, number] = None
            case PutInbox(item):
                self.inbox[item.position] = item
                self.last = max(self.last or 0, item.position)
            case DropInbox(upto):
                self.inbox = {position: item for position, item in self.inbox.items() if position > upto}
                self.taken = upto
            case PutRetired(slot):
                self.retired[slot] = None
                self.records = {key: number for key, number in self.records.items() if slot not in key}
                self.out = {key: mail for key, mail in self.out.items() if key[0] != slot}
            case PutMailLost(to, numbers):
                self.lost[to] = numbers
            case DropMailLost(to):
                self.lost[to] = None


def write_mail(connection: sqlite3.Connection, writes: Sequence[MailStoreWrite]) -> None:
    """Execute the writes of one transaction. Raises sqlite3.Error."""
    all_of = _Gathered()
    for write in writes:
        all_of.take(write)
    for slot in all_of.retired:  # before what came behind it
        connection.execute("DELETE FROM mail_record WHERE sender = ? OR receiver = ?", (slot, slot))
        connection.execute("DELETE FROM mail_out WHERE addressee = ?", (slot,))
        connection.execute(PUT_RETIRED, summed(slot))
    many = connection.executemany
    if all_of.counts:
        many(PUT_COUNT, [summed(*pair) for pair in all_of.counts.items()])
    _change(many, all_of.records, "mail_record", "sender = ? AND receiver = ?", PUT_RECORD, _record_columns)
    _change(many, all_of.out, "mail_out", "addressee = ? AND number = ?", PUT_OUT, _out_columns)
    _change(many, all_of.held, "mail_held", "sender = ? AND number = ?", PUT_HELD, _held_columns)
    if all_of.inbox:
        many(PUT_INBOX, [_item_columns(item) for item in all_of.inbox.values()])
    if all_of.taken is not None:
        connection.execute("DELETE FROM mail_inbox WHERE position <= ?", (all_of.taken,))
    if all_of.last is not None or all_of.taken is not None:
        _write_ends(connection, all_of)
    if all_of.acked:
        known = dict(checked(connection, "mail_acked", "slot, number"))
        many(PUT_ACKED, [summed(slot, max(number, known.get(slot, 0))) for slot, number in all_of.acked.items()])
    for slot, numbers in all_of.lost.items():
        if numbers is None:
            connection.execute("DELETE FROM mail_lost WHERE slot = ?", (slot,))
        else:
            connection.execute(PUT_LOST, summed(slot, _pack(numbers)))


def _change(
    many: Callable[[str, Any], object],
    lines: dict[Any, Any],
    table: str,
    key: str,
    put: str,
    columns: Callable[[Any, Any], tuple[Any, ...]],
) -> None:
    """Remove lines whose last word is None, put the others."""
    if gone := [name for name, value in lines.items() if value is None]:
        many(f"DELETE FROM {table} WHERE {key}", gone)
    if there := [columns(name, value) for name, value in lines.items() if value is not None]:
        many(put, there)


def _record_columns(key: Key, number: int) -> tuple[Any, ...]:
    return summed(*key, number)


def _out_columns(key: tuple[int, int], mail: Mail) -> tuple[Any, ...]:
    return _mail_columns(key[0], mail)


def _held_columns(key: MailId, mail: Mail) -> tuple[Any, ...]:
    return _mail_columns(key[0], mail)


def _item_columns(item: InboxItem) -> tuple[Any, ...]:
    keys = item.position, item.src, item.number
    return *keys, _sum(keys, b"", item.body), item.body


def _ends(connection: sqlite3.Connection) -> tuple[int, int]:
    """Highest position ever given, highest one taken."""
    return next(((last, taken) for _, last, taken in checked(connection, "mail_ends", "one, last, taken")), (0, 0))


def _write_ends(connection: sqlite3.Connection, all_of: _Gathered) -> None:
    last, taken = _ends(connection)
    ends = max(last, all_of.last or 0), taken if all_of.taken is None else all_of.taken
    connection.execute(PUT_ENDS, summed(1, *ends))


def load_mail(connection: sqlite3.Connection, own: int) -> MailImage:
    """All of it, bodies too. own: slot of this station.

    Raises:
        sqlite3.Error, ValueError, struct.error: the store does not hold what was written.
    """
    image = MailImage()
    image.counts = dict(checked(connection, "mail_count", "slot, count", "ORDER BY slot"))
    rows = checked(connection, "mail_record", "sender, receiver, number", "ORDER BY sender, receiver")
    image.records = {(sender, receiver): number for sender, receiver, number in rows}
    for addressee, number, *rest in connection.execute(
        "SELECT addressee, number, stamp, checksum, content FROM mail_out ORDER BY number"
    ):
        image.outgoing.setdefault(addressee, {})[number] = _mail(own, addressee, number, *rest)
    for sender, number, *rest in connection.execute(
        "SELECT sender, number, stamp, checksum, content FROM mail_held ORDER BY sender, number"
    ):
        image.held[sender, number] = _mail(sender, own, number, *rest)
    for position, src, number, checksum, body in connection.execute(
        "SELECT position, sender, number, checksum, content FROM mail_inbox ORDER BY position"
    ):
        _check((position, src, number), b"", checksum, body)
        image.inbox[position] = InboxItem(position, src, number, body)
    image.inbox_last, image.inbox_taken = _ends(connection)
    image.acknowledged = dict(checked(connection, "mail_acked", "slot, number", "ORDER BY slot"))
    image.retired = {slot for (slot,) in checked(connection, "mail_retired", "slot")}
    return image


def load_mail_lost(connection: sqlite3.Connection) -> dict[int, tuple[int, ...]]:
    """Losses that the station's program was not told of yet, by addressee. Raises as `load_mail`."""
    return {
        slot: _unpack(numbers) for slot, numbers in checked(connection, "mail_lost", "slot, numbers", "ORDER BY slot")
    }


def _mail(src: int, dst: int, number: int, header: bytes, checksum: int, body: bytes) -> Mail:
    _check((src, dst, number), header, checksum, body)
    mail = Mail(src, dst, *_parts(header), body)
    if mail.number != number:
        raise ValueError(f"the header of station mail ({src}, {number}) is that of another one")
    return mail


def _check(keys: tuple[int, int, int], header: bytes, checksum: int, body: bytes) -> None:
    if type(body) is not bytes or type(header) is not bytes or _sum(keys, header, body) != checksum:
        raise ValueError(f"station mail {keys} is not the one that was written: its checksum is wrong")
