"""The files of a station's directory that say who is who. Only stations and their commands use this module.

    station.toml     id, slot, group, generation, endpoints, settings: edited by the operator, holds no secret
    curve.key        CURVE pair for the links (0600)
    signing.key      Ed25519 pair (0600): signs log segments and configuration
    station.pub      public half of all that, for `peers add` at the others
    peers/ID.pub     station.pub of every peer
    hosts/NAME.pub   every enrolled host
    revoked          names of revoked hosts, one a line

Every file appears whole or not at all: it is written beside its place and then put there in one step.
"""

from __future__ import annotations

import json
import os
import re
import secrets
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from roamcast.transport.credential import Credential, read_keys
from roamcast.transport.curve import CurveKeys, generate
from roamcast.transport.errors import KeyFileError
from roamcast.transport.limits import INT64_MAX, SLOT_MAX
from roamcast.transport.toml_files import ENDPOINT, ENDPOINT_WANTED, FORMAT, NAME, NAME_WANTED, Table, read_table

STATION_FILE: Final = "station.toml"
STATION_CARD: Final = "station.pub"
CURVE_FILE: Final = "curve.key"
SIGNING_FILE: Final = "signing.key"
PEERS, HOSTS, REVOKED = "peers", "hosts", "revoked"
STATION_KEYS: Final = (
    "format", "id", "slot", "group", "generation", "hosts", "stations",
    "bind-hosts", "bind-stations", "durability", "spacing-us", "settings",
)  # fmt: skip
HEX32: Final = re.compile(r"[0-9a-f]{64}")
DURABILITY: Final = re.compile(r"power|process")

Scalar = str | int | bool
TomlTable = Mapping[str, Scalar]


@dataclass(frozen=True, slots=True)
class StationCard:
    """What others know of a station: station.pub."""

    id: str
    slot: int
    group: str
    generation: int
    """Random, made with the directory: a slot belongs to one generation for ever."""
    hosts: str
    """Endpoint at which hosts reach it."""
    stations: str
    """Endpoint at which stations reach it."""
    key: str
    """CURVE public key, Z85."""
    signing_key: str
    """Ed25519 public key, hexadecimal."""


@dataclass(frozen=True, slots=True)
class HostCard:
    """What every station knows of a host: NAME.pub."""

    name: str
    number: int
    """slot << 32 | counter of the enrolling station."""
    key: str
    """CURVE public key, Z85."""
    slot: int
    """Station that enrolled it."""


@dataclass(frozen=True, slots=True)
class StationConfig:
    """station.toml and the link keys."""

    card: StationCard
    keys: CurveKeys
    bind_hosts: str
    """Endpoint to bind for hosts: that of the card, unless `bind-hosts` says otherwise (0.0.0.0, behind a NAT)."""
    bind_stations: str
    durability: str
    """'power': every commit survives power loss. 'process': only the end of the process."""
    spacing_us: int
    """Spacing of ticks per attached host, microseconds (hot-path.md rule 2); 0: least latency."""
    settings: dict[str, Any]
    """The table `settings`, as it stands; `mss_station.directory` gives it its meaning."""


# ---- writing ----


def toml_text(values: TomlTable, tables: Mapping[str, Sequence[TomlTable]] | None = None) -> str:
    """Format line, values, then each array of tables."""

    def lines(table: TomlTable) -> list[str]:
        coded = {key: json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f") for key, value in table.items()}
        return [f"{key} = {value}" for key, value in coded.items()]

    parts = [[f"format = {FORMAT}", *lines(values)]]
    for name, rows in (tables or {}).items():
        parts += [["", f"[[{name}]]", *lines(row)] for row in rows]
    return "".join(f"{line}\n" for part in parts for line in part)


def write_new(path: Path, text: str, mode: int = 0o644) -> None:
    """Write a file that must not be there yet. Raises KeyFileError."""
    _write(path, text, mode, replace=False)


def _write(path: Path, text: str, mode: int, *, replace: bool) -> None:
    draft = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "w", encoding="utf-8") as file:
            os.fchmod(file.fileno(), mode)
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        if replace:
            os.replace(draft, path)
        else:
            os.link(draft, path)
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
    except FileExistsError:
        raise KeyFileError(f"{path} is there already; it is not overwritten") from None
    except OSError as error:
        raise KeyFileError(f"{path} cannot be written: {error.strerror}") from error
    finally:
        with suppress(FileNotFoundError, NotADirectoryError):
            draft.unlink()


