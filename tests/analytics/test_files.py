"""Directories of real segment files: whole, cut anywhere, changed, and what is no segment at all."""

from __future__ import annotations

import random
from collections import defaultdict
from pathlib import Path
from typing import Any

from audit_world import NAMES, A, World, story

from roamcast.analytics.carried import path_of, provisional_days, save
from roamcast.analytics.engine_local import LocalEngine, audit, audit_directory
from roamcast.analytics.nights import Source, audit_night
from roamcast.analytics.reading import decode
from roamcast.transport.segment import SegmentEncoder, SegmentHeader

DAY = "2027-01-15"
MIDNIGHT = 1_800_057_600_000_000


def encode(log: list[list[Any]], header: SegmentHeader, closed: int | None, sign: Any = None) -> bytes:
    """A file of these events, in blocks of four; closed None: without a trailer."""
    encoder = SegmentEncoder(header)
    made = encoder.head()
    encoder.accept(made)
    data = made
    for at in range(0, len(log), 4):
        rows: dict[str, list[tuple[Any, ...]]] = defaultdict(list)
        for seq, (wall, event, values) in enumerate(log[at : at + 4], at):
            rows[event].append((seq, wall, *values))
        made = encoder.data(rows)
        encoder.accept(made)
        data += made
    return data + (encoder.trailer(closed, sign) if closed is not None else b"")


def write(world: World, directory: Path, group: str = "g") -> list[Path]:
    """Two segments per station."""
    paths = []
    for slot, log in world.logs.items():
        prev = b""
        for seq, part in enumerate((log[: len(log) // 2], log[len(log) // 2 :]), 1):
            header = SegmentHeader(
                writer="station",
                group=group,
                id=f"s{slot}",
                seq=seq,
                prev=prev,
                opened=part[0][0],
                slot=slot,
                generation=1,
            )
            closed = MIDNIGHT if seq == 2 else part[-1][0]
            data = encode(part, header, closed)
            prev = decode(data, "").end
            path = directory / f"s{slot}-{seq}.rclog"
            path.write_bytes(data)
            paths.append(path)
    return paths


def test_files_say_what_rows_said(tmp_path: Path) -> None:
    write(story(), tmp_path)
    report = audit_directory(tmp_path)
    assert report.findings.to_pylist() == [] and report.verdict == "clean"
    same = audit(story().segments())
    for name in ("messages", "sessions", "acks", "members", "clients", "stamps", "handoffs"):
        one, other = report.tables[name], same.tables[name]
        where = [column for column in ("seg", "off") if column in one.column_names]
        one, other = one.drop_columns(where), other.drop_columns(where)
        assert one.equals(other), name


def test_a_violation_in_files_is_found(tmp_path: Path) -> None:
    world = story()
    world.change(2, "session", {"host": A, "e": 2}, base=[0, 5, 3])
    write(world, tmp_path)
    report = audit_directory(tmp_path)
    assert report.verdict == "violated"
    assert {row["host"] for row in report.hosts.to_pylist() if row["verdict"] != "clean"} == {NAMES[A]}


def test_a_file_cut_or_changed_anywhere_is_never_clean(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    paths = write(story(), tmp_path)
    for _ in range(60):
        path = rng.choice(paths)
        whole = path.read_bytes()
        at = rng.randrange(len(whole))
        cut = rng.random() < 0.5
        path.write_bytes(
            whole[:at] if cut else whole[:at] + bytes([whole[at] ^ 1 << rng.randrange(8)]) + whole[at + 1 :]
        )
        report = audit_directory(tmp_path)
        path.write_bytes(whole)
        print(path.name, "cut" if cut else "changed", at, report.verdict)
        assert report.verdict != "clean"
        named = [row["witness"] for row in report.findings.to_pylist() if row["kind"].startswith(("segment", "chain"))]
        assert named


def test_bad_files_are_listed_and_the_others_judged(tmp_path: Path) -> None:
    """BL-73."""
    write(story(), tmp_path)
    (tmp_path / "empty.rclog").write_bytes(b"")
    (tmp_path / "noise.rclog").write_bytes(bytes(range(256)) * 9)
    (tmp_path / ".upload-1234").write_bytes(b"half a fi")
    report = audit_directory(tmp_path)
    assert report.verdict == "undecided"
    bad = [row["witness"] for row in report.findings.to_pylist() if row["kind"] == "segment_damaged"]
    assert len(bad) == 2 and any("noise" in text for text in bad) and any("empty" in text for text in bad)
    assert report.outcome.deliveries == 16
    assert {row["verdict"] for row in report.hosts.to_pylist()} == {"clean"}


def test_a_night_of_files(tmp_path: Path) -> None:
    logs, states = tmp_path / "logs", tmp_path / "states"
    logs.mkdir()
    paths = write(story(), logs)
    source = Source(engine=LocalEngine(), logs=str(logs))
    first = audit_night(source, states, DAY)
    assert first.report.verdict == "clean" and not first.state.provisional
    save(states, first.state)
    text = path_of(states, DAY).read_text()
    assert audit_night(source, states, DAY).state.text() == text
    paths[0].unlink()
    again = audit_night(source, states, DAY)
    assert again.report.verdict == "undecided"
    save(states, again.state)
    assert provisional_days(states, "2027-01-16") == [DAY]
