"""The directory of a newcomer: what is made before it asks its sponsor, and after it was counted in.

Before: keys, and joining.toml with the generation. They are kept if the join does not come to its end, so that the same
newcomer asks again and is given the same slot. After: the store, then station.toml, then joining.toml goes.

With `--rejoin` the directory is that of a station which its group has given up as lost. It becomes another one, for no
id, slot or link key is used twice: id, generation and keys are new, the keys made in the folder joining. What stays is
the key that hosts know, and the rest of station.toml. Only when it is counted in its old store is moved, to the folder
that joining.toml names, then the keys take their places, and station.toml gets id, slot and generation last: until then
the station starts neither as the old one (there is no store, or that of another generation) nor as the new one.
"""

from __future__ import annotations

import json
import os
import re
import tomllib
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from roamcast.middleware.settings import SECOND
from roamcast.mss_station.log.files import FOLDER
from roamcast.mss_station.rotation import NEXT_FILE, keep_host_keys, read_host_keys
from roamcast.mss_station.store import STORE_NAME
from roamcast.mss_station.went_back import NOTE
from roamcast.transport.credential import read_keys
from roamcast.transport.errors import KeyFileError
from roamcast.transport.limits import INT64_MAX
from roamcast.transport.station_files import (
    CURVE_FILE,
    SIGNING_FILE,
    STATION_FILE,
    StationCard,
    StationConfig,
    TomlTable,
    check_station,
    make_keys,
    new_generation,
    read_signing_key,
    read_station,
    replace_file,
    sync_folder,
    toml_text,
    write_new,
    write_station,
)
from roamcast.transport.toml_files import read_table

JOINING_FILE: Final = "joining.toml"
KEYS_FOLDER: Final = "joining"
STORE_FILES: Final = (f"{STORE_NAME}-wal", f"{STORE_NAME}-shm", STORE_NAME)
"""In the order in which they are moved: once the store itself is away, all of it is."""

ASIDE: Final = re.compile(r"store\.old-\d{8}T\d{6}Z")
OWN_LINE: Final = r"(?m)^{}[ \t]*=.*$"


@dataclass(frozen=True, slots=True)
class Draft:
    """A directory that is to become a station's."""

    id: str
    hosts: str
    stations: str
    generation: int
    key: str
    """CURVE public key for the links between stations, Z85."""
    host_key: str
    """CURVE public key for hosts, Z85."""
    signing_key: str
    """Ed25519 public key, hexadecimal."""
    aside: str = ""
    """Folder for the old store; empty: there is none."""
    group: str = ""
    """Of the former membership; empty: there was none."""


def has_begun(directory: Path) -> bool:
    """Whether a join has begun here and not come to its end."""
    return (directory / JOINING_FILE).exists()


def finish(directory: Path) -> StationConfig | None:
    """The station, if a join came to its end here, but for joining.toml. Raises KeyFileError."""
    if not has_begun(directory) or not (directory / STATION_FILE).exists():
        return None
    config = read_station(directory)
    if config.card.generation != _generation(directory, "")[0]:
        return None
    _forget(directory)
    return config


def prepare(directory: Path, *, id: str, hosts: str, stations: str) -> Draft:
    """Keys and generation of a new station; those of a join that has begun here are kept. The caller holds the lock.

    Raises:
        KeyFileError: a value is not acceptable, or a station is there already.
    """
    check_station(id=id, group=id, hosts=hosts, stations=stations)
    if (directory / STATION_FILE).exists():
        raise KeyFileError(
            f"{directory} holds a station already; if its group has given it up as lost, --rejoin makes another of it"
        )
    key, signing_key = make_keys(directory)
    generation, _ = _generation(directory, "")
    return Draft(id, hosts, stations, generation, key.public, read_host_keys(directory).public, signing_key)


