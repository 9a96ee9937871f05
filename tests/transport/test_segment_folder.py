"""A folder of segments: one chain over all of its files, rotation, what a crash and a full disk leave and say."""

from __future__ import annotations

import errno
import os
import resource
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from roamcast.middleware.delivery_log import GAP, GIVEN, SENT
from roamcast.transport import segment_folder
from roamcast.transport.segment import Segment, SegmentHeader, read_segment
from roamcast.transport.segment_folder import DAY_US, Event, FolderInUse, SegmentFolder

NOW = 20_000 * DAY_US + 5


def header(seq: int, prev: bytes, note: str, opened: int) -> SegmentHeader:
    return SegmentHeader(writer="journal", group="demo", id="ada", seq=seq, prev=prev, opened=opened, note=note)


@pytest.fixture
def make(tmp_path: Path) -> Callable[[], SegmentFolder]:
    return lambda: SegmentFolder(tmp_path / "journal", header)


def given(*numbers: int) -> list[Event]:
    return [(GIVEN, NOW, (1, n, 2, n, 7, n)) for n in numbers]


def segments(tmp_path: Path) -> list[Segment]:
    """All of the folder, in order; each continues the chain of the one before."""
    files = sorted((tmp_path / "journal").glob("*.rclog"))
    assert [int(file.stem) for file in files] == list(range(1, len(files) + 1))
    found = [read_segment(file.read_bytes()) for file in files]
    for before, segment in zip([None, *found], found, strict=False):
        assert segment.header.prev == (before.end if before else b"")
    return found


def numbers(segment: Segment) -> list[int]:
    return list(segment.columns(GIVEN).get("n", []))


def crash(folder: SegmentFolder) -> None:
    """Nothing is written any more, and the lock is gone."""
    os.close(folder._file)
    os.close(folder._lock)


def test_blocks_go_into_one_file_until_it_is_closed(make, tmp_path):
    folder = make()
    assert list((tmp_path / "journal").glob("*.rclog")) == [], "a folder without events has no segment"
    folder.write([*given(1), (SENT, NOW, (4, 1, 1, "bob")), *given(2)], NOW)
    folder.write([(GAP, NOW, (2, 0)), *given(3)], NOW)
    folder.close(NOW)
    (segment,) = segments(tmp_path)
    assert (segment.status, segment.blocks, segment.events, numbers(segment)) == ("unsigned", 2, 5, [1, 2, 3])
    assert list(segment.columns(GIVEN)["seq"]) == [0, 2, 4]
    assert segment.columns(SENT)["addressee"] == ["bob"]
    assert os.stat(tmp_path / "journal" / "000001.rclog").st_mode & 0o077 == 0


def test_a_new_life_a_new_day_and_a_new_owner_begin_a_segment(make, tmp_path):
    folder = make()
    folder.write(given(1), NOW, "a")
    folder.write(given(2), NOW + DAY_US, "a")
    folder.write(given(3), NOW + DAY_US, "b")
    folder.close(NOW + DAY_US)
    folder = make()
    folder.write(given(4), NOW + DAY_US)
    folder.close(NOW + DAY_US)
    found = segments(tmp_path)
    assert [numbers(segment) for segment in found] == [[1], [2], [3], [4]]
    assert {segment.status for segment in found} == {"unsigned"} and not any(s.header.note for s in found)


def test_a_full_segment_is_followed_by_the_next(make, tmp_path, monkeypatch):
    monkeypatch.setattr(segment_folder, "FOLDER_SEGMENT_BYTES", 1_000)
    folder = make()
    for n in range(1, 30):
        folder.write(given(n), NOW)
    folder.close(NOW)
    found = segments(tmp_path)
    assert len(found) >= 3 and all(segment.whole_bytes < 1_600 for segment in found)
    assert [n for segment in found for n in numbers(segment)] == list(range(1, 30))


def test_a_crash_leaves_whole_blocks_and_is_told(make, tmp_path):
    folder = make()
    folder.write(given(1), NOW)
    crash(folder)
    folder = make()
    folder.write(given(2), NOW)
    folder.close(NOW)
    first, second = segments(tmp_path)
    assert (first.status, numbers(first), second.status) == ("open", [1], "unsigned")
    assert second.header.note == "segment 1 was not closed: what came last may be missing"


