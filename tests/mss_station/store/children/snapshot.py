"""A newcomer begins again at another sponsor, whose snapshot has one part; kills itself at a given statement of it.

Arguments: directory, statement.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

from roamcast.middleware.membership.view import View
from roamcast.middleware.rows import Kind, Row, SpoolItem
from roamcast.middleware.spool_writes import PutItems
from roamcast.middleware.writes import DropSnapshot, HostEntry, LastValue, PutHost, PutLast, PutRow, PutStreams, PutView
from roamcast.mss_station.store import StationIdentity, Store


def row(n: int) -> Row:
    """A row of station 2."""
    return Row(2, n, ((1, n),), n, Kind.BROADCAST, 7, 5, n, (1, 0), 0, bytes(3000), 3000)


def last(topic: int, n: int) -> LastValue:
    """A last value whose row the sponsor has not any more."""
    return LastValue(topic, (n, 2, 0), 2, n, n, False)


def main(directory: Path, kill_statement: int) -> None:
    store = Store.open(directory, StationIdentity("north", 1, 0xF00D_F00D_F00D_F00D))
    joining = View((1, 2), serving=False, sponsor=2)
    store.commit([PutView(joining), PutRow(row(5), 50), PutLast(last(6, 2)), PutItems((SpoolItem(2, 2, b"2", 1),))])
    statements = 0

    def count(_: str) -> None:
        nonlocal statements
        statements += 1
        if statements == kill_statement:
            os.kill(os.getpid(), signal.SIGKILL)

    store._connection.set_trace_callback(count)
    store.commit(
        [
            DropSnapshot(),
            PutRow(row(8), 3),
            PutRow(row(9), 4),
            PutHost(HostEntry(7, 5, (1, 2, 8), False)),
            PutLast(last(7, 3)),
            PutItems((SpoolItem(2, 3, b"3", 1),)),
            PutStreams(((2, 9, 9, 7),), 4, 3),
            PutView(View((1, 2), serving=False)),
        ]
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
