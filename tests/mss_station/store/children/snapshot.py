"""A newcomer begins again at another sponsor, whose snapshot has one part; kills itself at a given statement of it.

Arguments: directory, statement.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

from roamcast.middleware.membership.view import View
from roamcast.middleware.rows import Kind, Row
from roamcast.middleware.writes import DropSnapshot, HostEntry, PutHost, PutRow, PutStreams, PutView
from roamcast.mss_station.store import StationIdentity, Store


def row(n: int) -> Row:
    """A row of station 2."""
    return Row(2, n, ((1, n),), n, Kind.BROADCAST, 7, 5, n, (1, 0), 0, bytes(3000), 3000)


def main(directory: Path, kill_statement: int) -> None:
    store = Store.open(directory, StationIdentity("north", 1, 0xF00D_F00D_F00D_F00D))
    store.commit([PutView(View((1, 2), serving=False, sponsor=2)), PutRow(row(5), 50)])
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
            PutStreams(((2, 9, 9, 7),), 4, 3),
            PutView(View((1, 2), serving=False)),
        ]
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
