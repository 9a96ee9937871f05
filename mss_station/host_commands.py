"""`mss-station hosts ...`: who may attach. The whole group learns it from the station where it is said."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from roamcast.mss_station.asking import change, look
from roamcast.mss_station.control import Json
from roamcast.mss_station.rotation import read_host_keys
from roamcast.mss_station.schema import ACTIVE
from roamcast.mss_station.stopped import StoppedStation
from roamcast.transport.credential import Credential, StationAddress
from roamcast.transport.curve import generate
from roamcast.transport.station_files import toml_text, write_credential, write_new


def add_parsers(commands: Any) -> None:
    """Add `hosts` to the commands."""
    hosts = commands.add_parser("hosts", help="who may attach").add_subparsers(title="commands", required=True)

    def add(name: str, action: Callable[[argparse.Namespace], str], about: str, example: str) -> Any:
        one = hosts.add_parser(
            name, help=about, description=about, epilog=f"example: mss-station hosts {name} /var/lib/s1 {example}"
        )
        one.add_argument("dir", type=Path, metavar="DIR")
        one.add_argument("--json", action="store_true", help="for a program")
        one.set_defaults(action=action)
        return one

    one = add("enrol", enrol, "make a host a member; its credential goes to a file", "ann --out ann.toml")
    one.add_argument("name", metavar="NAME")
    one.add_argument("--out", required=True, type=Path, metavar="FILE", help="the credential; must not be there yet")
    one.add_argument("--public-key", metavar="KEY", help="of a pair that the host has made itself (Z85)")
    add("list", show, "all hosts of the group", "--json")
    one = add("revoke", withdraw, "a host may not come any more, for good", "ann")
    one.add_argument("name", metavar="NAME")


def enrol(options: argparse.Namespace) -> str:
    """Enrol a host here. The credential is written first, so that no key is lost; it goes again if that fails."""
    path, name, out = options.dir, options.name, options.out
    config, _, directory = look(path)
    own = StationAddress(config.card.id, config.card.slot, config.card.hosts, read_host_keys(path).public)
    others = [record for record in directory.members() if record.state == ACTIVE and record.id != own.id]
    addresses = [own, *(StationAddress(one.id, one.slot, one.hosts, one.key_for_hosts) for one in others)]
    stations = tuple(sorted(addresses, key=lambda address: address.slot))
    if options.public_key is None:
        keys = generate()
        key = keys.public
        write_credential(out, Credential(config.card.group, name, keys, config.card.slot, stations))
    else:
        key = options.public_key
        _write_public(out, config.card.group, name, key, config.card.slot, stations)
    try:
        request = {"command": "hosts enrol", "name": name, "key": key}
        answer = change(path, request, lambda station: {"host": asdict(station.enrol(name, key))})
    except BaseException:
        out.unlink(missing_ok=True)
        raise
    if options.json:
        return json.dumps({"host": answer["host"], "credential": str(out)})
    told = f"host {name} enrolled; its credential is {out}; the other stations learn of it by themselves"
    if options.public_key is not None:
        told += f'\nthe host must add its secret key to {out}: secret = "..."'
    return told


def _write_public(out: Path, group: str, name: str, key: str, slot: int, stations: tuple[StationAddress, ...]) -> None:
    """A credential to which the host adds the line with its secret."""
    tables = {"stations": [asdict(station) for station in stations]}
    write_new(out, toml_text({"group": group, "name": name, "public": key, "last": slot}, tables), 0o600)


def show(options: argparse.Namespace) -> str:
    """List the hosts."""
    _, _, directory = look(options.dir)
    cards = [(card, False) for card in directory.hosts()] + [(card, True) for card in directory.revoked()]
    hosts = [
        {"name": card.name, "number": card.number, "slot": card.slot, "revoked": revoked}
        for card, revoked in sorted(cards, key=lambda entry: entry[0].number)
    ]
    if options.json:
        return json.dumps(hosts, indent=1)
    lines = [f"{host['name']:<32} {host['number']:>20}  {'revoked' if host['revoked'] else ''}" for host in hosts]
    return "\n".join(line.rstrip() for line in lines)


def withdraw(options: argparse.Namespace) -> str:
    """Revoke a host."""
    name = options.name

    def revoke(station: StoppedStation) -> Json:
        station.updates.revoke(name)
        return {}

    change(options.dir, {"command": "hosts revoke", "name": name}, revoke)
    if options.json:
        return json.dumps({"revoked": name})
    return f"host {name} is revoked; every station ends its session as soon as it learns of it"
