"""Signatures of configuration entries: Ed25519, by the station where the entry was made, bound to the group.

What is signed is in wire.cddl (`lan-signed`). The same key signs log segments; the domain at its start tells the two
apart. Sources: security.md, RFC 8032.
"""

from __future__ import annotations

from collections.abc import Sequence

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from roamcast.middleware.lan_update.records import Entry
from roamcast.transport.lan_codec import signed_bytes


class Signer:
    """Signs the entries that this station makes. Its text form shows no secret."""

    def __init__(self, secret: Ed25519PrivateKey, group: str) -> None:
        """Args: secret: of signing.key, see `read_signing_key`. group: the station's."""
        self._secret = secret
        self._group = group

    def renew(self, secret: Ed25519PrivateKey) -> None:
        """Sign with another key from now on."""
        self._secret = secret

    @property
    def public(self) -> bytes:
        """The public key, 32 bytes."""
        return self._secret.public_key().public_bytes_raw()

    def sign_segment(self, message: bytes) -> bytes:
        """The signature of what the trailer of a log segment names, 64 bytes."""
        return self._secret.sign(message)

    def sign(self, entry: Entry) -> bytes:
        """The signature of an entry, 64 bytes; the one it has, if any, and its holders do not count."""
        return self._secret.sign(signed_bytes(self._group, entry))


def verify(entry: Entry, group: str, public_keys: Sequence[bytes]) -> bool:
    """Whether the entry's signature is by one of the keys (32 bytes each; what is no key has signed nothing)."""
    message = signed_bytes(group, entry)
    for public in public_keys:
        try:
            Ed25519PublicKey.from_public_bytes(public).verify(entry.signature, message)
        except (InvalidSignature, ValueError):
            continue
        return True
    return False
