"""Enrolling, importing and revoking hosts: checks, and the files that say so. At a running station the station does it,
at a stopped one the command, under the directory's lock."""

from __future__ import annotations

from pathlib import Path

from roamcast.middleware.station.core import StationCore
from roamcast.mss_station.directory import Directory
from roamcast.transport.curve import is_key
from roamcast.transport.errors import KeyFileError
from roamcast.transport.limits import UINT32_MAX
from roamcast.transport.station_files import HOSTS, HostCard, write_card, write_revoked
from roamcast.transport.toml_files import NAME


def new_host(directory: Directory, core: StationCore, slot: int, name: str, key: str) -> HostCard:
    """The card of a host that is about to be enrolled: its number is the next of this station.

    Raises:
        KeyFileError: the name or the key is not acceptable, or is taken.
    """
    if not NAME.fullmatch(name):
        raise KeyFileError(f"{name!r} is not acceptable as a name: at most 64 letters, digits, '.', '_' or '-'")
    if not is_key(key):
        raise KeyFileError("the public key must be a key of 40 signs (Z85)")
    cards = [*directory.hosts(), *directory.revoked()]
    numbers = [*(card.number for card in cards), *core.ledger.hosts, *core.ledger.names]
    numbers += [mh[0] for mh in core.ledger.records]
    counter = 1 + max((number & UINT32_MAX for number in numbers if number >> 32 == slot), default=0)
    card = HostCard(name, slot << 32 | counter, key, slot)
    check_card(directory, card)
    return card


def check_card(directory: Directory, card: HostCard) -> None:
    """Raise KeyFileError if the name, number or key of `card` is that of another host, or of the same one revoked."""
    for other in directory.revoked():
        if card.name == other.name:
            raise KeyFileError(f"host {card.name!r} was revoked; enrol it again under a new name")
    for other in [*directory.hosts(), *directory.revoked()]:
        if other != card and (other.name == card.name or other.number == card.number or other.key == card.key):
            raise KeyFileError(f"the name, number or key of {card.name!r} is that of {other.name!r}, enrolled already")


def put_card(path: Path, card: HostCard) -> None:
    """Write the card into the station's directory. Raises KeyFileError."""
    write_card(path / HOSTS / f"{card.name}.pub", card)


def revoke(path: Path, directory: Directory, name: str) -> None:
    """Revoke a host for good. Raises KeyFileError if there is none of that name."""
    if name in [card.name for card in directory.revoked()]:
        return
    if name not in [card.name for card in directory.hosts()]:
        raise KeyFileError(f"there is no host {name!r} here; `mss-station hosts list` shows all")
    write_revoked(path, name)


def host_list(directory: Directory) -> list[dict[str, object]]:
    """Name, number, enrolling slot and revocation of every known host, by number."""
    cards = [(card, False) for card in directory.hosts()] + [(card, True) for card in directory.revoked()]
    return [
        {"name": card.name, "number": card.number, "slot": card.slot, "revoked": revoked}
        for card, revoked in sorted(cards, key=lambda entry: entry[0].number)
    ]
