"""Commits ticks for ever and says after each how far it is; kills itself at a given statement of a given tick.

Arguments: directory, tick, statement (0 0: never). A tick accepts three rows, places them, spools one, collects, makes
the last value of a topic, and takes a change of the configuration, one of the group, and station mail.
"""

from __future__ import annotations

import os
import signal
import sys
from dataclasses import replace
from pathlib import Path

from roamcast.middleware.causal_unicast.records import (
    DropHeldMail,
    DropInbox,
    DropOutgoing,
    DropSRecord,
    InboxItem,
    Mail,
    MailWrite,
    PutCount,
    PutHeldMail,
    PutInbox,
    PutOutgoing,
    PutRetired,
    PutSRecord,
)
from roamcast.middleware.lan_update.records import (
    DropEntry,
    Entry,
    LanWrite,
    PutAlive,
    PutEntry,
    PutFound,
    PutHistory,
    Version,
)
from roamcast.middleware.membership.invitations import DropInvitation, Invitation, Newcomer, PutInvitation
from roamcast.middleware.membership.view import Ending, View
from roamcast.middleware.rows import Kind, Row, SpoolItem
from roamcast.middleware.spool_writes import DropSpoolItems, PutItems, SpoolAdd, SpoolDrop
from roamcast.middleware.writes import (
    DropHeld,
    DropLast,
    DropRows,
    LastValue,
    PutHeld,
    PutLast,
    PutLastSeq,
    PutRecord,
    PutReservation,
    PutRow,
    PutView,
    RecordImage,
    Write,
)
from roamcast.mss_station.lock import DirectoryLock
from roamcast.mss_station.store import PutMailLost, StationIdentity, Store, StoreWrite

KEY = (1 << 32, 5, 0)
RECORD = RecordImage(
    mh=KEY[:2],
    arr=0,
    state="open",
    prev=None,
    link=False,
    t_vector=(),
    t_position=0,
    ready=True,
    le=0,
    sess=0,
    ep=0,
    base=(),
    base_c=0,
    closed=False,
    lastseq=0,
    last_id=(0, 0),
    sdep=(),
    moved_to=None,
    succ_ok=False,
    join=False,
    gap=False,
    exp_acked=False,
    ephemeral=False,
    away_since=0,
)


def make_tick(n: int) -> list[StoreWrite]:
    """The writes of the tick that ends with row n."""
    rows = [
        Row(1, i, ((0, i),), i, Kind.BROADCAST, KEY[0], KEY[1], i, (1, 0), 0, bytes(3000), 3000)
        for i in range(n - 2, n + 1)
    ]
    writes: list[StoreWrite] = [PutRow(row, row.n) for row in rows]
    spooled = (n - 1, 1, n, 0, (0, 0)), (n, 1, n, n % 5 + 1, (1, n))
    writes += [PutLastSeq(KEY, n, (1, n)), SpoolAdd(KEY, spooled, (SpoolItem(1, n, None, 3000),))]
    writes += make_last(n)
    if n > 90:
        writes.append(DropRows(1, n - 90))
    return [*writes, *make_group(n), *make_lan(n), *make_mail(n), PutMailLost(n, (n,))]


def make_mail(n: int) -> list[MailWrite]:
    """What the tick that ends with row n changes of station mail: one is sent, one comes and waits, one is taken."""
    return [
        PutCount(1, n),
        PutSRecord(1, 2, n),
        PutSRecord(2, 3, n),
        DropSRecord(2, 3),
        PutOutgoing(Mail(1, 2, ((1, n),), ((2, 4, n),), b"%d" % n)),
        DropOutgoing(2, (n - 3,)),
        PutHeldMail(Mail(3, 1, ((3, n),), (), b"%d" % n)),
        DropHeldMail(3, n - 3),
        PutInbox(InboxItem(n // 3, 3, n - 3, b"%d" % n)),
        DropInbox(n // 3 - 1),
        PutRetired(n + 5),
    ]


def make_last(n: int) -> list[Write]:
    """What the tick that ends with row n changes of last values: one is new, one goes, an item is kept for one."""
    return [
        PutLast(LastValue(n, (n, 1, 0), 1, n - 1, n - 1, False)),
        DropLast((n - 3,)),
        PutItems((SpoolItem(1, n - 1, None, 3000),)),
        DropSpoolItems(((1, n - 4),)),
        SpoolDrop(KEY, (n - 1,)),
    ]


def make_group(n: int) -> list[Write]:
    """What the tick that ends with row n changes of the group: one record is held, with a spool of one."""
    held, before = replace(RECORD, arr=n + 1, away_since=n), (*KEY[:2], n - 2)
    return [
        PutView(View((1, 2), {2: (1, (0, n))}, {2: Ending(1, n, (n, 0))}, frozenset([2]))),
        PutReservation(n % 2 + 3, n),
        PutInvitation(Invitation(f"key {n}", 3, n, Newcomer(n, "its key"))),
        DropInvitation(f"key {n - 3}"),
        DropHeld(before, False),
        PutHeld(2, held),
        SpoolAdd(held.key, ((-1, 1, n, 0, (0, 0)),), ()),
    ]


def make_lan(n: int) -> list[LanWrite]:
    """What the tick that ends with row n changes in the configuration."""
    entry = Entry(f"hosts/{n % 2}", Version(n, 0, "north", n), b"%d" % n, None, bytes(64))
    deleted = Entry(f"topics/{n}", Version(n, 0, "north", n), None, None, bytes(64), frozenset(["north"]))
    return [
        PutAlive(n),
        PutEntry(entry),
        PutEntry(deleted),
        DropEntry(f"topics/{n - 3}"),
        PutFound(deleted, n),
        PutHistory(entry, n),
    ]


def main(directory: Path, kill_tick: int, kill_statement: int) -> None:
    lock = DirectoryLock(directory)
    store = Store.open(directory, StationIdentity("north", 1, 0xF00D_F00D_F00D_F00D))
    image = store.load()
    if KEY not in image.records:
        store.commit([PutRecord(RECORD)])
    n = image.streams[1].stored if 1 in image.streams else 0
    tick = statements = 0

    def count(_: str) -> None:
        nonlocal statements
        statements += 1
        if (tick, statements) == (kill_tick, kill_statement):
            os.kill(os.getpid(), signal.SIGKILL)

    store._connection.set_trace_callback(count)
    while True:
        tick, statements, n = tick + 1, 0, n + 3
        store.commit(make_tick(n))
        os.write(1, b"%d\n" % n)
        if tick == kill_tick:
            lock.release()
            sys.exit("there is no such statement")


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
