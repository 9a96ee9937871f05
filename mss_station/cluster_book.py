"""The clusters of the group as its configuration says them: names of stations become slots as their records arrive."""

from __future__ import annotations

from collections.abc import Callable

from roamcast.middleware.fifo_broadcast.layout import Layout
from roamcast.mss_station import schema
from roamcast.mss_station.cluster_text import Clusters, read_clusters
from roamcast.mss_station.errors import SchemaError
from roamcast.mss_station.schema import StationRecord


class ClusterBook:
    """What the setting `clusters` means now, worked out when it is asked for: stations come entry by entry.

    A station that has ended keeps its slot, so its name is harmless. One that has no record yet is left out. A layout
    that cannot be used then is no layout: the group is flat until its record is here or the setting is put right.

    Args:
        slot_of: slot of a station by its id; None: it is not known.
    """

    def __init__(self, slot_of: Callable[[str], int | None]) -> None:
        self._slot_of = slot_of
        self._text = ""
        self._is_due = False
        self._clusters = Clusters()
        self._layout = Layout()
        self._faults: list[str] = []

    def write(self, text: str) -> None:
        """The setting is this now, which is one that it may have."""
        self._text, self._is_due = text, True

    def stations_changed(self) -> bool:
        """`slot_of` may say something else. Returns whether that matters."""
        self._is_due = bool(self._text)
        return self._is_due

    @property
    def clusters(self) -> Clusters:
        """As it was written."""
        self._work_out()
        return self._clusters

    @property
    def layout(self) -> Layout:
        """As the core is told."""
        self._work_out()
        return self._layout

    @property
    def faults(self) -> list[str]:
        """A sentence for each thing that is wrong."""
        self._work_out()
        return self._faults

    def _work_out(self) -> None:
        if not self._is_due:
            return
        self._is_due = False
        self._clusters = clusters = read_clusters(self._text)
        slots = {id: self._slot_of(id) for id in clusters.ids()}
        names = {slot: id for id, slot in slots.items() if slot is not None}
        unknown = [id for id, slot in slots.items() if slot is None]
        self._faults = [f"settings/clusters names {id}, of which this station knows nothing yet" for id in unknown]
        self._layout = clusters.layout(slots.get)
        if (fault := self._layout.fault(names.__getitem__, clusters.name)) is not None:
            self._layout = Layout()
            self._faults.append(f"settings/clusters: {fault}; until that is put right there are no clusters")


def check_members(text: str, record: Callable[[str], StationRecord | None]) -> None:
    """Raise SchemaError if a station is named that is no member of the group; `record` finds that of an id."""
    for id in read_clusters(text).ids():
        known = record(id)
        if known is None:
            raise SchemaError(f"clusters: there is no station {id!r}; `mss-station stations list` shows all")
        if known.state in schema.ENDED:
            raise SchemaError(f"clusters: {id} is {known.state} and no member any more; leave it out")
