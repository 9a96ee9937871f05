"""`mss-station hosts ...`: a running station does it itself, at a stopped one the command does it under the lock."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from roamcast.middleware.effects import Persist
from roamcast.middleware.errors import Error
from roamcast.mss_station.control import Json, NotRunning, ask
from roamcast.mss_station.directory import FileDirectory
from roamcast.mss_station.lock import DirectoryLock
from roamcast.mss_station.membership import check_card, host_list, new_host, put_card, revoke
from roamcast.mss_station.opening import greet, make_core, open_store
from roamcast.mss_station.server import Clock
from roamcast.mss_station.setup_commands import WrongUse
from roamcast.transport.credential import Credential, StationAddress
from roamcast.transport.curve import generate
from roamcast.transport.station_files import (
    HOSTS,
    HostCard,
    read_host_card,
    read_station,
    toml_text,
    write_credential,
    write_new,
)


def add_parsers(commands: Any) -> None:
    """Add `hosts` to the commands."""
    hosts = commands.add_parser("hosts", help="who may attach").add_subparsers(title="commands", required=True)

    def add(name: str, action: Callable[[argparse.Namespace], str], about: str, example: str) -> Any:
        one = hosts.add_parser(name, help=about, epilog=f"example: mss-station hosts {name} /var/lib/s1 {example}")
        one.add_argument("dir", type=Path, metavar="DIR")
        one.set_defaults(action=action)
        return one

    one = add("enrol", enrol, "make a host a member; its credential goes to a file", "ann --out ann.toml")
    one.add_argument("name", metavar="NAME")
    one.add_argument("--out", required=True, type=Path, metavar="FILE", help="the credential; must not be there yet")
    one.add_argument("--public-key", metavar="KEY", help="of a pair that the host has made itself (Z85)")
    one = add("import", take, "make a host known that another station has enrolled", "ann.pub")
    one.add_argument("file", type=Path, metavar="NAME.pub")
    one = add("list", show, "all hosts that are known here", "--json")
    one.add_argument("--json", action="store_true")
    one = add("revoke", withdraw, "a host may not come any more, for good", "ann")
    one.add_argument("name", metavar="NAME")


def _at_station(directory: Path, request: Json, offline: Callable[[], Json]) -> Json:
    """The answer of the station that runs on `directory`; if none does, what `offline` returns under the lock."""
    try:
        answer = ask(directory, request)
    except NotRunning:
        with DirectoryLock(directory):
            return offline()
    if not answer["ok"]:
        raise (WrongUse if answer.get("wrong_use") else Error)(answer["error"])
    return answer


def enrol(options: argparse.Namespace) -> str:
    """Enrol a host here. The credential is written first, so that no key is lost; it goes again if that fails."""
    directory: Path = options.dir
    config = read_station(directory)
    cards = sorted([config.card, *FileDirectory(directory).stations()], key=lambda card: card.slot)
    stations = tuple(StationAddress(card.id, card.slot, card.hosts, card.key) for card in cards)
    name, out = options.name, options.out
    if options.public_key is None:
        keys = generate()
        key = keys.public
        write_credential(out, Credential(config.card.group, name, keys, config.card.slot, stations))
    else:
        key = options.public_key
        _write_public(out, config.card.group, name, key, config.card.slot, stations)
    try:
        request = {"command": "hosts enrol", "name": name, "key": key}
        _at_station(directory, request, lambda: _enrol_offline(directory, name, key))
    except BaseException:
        out.unlink(missing_ok=True)
        raise
    card = directory / HOSTS / f"{name}.pub"
    told = f"host {name} enrolled; its credential is {out}; import {card} at the other stations"
    if options.public_key is not None:
        told += f'\nthe host must add its secret key to {out}: secret = "..."'
    return told


def _write_public(out: Path, group: str, name: str, key: str, slot: int, stations: tuple[StationAddress, ...]) -> None:
    """A credential to which the host adds the line with its secret."""
    tables = {"stations": [asdict(station) for station in stations]}
    write_new(out, toml_text({"group": group, "name": name, "public": key, "last": slot}, tables), 0o600)


def _enrol_offline(directory: Path, name: str, key: str) -> Json:
    config, members, clock = read_station(directory), FileDirectory(directory), Clock()
    members.changes()
    with open_store(directory, config) as store:
        core = make_core(members, config.card.slot, store.load())
        core.begin(clock.now(), clock.wall())
        greet(members, core)
        core.set_linked()
        card = new_host(members, core, config.card.slot, name, key)
        core.enrol(card.number, name)
        effects = core.flush()  # what would be sent is asked for by the peers when the station runs
        store.commit([write for effect in effects if isinstance(effect, Persist) for write in effect.writes])
    put_card(directory, card)
    return {"ok": True}


def take(options: argparse.Namespace) -> str:
    """Import the card of a host."""
    directory: Path = options.dir
    card = read_host_card(options.file)
    _at_station(directory, {"command": "hosts import", "host": asdict(card)}, lambda: _import_offline(directory, card))
    return f"host {card.name} is known to {directory}"


def _import_offline(directory: Path, card: HostCard) -> Json:
    members = FileDirectory(directory)
    members.changes()
    check_card(members, card)
    put_card(directory, card)
    return {"ok": True}


def show(options: argparse.Namespace) -> str:
    """List the hosts."""
    members = FileDirectory(options.dir)
    members.changes()
    hosts = host_list(members)
    if options.json:
        return json.dumps(hosts, indent=1)
    lines = [f"{host['name']:<32} {host['number']:>20}  {'revoked' if host['revoked'] else ''}" for host in hosts]
    return "\n".join(line.rstrip() for line in lines)


def withdraw(options: argparse.Namespace) -> str:
    """Revoke a host."""
    directory: Path = options.dir
    request = {"command": "hosts revoke", "name": options.name}
    _at_station(directory, request, lambda: _revoke_offline(directory, options.name))
    return f"host {options.name} is revoked at {directory}; revoke it at the other stations too"


def _revoke_offline(directory: Path, name: str) -> Json:
    members = FileDirectory(directory)
    members.changes()
    revoke(directory, members, name)
    return {"ok": True}
