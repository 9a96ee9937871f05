"""Commits ticks for ever and says after each how far it is; kills itself at a given statement of a given tick.

Arguments: directory, tick, statement (0 0: never). A tick accepts three rows, places them, spools one, collects.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

from roamcast.middleware.rows import Kind, Row, SpoolItem
from roamcast.middleware.writes import DropRows, PutLastSeq, PutRecord, PutRow, RecordImage, SpoolAdd, Write
from roamcast.mss_station.lock import DirectoryLock
from roamcast.mss_station.store import StationIdentity, Store

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


def make_tick(n: int) -> list[Write]:
    """The writes of the tick that ends with row n."""
    rows = [
        Row(1, i, ((0, i),), i, Kind.BROADCAST, KEY[0], KEY[1], i, (1, 0), 0, bytes(3000), 3000)
        for i in range(n - 2, n + 1)
    ]
    writes: list[Write] = [PutRow(row, row.n) for row in rows]
    writes += [PutLastSeq(KEY, n, (1, n)), SpoolAdd(KEY, ((n, 1, n),), (SpoolItem(1, n, None, 3000),))]
    if n > 90:
        writes.append(DropRows(1, n - 90))
    return writes


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


main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
