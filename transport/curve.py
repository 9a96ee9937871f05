"""CURVE key pairs (X25519, Z85 text of 40 signs)."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field

import zmq
from zmq.utils import z85

from roamcast.transport.limits import KEY_BYTES


@dataclass(frozen=True, slots=True)
class CurveKeys:
    """A key pair. The secret does not show in its text form."""

    public: str
    secret: str = field(repr=False)

    def __post_init__(self) -> None:
        if zmq.curve_public(self.secret.encode()) != self.public.encode():
            raise ValueError("the public key does not belong to the secret one")


def generate() -> CurveKeys:
    """A new random pair."""
    public, secret = zmq.curve_keypair()
    return CurveKeys(public.decode(), secret.decode())


def is_key(text: str) -> bool:
    """Whether `text` is 32 bytes in Z85."""
    try:
        return len(text) == KEY_BYTES and len(z85.decode(text.encode("ascii"))) == 32
    except (KeyError, ValueError, struct.error):
        return False
