"""Runs of the simulator of station mail as delivery logs."""

from __future__ import annotations

from typing import Any

import audit_events
from audit_world import NOON

from roamcast.analytics.evidence import Segment
from roamcast.middleware.causal_unicast.records import MailImage, MailWrite
from roamcast.middleware.simulator.unicast.node import MailNode
from roamcast.middleware.simulator.unicast.options import draw_unicast
from roamcast.middleware.simulator.unicast.run import UnicastRun
from roamcast.mss_station.mail_log import MailLog

Rows = dict[int, list[list[Any]]]
"""Station -> [wall, event, values]"""


class LoggedRun(UnicastRun):
    """Keeps what every station would have logged."""

    def __init__(self, seed: int, **overrides: Any) -> None:
        self.rows: Rows = {}
        self._logs: dict[int, tuple[Any, MailLog]] = {}
        super().__init__(seed, draw_unicast(seed, overrides))

    def committed(self, node: MailNode, writes: tuple[MailWrite, ...]) -> None:
        super().committed(node, writes)
        core, log = self._logs.get(node.slot, (None, None))
        if core is not node.core or log is None:
            last = log.last if log else 0
            log = MailLog(node.slot, MailImage(), lambda: 0)
            log.last = last
            self._logs[node.slot] = node.core, log
        rows = self.rows.setdefault(node.slot, [])
        rows += ([NOON + self.world.now, event.event, list(event.values)] for event in log.events(writes))

    def logs(self) -> Rows:
        """All that is there in the end; those that have burned down are gone, and the others tell."""
        self.run()
        gone = {slot for slot, node in self.nodes.items() if node.gone}
        rows = {slot: self.rows.get(slot, []) for slot in self.nodes if slot not in gone}
        for line in rows.values():
            line += ([NOON + self.world.now, "closed", [slot, 0, 0]] for slot in sorted(gone))
        return rows


def segments(rows: Rows, size: int = 7) -> list[Segment]:
    """Closed segments of these rows."""
    made = []
    for slot, line in rows.items():
        events = [(wall, event, tuple(values)) for wall, event, values in line]
        made += audit_events.segments(events, size, slot=slot, id=f"s{slot}")
    return made
