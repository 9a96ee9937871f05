"""How a command gets at a station: what it holds is read from the store, what is to change goes through its process."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from roamcast.middleware.errors import Error
from roamcast.middleware.lan_update.records import LanImage
from roamcast.mss_station.control import ControlError, Json, NotRunning, ask
from roamcast.mss_station.directory import LanDirectory
from roamcast.mss_station.errors import WrongUse
from roamcast.mss_station.stopped import StoppedStation, stopped_station
from roamcast.mss_station.store import read_lan
from roamcast.transport.station_files import StationConfig, read_station


class OutcomeUnknown(Error):
    """The station was asked and has not answered: it may have done what was asked, or do it yet."""


def change(path: Path, request: Json, stopped: Callable[[StoppedStation], Json], unknown: str) -> Json:
    """The answer of the station that runs in `path`; if none does, what `stopped` returns, once that is durable.

    Args:
        unknown: what to say, and how to find out, if no answer comes.

    Raises:
        OutcomeUnknown: no answer has come; with every other Error nothing has changed.
    """
    try:
        try:
            answer = ask(path, request)
        except NotRunning:
            with stopped_station(path) as station:
                result = stopped(station)
            return result
    except ControlError as error:
        raise OutcomeUnknown(f"{error}: {unknown}") from error
    except KeyboardInterrupt:
        raise OutcomeUnknown(f"interrupted: {unknown}") from None
    if not answer["ok"]:
        raise (WrongUse if answer.get("wrong_use") else Error)(answer["error"])
    return answer


def look(path: Path) -> tuple[StationConfig, LanImage, LanDirectory]:
    """The configuration as the station in `path` holds it durably, whether it runs or not."""
    config, image = read_station(path), read_lan(path)
    return config, image, LanDirectory(config.card, image.entries)
