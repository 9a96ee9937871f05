"""Whose signature counts: public keys from the keys.json beside uploaded segments, or from a file that was pinned.

A station's signature holds by a key that its own keys.json lists, if the others list it for that station, too. What
they contradict each other in, or do not say, makes the audit undecided. A file speaks for the station in whose folder
it lies, and for no other. Source: security.md; docs/protocols/delivery-log.md, 'Keys'.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

from roamcast.analytics.reading import Verify, files, no_keys
from roamcast.analytics.tables import UNDECIDED
from roamcast.transport.errors import DecodeError
from roamcast.transport.segment_keys import FILE_BYTES_MAX, KEYS_NAME, KeysFile, SignedBy, publics, read_keys

Finding = dict[str, Any]

Station = tuple[str, str, int]
"""(group, id, slot)"""


@dataclass(slots=True)
class Keys:
    """An `analytics.reading.Keys`; plain data, so that it can be sent to where segments are read."""

    known: dict[Station, tuple[str, ...]] = field(default_factory=dict)
    """Ed25519 public keys, hexadecimal."""

    def __call__(self, header: Mapping[str, Any]) -> Verify | None:
        """How to verify this header's segment: by keys of the station that it names, and of no other."""
        if header["writer"] != "station":
            return None
        own = self.known.get((header["group"], header["id"], header["slot"]))
        return no_keys if own is None else SignedBy(publics(own))


def load(logs: Path | Iterable[tuple[str, bytes]], pinned: Path | None = None) -> tuple[Keys, list[Finding]]:
    """The keys of the stations whose logs lie in `logs`: a directory, or (path, content) of the keys.json there.

    pinned: a file that `mss-station logs keys` has made: its keys count, and no others.

    Raises:
        ValueError, OSError: the pinned file cannot be used. What is wrong with others is a finding.
    """
    if pinned is not None:
        return from_file(pinned), []
    found: list[Finding] = []
    texts: dict[str, bytes] = {}
    for path, data in _found(logs, found) if isinstance(logs, Path) else logs:
        if PurePosixPath(path).name == KEYS_NAME:
            texts[str(PurePosixPath(path).parent)] = data
    keys, more = from_uploads(texts)
    return keys, found + more


def _found(logs: Path, found: list[Finding]) -> Iterator[tuple[str, bytes]]:
    for path in files(logs, keys=True):
        try:
            with path.open("rb") as file:
                yield path.as_posix(), file.read(FILE_BYTES_MAX + 1)
        except OSError as error:
            found.append(_damaged(path.as_posix(), str(error.strerror)))


def from_file(path: Path) -> Keys:
    """The keys that an operator has pinned. Raises ValueError, OSError."""
    try:
        file = read_keys(path.read_bytes())
    except DecodeError as error:
        raise ValueError(f"{path} is no file of `mss-station logs keys`: {error.reason}") from None
    return Keys({(file.group, each.id, each.slot): each.keys for each in file.stations})


def from_uploads(texts: Mapping[str, bytes]) -> tuple[Keys, list[Finding]]:
    """The keys that stations have uploaded. texts: folder (.../GROUP/ID-GENERATION) -> its keys.json.

    Findings, all UNDECIDED: `keys_damaged`, `keys_differ`, `key_unvouched`. A station without a keys.json has no keys:
    its segments are `unsigned`, and the check of segments says `keys_missing`.
    """
    found: list[Finding] = []
    said: list[KeysFile] = []
    for folder, data in sorted(texts.items()):
        try:
            file = read_keys(data)
            _check_place(file, folder)
            said.append(file)
        except DecodeError as error:
            found.append(_damaged(f"{folder}/{KEYS_NAME}", error.reason))
    own: dict[Station, set[str]] = defaultdict(set)
    vouched: dict[Station, dict[str, str]] = defaultdict(dict)
    speakers: dict[str, set[str]] = defaultdict(set)
    for file in said:
        speakers[file.group].add(file.station)
        for each in file.stations:
            station = (file.group, each.id, each.slot)
            if each.id == file.station:
                own[station] |= set(each.keys)
            else:
                vouched[station] |= dict.fromkeys(each.keys, file.station)
    for station in sorted(own.keys() | vouched.keys()):
        if station[1] in speakers[station[0]]:
            found += _judged(station, own.get(station, set()), vouched[station], len(speakers[station[0]]) > 1)
    known = {}
    for station, keys in sorted(own.items()):
        others = len(speakers[station[0]]) > 1
        known[station] = tuple(sorted(keys & vouched[station].keys() if others else keys))
    return Keys(known), found


def _check_place(file: KeysFile, folder: str) -> None:
    """Raise DecodeError unless the file lies where its station uploads to."""
    place = PurePosixPath(folder)
    if place.name.rpartition("-")[0] != file.station or place.parent.name != file.group:
        raise DecodeError(0, f"it is of {file.station} in {file.group}, whose folder this is not")
    if not any(each.id == file.station for each in file.stations):
        raise DecodeError(0, f"it does not name {file.station} itself")


def _judged(station: Station, own: set[str], vouched: Mapping[str, str], others: bool) -> Iterator[Finding]:
    _, id, slot = station
    for key in sorted(vouched.keys() - own):
        text = f"station {vouched[key]} lists the key {key} for station {slot} ({id}), which does not list it itself"
        yield _finding("keys_differ", slot, text)
    for key in sorted(own - vouched.keys()) if others else ():
        text = f"no other station lists the key {key} for station {slot} ({id}), which lists it itself"
        yield _finding("key_unvouched", slot, text)


def _damaged(path: str, why: str) -> Finding:
    return _finding("keys_damaged", 0, f"{path.encode(errors='backslashreplace').decode()} cannot be used: {why}")


def _finding(kind: str, slot: int, witness: str) -> Finding:
    return {"kind": kind, "severity": UNDECIDED, "station": slot, "witness": witness}
