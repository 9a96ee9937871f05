"""`mss-station keys rotate`: new keys for a station that its group and its hosts know by the old ones.

A station has a CURVE pair for the links between stations (curve.key), an Ed25519 pair (signing.key), and a CURVE pair
for hosts (hosts.key; there is no such file until the first rotation: the pair of curve.key serves both).

Between stations. A socket that is bound serves under one key, and peers connect to a key that they know: so they have
to know the new one before it is used. What is durable when:

1. `begin`: hosts.key keeps the pair that hosts know, next.key holds the new pairs. Nothing has been said yet.
2. The station's record in the group is put with the keys [new, old], signed with the old one (`announced`). A member
   that has the record lets both in, and takes signatures by both.
3. The station waits until every active member lets the new CURVE key in, which it asks them by connecting under it
   (`key_probes`). It need not remember the answers: after a restart it asks again. A member that is down is waited for
   until it comes or is retired; until then the old keys are in use, and nobody notices anything.
4. `switch`: next.key becomes curve.key and signing.key, the secrets of the old ones are gone. If the process ends half
   way, the next start finishes it (`recover`). Then the sockets take the new key, and the record is put with the new
   CURVE key alone, signed with the new key; old signing keys stay in it for ever, since what they signed stays good.
   A peer that was connected under the old key takes the other one that its record of this station had.

Tokens that were given out before step 4 name the old key: who holds one cannot join with it any more.

For hosts. The key is in every credential, and a host that knows only this station has no other way to learn a new one:
so this key stays, unless another one is asked for (`--hosts`, `rotate_hosts`), which is in use at once. From then on a
host whose credential names the old key cannot attach here until it has a new credential; one that attaches at another
station is told the new key there, and keeps it while it runs.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from roamcast.mss_station.schema import KEYS_MAX, StationRecord
from roamcast.transport.credential import read_keys
from roamcast.transport.curve import CurveKeys, generate
from roamcast.transport.errors import KeyFileError
from roamcast.transport.station_files import (
    CURVE_FILE,
    HEX32,
    SIGNING_FILE,
    StationCard,
    pair_text,
    replace_file,
    signing_text,
    sync_folder,
    toml_text,
    write_new,
)
from roamcast.transport.toml_files import Table, read_table

HOSTS_FILE: Final = "hosts.key"
NEXT_FILE: Final = "next.key"


@dataclass(frozen=True, slots=True)
class NextKeys:
    """The pairs that are to take over."""

    curve: CurveKeys
    signing: Ed25519PrivateKey

    @property
    def signing_key(self) -> str:
        """Ed25519 public key, hexadecimal."""
        return self.signing.public_key().public_bytes_raw().hex()


# ---- between stations ----


def begin(directory: Path, record: StationRecord) -> NextKeys:
    """Make the next pairs.

    Args:
        record: what the group knows of this station.

    Raises:
        KeyFileError: a rotation is under way, or the record has no room for another key.
    """
    if pending(directory) is not None:
        raise KeyFileError(
            f"{directory / NEXT_FILE} is there: a rotation is under way; mss-station status names who is waited for"
        )
    if len(record.signing) >= KEYS_MAX:
        raise KeyFileError(
            f"{record.id} has had {KEYS_MAX} signing keys, and what they signed must stay good; join the group under a "
            "new id, then retire this station"
        )
    keep_host_keys(directory)
    curve, signing = generate(), Ed25519PrivateKey.generate()
    secrets = {"secret": curve.secret, "signing": signing.private_bytes_raw().hex()}
    write_new(directory / NEXT_FILE, toml_text({"public": curve.public, **secrets}), 0o600)
    return NextKeys(curve, signing)


def pending(directory: Path) -> NextKeys | None:
    """The next pairs, while a rotation is under way. Raises KeyFileError."""
    if not (directory / NEXT_FILE).exists():
        return None
    table = read_table(directory / NEXT_FILE, private=True)
    secret = table.text("signing", HEX32, "64 hexadecimal digits")
    return NextKeys(read_keys(table), Ed25519PrivateKey.from_private_bytes(bytes.fromhex(secret)))


def announced(record: StationRecord, card: StationCard, coming: NextKeys | None) -> StationRecord:
    """What the record of a station must say of its keys, whatever point a rotation is at: compare, and put it.

    Args:
        record: what the group knows of this station.
        card: with the keys in use.
        coming: the next pairs, if a rotation is under way.
    """
    keys, signing = [card.key], [card.signing_key, *record.signing]
    if coming is not None:
        keys, signing = [coming.curve.public, *keys], [coming.signing_key, *signing]
    return replace(record, keys=tuple(keys), signing=tuple(dict.fromkeys(signing)))


def switch(directory: Path) -> None:
    """Let the next pairs take over, on the disk. Does nothing if there are none. Raises KeyFileError."""
    coming = pending(directory)
    if coming is None:
        return
    replace_file(directory / CURVE_FILE, pair_text(coming.curve), 0o600)
    replace_file(directory / SIGNING_FILE, signing_text(coming.signing), 0o600)
    (directory / NEXT_FILE).unlink()
    sync_folder(directory)


def recover(directory: Path) -> None:
    """At every start, before the keys are read: finish a switch that was cut short. Raises KeyFileError."""
    coming = pending(directory)
    if coming is not None and _read_pair(directory / CURVE_FILE) == coming.curve:
        switch(directory)


# ---- for hosts ----


def read_host_keys(directory: Path) -> CurveKeys:
    """The pair under which this station serves hosts. Raises KeyFileError."""
    path = directory / HOSTS_FILE
    return _read_pair(path if path.exists() else directory / CURVE_FILE)


def keep_host_keys(directory: Path) -> None:
    """The pair that hosts know stays theirs, whatever becomes of curve.key. Raises KeyFileError."""
    if not (directory / HOSTS_FILE).exists():
        write_new(directory / HOSTS_FILE, pair_text(read_host_keys(directory)), 0o600)


def rotate_hosts(directory: Path) -> CurveKeys:
    """Make a new pair for hosts and return it. Raises KeyFileError."""
    keys = generate()
    replace_file(directory / HOSTS_FILE, pair_text(keys), 0o600)
    return keys


def _read_pair(path: Path) -> CurveKeys:
    table: Table = read_table(path, private=True)
    return read_keys(table)
