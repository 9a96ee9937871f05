"""The file under the agent's state: what survives a torn end, a full disk, a second process."""

from __future__ import annotations

import os
import stat
import zlib

import cbor2
import pytest

from roamcast.mh_agent.state_file import MAGIC, StateFile
from roamcast.middleware.mobile_host.errors import StateError
from roamcast.middleware.mobile_host.state import Acked, NewIncarnation, Queued
from roamcast.middleware.mobile_host.state_log import StateLog

FACTS = (NewIncarnation(7, 1, False), Queued(1, None, b"a"))


@pytest.fixture
def path(tmp_path):
    return tmp_path / "ada.state"


def open_log(path) -> StateLog:
    return StateLog(StateFile(path), cbor2.dumps, cbor2.loads, zlib.crc32)


def test_what_was_saved_is_there_after_a_restart(path):
    log = open_log(path)
    log.save(FACTS)
    log.save((Queued(2, "bob", b"b"),))
    log.close()
    assert open_log(path).image.outbox == {1: (None, b"a", 0), 2: ("bob", b"b", 0)}


def test_it_is_there_at_once_for_whoever_reads_the_file(path):
    log = open_log(path)
    log.save((Queued(1, None, b"a body of its own"),))
    assert b"a body of its own" in path.read_bytes()
    log.close()


@pytest.mark.parametrize("bytes_lost", range(1, 12))
def test_a_torn_record_is_cut_and_the_file_goes_on(path, bytes_lost):
    log = open_log(path)
    log.save(FACTS)
    log.save((Queued(2, None, b""),))
    log.close()
    os.truncate(path, path.stat().st_size - bytes_lost)
    log = open_log(path)
    assert log.cut > 0
    assert list(log.image.outbox) == [1]
    log.save((Queued(2, None, b"again"),))
    log.close()
    log = open_log(path)
    assert (log.cut, log.image.outbox[2]) == (0, (None, b"again", 0))
    log.close()


def test_a_second_process_is_kept_out(path):
    log = open_log(path)
    with pytest.raises(StateError, match="in use"):
        StateFile(path)
    log.close()
    open_log(path).close()


def test_the_lock_holds_over_a_compaction(path):
    log = open_log(path)
    log.save((NewIncarnation(7, 1, False), Queued(1, None, b"x" * (1 << 20)), Acked(0, 0)))
    with pytest.raises(StateError, match="in use"):
        StateFile(path)
    log.close()


def test_another_file_is_left_alone(path):
    path.write_text("something else")
    with pytest.raises(StateError, match="no agent state"):
        open_log(path)
    assert path.read_text() == "something else"


def test_a_state_of_another_release_is_left_alone(path):
    content = MAGIC.replace(b"1", b"2") + b"whatever"
    path.write_bytes(content)
    with pytest.raises(StateError):
        open_log(path)
    assert path.read_bytes() == content


def test_only_the_owner_may_read_it(path):
    open_log(path).close()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_failed_replacement_leaves_the_old_content(path, monkeypatch):
    log = open_log(path)
    log.save(FACTS)
    log.close()
    before = path.read_bytes()
    file = StateFile(path)
    monkeypatch.setattr(os, "fsync", lambda number: (_ for _ in ()).throw(OSError(28, "No space left on device")))
    with pytest.raises(OSError, match="No space"):
        file.replace(b"new")
    assert path.read_bytes() == before
    file.close()