def prepare_again(directory: Path, id: str | None, wall: int) -> Draft:
    """The same for the directory of a station that the group has given up as lost. Its store stays as yet.

    Args:
        id: the new one; None: made from the old one.
        wall: UTC microseconds; names the folder for the old store.

    Raises:
        KeyFileError: there is no station, or the id is not acceptable.
    """
    card = read_station(directory).card
    id = id or next_id(card.id)
    check_station(id=id, group=card.group, hosts=card.hosts, stations=card.stations)
    if has_begun(directory) and not _generation(directory, "")[1]:  # left from before there was a station
        _forget(directory)
    if not has_begun(directory):
        make_keys(directory / KEYS_FOLDER)
    name = datetime.fromtimestamp(wall // SECOND, UTC).strftime("store.old-%Y%m%dT%H%M%SZ")
    generation, aside = _generation(directory, name)
    key = read_keys(read_table(_home_of(directory, CURVE_FILE) / CURVE_FILE, private=True)).public
    signing_key = read_signing_key(_home_of(directory, SIGNING_FILE)).public_key().public_bytes_raw().hex()
    keys = (key, read_host_keys(directory).public, signing_key)
    return Draft(id, card.hosts, card.stations, generation, *keys, aside, card.group)


def next_id(id: str) -> str:
    """The id under which a lost station comes back: s2.2 for s2, s2.3 for s2.2."""
    stem, _, count = id.rpartition(".")
    return f"{stem}.{int(count) + 1}" if stem and count.isdecimal() else f"{id}.2"


def _home_of(directory: Path, name: str) -> Path:
    """Where a new key is: it may have taken its place already."""
    fresh = directory / KEYS_FOLDER
    return fresh if (fresh / name).exists() else directory


def complete(
    directory: Path, draft: Draft, slot: int, group: str, fill: Callable[[StationCard], None]
) -> StationConfig:
    """The newcomer is counted in: make it a station.

    Args:
        fill: makes the store and puts into it what the sponsor told. After a crash it is called again, for a store that
            it has made, full or not.

    Raises:
        KeyFileError: a file cannot be written.
    """
    card = StationCard(
        draft.id, slot, group, draft.generation, draft.hosts, draft.stations, draft.key, draft.signing_key
    )
    if draft.aside:
        _set_aside(directory, directory / draft.aside)
        _change_keys(directory)
    fill(card)
    config = _rename(directory, card) if draft.aside else write_station(directory, card)
    _forget(directory)
    return config


def _rename(directory: Path, card: StationCard) -> StationConfig:
    """Write id, slot and generation into station.toml; whatever else the operator wrote there stays."""
    path = directory / STATION_FILE
    text = path.read_text("utf-8")
    wanted = {"id": card.id, "slot": card.slot, "generation": card.generation}
    for name, value in wanted.items():
        text = re.sub(OWN_LINE.format(name), f"{name} = {json.dumps(value)}", text, count=1)
    values = tomllib.loads(text)
    if {name: values[name] for name in wanted} != wanted:
        raise KeyFileError(
            f"{path}: write id = ..., slot = ... and generation = ... on lines of their own, and repeat this"
        )
    replace_file(path, text)
    return read_station(directory)


def _generation(directory: Path, aside: str) -> tuple[int, str]:
    """Generation, and folder for the old store, of the join that has begun here, or else of one that begins now."""
    path = directory / JOINING_FILE
    if not path.exists():
        own: TomlTable = {"generation": new_generation()} | ({"aside": aside} if aside else {})
        write_new(path, toml_text(own))
    table = read_table(path)
    found = table.text("aside", ASIDE, "store.old-<time>") if "aside" in table.values else ""
    return table.integer("generation", 1, INT64_MAX), found


def _set_aside(directory: Path, aside: Path) -> None:
    """Move the old store, its log and what was noted of it, unless they are there: what is in place then is new."""
    try:
        aside.mkdir(exist_ok=True)
        if not (aside / STORE_NAME).exists():
            for name in (NOTE, FOLDER, *STORE_FILES):
                with suppress(FileNotFoundError):
                    os.replace(directory / name, aside / name)
        for folder in (aside, directory):
            sync_folder(folder)
    except OSError as error:
        raise KeyFileError(f"{error.filename} cannot be moved to {aside}: {error.strerror}") from error


def _change_keys(directory: Path) -> None:
    """Let the new keys take their places, unless they have; hosts go on with the one that they know."""
    fresh = directory / KEYS_FOLDER
    if not fresh.exists():
        return
    keep_host_keys(directory)
    (directory / NEXT_FILE).unlink(missing_ok=True)
    try:
        for name in (CURVE_FILE, SIGNING_FILE):
            with suppress(FileNotFoundError):
                os.replace(fresh / name, directory / name)
        sync_folder(directory)
        fresh.rmdir()
    except OSError as error:
        raise KeyFileError(f"{error.filename} cannot be moved to {directory}: {error.strerror}") from error


def _forget(directory: Path) -> None:
    (directory / JOINING_FILE).unlink(missing_ok=True)
