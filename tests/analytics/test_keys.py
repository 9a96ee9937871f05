"""Whose signature counts: keys beside the uploads, keys that contradict each other or are not there, pinned ones."""

from __future__ import annotations

import json
import pickle
import random
from pathlib import Path
from typing import Any

import pytest
from audit_world import story
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from test_files import DAY, MIDNIGHT, encode

from roamcast.analytics import keys
from roamcast.analytics.carried import Carried
from roamcast.analytics.engine_local import LocalEngine
from roamcast.analytics.nights import Night, Source, audit_whole, run_night
from roamcast.analytics.reading import decode, no_keys
from roamcast.transport.segment import SegmentHeader, key_id
from roamcast.transport.segment_keys import KeysFile, StationKeys, keys_text

SECRETS = {slot: Ed25519PrivateKey.from_private_bytes(bytes([slot]) * 32) for slot in (1, 2, 3)}
PUBLICS = {slot: secret.public_key().public_bytes_raw().hex() for slot, secret in SECRETS.items()}
OTHER = "ab" * 32


def folder(logs: Path, slot: int) -> Path:
    return logs / "g" / f"s{slot}-{slot:016x}"


def tell(logs: Path, slot: int, **lists: tuple[str, ...]) -> None:
    """Station `slot` uploads these keys: s1=(...), s2=(...)."""
    stations = tuple(StationKeys(id, int(id[1:]), known) for id, known in lists.items())
    (folder(logs, slot) / "keys.json").write_text(keys_text(KeysFile("g", f"s{slot}", 5, stations)))


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    """The story of two stations, signed and uploaded."""
    for slot, log in story().logs.items():
        folder(tmp_path, slot).mkdir(parents=True)
        header = SegmentHeader(
            writer="station", group="g", id=f"s{slot}", seq=1, prev=b"", opened=log[0][0], slot=slot, generation=slot,
            key=key_id(bytes.fromhex(PUBLICS[slot])),
        )  # fmt: skip
        data = encode(log, header, MIDNIGHT, SECRETS[slot].sign)
        (folder(tmp_path, slot) / "00000001.rclog").write_bytes(data)
    for slot in (1, 2):
        tell(tmp_path, slot, s1=(PUBLICS[1],), s2=(PUBLICS[2],))
    return tmp_path


def audited(logs: Path, pinned: Path | None = None) -> Night:
    known, found = keys.load(logs, pinned)
    return audit_whole(Source(engine=LocalEngine(), logs=str(logs), keys=known, doubts=found))


def kinds(night: Night) -> dict[str, set[int]]:
    made: dict[str, set[int]] = {}
    for row in night.report.findings.to_pylist():
        made.setdefault(row["kind"], set()).add(row["station"])
    return made


def test_honest_uploads_are_clean(logs: Path) -> None:
    assert audited(logs).report.verdict == "clean" and not kinds(audited(logs))
    rows = [(str(path), path.read_bytes()) for path in logs.rglob("*.json")]
    assert keys.load(rows) == keys.load(logs)
    assert pickle.loads(pickle.dumps(keys.load(rows)[0])) == keys.load(rows)[0]
    known, found = keys.load(logs)
    segments = LocalEngine().read(str(logs), lambda header: 1, known)
    assert run_night(segments, DAY, Carried(), verified=True, more=found).report.verdict == "clean"


def test_a_segment_must_be_signed_by_the_station_that_it_names(logs: Path) -> None:
    path = folder(logs, 1) / "00000001.rclog"
    header = SegmentHeader(
        writer="station", group="g", id="s1", seq=1, prev=b"", opened=1, slot=1, generation=1,
        key=key_id(bytes.fromhex(PUBLICS[2])),
    )  # fmt: skip
    path.write_bytes(encode(story().logs[1], header, MIDNIGHT, SECRETS[2].sign))
    night = audited(logs)
    assert night.report.verdict == "undecided" and kinds(night)["segment_forged"] == {1}


def test_keys_that_are_not_there_are_named(logs: Path) -> None:
    (folder(logs, 2) / "keys.json").unlink()
    night = audited(logs)
    assert night.report.verdict == "undecided"
    assert kinds(night)["keys_missing"] == {2} and kinds(night)["evidence"] == {0}
    assert {row["severity"] for row in night.report.findings.to_pylist()} == {"undecided"}
    witness = [row["witness"] for row in night.report.findings.to_pylist() if row["kind"] == "keys_missing"]
    assert witness == ["there are no public keys of station 2 (s2) to check its signatures by"]


@pytest.mark.parametrize(
    ("said", "found"),
    [
        ((PUBLICS[2], OTHER), {"key_unvouched": {2}}),  # its own list has a key that nobody else knows
        ((), {"keys_differ": {2}, "segment_forged": {2}}),
    ],
)
def test_what_a_station_and_the_others_say_must_agree(
    logs: Path, said: tuple[str, ...], found: dict[str, set[int]]
) -> None:
    tell(logs, 2, s1=(PUBLICS[1],), s2=said)
    night = audited(logs)
    assert night.report.verdict == "undecided"
    assert found.items() <= kinds(night).items()
    named = [row["witness"] for row in night.report.findings.to_pylist() if row["kind"].startswith("key")]
    assert len(named) == 1 and "station 2 (s2)" in named[0] and ({OTHER, PUBLICS[2]} & set(named[0].split()))


def test_a_station_in_another_slot_is_a_contradiction(logs: Path) -> None:
    stations = (StationKeys("s1", 1, (PUBLICS[1],)), StationKeys("s2", 5, (PUBLICS[2],)))
    (folder(logs, 1) / "keys.json").write_text(keys_text(KeysFile("g", "s1", 5, stations)))
    found = kinds(audited(logs))
    assert found["keys_differ"] == {5} and found["key_unvouched"] == {2}
    assert audited(logs).report.verdict == "undecided"


