"""Where a finding says that its proof stands, there it stands: files are decoded and looked into."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from audit_world import INCARNATION, NAMES, C, story
from reports import about
from test_anomalies import CASES
from test_files import encode, write

from roamcast.analytics.engine_local import LocalEngine
from roamcast.analytics.nights import WHOLE, Source, audit_whole
from roamcast.analytics.reading import read
from roamcast.analytics.report.summary import summary
from roamcast.transport.segment import SegmentHeader


def event_at(file: str, row: int) -> tuple[str, dict[str, Any]]:
    """The event with this place in a segment."""
    found = []
    for name, columns in read(Path(file)).events.items():
        for i, seq in enumerate(columns["seq"].tolist()):
            if seq == row:
                values = {key: column[i] for key, column in columns.items() if column is not None and len(column) > i}
                found.append((name, values))
    assert len(found) == 1, (file, row)
    return found[0]


def check(spot: dict[str, Any]) -> None:
    header = read(Path(spot["file"])).header
    assert header["seq"] == spot["segment"] and header["slot"] == spot["station"]
    event, values = event_at(spot["file"], spot["row"])
    assert values["wall"] == spot["wall"]
    message = re.match(r"(\d+):(\d+) ", spot["what"])
    if "of the spool" in spot["what"]:
        assert event == "session"
    elif message:
        assert event in ("order", "given")
        assert (values["slot"], values["n"]) == tuple(map(int, message.groups()))
    else:
        told = re.search(r"session (\d+)", spot["what"])
        assert told and event in ("session", "ack")
        assert int(told[1]) in (values["e"], values.get("le"))


def journal(world: Any, host: int, directory: Path) -> None:
    header = SegmentHeader(
        writer="journal", group="g", id=NAMES[host], seq=1, prev=b"", opened=world.journal[host][0][0],
        incarnation=INCARNATION[host],
    )  # fmt: skip
    (directory / "journal.rclog").write_bytes(encode(world.journal[host], header, world.now))


@pytest.mark.parametrize("name", CASES)
def test_a_finding_names_true_rows(name: str, tmp_path: Path) -> None:
    case = CASES[name]
    world = story({2: case.left_out})
    case.change(world)
    write(world, tmp_path)
    for host in case.journals:
        journal(world, host, tmp_path)
    made = summary(audit_whole(Source(engine=LocalEngine(), logs=str(tmp_path))), about(WHOLE, logs=str(tmp_path)))
    assert case.kinds <= {group["kind"] for group in made["findings"]}
    for group in made["findings"]:
        for example in group["examples"]:
            print(example["witness"], *example["log"], sep="\n  ")
            for spot in example["log"]:
                check(spot)
            if group["severity"] == "violation":
                assert example["log"]


def test_a_causal_violation_shows_that_the_sender_knew(tmp_path: Path) -> None:
    world = story()
    CASES["causal"].change(world)
    write(world, tmp_path)
    made = summary(audit_whole(Source(engine=LocalEngine(), logs=str(tmp_path))), about(WHOLE))
    (group,) = made["findings"]
    ann = next(example for example in group["examples"] if example["host"] == "ann")
    told = [re.sub(r" at session.*", "", spot["what"]) for spot in ann["log"]]
    assert told == [
        "2:2 given to ann", "ann acknowledges session 1, position 5", "1:3 given to ann", "1:3 given to bob",
        "bob acknowledges session 1, position 4", "2:2 sent, in the order of its own station 2",
    ]  # fmt: skip
    assert (ann["place"], ann["other_place"]) == ({"session": 1, "position": 5}, {"session": 1, "position": 4})


def test_both_times_of_a_doubled_message_are_shown(tmp_path: Path) -> None:
    world = story()
    CASES["journal twice"].change(world)
    write(world, tmp_path)
    journal(world, C, tmp_path)
    made = summary(audit_whole(Source(engine=LocalEngine(), logs=str(tmp_path))), about(WHOLE))
    (group,) = made["findings"]
    rows = [spot["row"] for spot in group["examples"][0]["log"] if spot["station"] == 0]
    assert len(rows) == 2 and len({str(event_at(str(tmp_path / "journal.rclog"), row)[1]["n"]) for row in rows}) == 1
