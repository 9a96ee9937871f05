"""The files of a station's directory that say who it is. Only stations and their commands use this module.

    station.toml     id, slot, group, generation, endpoints: edited by the operator, holds no secret
    curve.key        CURVE pair for the links (0600)
    signing.key      Ed25519 pair (0600): signs log segments and configuration

Who else belongs to the group, and its settings, are in the store (`mss_station.schema`).

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
from typing import Final

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from roamcast.middleware.settings import DAY, SECOND
from roamcast.transport.credential import Credential, read_keys
from roamcast.transport.curve import CurveKeys, generate
from roamcast.transport.endpoints import REACHED_WANTED, is_wildcard
from roamcast.transport.errors import KeyFileError
from roamcast.transport.limits import INT64_MAX, PORT_MAX, SLOT_MAX
from roamcast.transport.toml_files import ENDPOINT, ENDPOINT_WANTED, FORMAT, NAME, NAME_WANTED, Table, read_table
from roamcast.transport.units import DURATIONS, read_number

STATION_FILE: Final = "station.toml"
CURVE_FILE: Final = "curve.key"
SIGNING_FILE: Final = "signing.key"
STATION_KEYS: Final = (
    "format", "id", "slot", "group", "generation", "hosts", "stations",
    "bind-hosts", "bind-stations", "publish-port", "durability", "spacing-us", "routes", "log",
)  # fmt: skip
LOG_KEYS: Final = ("upload", "upload-every")
HEX32: Final = re.compile(r"[0-9a-f]{64}")
DURABILITY: Final = re.compile(r"power|process")
DESTINATION: Final = re.compile(r"/.{0,1023}|[a-z][a-z0-9+.-]{1,31}://.{1,1000}")
UPLOAD_EVERY: Final = 900 * SECOND
EVERY_LEAST: Final = 10 * SECOND

Scalar = str | int | bool
TomlTable = Mapping[str, Scalar]


@dataclass(frozen=True, slots=True)
class StationCard:
    """What others know of a station."""

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
class LogUpload:
    """Where the station uploads its delivery log to, and how often."""

    destination: str
    """Absolute path of a folder, or a URL that fsspec knows."""
    every: int = UPLOAD_EVERY
    """Microseconds; also soon after each segment that was closed."""


@dataclass(frozen=True, slots=True)
class StationConfig:
    """station.toml and the link keys."""

    card: StationCard
    keys: CurveKeys
    bind_hosts: str
    """Endpoint to bind for hosts: that of the card, unless `bind-hosts` says otherwise (0.0.0.0, behind a NAT)."""
    bind_stations: str
    durability: str | None
    """'power': every commit survives power loss. 'process': only the end of the process. None: as the group has it."""
    spacing_us: int | None
    """Spacing of ticks per attached host, microseconds (hot-path.md rule 2); 0: least latency. None: as the group."""
    routes: dict[str, str]
    """By station id: endpoint at which this station reaches that one, if not the one that the group knows (a forwarded
    port, another network)."""
    log_upload: LogUpload | None = None
    """None: the running station does not upload its delivery log."""
    publish_port: int | None = None
    """Port at which it publishes for its peers, beside `bind_stations`; None: any that is free."""


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


def replace_file(path: Path, text: str, mode: int = 0o644) -> None:
    """Write a file, in the place of one that is there. Raises KeyFileError."""
    _write(path, text, mode, replace=True)


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
        sync_folder(path.parent)
    except FileExistsError:
        raise KeyFileError(f"{path} is there already; it is not overwritten") from None
    except OSError as error:
        raise KeyFileError(f"{path} cannot be written: {error.strerror}") from error
    finally:
        with suppress(FileNotFoundError, NotADirectoryError):
            draft.unlink()


def sync_folder(folder: Path) -> None:
    """Make durable which files are in a folder. Raises OSError."""
    opened = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


def check_station(*, id: str, group: str, hosts: str, stations: str) -> None:
    """Raise KeyFileError if a name or an endpoint of a station is not acceptable."""
    for what, value, pattern, wanted in (
        ("id", id, NAME, NAME_WANTED),
        ("group", group, NAME, NAME_WANTED),
        ("hosts", hosts, ENDPOINT, ENDPOINT_WANTED),
        ("stations", stations, ENDPOINT, ENDPOINT_WANTED),
    ):
        if not pattern.fullmatch(value):
            raise KeyFileError(f"{what} {value!r} must be {wanted}")
        if pattern is ENDPOINT and is_wildcard(value):
            raise KeyFileError(f"{what} {value!r} must be {REACHED_WANTED}")
    if hosts == stations:
        raise KeyFileError(f"hosts and stations are both {hosts}: each needs a port of its own")


def make_keys(directory: Path) -> tuple[CurveKeys, str]:
    """Make the directory and the keys of a station; a key that is there already is kept.

    Returns:
        The CURVE pair, and the Ed25519 public key in hexadecimal.

    Raises:
        KeyFileError: they cannot be written, or what is there cannot be read.
    """
    directory.mkdir(parents=True, exist_ok=True)
    if not (directory / CURVE_FILE).exists():
        write_new(directory / CURVE_FILE, pair_text(generate()), 0o600)
    if not (directory / SIGNING_FILE).exists():
        write_new(directory / SIGNING_FILE, signing_text(Ed25519PrivateKey.generate()), 0o600)
    keys = read_keys(read_table(directory / CURVE_FILE, private=True))
    return keys, read_signing_key(directory).public_key().public_bytes_raw().hex()


def pair_text(keys: CurveKeys) -> str:
    """Content of curve.key."""
    return toml_text({"public": keys.public, "secret": keys.secret})


def signing_text(key: Ed25519PrivateKey) -> str:
    """Content of signing.key."""
    return toml_text({"public": key.public_key().public_bytes_raw().hex(), "secret": key.private_bytes_raw().hex()})


def write_station(directory: Path, card: StationCard) -> StationConfig:
    """Write station.toml, which makes the directory that of a station.

    Raises:
        KeyFileError: a station is there already.
    """
    own: TomlTable = {
        "id": card.id,
        "slot": card.slot,
        "group": card.group,
        "generation": card.generation,
        "hosts": card.hosts,
        "stations": card.stations,
    }
    write_new(directory / STATION_FILE, toml_text(own))
    return read_station(directory)


def new_generation() -> int:
    """A random generation (see `StationCard`)."""
    return secrets.randbits(63) or 1


def create_station(directory: Path, *, id: str, slot: int, group: str, hosts: str, stations: str) -> StationConfig:
    """Make a station's directory: keys, station.toml (written last).

    Raises:
        KeyFileError: a value is not acceptable, or a station is there already.
    """
    check_station(id=id, group=group, hosts=hosts, stations=stations)
    if not 1 <= slot <= SLOT_MAX:
        raise KeyFileError(f"slot {slot} is not from 1 to {SLOT_MAX}")
    if (directory / STATION_FILE).exists():
        raise KeyFileError(f"{directory} holds a station already")
    keys, signing_key = make_keys(directory)
    card = StationCard(id, slot, group, new_generation(), hosts, stations, keys.public, signing_key)
    return write_station(directory, card)


def write_credential(path: Path, credential: Credential) -> None:
    """Write a host's credential, mode 0600. Raises KeyFileError also if the file is there already."""
    own: TomlTable = {
        "group": credential.group, "name": credential.name, "public": credential.keys.public,
        "secret": credential.keys.secret, "last": credential.last,
    }  # fmt: skip
    stations = [{name: getattr(station, name) for name in station.__slots__} for station in credential.stations]
    write_new(path, toml_text(own, {"stations": stations}), 0o600)