def test_one_station_alone_needs_no_witness(logs: Path) -> None:
    only = {str(folder(logs, 1)): (folder(logs, 1) / "keys.json").read_bytes()}
    assert keys.from_uploads(only)[1] == []


def test_with_pinned_keys_nothing_else_counts(logs: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    pinned = tmp_path_factory.mktemp("pinned") / "keys.json"
    both = (StationKeys("s1", 1, (PUBLICS[1],)), StationKeys("s2", 2, (PUBLICS[2],)))
    for path in logs.rglob("*.json"):
        path.unlink()
    pinned.write_text(keys_text(KeysFile("g", "s1", 5, both)))
    assert audited(logs, pinned).report.verdict == "clean"
    tell(logs, 1, s1=(PUBLICS[1],), s2=(PUBLICS[2],))
    pinned.write_text(keys_text(KeysFile("g", "s1", 5, both[:1])))
    assert kinds(audited(logs, pinned))["keys_missing"] == {2}
    pinned.write_text("{}")
    with pytest.raises(ValueError, match="no file of `mss-station logs keys`"):
        keys.load(logs, pinned)


@pytest.mark.parametrize("place", ["g/s3-0000000000000003", "h/s1-0000000000000001", "g/s1", ""])
def test_a_file_speaks_only_for_the_station_in_whose_folder_it_lies(logs: Path, place: str) -> None:
    (logs / place).mkdir(parents=True, exist_ok=True)
    for path in (logs / place / "keys.json",):
        path.write_text(keys_text(KeysFile("g", "s1", 5, (StationKeys("s1", 1, (OTHER,)),))))
    known, found = keys.load(logs)
    assert [row["kind"] for row in found] == ["keys_damaged"]
    assert known == keys.load([(str(path), path.read_bytes()) for path in logs.glob("g/*/keys.json")])[0]
    assert known.known["g", "s1", 1] == (PUBLICS[1],)


def test_damaged_files_are_findings(logs: Path, seed: int) -> None:
    rng = random.Random(seed)
    path = folder(logs, 2) / "keys.json"
    whole = path.read_bytes()
    plain = json.loads(whole)
    bad: list[bytes] = [b"", b"{}", b"[" * 100_000, b"\xff", b'{"schema":1}', whole[:-3], b"9" * 5_000]
    for name, value in (("schema", 2), ("group", "\ud800"), ("station", 3), ("written", 1e9), ("stations", [1])):
        bad.append(json.dumps({**plain, name: value}).encode())
    for name, value in (("id", "../x"), ("slot", -1), ("slot", True), ("keys", ["zz"]), ("keys", "ab")):
        bad.append(json.dumps({**plain, "stations": [{**plain["stations"][0], name: value}]}).encode())
    bad.append(json.dumps({**plain, "stations": plain["stations"] * 2}).encode())
    for data in bad:
        path.write_bytes(data)
        found = [row["kind"] for row in keys.load(logs)[1]]
        assert "keys_damaged" in found, data[:50]
    night = audited(logs)
    assert night.report.verdict == "undecided" and {"keys_damaged", "keys_missing"} <= kinds(night).keys()
    for _ in range(300):
        at = rng.randrange(len(whole))
        path.write_bytes(whole[:at] + bytes([rng.randrange(256)]) + whole[at + 1 :])
        known, _ = keys.load(logs)
        assert set(known.known.get(("g", "s2", 2), ())) <= {PUBLICS[2]} or keys.load(logs)[1]


def test_what_a_header_gets(logs: Path) -> None:
    known, _ = keys.load(logs)
    header: dict[str, Any] = {"writer": "station", "group": "g", "id": "s1", "slot": 1}
    assert known(header) not in (None, no_keys)
    assert known({**header, "id": "s7"}) is no_keys and known({**header, "slot": 2}) is no_keys
    assert known({**header, "writer": "journal"}) is None
    data = (folder(logs, 1) / "00000001.rclog").read_bytes()
    assert (decode(data, "", known).status, decode(data, "", keys.Keys()).status) == ("closed", "unsigned")
    assert decode(data, "").status == "closed"


def test_other_files_beside_the_segments_are_looked_at(logs: Path) -> None:
    """BL-73"""
    (folder(logs, 1) / "keys.json.old").write_text("x")
    assert kinds(audited(logs)).keys() >= {"segment_damaged"}


def evil(logs: Path, **about: object) -> None:
    """A file that nobody has signed: station 2's log with another sender's number, and more."""
    world = story()
    world.change(1, "order", {"slot": 2, "n": 2}, number=77)
    header = {"writer": "station", "group": "g", "id": "evil", "seq": 1, "prev": b"", "opened": 1, "slot": 2}
    made = SegmentHeader(**{**header, "generation": 9, **about})  # type: ignore[arg-type]
    (logs / "evil.rclog").write_bytes(encode(world.logs[1], made, MIDNIGHT))


@pytest.mark.parametrize("about", [{}, {"id": "s2", "generation": 1}, {"id": "s2", "slot": 1}, {"group": "zz"}])
@pytest.mark.parametrize("cut", [0, 40])
def test_a_file_that_nobody_has_signed_accuses_nobody(logs: Path, about: dict[str, object], cut: int) -> None:
    evil(logs, **about)
    path = logs / "evil.rclog"
    path.write_bytes(path.read_bytes()[: -cut or None])
    night = audited(logs)
    assert night.report.verdict == "undecided" and night.group == "g"
    assert not [row for row in night.report.findings.to_pylist() if row["severity"] == "violation"]
