"""`mss-station hosts ...`: who may attach. The whole group learns it from the station where it is said."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from roamcast.middleware.errors import Error
from roamcast.mss_station.asking import OutcomeUnknown, change, look
from roamcast.mss_station.control import Json
from roamcast.mss_station.directory import LanDirectory
from roamcast.mss_station.errors import SchemaError
from roamcast.mss_station.rotation import read_host_keys
from roamcast.mss_station.schema import ACTIVE, HostCard
from roamcast.mss_station.stopped import StoppedStation
from roamcast.mss_station.updates import check_host
from roamcast.transport.credential import Credential, StationAddress, read_keys
from roamcast.transport.curve import generate
from roamcast.transport.errors import KeyFileError
from roamcast.transport.limits import SLOT_MAX
from roamcast.transport.station_files import StationCard, TomlTable, toml_text, write_credential, write_new
from roamcast.transport.toml_files import read_table


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
    one.add_argument(
        "--out",
        required=True,
        type=Path,
        metavar="FILE",
        help="the credential; one that is there is used if the same command has left it",
    )
    one.add_argument("--public-key", metavar="KEY", help="of a pair that the host has made itself (Z85)")
    add("list", show, "all hosts of the group", "--json")
    one = add("revoke", withdraw, "a host may not come any more, for good", "ann")
    one.add_argument("name", metavar="NAME")


def enrol(options: argparse.Namespace) -> str:
    """Enrol a host here. The credential is written first, so that no key is lost; it goes again if that is refused.

    Where no answer comes it stays: the same command takes its key again, whether the host is enrolled by then or not.
    """
    path, name, out = options.dir, options.name, options.out
    config, _, directory = look(path)
    again, card = out.exists(), directory.named(name)
    key = _key_of(options, config.card) if again else _write(options, config.card, directory)
    if again and card is not None and card.key != key:
        raise SchemaError(f"host {name!r} is enrolled already, with another key than that in {out}")
    if not again or card is None:
        card = _ask(options, key, again)
    if options.json:
        return json.dumps({"host": asdict(card), "credential": str(out)})
    told = f"host {name} enrolled; its credential is {out}; the other stations learn of it by themselves"
    if options.public_key is not None and not again:
        told += f'\nthe host must add its secret key to {out}: secret = "..."'
    return told


def _ask(options: argparse.Namespace, key: str, again: bool) -> HostCard:
    """Let the station enrol the host; where it refuses, the credential goes, unless it was there before."""
    path, name, out = options.dir, options.name, options.out
    request = {"command": "hosts enrol", "name": name, "key": key}
    unknown = f"it is not known whether host {name} is enrolled; its key is in {out}: give the same command again"
    try:
        answer = change(path, request, lambda station: {"host": asdict(station.enrol(name, key))}, unknown)
    except OutcomeUnknown:
        raise
    except Error:
        if not again:
            out.unlink(missing_ok=True)
            raise
        card = look(path)[2].named(name)
        if card is None or card.key != key:
            raise
        return card  # what was asked for before has been done now
    return HostCard(**answer["host"])


def _write(options: argparse.Namespace, own: StationCard, directory: LanDirectory) -> str:
    """Write the credential; returns the host's public key."""
    check_host(options.name, options.public_key)
    here = StationAddress(own.id, own.slot, own.hosts, read_host_keys(options.dir).public)
    others = [record for record in directory.members() if record.state == ACTIVE and record.id != own.id]
    addresses = [here, *(StationAddress(one.id, one.slot, one.hosts, one.key_for_hosts) for one in others)]
    stations = tuple(sorted(addresses, key=lambda address: address.slot))
    if options.public_key is None:
        keys = generate()
        write_credential(options.out, Credential(own.group, options.name, keys, own.slot, stations))
        return keys.public
    key = str(options.public_key)
    tables = {"stations": [asdict(station) for station in stations]}
    values: TomlTable = {"group": own.group, "name": options.name, "public": key, "last": own.slot}
    write_new(options.out, toml_text(values, tables), 0o600)  # the host adds the line with its secret
    return key


def _key_of(options: argparse.Namespace, own: StationCard) -> str:
    """The host's public key in the credential that the same command has left before. Raises KeyFileError."""
    out, wanted = options.out, (own.group, options.name, own.slot)
    try:
        table = read_table(out, private=True)
        key = read_keys(table).public if options.public_key is None else table.key("public")
        found = table.name("group"), table.name("name"), table.integer("last", 0, SLOT_MAX)
    except KeyFileError as error:
        raise KeyFileError(f"{out} is there already; it is not overwritten ({error})") from None
    if found != wanted or options.public_key not in (None, key):
        raise KeyFileError(
            f"{out} is there already; it is not overwritten: this command has not left it, for it is that of host "
            f"{found[1]} of group {found[0]}, enrolled in slot {found[2]}, or has another key"
        )
    return key


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

    unknown = f"it is not known whether host {name} is revoked; give the same command again"
    change(options.dir, {"command": "hosts revoke", "name": name}, revoke, unknown)
    if options.json:
        return json.dumps({"revoked": name})
    return f"host {name} is revoked; every station ends its session as soon as it learns of it"
