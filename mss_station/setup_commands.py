"""`mss-station init`, `invite`, `join` and `keys rotate`: a station is made, lets others in, and gets other keys."""

from __future__ import annotations

import argparse
import json
import sys
from functools import partial
from pathlib import Path
from typing import Any, Final

from roamcast.middleware.errors import Error
from roamcast.middleware.settings import SECOND
from roamcast.mss_station import rotation
from roamcast.mss_station.asking import change, look
from roamcast.mss_station.clock import Clock
from roamcast.mss_station.control import Json, ask
from roamcast.mss_station.errors import WrongUse
from roamcast.mss_station.founding import fill, found
from roamcast.mss_station.invitations import VALID, VALID_MAX
from roamcast.mss_station.join_client import Names, Rejoin, join
from roamcast.mss_station.own_record import wanted_record
from roamcast.mss_station.stopped import StoppedStation
from roamcast.transport.station_files import create_station
from roamcast.transport.units import DURATIONS, read_number, show_number

CODES: Final = "exit codes: 0 done, 2 wrong use (also a token that is none), 3 not counted in: the last line says why"


def add_parsers(commands: Any) -> None:
    """Add `init`, `invite`, `join` and `keys` to the commands."""
    one = commands.add_parser(
        "init",
        help="make the first station of a group: keys, station.toml, store",
        description="Make the first station of a group: keys, station.toml, and its store. Others join it.",
        epilog="example: mss-station init /var/lib/s1 --id s1 --group g"
        " --hosts tcp://10.0.0.1:7001 --stations tcp://10.0.0.1:7002",
    )
    one.add_argument("dir", type=Path, metavar="DIR")
    one.add_argument("--id", required=True)
    one.add_argument("--slot", default=1, type=int, help="small number, given once, never again (1)")
    one.add_argument("--group", required=True)
    one.add_argument("--hosts", required=True, metavar="ENDPOINT", help="where hosts reach it")
    one.add_argument("--stations", required=True, metavar="ENDPOINT", help="where other stations reach it")
    one.set_defaults(action=init)

    one = commands.add_parser(
        "invite",
        help="a token with which one station may join the group",
        description="Print a token with which one station may join the group. Whoever has it may use it: pass it on as "
        "you would a password. The station must run.",
        epilog="example: mss-station invite /var/lib/s1 --valid 2h",
    )
    one.add_argument("dir", type=Path, metavar="DIR")
    one.add_argument("--valid", default=show_number(VALID, DURATIONS), metavar="TIME", help="1min to 7d (1h)")
    one.add_argument("--json", action="store_true", help="for a program")
    one.set_defaults(action=invite)

    one = commands.add_parser(
        "join",
        help="make a station that belongs to the group of a token",
        description="Make a station that belongs to the group of a token. Every station of the group must confirm; who "
        "is waited for is told. If it is interrupted, give the same command again.",
        epilog="example: mss-station join /var/lib/s2 - --id s2 --hosts tcp://10.0.0.2:7001"
        f" --stations tcp://10.0.0.2:7002 < token; {CODES}",
    )
    one.add_argument("dir", type=Path, metavar="DIR")
    one.add_argument("token", metavar="TOKEN", help="of mss-station invite; - reads it from standard input")
    one.add_argument("--id")
    one.add_argument("--hosts", metavar="ENDPOINT", help="where hosts reach it")
    one.add_argument("--stations", metavar="ENDPOINT", help="where other stations reach it")
    one.add_argument(
        "--rejoin",
        action="store_true",
        help="DIR is a station that its group has given up (stations retire --lost): make another of it, at the same "
        "endpoints, under --id or the next id (s2.2 for s2)",
    )
    one.set_defaults(action=join_group)

    keys = commands.add_parser("keys", help="the keys of a station")
    one = keys.add_subparsers(title="commands", required=True).add_parser(
        "rotate",
        help="other keys, without a break",
        description="Make other keys for the links between stations and for signatures. They take over when every "
        "station of the group lets them in; mss-station status names those that are waited for.",
        epilog="example: mss-station keys rotate /var/lib/s1",
    )
    one.add_argument("dir", type=Path, metavar="DIR")
    one.add_argument(
        "--hosts",
        action="store_true",
        help="the key for hosts instead, at once: a host that knows only this station needs a new credential",
    )
    one.add_argument("--json", action="store_true", help="for a program")
    one.set_defaults(action=rotate)


def init(options: argparse.Namespace) -> str:
    """Make the directory of a group's first station."""
    directory: Path = options.dir
    config = create_station(
        directory,
        id=options.id,
        slot=options.slot,
        group=options.group,
        hosts=options.hosts,
        stations=options.stations,
    )
    found(directory, Clock().wall())
    return f"station {config.card.id} made in {directory}: the first one of group {config.card.group}"


def invite(options: argparse.Namespace) -> str:
    """A token, alone on its line."""
    valid = read_number(options.valid, DURATIONS)
    if valid is None or options.valid.isdigit() or not 60 * SECOND <= valid <= VALID_MAX:
        raise WrongUse(f"--valid must be a duration from 1min to 7d (90min, 2h), not {options.valid!r}")
    answer = ask(options.dir, {"command": "invite", "valid": valid})
    if not answer["ok"]:
        raise Error(answer["error"])
    if options.json:
        return json.dumps({name: answer[name] for name in ("token", "until")})
    return str(answer["token"])


def join_group(options: argparse.Namespace) -> str:
    """Ask the sponsor to be counted in, until it answers."""
    directory: Path = options.dir
    named = (options.id, options.hosts, options.stations)
    if options.rejoin and (options.hosts or options.stations):
        raise WrongUse("--rejoin keeps the endpoints; change them in station.toml")
    if not (options.rejoin or all(named)):
        raise WrongUse("--id, --hosts and --stations are needed, or --rejoin")
    token = sys.stdin.read() if options.token == "-" else options.token
    wall = Clock().wall()
    config = join(
        directory,
        token,
        Rejoin(options.id) if options.rejoin else Names(*named),
        fill=partial(fill, directory, wall=wall),
        wall=wall,
        tell=lambda text: sys.stderr.write(f"{text}\n"),
    )
    card = config.card
    return f"station {card.id} in {directory} is counted in: slot {card.slot} of group {card.group}; start it: run"


def rotate(options: argparse.Namespace) -> str:
    """Begin a rotation, or change the key for hosts."""
    path: Path = options.dir

    def stopped(station: StoppedStation) -> Json:
        if options.hosts:
            rotation.rotate_hosts(path)
        else:
            config, _, known = look(path)
            rotation.begin(path, wanted_record(path, config.card, known.own_record()))
        return {"waits_for": []}

    unknown = f"it is not known whether there are other keys; look with mss-station config history {path} stations/ID"
    waits_for = change(path, {"command": "keys rotate", "hosts": options.hosts}, stopped, unknown)["waits_for"]
    if options.json:
        return json.dumps({"waits_for": waits_for})
    if options.hosts:
        return "hosts that know only the former key of this station cannot attach here without a new credential"
    named = f"; waiting for {', '.join(waits_for)}" if waits_for else ""
    return f"new keys are made; they take over when every station lets them in{named}"
