"""A stopped station with a log."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from roamcast.middleware.delivery_log import CLOSED, Logged
from roamcast.mss_station.cli import main
from roamcast.mss_station.clock import Clock
from roamcast.mss_station.log.heads import read_heads
from roamcast.mss_station.opening import make_log, open_store
from roamcast.mss_station.schema import LogHead, log_key, log_value
from roamcast.mss_station.signing import Signer
from roamcast.mss_station.stopped import stopped_station
from roamcast.mss_station.store import read_lan
from roamcast.mss_station.tally import Tally
from roamcast.transport.station_files import read_signing_key, read_station

HERE = str(Path(__file__).resolve().parent)
if HERE not in sys.path:
    sys.path.insert(0, HERE)


@pytest.fixture
def home(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    """A station with three closed segments, the last of which all know of."""
    path = tmp_path / "s1"
    ends = ["--hosts", "tcp://10.0.0.1:1", "--stations", "tcp://10.0.0.1:2"]
    assert main(["init", str(path), "--id", "s1", "--group", "g", *ends]) == 0
    config = read_station(path)
    signer = Signer(read_signing_key(path), config.card.group)
    for number in range(3):
        with open_store(path, config) as opened:
            log = make_log(path, config.card, signer, opened, Clock(), Tally())
            opened.store.commit(log.take([Logged(CLOSED, (number, 0, 0))], True))
            log.closed(True, True)
            log.close()
    with stopped_station(path) as station:
        assert log.head is not None
        card = config.card
        station._node.put(log_key("s1"), log_value(LogHead(card.slot, card.generation, *log.head)))
    assert read_heads(read_lan(path).entries)[card.slot].seq == 3
    capsys.readouterr()
    return path
