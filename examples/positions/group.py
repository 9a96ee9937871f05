"""The stations of the example, as an operator has them: killed, started again, given up, replaced."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from demo.cluster import Cluster, Station, program, station_command
from demo.interrupts import shielded
from positions.streets import MASTS

TOPIC: Final = "positions"
VIEWER: Final = "viewer"
SETTINGS: Final = {
    "copies": "2",  # what is acknowledged outlives any one station
    "attach-interval": "100ms",  # vehicles change cells often
    "attach-burst": "100",
}
ACTIONS: Final = ("pull", "start", "give-up")


class Refused(Exception):
    """An action cannot be done now; the text says why."""


class Mast:
    """A place where a station stands. `state` is up, down, starting, lost, joining; what hosts hear is `up` alone."""

    def __init__(self, number: int, station: Station) -> None:
        self.number, self.station = number, station
        self.x, self.y = MASTS[number - 1]
        self.state = "starting"
        self.lives = 1
        """Stations that have stood here; one that was given up is followed by another one."""
        self.joining: subprocess.Popen[bytes] | None = None

    @property
    def id(self) -> str:
        """Of the station that stands here now."""
        return self.station.id


class Group:
    """The masts. All but `air` is for the main thread."""

    def __init__(self, home: Path, count: int, say: Callable[[str], None]) -> None:
        self._home, self._say = home, say
        self._cluster = Cluster(home, count)
        self.masts = [Mast(i + 1, station) for i, station in enumerate(self._cluster.stations)]

    def start(self, names: Sequence[str]) -> dict[str, Path]:
        """Set up and start the group; returns the hosts' credentials. Raises CommandFailed."""
        first = self.masts[0].station.directory
        for name, value in SETTINGS.items():
            station_command("config", "set", first, f"settings/{name}", value)
        station_command("topics", "add", first, TOPIC)
        self._cluster.enrol([VIEWER, *names])
        self._cluster.start()
        self._cluster.wait_serving()
        self._cluster.wait_topics([TOPIC])
        for mast in self.masts:
            mast.state = "up"
        return self._cluster.credentials

    def air(self) -> list[tuple[str, int, int]]:
        """What a host hears: (id, x, y) of the stations that are on the air. For any thread."""
        return [(mast.id, mast.x, mast.y) for mast in self.masts if mast.state == "up"]

    def act(self, action: str, number: int) -> None:
        """Do what somebody at the page wants done to a mast's station. Raises Refused, CommandFailed."""
        if not 1 <= number <= len(self.masts) or action not in ACTIONS:
            raise Refused("there is no such station")
        mast = self.masts[number - 1]
        if action == "pull":
            self._pull(mast)
        elif action == "give-up":
            self._give_up(mast)
        elif mast.state == "down":
            mast.station.start()
            mast.state = "starting"
            self._say(f"{mast.id} is started again")
        elif mast.state == "lost":
            self._replace(mast)
        else:
            raise Refused(f"{mast.id} is {mast.state}")

    def look(self) -> None:
        """See how far what was begun has come, and who has ended of his own accord."""
        for mast in self.masts:
            if mast.joining is not None and mast.joining.poll() is not None:
                self._joined(mast, mast.joining.returncode)
            elif mast.state in ("up", "starting") and not mast.station.running:
                mast.state = "down"
                self._say(f"{mast.id} has ended; its log: {mast.station.log}")
            elif mast.state == "starting" and mast.station.serves():
                mast.state = "up"
                self._say(f"{mast.id} is on the air")

    def close(self) -> None:
        """End all processes."""
        for mast in self.masts:
            if mast.joining is not None:
                mast.joining.kill()
                mast.joining.wait()
        self._cluster.close()

    def _pull(self, mast: Mast) -> None:
        if mast.state != "up":
            raise Refused(f"{mast.id} is {mast.state}")
        if any(other.state != "up" for other in self.masts if other is not mast):
            raise Refused("one at a time: another station is not there")
        mast.state = "down"
        mast.station.kill()
        self._say(f"the plug of {mast.id} is pulled: SIGKILL")

    def _give_up(self, mast: Mast) -> None:
        if mast.state != "down":
            raise Refused(f"{mast.id} is {mast.state}")
        station_command("stations", "retire", self._living(), mast.id, "--lost", "--force")
        mast.state = "lost"
        mast.station.over = True
        self._say(f"{mast.id} is given up: its hosts go on elsewhere")

    def _replace(self, mast: Mast) -> None:
        """Another station, of the old one's directory and at its endpoints: it joins as any newcomer does."""
        token = station_command("invite", self._living())
        mast.lives += 1
        name = f"s{mast.number}.{mast.lives}"
        with mast.station.log.open("ab") as log, shielded():
            mast.joining = subprocess.Popen(
                [program("mss-station"), "join", str(mast.station.directory), "-", "--rejoin", "--id", name],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        assert mast.joining.stdin is not None
        with mast.joining.stdin as asking:
            asking.write(token.encode())
        mast.state = "joining"
        self._say(f"{name} is invited to stand in the place of {mast.id}")

    def _joined(self, mast: Mast, code: int) -> None:
        mast.joining = None
        if code:
            mast.state = "lost"
            self._say(f"nobody could join in the place of {mast.id} (exit {code}); see {mast.station.log}")
            return
        mast.station.id = f"s{mast.number}.{mast.lives}"
        mast.station.over = False
        mast.station.start()
        mast.state = "starting"
        self._say(f"{mast.id} has joined")

    def _living(self) -> Path:
        """The directory of a station that runs. Raises Refused."""
        for mast in self.masts:
            if mast.state == "up":
                return mast.station.directory
        raise Refused("no station is there that could be told")
