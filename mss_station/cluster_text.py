"""The setting `clusters` as people write it.

    north: s1 s2 s3 / south: s3 s4 s5 s2 / standbys: s2

One part for each cluster, with the ids of its stations; a station in several is their gateway, unless it stands in the
part `standbys` too. "" or the word `flat`: one cluster of all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from roamcast.middleware.fifo_broadcast.layout import Layout
from roamcast.mss_station.errors import SchemaError
from roamcast.transport.limits import LAN_VALUE_BYTES_MAX
from roamcast.transport.toml_files import NAME, NAME_WANTED

STANDBYS: Final = "standbys"
FLAT: Final = "flat"
FORM: Final = "north: s1 s2 s3 / south: s2 s3 s4 / standbys: s3"
CLUSTERS_MAX: Final = 64
"""What follows from a layout takes time that grows with every two of them: as many as this take some milliseconds."""

TEXT_BYTES_MAX: Final = LAN_VALUE_BYTES_MAX - 64


@dataclass(frozen=True, slots=True)
class Clusters:
    """Ids of stations by the name of their cluster, in the order written; none: flat."""

    parts: tuple[tuple[str, tuple[str, ...]], ...] = ()
    standbys: tuple[str, ...] = ()

    def __str__(self) -> str:
        """As a person writes it; "" for a flat cluster."""
        parts = [*self.parts, *([(STANDBYS, self.standbys)] if self.standbys else [])]
        return " / ".join(f"{name}: {' '.join(ids)}" for name, ids in parts)

    def ids(self) -> list[str]:
        """All stations that are named, each once, in the order of the alphabet."""
        return sorted({id for _, ids in self.parts for id in ids} | {*self.standbys})

    def layout(self, slot_of: Callable[[str], int | None]) -> Layout:
        """The layout for the cores; a station of which `slot_of` knows no slot is left out."""

        def slots(ids: Iterable[str]) -> tuple[int, ...]:
            return tuple(slot for slot in map(slot_of, ids) if slot is not None)

        return Layout(tuple(slots(ids) for _, ids in self.parts), frozenset(slots(self.standbys)))

    def name(self, cluster: int) -> str:
        """Name of the cluster of this number."""
        return self.parts[cluster][0]


def read_clusters(text: str) -> Clusters:
    """What a person or a station wrote. Raises SchemaError, with what to do about it."""
    if not text.strip() or text.strip() == FLAT:
        return Clusters()
    if len(text.encode()) > TEXT_BYTES_MAX:
        raise SchemaError(f"clusters: the text must not be longer than {TEXT_BYTES_MAX} bytes")
    parts: dict[str, tuple[str, ...]] = {}
    for part in text.split("/"):
        name, colon, rest = part.partition(":")
        if not colon:
            raise SchemaError(f"clusters: {part.strip()!r} names no cluster; write it as {FORM!r}, or {FLAT}")
        name, ids = name.strip(), tuple(rest.replace(",", " ").split())
        _check_part(name, ids, parts)
        parts[name] = ids
    standbys = parts.pop(STANDBYS, ())
    clusters = Clusters(tuple(parts.items()), standbys)
    _check_whole(clusters)
    return clusters


def _check_part(name: str, ids: tuple[str, ...], before: Iterable[str]) -> None:
    for one in (name, *ids):
        if not NAME.fullmatch(one):
            raise SchemaError(f"clusters: {one!r} is no name of a cluster or a station; it must be {NAME_WANTED}")
    if name in before:
        raise SchemaError(f"clusters: {name} stands there twice; write its stations in one part")
    if not ids:
        raise SchemaError(f"clusters: {name} has no station; name some, or leave it out")
    for one in ids:
        if ids.count(one) > 1:
            raise SchemaError(f"clusters: {one} stands twice in {name}; name it once")


def _check_whole(clusters: Clusters) -> None:
    if len(clusters.parts) > CLUSTERS_MAX:
        raise SchemaError(f"clusters: there are more than {CLUSTERS_MAX}; make fewer and larger ones")
    numbers = {id: number for number, id in enumerate(clusters.ids(), 1)}
    names = {number: id for id, number in numbers.items()}
    named = {id for _, ids in clusters.parts for id in ids}
    for id in clusters.standbys:
        if id not in named:
            raise SchemaError(f"clusters: {id} is a standby and in no cluster; put it into those of its gateway too")
    fault = clusters.layout(numbers.get).fault(names.__getitem__, clusters.name)
    if fault is not None:
        raise SchemaError(f"clusters: {fault}; {_advice(len(clusters.parts))}")


def _advice(count: int) -> str:
    if count < 2:
        return f"write it as {FORM!r}, or {FLAT} for one cluster of all"
    return f"a station in both is their gateway, and stands in {STANDBYS!r} too if it is to take over only"
