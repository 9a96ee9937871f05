"""How a command gets at a station: what it holds is read from the store, what is to change goes through its process."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from roamcast.middleware.errors import Error
from roamcast.middleware.lan_update.records import LanImage
from roamcast.mss_station.control import Json, NotRunning, ask
from roamcast.mss_station.directory import LanDirectory
from roamcast.mss_station.errors import WrongUse
from roamcast.mss_station.stopped import StoppedStation, stopped_station
from roamcast.mss_station.store import read_lan
from roamcast.transport.station_files import StationConfig, read_station


def change(path: Path, request: Json, stopped: Callable[[StoppedStation], Json]) -> Json:
    """The answer of the station that runs in `path`; if none does, what `stopped` returns, once that is durable."""
    try:
        answer = ask(path, request)
    except NotRunning:
        with stopped_station(path) as station:
            result = stopped(station)
        return result
    if not answer["ok"]:
        raise (WrongUse if answer.get("wrong_use") else Error)(answer["error"])
    return answer


def look(path: Path) -> tuple[StationConfig, LanImage, LanDirectory]:
    """The configuration as the station in `path` holds it durably, whether it runs or not."""
    config, image = read_station(path), read_lan(path)
    return config, image, LanDirectory(config.card, image.entries)
