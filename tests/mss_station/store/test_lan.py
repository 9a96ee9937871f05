"""The configuration of the LAN in the store: what goes first, what a flipped bit does, what is read when."""

from __future__ import annotations

import os
import random
import runpy
import sqlite3
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from roamcast.middleware.lan_update.records import (
    FOUND_MAX,
    HISTORY_MAX,
    DropEntry,
    Entry,
    LanImage,
    LanWrite,
    PutAlive,
    PutEntry,
    PutFound,
    PutHistory,
    Version,
)
from roamcast.mss_station.errors import StoreDamaged, StoreForeign, StoreMissing, StoreVersion
from roamcast.mss_station.store import STORE_NAME, StationIdentity, Store, read_found, read_history, read_lan, read_past

COMMITS = Path(__file__).parent / "children" / "commits.py"

HILL = Version(1_000_007, 3, "hill", 0xF00D_F00D_F00D_F00D)
DALE = Version(1_000_008, 0, "dale", 5)
LIVE = Entry("revoked/anna/k1", HILL, b"\xa1aa\x01", None, b"s" * 64)
DELETED = Entry("topics/7", DALE, None, HILL, b"t" * 64, frozenset(("dale", "hill")))
WRITES = (
    PutEntry(LIVE), PutEntry(DELETED), PutAlive(1_000_009), PutFound(LIVE, 11),
    PutHistory(LIVE, 12, DALE), PutHistory(DELETED, 13),
)  # fmt: skip


def image_of(*writes: LanWrite) -> LanImage:
    image = LanImage()
    for write in writes:
        image.apply(write)
    return image


def in_use(*writes: LanWrite) -> LanImage:
    """What a node works with after these writes."""
    image = image_of(*writes)
    image.found = []
    for key in list(image.history):
        image.forget(key)
    return image


def edit(directory: Path, statement: str) -> int:
    connection = sqlite3.connect(directory / STORE_NAME, isolation_level=None)
    changed = connection.execute(statement).rowcount
    connection.close()
    return changed


def read_every_history(directory: Path) -> None:
    connection = sqlite3.connect(directory / STORE_NAME)
    keys = connection.execute("SELECT DISTINCT key FROM lan_history").fetchall()
    connection.close()
    for (key,) in keys:
        read_history(directory, key)


READERS = {"lan_entry": read_lan, "lan_found": read_found, "lan_history": read_every_history}
ENTRY = "key time count node boot value after_time after_count after_node after_boot signature holders"
COLUMNS = {
    "lan_entry": f"{ENTRY} checksum",
    "lan_found": f"{ENTRY} wall",
    "lan_history": f"{ENTRY} wall lost_time lost_count lost_node lost_boot",
}


def test_every_column_of_the_schema_is_one_of_those_below(directory: Path) -> None:
    connection = sqlite3.connect(directory / STORE_NAME)
    for table, columns in COLUMNS.items():
        names = {name for _, name, *_ in connection.execute(f"PRAGMA table_info({table})")}
        assert names - set(columns.split()) <= {"id", "checksum"}
    connection.close()


@pytest.mark.parametrize(("table", "column"), [(t, c) for t, columns in COLUMNS.items() for c in columns.split()])
def test_one_other_value_and_the_store_is_refused(
    directory: Path, identity: StationIdentity, table: str, column: str
) -> None:
    """Whatever it was before: a number, a text, bytes or nothing."""
    with Store.open(directory, identity) as store:
        store.commit(WRITES)
    other = f"CASE typeof({column}) WHEN 'integer' THEN {column} + 1 WHEN 'text' THEN {column} || ' ' ELSE x'' END"
    assert edit(directory, f"UPDATE {table} SET {column} = {other}") > 0
    with pytest.raises(StoreDamaged) as caught:
        READERS[table](directory)
    assert table in str(caught.value) and "checksum is wrong" in str(caught.value)
    assert "Put back an undamaged copy" in str(caught.value)
    if table == "lan_entry":
        with Store.open(directory, identity) as store, pytest.raises(StoreDamaged, match=table):
            store.load()