def test_a_torn_block_is_cut_off_wherever_it_ends(make, tmp_path):
    folder = make()
    folder.write(given(1), NOW)
    folder.write(given(2), NOW)
    crash(folder)
    file = tmp_path / "journal" / "000001.rclog"
    whole = file.read_bytes()
    for cut in range(1, 40):
        file.write_bytes(whole[:-cut])
        folder = make()
        folder.write(given(3), NOW)
        folder.close(NOW)
        first, second = segments(tmp_path)
        assert (first.status, numbers(first)) == ("open", [1])
        assert f"{len(whole) - cut - first.whole_bytes} bytes of a torn block" in second.header.note
        (tmp_path / "journal" / "000002.rclog").unlink()


def test_a_file_without_a_header_is_left_alone(make, tmp_path):
    (tmp_path / "journal").mkdir()
    (tmp_path / "journal" / "000001.rclog").write_bytes(b"RCLOG1\nxyz")
    folder = make()
    folder.write(given(1), NOW)
    folder.close(NOW)
    segment = read_segment((tmp_path / "journal" / "000002.rclog").read_bytes())
    assert (numbers(segment), segment.header.prev, segment.header.note) == ([1], b"", "segment 1 has no header")
    assert (tmp_path / "journal" / "000001.rclog").read_bytes() == b"RCLOG1\nxyz"


def test_an_empty_file_is_as_good_as_none(make, tmp_path):
    folder = make()
    folder.write(given(1), NOW)
    folder.close(NOW)
    for name in ("000002.rclog", "000003.rclog"):
        (tmp_path / "journal" / name).touch()
    folder = make()
    folder.write(given(2), NOW)
    folder.close(NOW)
    assert [(numbers(segment), segment.header.note) for segment in segments(tmp_path)] == [([1], ""), ([2], "")]


def test_an_end_at_which_something_is_missing_has_no_trailer(make, tmp_path):
    folder = make()
    folder.write(given(1), NOW)
    folder.close(NOW, whole=False)
    make().close(NOW)
    (segment,) = segments(tmp_path)
    assert segment.status == "open"


def test_a_second_writer_is_kept_out(make):
    folder = make()
    with pytest.raises(FolderInUse, match="in use"):
        make()
    folder.close(NOW)
    make().close(NOW)


@contextmanager
def room_for(size: int) -> Iterator[None]:
    """No file of this process may grow above `size` bytes: as on a disk that is full, writes come short, then fail."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.parametrize("more", [0, 1, 20, 100])
def test_what_a_full_disk_does_not_take_is_counted_and_told(make, tmp_path, more):
    folder = make()
    folder.write(given(1, 2), NOW)
    size = (tmp_path / "journal" / "000001.rclog").stat().st_size
    with room_for(size + more):
        folder.write(given(3, 4, 5), NOW)
        assert folder.problem == os.strerror(errno.ENOSPC if more else errno.EFBIG)
        assert folder.unwritten == 3
    with room_for(0):
        folder.write(given(6), NOW)
    assert (folder.unwritten, folder.problem) == (4, os.strerror(errno.EFBIG))
    folder.write(given(7), NOW)
    assert (folder.unwritten, folder.problem) == (4, None)
    folder.write(given(8), NOW)
    folder.write(given(9), NOW + DAY_US)
    folder.close(NOW)
    first, second, third = segments(tmp_path)
    assert (first.status, numbers(first)) == ("open", [1, 2]), "the torn block was taken back"
    assert (second.status, numbers(second)) == ("unsigned", [7, 8])
    assert (second.header.note, third.header.note) == ("4 events before this could not be written", "")


def test_a_disk_that_is_full_at_the_end_stops_nothing(make, tmp_path):
    folder = make()
    folder.write(given(1), NOW)
    with room_for(0):
        folder.close(NOW)
    assert folder.problem
    folder = make()
    folder.write(given(2), NOW)
    folder.close(NOW)
    assert [numbers(segment) for segment in segments(tmp_path)] == [[1], [2]]


def test_a_folder_that_goes_away_is_a_problem_and_no_error(make, tmp_path):
    folder = make()
    (tmp_path / "journal" / ".lock").unlink()
    (tmp_path / "journal").rmdir()
    folder.write(given(1), NOW)
    assert (folder.problem, folder.unwritten) == ("No such file or directory", 1)
    folder.close(NOW)
