"""What is really gone with lost stations, as the judge is told it."""

from __future__ import annotations

from types import SimpleNamespace

from roamcast.middleware.membership.view import Ending, View
from roamcast.middleware.rows import Item, Kind, Row
from roamcast.middleware.simulator.items import encode_item
from roamcast.middleware.simulator.losses import Losses
from roamcast.middleware.writes import DurableState, PutRow


def station(cut: int | None = None) -> SimpleNamespace:
    """A station that has the end of the first one settled at `cut`."""
    final = {} if cut is None else {1: Ending(0, cut, ())}
    return SimpleNamespace(disk=SimpleNamespace(state=DurableState(view=View((1, 2, 3), final=final))))


def test_what_a_lost_station_holds_for_settled_counts_for_nobody():
    """It was an island with the first one and had settled the end of that one for itself."""
    stations = {1: station(), 2: station(cut=5), 3: station(cut=3)}
    item = encode_item(Item(1, 4, "h1", 1, 1, Kind.BROADCAST, b"m1"))
    row = Row(1, 4, (), 0, Kind.BROADCAST, 1, 1, 1, (0, 0), 0, item, len(item), None)
    stations[1].disk.state.apply((PutRow(row),))
    losses = Losses(SimpleNamespace(stations=stations, slots=(3,), operators=SimpleNamespace(lost=[1, 2])))
    assert losses.gone("m1")