@pytest.mark.parametrize("value", ["NULL", "CAST(value AS TEXT)", "x''"])
def test_a_value_of_another_type_is_refused(directory: Path, identity: StationIdentity, value: str) -> None:
    """An entry without its value would be a deletion."""
    with Store.open(directory, identity) as store:
        store.commit([PutEntry(replace(LIVE, value=b"\x61"))])
    assert edit(directory, f"UPDATE lan_entry SET value = {value}") == 1
    with Store.open(directory, identity) as store, pytest.raises(StoreDamaged, match="'revoked/anna/k1'"):
        store.load()


@pytest.mark.parametrize("bit", range(8))
@pytest.mark.parametrize(
    "part", [b"revoked/anna/k1", b"hill", b"\xa1aa\x01", b"s" * 64], ids=["key", "node", "value", "sig"]
)
def test_a_flipped_bit_of_an_entry_is_never_believed(
    directory: Path, identity: StationIdentity, part: bytes, bit: int
) -> None:
    with Store.open(directory, identity) as store:
        store.commit([PutEntry(LIVE)])
    path = directory / STORE_NAME
    content = bytearray(path.read_bytes())
    assert content.count(part) == 1, "a key lies in one place"
    content[content.index(part) + len(part) - 1] ^= 1 << bit
    path.write_bytes(content)
    with Store.open(directory, identity) as store, pytest.raises(StoreDamaged):
        store.load()


def test_the_configuration_can_be_looked_at_while_the_station_runs(directory: Path, identity: StationIdentity) -> None:
    assert read_lan(directory) == LanImage() and read_found(directory) == read_history(directory, "topics/7") == []
    with Store.open(directory, identity) as store:
        store.commit(WRITES)
        assert read_lan(directory) == in_use(*WRITES) == store.load().lan
        assert read_found(directory) == [PutFound(LIVE, 11)] and store.found_count() == 1
        assert read_history(directory, LIVE.key) == [PutHistory(LIVE, 12, DALE)]
        store.commit([DropEntry("topics/7")])
        assert read_lan(directory) == in_use(*WRITES, DropEntry("topics/7"))
        assert read_history(directory, "topics/7") == [PutHistory(DELETED, 13)], "it outlives the entry"
        assert store.checkpoint(), "nothing is held"
    assert read_lan(directory).entries == {LIVE.key: LIVE}


def test_a_look_sees_one_commit_as_a_whole(directory: Path, identity: StationIdentity) -> None:
    """Another process commits all the time; the entries and the clock that one look shows are of one commit."""
    make_lan = runpy.run_path(str(COMMITS))["make_lan"]
    child = subprocess.Popen([sys.executable, str(COMMITS), str(directory), "0", "0"], stdout=subprocess.PIPE)
    assert child.stdout is not None and child.stdout.readline()
    writes: list[LanWrite] = []
    n, looks = 0, set()
    while len(looks) < 20:
        image = read_lan(directory)
        looks.add(image.alive)
        while n < image.alive:
            n += 3
            writes += make_lan(n)
        assert image == in_use(*writes)
    child.kill()
    child.stdout.close()
    child.wait()
    assert read_lan(directory).alive >= n, "what a killed station left is seen too"


def test_a_look_changes_nothing_and_is_refused_like_a_start(directory: Path, identity: StationIdentity) -> None:
    with Store.open(directory, identity) as store:
        store.commit(WRITES)
    path = directory / STORE_NAME
    before = path.read_bytes()
    read_lan(directory)
    assert path.read_bytes() == before
    edit(directory, "PRAGMA user_version = 5")
    with pytest.raises(StoreVersion, match="format 5"):
        read_lan(directory)
    path.write_bytes(b"garbage" * 2000)
    with pytest.raises(StoreForeign):
        read_lan(directory)
    path.unlink()
    with pytest.raises(StoreMissing):
        read_lan(directory)


