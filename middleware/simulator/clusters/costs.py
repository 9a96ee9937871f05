"""What the paper counts: cells per PDU, c^2 for an element of a cluster of c, and k^2 inside a gateway of k clusters.

Source: paper 001 section 5, table 1 and figure 9. The printed double sum for GEP adds k^2 once for each sub-gateway,
table 1 once for each gateway (C1 of fifo-broadcast.md): that is what is done here. What the paper leaves out, that a
gateway of k clusters also receives k times as many PDUs, is rule B of (e5): `fifo_broadcast.cluster_costs`.
"""

from __future__ import annotations

from dataclasses import dataclass

from roamcast.middleware.simulator.clusters.layouts import Lines

TABLE_1 = {1: (0.067600, 0.2720), 4: (0.074275, 0.1687), 6: (0.078400, 0.1572)}
"""As printed, for n = 100 and h = 4: gateways -> (CEP / n^3, GEP / (g n^2))."""


@dataclass(frozen=True, slots=True)
class Shares:
    """Loads as shares of those of one flat cluster: curves (1) to (4) of figure 9."""

    entity: float
    gateway: float
    gateways: float
    total: float


def shares(stations: int, clusters: int, lines: Lines) -> Shares:
    """Stations in clusters of equal size, which need not be a whole number here."""
    size = stations / clusters
    joined = [sum(cluster in line for line in lines) for cluster in range(clusters)]
    entities = sum(size * (size + gateways) ** 2 for gateways in joined)
    inside = sum(len(line) ** 2 for line in lines)
    gateways = sum(count * (size + count) ** 2 for count in joined) + inside
    cube = stations**3
    return Shares(entities / cube, gateways / (len(lines) * stations**2), gateways / cube, (entities + gateways) / cube)