# ---- reading ----


def _station_card(table: Table, key: str, signing_key: str) -> StationCard:
    return StationCard(
        table.name("id"),
        table.integer("slot", 1, SLOT_MAX),
        table.name("group"),
        table.integer("generation", 1, INT64_MAX),
        _reached(table, "hosts"),
        _reached(table, "stations"),
        key,
        signing_key,
    )


def _reached(table: Table, key: str) -> str:
    endpoint = table.endpoint(key)
    if is_wildcard(endpoint):
        raise table.wrong(key, REACHED_WANTED)
    return endpoint


def read_station(directory: Path) -> StationConfig:
    """The configuration of the station in `directory`. Raises KeyFileError."""
    table = read_table(directory / STATION_FILE)
    if unknown := [key for key in sorted(table.values) if key not in STATION_KEYS]:
        raise KeyFileError(f"{table.path}: unknown key {unknown[0]!r}; known are {', '.join(STATION_KEYS)}")
    keys = read_keys(read_table(directory / CURVE_FILE, private=True))
    card = _station_card(table, keys.public, read_signing_key(directory).public_key().public_bytes_raw().hex())
    return StationConfig(
        card,
        keys,
        table.endpoint("bind-hosts") if "bind-hosts" in table.values else card.hosts,
        table.endpoint("bind-stations") if "bind-stations" in table.values else card.stations,
        table.text("durability", DURABILITY, "'power' or 'process'") if "durability" in table.values else None,
        table.integer("spacing-us", 0, 1_000_000) if "spacing-us" in table.values else None,
        _routes(table),
        _log_upload(table),
        table.integer("publish-port", 1, PORT_MAX) if "publish-port" in table.values else None,
    )


def _routes(table: Table) -> dict[str, str]:
    """The table `routes`: station id = endpoint."""
    values = table.values.get("routes", {})
    if not isinstance(values, dict):
        raise table.wrong("routes", "a table")
    routes = Table(table.path, values, "routes: ")
    if wrong := [id for id in values if not NAME.fullmatch(id)]:
        raise routes.wrong(repr(wrong[0]), "the id of a station")
    return {id: routes.endpoint(id) for id in values}


def _log_upload(table: Table) -> LogUpload | None:
    """The table `log`."""
    values = table.values.get("log", {})
    if not isinstance(values, dict):
        raise table.wrong("log", "a table")
    log = Table(table.path, values, "log: ")
    if unknown := [key for key in sorted(values) if key not in LOG_KEYS]:
        raise KeyFileError(f"{table.path}: log: unknown key {unknown[0]!r}; known are {', '.join(LOG_KEYS)}")
    if not values:
        return None
    destination = log.text("upload", DESTINATION, "the absolute path of a folder, or a URL")
    if "upload-every" not in values:
        return LogUpload(destination)
    every = read_number(str(values["upload-every"]), DURATIONS)
    if not isinstance(values["upload-every"], str) or every is None or not EVERY_LEAST <= every <= DAY:
        raise log.wrong("upload-every", "a duration from 10s to 1d (30s, 15min, 1h)")
    return LogUpload(destination, every)


def read_signing_key(directory: Path) -> Ed25519PrivateKey:
    """The station's signing key. Raises KeyFileError."""
    table = read_table(directory / SIGNING_FILE, private=True)
    return Ed25519PrivateKey.from_private_bytes(bytes.fromhex(table.text("secret", HEX32, "64 hexadecimal digits")))
