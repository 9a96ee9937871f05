"""The group under the chat: three stations as processes on this machine, rooms, and who may be in them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from demo.cluster import Cluster, CommandFailed, station_command

STATIONS: Final = 3
ROOMS: Final = ("lobby", "garden", "vault")
INSIDERS: Final = ("bob", "eve")
"""Who may be in the vault."""


class Group:
    """All that an operator sets up, by the commands that an operator types."""

    def __init__(self, home: Path) -> None:
        self._cluster = Cluster(home, STATIONS)

    def start(self, people: list[str]) -> None:
        """Make rooms, enrol people, start the stations. Raises CommandFailed."""
        first = self._cluster.stations[0].directory
        station_command("config", "set", first, "settings/presence", "on")
        station_command("config", "set", first, "settings/presence-grace", "1s")
        for room in ROOMS:
            who = ",".join(INSIDERS)
            private = ("--send", who, "--receive", who) if room == "vault" else ()
            station_command("topics", "add", first, room, *private)
        self._cluster.enrol(people)
        self._cluster.start()
        self._cluster.wait_topics(ROOMS)

    def close(self) -> None:
        """End the stations."""
        self._cluster.close()


def credential(home: Path, name: str) -> Path:
    """The credential of a person, who is enrolled now if he never was. Raises CommandFailed."""
    file = home / "hosts" / f"{name}.toml"
    if not file.exists():
        station_command("hosts", "enrol", home / "s1", name, "--out", file)
    return file


def change_rights(home: Path, verb: str, room: str, name: str) -> Iterator[str]:
    """`grant` or `revoke` both rights on a room, as an operator does; yields the commands and what they say."""
    for right in ("receive", "send"):
        words = ("topics", verb, "s1", room, right, name)
        yield f"$ mss-station {' '.join(words)}"
        try:
            yield station_command("topics", verb, home / "s1", room, right, name).splitlines()[0]
        except CommandFailed as error:
            yield str(error).splitlines()[-1]
            return
