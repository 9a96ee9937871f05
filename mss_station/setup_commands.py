"""`mss-station init` and `mss-station peers add`: what is done before a station runs."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from roamcast.middleware.errors import Error
from roamcast.mss_station.directory import FileDirectory
from roamcast.mss_station.lock import DirectoryLock
from roamcast.mss_station.opening import open_store
from roamcast.mss_station.store import StationIdentity, Store
from roamcast.transport.station_files import (
    PEERS,
    STATION_CARD,
    StationCard,
    create_station,
    read_station,
    read_station_card,
    write_card,
)


class WrongUse(Error):
    """A command was given what it cannot take."""


def add_parsers(commands: Any) -> None:
    """Add `init` and `peers` to the commands."""
    init_parser = commands.add_parser(
        "init",
        help="make a station's directory: keys, station.toml, station.pub, empty store",
        epilog="example: mss-station init /var/lib/s1 --id s1 --slot 1 --group g"
        " --hosts tcp://10.0.0.1:7001 --stations tcp://10.0.0.1:7002",
    )
    init_parser.add_argument("dir", type=Path, metavar="DIR")
    init_parser.add_argument("--id", required=True)
    init_parser.add_argument("--slot", required=True, type=int, help="small number, given once, never again")
    init_parser.add_argument("--group", required=True)
    init_parser.add_argument("--hosts", required=True, metavar="ENDPOINT", help="where hosts reach it")
    init_parser.add_argument("--stations", required=True, metavar="ENDPOINT", help="where other stations reach it")
    init_parser.set_defaults(action=init)

    peers = commands.add_parser("peers", help="the other stations").add_subparsers(title="commands", required=True)
    adding = peers.add_parser(
        "add",
        help="make other stations known to this one, before its first run",
        epilog="example: mss-station peers add /var/lib/s1 s2/station.pub s3/station.pub",
    )
    adding.add_argument("dir", type=Path, metavar="DIR")
    adding.add_argument("files", type=Path, metavar="FILE.pub", nargs="+")
    adding.set_defaults(action=add_peers)


def init(options: argparse.Namespace) -> str:
    """Make the directory of a new station."""
    directory: Path = options.dir
    config = create_station(
        directory,
        id=options.id,
        slot=options.slot,
        group=options.group,
        hosts=options.hosts,
        stations=options.stations,
    )
    card = config.card
    with DirectoryLock(directory):
        Store.create(directory, StationIdentity(card.id, card.slot, card.generation))
    return f"station {card.id} made in {directory}; give {directory / STATION_CARD} to its peers"


def add_peers(options: argparse.Namespace) -> str:
    """Write the cards of peers into the directory. All or none of them are taken."""
    directory: Path = options.dir
    cards = [read_station_card(path) for path in options.files]
    with DirectoryLock(directory):
        config = read_station(directory)
        _check(config.card, FileDirectory(directory).stations(), cards)
        with open_store(directory, config) as store:
            if any(stream.floor for stream in store.load().streams.values()):
                raise WrongUse(f"{directory} has dropped messages already that a new peer would need")
        for card in cards:
            write_card(directory / PEERS / f"{card.id}.pub", card)
    return f"{directory} knows {', '.join(card.id for card in cards)}"


def _check(own: StationCard, known: list[StationCard], cards: list[StationCard]) -> None:
    taken = [own, *(card for card in known if card.id not in [new.id for new in cards])]
    for card in cards:
        if card.group != own.group:
            raise WrongUse(f"{card.id} belongs to group {card.group!r}, this station to {own.group!r}")
        if card.key == own.key:
            raise WrongUse(f"{card.id} is this station itself; give the station.pub of the others")
        for other in taken:
            if card.id == other.id or card.slot == other.slot or card.key == other.key:
                raise WrongUse(f"id, slot or key of {card.id!r} is that of {other.id!r}")
        taken.append(card)
    for card in known:
        for new in cards:
            if card.id == new.id and card != new:
                raise WrongUse(f"{card.id} is known already with another slot, key or endpoint")
