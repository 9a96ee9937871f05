"""`mss-station stations ...`: who belongs to the group, and the end of a membership."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any, Final

from roamcast.middleware.errors import Error
from roamcast.mss_station.asking import look
from roamcast.mss_station.control import Json, NotRunning, ask
from roamcast.mss_station.errors import WrongUse
from roamcast.mss_station.tables import columns

ORDERLY: Final = """\
Its hosts are sent to the other stations; {heir} takes its place for those that sleep. It must run until that is done:
then it ends by itself, with exit code 0, and its directory can be removed.
What it still waits for: mss-station status at {id}. Whether it has ended: mss-station stations list {dir}"""

LOST: Final = """\
Its hosts are asked what they have when they attach elsewhere: they get the rest once. What {id} alone had is lost: a
message that it had acknowledged and passed on to nobody (its sender is told), and what waited at {id} for a host that
was away and was collected elsewhere (the host is told that it has missed messages). Slot {slot} is never used again."""

PARTS: Final = """\
{id} is the last gateway of two clusters: when it has ended, the group is one flat cluster of all. Set settings/clusters
anew without it."""

WAITED_FOR: Final = """\
Until its hosts have come, or were away for longer than settings/away-max, messages that they may need are kept. Do not
wait for them any more: mss-station stations retire {dir} {id} --lost --release"""

RELEASED: Final = "Its hosts are not waited for: those that still come are told that they may have missed messages."


def add_parsers(commands: Any) -> None:
    """Add `stations` to the commands."""
    stations = commands.add_parser("stations", help="the stations of the group")
    subcommands = stations.add_subparsers(title="commands", required=True)

    one = subcommands.add_parser(
        "list",
        help="all stations that belong to the group, or did",
        description="All stations that belong to the group, or did. `final`: the end is settled among all others.",
        epilog="example: mss-station stations list /var/lib/s1 --json",
    )
    one.add_argument("dir", type=Path, metavar="DIR")
    one.add_argument("--json", action="store_true", help="for a program")
    one.set_defaults(action=list_stations)

    one = subcommands.add_parser(
        "retire",
        help="end the membership of a station, in order or because it is lost",
        description="End the membership of a station: in order, while it runs, or with --lost because it will never "
        "come back. Say it at any running station of the group.",
        epilog="example: mss-station stations retire /var/lib/s1 s3 --heir s2",
    )
    one.add_argument("dir", type=Path, metavar="DIR", help="of a station that runs")
    one.add_argument("id", metavar="ID", help="of the station that is to end")
    one.add_argument("--heir", metavar="ID", help="who takes its place for hosts that sleep (the first one linked)")
    one.add_argument("--lost", action="store_true", help="it will never come back; what it alone had is gone")
    one.add_argument("--release", action="store_true", help="with --lost, also later: do not wait for its hosts")
    one.add_argument("--force", action="store_true", help="with --lost: although it seems to live")
    one.add_argument("--json", action="store_true", help="for a program")
    one.set_defaults(action=retire)


# ---- list ----


def list_stations(options: argparse.Namespace) -> str:
    """All stations, with their links and ends as this one sees them if it runs."""
    config, _, directory = look(options.dir)
    try:
        status = ask(options.dir, {"command": "status"})["status"]
    except NotRunning:
        status = None
    told = [
        {
            "id": one.id,
            "slot": one.slot,
            "state": one.state,
            "own": one.id == config.card.id,
            "heir": one.heir,
            "hosts": one.hosts,
            "stations": one.stations,
            **_seen(one.slot, status),
        }
        for one in directory.members()
    ]
    if options.json:
        return json.dumps(told, indent=1)
    rows = [[one["id"], one["slot"], _state(one), _end(one), _link(one), one["hosts"], one["stations"]] for one in told]
    lines = columns(["station", "slot", "state", "end", "link", "hosts", "stations"], rows)
    for one in told:
        lines += [f"{one['id']} waits: {text}" for text in one["obstacles"] or []]
    return "\n".join(lines).rstrip()


def _seen(slot: int, status: Json | None) -> Json:
    """What a running station knows of another one; None: it does not run, or that does not apply."""
    if status is None:
        return dict.fromkeys(("linked", "end", "waits_for", "guarded", "obstacles"))
    group = status["group"]
    end = next((end for end in group["ended"] if end["slot"] == slot), None)
    own = slot == status["station"]["slot"]
    return {
        "linked": {link["slot"]: bool(link["linked"]) for link in status["links"]}.get(slot),
        "end": None if end is None else "final" if end["cut"] is not None else "closed",
        "waits_for": None if end is None else end["waits_for"],
        "guarded": None if end is None else end["guarded"],
        "obstacles": group["retiring"]["obstacles"] if own and group["retiring"] else None,
    }


def _state(station: Json) -> str:
    return f"{station['state']}, heir {station['heir']}" if station["heir"] else str(station["state"])


def _end(station: Json) -> str:
    if station["end"] is None:
        return ""
    if station["end"] == "closed":
        return f"not final yet, waits for {', '.join(station['waits_for'])}"
    return "final, its hosts are waited for" if station["guarded"] else "final"


def _link(station: Json) -> str:
    if station["own"]:
        return "this one"
    return "" if station["linked"] is None else "linked" if station["linked"] else "not linked"


# ---- retire ----


def retire(options: argparse.Namespace) -> str:
    """End the membership of a station."""
    if options.lost and options.heir is not None:
        raise WrongUse("a lost station has no heir: its hosts are asked themselves")
    if not options.lost and (options.release or options.force):
        raise WrongUse("--release and --force go with --lost")
    request = {
        "command": "stations retire",
        "id": options.id,
        "heir": options.heir,
        "lost": options.lost,
        "release": options.release,
        "force": options.force,
    }
    try:
        answer = ask(options.dir, request)
    except NotRunning as error:
        raise Error(f"{error}; say it at a station of the group that runs") from None
    if not answer["ok"]:
        raise (WrongUse if answer.get("wrong_use") else Error)(answer["error"])
    done = answer["done"]
    if options.json:
        return json.dumps(done)
    lines = _told_lost(done) if options.lost else _told_orderly(done)
    if done["parts"]:
        lines.append(PARTS)
    return "\n".join(lines).format(**done, dir=options.dir)


def _told_orderly(done: Json) -> list[str]:
    lines = ["{id} is being retired; its heir is {heir}.", ORDERLY]
    if not done["linked"]:
        lines.append("{id} is not linked: it begins when it runs. If it never will: stations retire {dir} {id} --lost")
    return lines


def _told_lost(done: Json) -> list[str]:
    return ["{id} is given up as lost.", LOST, RELEASED if done["released"] else WAITED_FOR]