def test_the_oldest_versions_leave_the_history_whatever_way_they_came(
    directory: Path, identity: StationIdentity
) -> None:
    """Times, counts, authors and starts in turn decide; a start's number has no sign."""
    nodes, boots = ("a", "h\u00f6st", "\U0001f4e1"), (0, (1 << 63) - 1, 1 << 63, (1 << 64) - 1)
    versions = [Version(t, c, node, boot) for t in range(3) for c in range(2) for node in nodes for boot in boots]
    assert len(versions) == HISTORY_MAX + 22
    seed = int.from_bytes(os.urandom(4), "big")
    print("seed", seed)
    random.Random(seed).shuffle(versions)
    with Store.open(directory, identity, durability="process") as store:
        for version in versions:
            store.commit([PutHistory(Entry("k", version, b""), 1), PutHistory(Entry("other", version, None), 2)])
        for key in ("k", "other"):
            lines = read_history(directory, key)
            assert [line.entry.version for line in lines] == sorted(versions)[-HISTORY_MAX:]


def test_a_start_reads_of_the_history_what_the_node_still_asks_for(directory: Path, identity: StationIdentity) -> None:
    """Versions that the author of the present entry had not seen; of a key without one, the newest."""
    nodes, boots = ("a", "b"), (0, 1 << 63)
    versions = sorted(Version(t, c, node, boot) for t in range(3) for c in range(2) for node in nodes for boot in boots)
    for i, after in enumerate((None, *versions)):
        entry = Entry(f"k{i}", versions[-1], b"", after, bytes(64))
        writes: list[LanWrite] = [PutHistory(replace(entry, version=version, after=None), 7) for version in versions]
        with Store.open(directory, identity, durability="process") as store:
            store.commit(writes)
            assert list(store.load().lan.history[f"k{i}"]) == versions[-1:]
            store.commit([PutEntry(entry)])
            image = store.load().lan
            assert sorted(image.history.get(f"k{i}", {})) == [v for v in versions if after is None or v > after]


def test_the_past_of_many_keys_is_read_at_once(directory: Path, identity: StationIdentity) -> None:
    """Of those that are the prefix and one word; without deletions."""
    wanted = "topics/a", "topics/b.c", "topics/\U0001f4e1"
    keys = (*wanted, "topics/", "topics/a/send", "topics0", "topic/a", "settings/x")
    lines = {key: PutHistory(Entry(key, Version(1, 0, "a", 1), key.encode(), None, bytes(64)), 1) for key in keys}
    gone = [PutHistory(replace(line.entry, version=DALE, value=None), 2) for line in lines.values()]
    with Store.open(directory, identity, durability="process") as store:
        store.commit([*lines.values(), *gone])
        found = read_past(directory, "topics/")
    assert sorted(line.entry.key for line in found) == sorted(wanted)
    assert all(line == lines[line.entry.key] for line in found)
    assert edit(directory, "UPDATE lan_history SET wall = 9 WHERE key = 'topics/a'") == 2
    with pytest.raises(StoreDamaged):
        read_past(directory, "topics/")


def test_a_start_does_not_read_the_rest(directory: Path, identity: StationIdentity) -> None:
    """Damage there harms nobody but who reads it."""
    entry = replace(LIVE, after=Version(1_000_006, 0, "hill", 1))
    old = replace(LIVE, version=Version(1_000_005, 0, "hill", 1))
    with Store.open(directory, identity) as store:
        store.commit([PutEntry(entry), PutHistory(old, 1), PutHistory(entry, 2), PutFound(DELETED, 3)])
    assert edit(directory, "UPDATE lan_history SET wall = 9 WHERE time = 1000005") == 1
    assert edit(directory, "UPDATE lan_found SET wall = 9") == 1
    with Store.open(directory, identity) as store:
        assert store.load().lan.history == {entry.key: {entry.version: PutHistory(entry, 2)}}
    with pytest.raises(StoreDamaged):
        read_history(directory, entry.key)
    with pytest.raises(StoreDamaged):
        read_found(directory)


def test_lost_and_found_keeps_the_last_ones_in_order(directory: Path, identity: StationIdentity) -> None:
    found = [PutFound(Entry("k", Version(n, 0, "a", 0), b""), n) for n in range(FOUND_MAX + 30)]
    with Store.open(directory, identity, durability="process") as store:
        store.commit(found[:20])
        store.commit(found[20:-5])
        for line in found[-5:]:
            store.commit([line])
        assert read_found(directory) == found[-FOUND_MAX:] and store.found_count() == FOUND_MAX