def create_station(directory: Path, *, id: str, slot: int, group: str, hosts: str, stations: str) -> StationConfig:
    """Make a station's directory: keys, station.toml (written last), station.pub, folders for peers and hosts.

    Raises:
        KeyFileError: a value is not acceptable, or a station is there already.
    """
    for what, value, pattern, wanted in (
        ("id", id, NAME, NAME_WANTED),
        ("group", group, NAME, NAME_WANTED),
        ("hosts", hosts, ENDPOINT, ENDPOINT_WANTED),
        ("stations", stations, ENDPOINT, ENDPOINT_WANTED),
    ):
        if not pattern.fullmatch(value):
            raise KeyFileError(f"{what} {value!r} must be {wanted}")
    if hosts == stations:
        raise KeyFileError(f"hosts and stations are both {hosts}: each needs a port of its own")
    if not 0 <= slot <= SLOT_MAX:
        raise KeyFileError(f"slot {slot} is not from 0 to {SLOT_MAX}")
    if (directory / STATION_FILE).exists():
        raise KeyFileError(f"{directory} holds a station already")
    for folder in (directory, directory / PEERS, directory / HOSTS):
        folder.mkdir(parents=True, exist_ok=True)
    keys, signing = generate(), Ed25519PrivateKey.generate()
    signing_public = signing.public_key().public_bytes_raw().hex()
    generation = secrets.randbits(63) or 1
    card = StationCard(id, slot, group, generation, hosts, stations, keys.public, signing_public)
    _write(directory / CURVE_FILE, toml_text({"public": keys.public, "secret": keys.secret}), 0o600, replace=True)
    secret = {"public": signing_public, "secret": signing.private_bytes_raw().hex()}
    _write(directory / SIGNING_FILE, toml_text(secret), 0o600, replace=True)
    write_card(directory / STATION_CARD, card)
    own: TomlTable = {
        "id": id,
        "slot": slot,
        "group": group,
        "generation": generation,
        "hosts": hosts,
        "stations": stations,
    }
    write_new(directory / STATION_FILE, toml_text(own) + "\n[settings]\n")
    return read_station(directory)


def write_card(path: Path, card: StationCard | HostCard) -> None:
    """Write station.pub or NAME.pub; one that is there is replaced."""
    values: TomlTable = {name.replace("_", "-"): getattr(card, name) for name in card.__slots__}
    _write(path, toml_text(values), 0o644, replace=True)


def write_credential(path: Path, credential: Credential) -> None:
    """Write a host's credential, mode 0600. Raises KeyFileError also if the file is there already."""
    own: TomlTable = {
        "group": credential.group, "name": credential.name, "public": credential.keys.public,
        "secret": credential.keys.secret, "last": credential.last,
    }  # fmt: skip
    stations = [{name: getattr(station, name) for name in station.__slots__} for station in credential.stations]
    write_new(path, toml_text(own, {"stations": stations}), 0o600)


def write_revoked(directory: Path, name: str) -> None:
    """Add a host to the revoked ones."""
    names = read_revoked(directory)
    if name not in names:
        _write(directory / REVOKED, "".join(f"{each}\n" for each in sorted([*names, name])), 0o644, replace=True)


# ---- reading ----


def read_station_card(path: Path) -> StationCard:
    """The card of a station. Raises KeyFileError."""
    table = read_table(path)
    return _station_card(table, table.key("key"), table.text("signing-key", HEX32, "64 hexadecimal digits"))


def _station_card(table: Table, key: str, signing_key: str) -> StationCard:
    return StationCard(
        table.name("id"),
        table.integer("slot", 0, SLOT_MAX),
        table.name("group"),
        table.integer("generation", 1, INT64_MAX),
        table.endpoint("hosts"),
        table.endpoint("stations"),
        key,
        signing_key,
    )


def read_host_card(path: Path) -> HostCard:
    """The card of a host. Raises KeyFileError."""
    table = read_table(path)
    card = HostCard(
        table.name("name"),
        table.integer("number", 1, INT64_MAX),
        table.key("key"),
        table.integer("slot", 0, SLOT_MAX),
    )
    if card.number >> 32 != card.slot or not card.number & 0xFFFF_FFFF:
        raise table.wrong("number", "slot << 32 plus a counter from 1")
    return card


def read_station(directory: Path) -> StationConfig:
    """The configuration of the station in `directory`. Raises KeyFileError."""
    table = read_table(directory / STATION_FILE)
    if unknown := [key for key in sorted(table.values) if key not in STATION_KEYS]:
        raise KeyFileError(f"{table.path}: unknown key {unknown[0]!r}; known are {', '.join(STATION_KEYS)}")
    settings = table.values.get("settings", {})
    if not isinstance(settings, dict):
        raise table.wrong("settings", "a table")
    keys = read_keys(read_table(directory / CURVE_FILE, private=True))
    card = _station_card(table, keys.public, read_signing_key(directory).public_key().public_bytes_raw().hex())
    return StationConfig(
        card,
        keys,
        table.endpoint("bind-hosts") if "bind-hosts" in table.values else card.hosts,
        table.endpoint("bind-stations") if "bind-stations" in table.values else card.stations,
        table.text("durability", DURABILITY, "'power' or 'process'") if "durability" in table.values else "power",
        table.integer("spacing-us", 0, 1_000_000) if "spacing-us" in table.values else 20,
        settings,
    )


def read_signing_key(directory: Path) -> Ed25519PrivateKey:
    """The station's signing key. Raises KeyFileError."""
    table = read_table(directory / SIGNING_FILE, private=True)
    return Ed25519PrivateKey.from_private_bytes(bytes.fromhex(table.text("secret", HEX32, "64 hexadecimal digits")))


def read_revoked(directory: Path) -> list[str]:
    """Names of the revoked hosts. Raises KeyFileError."""
    path = directory / REVOKED
    try:
        names = path.read_text("utf-8").split()
    except FileNotFoundError:
        return []
    except (OSError, UnicodeDecodeError) as error:
        raise KeyFileError(f"{path} cannot be read: {error}") from error
    if wrong := [name for name in names if not NAME.fullmatch(name)]:
        raise KeyFileError(f"{path}: {wrong[0]!r} is not the name of a host")
    return names
