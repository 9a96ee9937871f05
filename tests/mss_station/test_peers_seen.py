"""What was seen of peers survives a restart; a damaged file stops nobody."""

from __future__ import annotations

from pathlib import Path

import pytest

from roamcast.middleware.link_effects import Seen
from roamcast.mss_station.peers_seen import FILE_NAME, PeersSeen


def test_what_was_seen_is_read_back(tmp_path: Path) -> None:
    first = PeersSeen(tmp_path)
    first.remember(2, Seen(3, 1 << 63))
    first.remember(1, Seen(1, 9))
    first.remember(2, Seen(4, 7))
    assert PeersSeen(tmp_path).seen == {1: Seen(1, 9), 2: Seen(4, 7)}
    assert [path.name for path in tmp_path.iterdir()] == [FILE_NAME]


@pytest.mark.parametrize("content", ["", "{", "[]", '{"1": 2}', '{"x": {"starts": 1, "boot": 1}}'])
def test_a_damaged_file_is_made_anew(tmp_path: Path, content: str) -> None:
    (tmp_path / FILE_NAME).write_text(content)
    seen = PeersSeen(tmp_path)
    assert seen.seen == {}
    seen.remember(1, Seen(1, 2))
    assert PeersSeen(tmp_path).seen == {1: Seen(1, 2)}


def test_a_file_that_cannot_be_written_is_only_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    seen = PeersSeen(tmp_path / "missing")
    seen.remember(1, Seen(1, 2))
    assert seen.seen == {1: Seen(1, 2)}
    assert "cannot be written" in caplog.text
