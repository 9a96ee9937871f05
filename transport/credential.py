"""The credential of a host: its name, its keys, its stations. `hosts enrol` writes it, the agent reads it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from roamcast.transport.curve import CurveKeys
from roamcast.transport.errors import KeyFileError
from roamcast.transport.limits import SLOT_MAX
from roamcast.transport.toml_files import Table, read_table


@dataclass(frozen=True, slots=True)
class StationAddress:
    """Where hosts find a station."""

    id: str
    slot: int
    endpoint: str
    key: str
    """CURVE public key, Z85."""


@dataclass(frozen=True, slots=True)
class Credential:
    """What a host needs to attach. Its text form shows no secret."""

    group: str
    name: str
    keys: CurveKeys
    last: int
    """Slot of the station that enrolled the host."""
    stations: tuple[StationAddress, ...]


def read_keys(table: Table) -> CurveKeys:
    """The pair `public`, `secret` of a private file. Raises KeyFileError."""
    public, secret = table.key("public"), table.key("secret")
    try:
        return CurveKeys(public, secret)
    except ValueError as error:
        raise KeyFileError(f"{table.path}: {error}") from None


def read_credential(path: Path) -> Credential:
    """The credential in a file that its owner alone may read. Raises KeyFileError."""
    table = read_table(path, private=True)
    stations = tuple(
        StationAddress(
            station.name("id"), station.integer("slot", 0, SLOT_MAX), station.endpoint("endpoint"), station.key("key")
        )
        for station in table.tables("stations")
    )
    if len({station.slot for station in stations}) != len(stations) or not stations:
        raise table.wrong("stations", "at least one, each with a slot of its own")
    return Credential(
        table.name("group"), table.name("name"), read_keys(table), table.integer("last", 0, SLOT_MAX), stations
    )
