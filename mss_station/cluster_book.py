"""The clusters of the group as its configuration says them: names of stations become slots as their records arrive."""

from __future__ import annotations

from collections.abc import Callable

from roamcast.middleware.fifo_broadcast.layout import Layout
from roamcast.mss_station import schema
from roamcast.mss_station.cluster_text import Clusters, read_clusters
from roamcast.mss_station.errors import SchemaError
from roamcast.mss_station.schema import StationRecord


class ClusterBook:
    """What the setting `clusters` means now.

    A station that has ended keeps its slot, so its name is harmless. One that has no record yet is left out. A layout
    that cannot be used then is no layout: the group is flat until its record is here or the setting is put right.
    """

    def __init__(self) -> None:
        self.clusters = Clusters()
        """As it was written."""
        self.layout = Layout()
        """As the core is told."""
        self.faults: list[str] = []
        """A sentence for each thing that is wrong."""

    def follow(self, text: str, slot_of: Callable[[str], int | None]) -> bool:
        """The setting is `text` now, and stations have these slots. Returns whether the layout is another one.

        Raises:
            SchemaError: the text is not one that the setting may have.
        """
        self.clusters = clusters = read_clusters(text)
        before, self.layout = self.layout, clusters.layout(slot_of)
        ids = {slot: id for id in clusters.ids() if (slot := slot_of(id)) is not None}
        unknown = [id for id in clusters.ids() if slot_of(id) is None]
        self.faults = [f"settings/clusters names {id}, of which this station knows nothing yet" for id in unknown]
        fault = self.layout.fault(ids.__getitem__, clusters.name)
        if fault is not None:
            self.layout = Layout()
            self.faults.append(f"settings/clusters: {fault}; until that is put right there are no clusters")
        return before != self.layout


def check_members(text: str, record: Callable[[str], StationRecord | None]) -> None:
    """Raise SchemaError if a station is named that is no member of the group; `record` finds that of an id."""
    for id in read_clusters(text).ids():
        known = record(id)
        if known is None:
            raise SchemaError(f"clusters: there is no station {id!r}; `mss-station stations list` shows all")
        if known.state in schema.ENDED:
            raise SchemaError(f"clusters: {id} is {known.state} and no member any more; leave it out")
