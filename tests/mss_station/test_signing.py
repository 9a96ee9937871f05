"""Signatures of configuration entries: of one entry in one group by one key, and by nobody else."""

from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from roamcast.middleware.lan_update.records import Entry, Version
from roamcast.mss_station.signing import Signer, verify
from roamcast.transport.errors import KeyFileError
from roamcast.transport.station_files import create_station, read_signing_key

SECRET = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
PUBLIC = SECRET.public_key().public_bytes_raw()
OTHER = Ed25519PrivateKey.from_private_bytes(bytes(32)).public_key().public_bytes_raw()
OLD, NEW = Version(1_795_000_000_000_000, 0, "hill", 7), Version(1_795_000_000_000_000, 1, "dale", 8)
UNSIGNED = Entry("topics/7", NEW, None, OLD, holders=frozenset(("dale", "hill")))
SIGNED = replace(UNSIGNED, signature=Signer(SECRET, "fleet").sign(UNSIGNED))


def test_an_entry_is_signed_by_the_key_that_signed_it() -> None:
    assert verify(SIGNED, "fleet", [PUBLIC])
    assert verify(SIGNED, "fleet", [OTHER, PUBLIC]), "while keys are renewed several are valid"
    assert not verify(SIGNED, "fleet", [OTHER])
    assert not verify(SIGNED, "fleet", [])


def test_the_signature_stays_the_same_for_ever() -> None:
    """It lies in the stores of all stations: what is signed must not change from one release to the next."""
    assert SIGNED.signature.hex() == (
        "501e5642e9bc794f25f96e884b45d7bea1db8b1b39705a00b4aac00c778a3af7"
        "fd02bfa70d3328eaf085397ebb889613bd4407f3bd4991b762e84e97503f8e04"
    )
    assert Signer(SECRET, "fleet").sign(SIGNED) == SIGNED.signature


def test_whatever_is_changed_the_signature_is_gone_with_it() -> None:
    changes: dict[str, Any] = {
        "key": "topics/8", "version": OLD, "value": b"", "after": None, "signature": bytes(64),
    }  # fmt: skip
    assert {*changes, "holders"} == {field.name for field in fields(Entry)}
    for name, value in changes.items():
        assert not verify(replace(SIGNED, **{name: value}), "fleet", [PUBLIC]), name
    for place in range(4):
        version = list(NEW)
        version[place] = "hill" if place == 2 else version[place] + 1  # type: ignore[operator]
        assert not verify(replace(SIGNED, version=Version(*version)), "fleet", [PUBLIC]), place  # type: ignore[arg-type]
    assert not verify(SIGNED, "float", [PUBLIC]), "an entry of another group with the same station"


def test_holders_are_not_signed_for_they_grow_on_the_way() -> None:
    assert verify(replace(SIGNED, holders=frozenset(("dale", "hill", "moor"))), "fleet", [PUBLIC])


@pytest.mark.parametrize("bit", range(0, 512, 7))
def test_a_flipped_bit_of_a_signature(bit: int) -> None:
    damaged = bytearray(SIGNED.signature)
    damaged[bit // 8] ^= 1 << bit % 8
    assert not verify(replace(SIGNED, signature=bytes(damaged)), "fleet", [PUBLIC])


@pytest.mark.parametrize("size", [0, 63, 65, 10_000])
def test_what_is_no_signature_or_no_key_is_simply_not_valid(size: int) -> None:
    assert not verify(replace(SIGNED, signature=bytes(size)), "fleet", [PUBLIC])
    assert not verify(SIGNED, "fleet", [bytes(size)])
    assert verify(SIGNED, "fleet", [bytes(size), PUBLIC]), "the others still count"


def test_a_value_and_its_absence_are_two_things() -> None:
    live = replace(UNSIGNED, value=b"")
    assert Signer(SECRET, "fleet").sign(live) != SIGNED.signature


def test_the_key_of_the_directory_signs_and_its_card_tells_who(tmp_path: Path) -> None:
    config = create_station(
        tmp_path, id="hill", slot=3, group="fleet", hosts="tcp://10.0.0.3:1", stations="tcp://10.0.0.3:2"
    )
    signer = Signer(read_signing_key(tmp_path), "fleet")
    entry = replace(UNSIGNED, signature=signer.sign(UNSIGNED))
    assert verify(entry, "fleet", [bytes.fromhex(config.card.signing_key)])
    secret = read_signing_key(tmp_path).private_bytes_raw()
    assert secret.hex() not in repr(vars(signer)) and repr(secret) not in repr(vars(signer))


def test_a_signing_key_that_others_can_read_is_refused(tmp_path: Path) -> None:
    create_station(tmp_path, id="hill", slot=3, group="fleet", hosts="tcp://10.0.0.3:1", stations="tcp://10.0.0.3:2")
    for mode in (0o640, 0o604, 0o620):
        (tmp_path / "signing.key").chmod(mode)
        with pytest.raises(KeyFileError, match="chmod 600"):
            read_signing_key(tmp_path)
