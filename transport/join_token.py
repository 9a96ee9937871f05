"""The invitation token: one line of text by which a new station finds its sponsor, and gets in there once.

    rci1.<URL-safe base64 of: length (2 bytes), CRC-32 (4 bytes), content>

The content is a CBOR array: group, sponsor, slot, endpoint, the sponsor's CURVE and Ed25519 public keys, the secret key
of a CURVE pair made for this token alone, the end of its time. Length and checksum tell a paste that was cut off from
one that was mistyped; white space within it, such as a mail program's line breaks, does not count.

Who holds the token may join in its place: it is shown once, by `mss-station invite`, and no error quotes it.
"""

from __future__ import annotations

import re
import zlib
from base64 import urlsafe_b64decode, urlsafe_b64encode
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

import zmq
from cbor2 import dumps
from zmq.utils import z85

from roamcast.middleware.settings import SECOND
from roamcast.transport.curve import CurveKeys
from roamcast.transport.endpoints import is_wildcard
from roamcast.transport.errors import DecodeError, KeyFileError
from roamcast.transport.layout import NAME, NATURAL, SLOT, group, octets, text
from roamcast.transport.limits import ENDPOINT_BYTES_MAX
from roamcast.transport.strict import read_whole
from roamcast.transport.toml_files import ENDPOINT
from roamcast.transport.toml_files import NAME as NAME_FORM

FORMAT: Final = 1
CONTENT_BYTES_MAX: Final = 1_024
HEAD_BYTES: Final = 6
PREFIX: Final = re.compile(r"rci([1-9]\d{0,3})\.")
SIGNS: Final = re.compile(r"[A-Za-z0-9_-]*")
YEAR_9999_S: Final = 253_402_300_799

_KEY: Final = octets(32, 32)
_CONTENT: Final = group(NAME, NAME, SLOT, text(1, ENDPOINT_BYTES_MAX), _KEY, _KEY, _KEY, NATURAL)


class TokenError(KeyFileError):
    """The text is not a token that can be used. Never quotes it."""


@dataclass(frozen=True, slots=True)
class Token:
    """What a token says. Its text form, `repr`, shows no secret."""

    group: str
    sponsor: str
    """Station id."""
    slot: int
    """Proposed for the newcomer."""
    endpoint: str
    """At which stations reach the sponsor."""
    key: str
    """CURVE public key of the sponsor for the links between stations, Z85."""
    signing_key: str
    """Ed25519 public key of the sponsor, hexadecimal."""
    keys: CurveKeys
    """The one-time pair."""
    expires_s: int
    """UTC seconds."""

    def secret_text(self) -> str:
        """The token itself. Show it to the one who asked for it and to nobody else."""
        keys = [z85.decode(self.key), bytes.fromhex(self.signing_key), z85.decode(self.keys.secret)]
        content = dumps([self.group, self.sponsor, self.slot, self.endpoint, *keys, self.expires_s])
        head = len(content).to_bytes(2) + zlib.crc32(content).to_bytes(4)
        return f"rci{FORMAT}." + urlsafe_b64encode(head + content).decode().rstrip("=")


def parse(pasted: str, wall: int | None = None) -> Token:
    """The token in a pasted text.

    Args:
        wall: our own clock, UTC microseconds. None: whether the token has expired is left to the sponsor, as for a join
            that has begun, for its newcomer may ask again after that.

    Raises:
        TokenError: no token, cut off, mistyped, of another format, or expired; the text says which.
    """
    line = "".join(pasted.split())
    prefix = PREFIX.match(line)
    if prefix is None:
        raise TokenError(f"this is no invitation token: one begins with rci{FORMAT}. and is made by mss-station invite")
    if int(prefix[1]) != FORMAT:
        raise TokenError(f"the token has format {prefix[1]}, this release knows {FORMAT}: use its sponsor's release")
    token = _read(_content(line[prefix.end() :]))
    if wall is not None and token.expires_s * SECOND <= wall:
        raise TokenError(
            f"the token was good until {utc(token.expires_s)}, and the clock of this machine says "
            f"{utc(wall // SECOND)}: if that clock is wrong set it right, else ask for a new token"
        )
    return token


def utc(seconds: int) -> str:
    """A time in UTC as an operator reads it."""
    return datetime.fromtimestamp(min(seconds, YEAR_9999_S), UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def _content(signs: str) -> bytes:
    if not SIGNS.fullmatch(signs):
        raise TokenError("the token holds a sign that no token has: paste it again")
    data = urlsafe_b64decode(signs[: len(signs) - (len(signs) % 4 == 1)] + "==")
    size = HEAD_BYTES + int.from_bytes(data[:2])
    wanted = (size * 4 + 2) // 3
    if len(signs) < wanted:
        raise TokenError(f"the token is cut off: {len(signs)} signs behind rci{FORMAT}. are here, {wanted} are needed")
    if len(signs) > wanted:
        raise TokenError(f"the token is {len(signs) - wanted} signs too long: paste it once, and nothing behind it")
    content = data[HEAD_BYTES:]
    if zlib.crc32(content) != int.from_bytes(data[2:HEAD_BYTES]):
        raise TokenError("the token is mistyped: its checksum does not fit; paste it again")
    return content


def _read(content: bytes) -> Token:
    try:
        values: tuple[Any, ...] = read_whole(content, CONTENT_BYTES_MAX, _CONTENT.read)
    except DecodeError as error:
        raise TokenError(f"the token is none of this release: {error.reason}") from None
    group_name, sponsor, slot, endpoint, key, signing_key, secret, expires_s = values
    if not (NAME_FORM.fullmatch(group_name) and NAME_FORM.fullmatch(sponsor) and ENDPOINT.fullmatch(endpoint)):
        raise TokenError("the token is none of this release: a name or an endpoint in it is not acceptable")
    if is_wildcard(endpoint):
        raise TokenError(
            f"nobody can reach {sponsor} at {endpoint}, which the token names: set stations in its station.toml to an "
            "address that others reach, and bind-stations to this one, start it again, and ask for a new token"
        )
    one_time = z85.encode(secret)
    keys = CurveKeys(zmq.curve_public(one_time).decode(), one_time.decode())
    return Token(group_name, sponsor, slot, endpoint, z85.encode(key).decode(), signing_key.hex(), keys, expires_s)
