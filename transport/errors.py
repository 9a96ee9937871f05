"""Errors of the transport: bytes that are no frame, files that are not as they must be, a library that is too old."""

from __future__ import annotations

from roamcast.middleware.errors import Error, RemoteProtocolError


class DecodeError(RemoteProtocolError):
    """The bytes are not a frame of this link. `offset` is the byte at which that was seen."""

    code_on_wire = "bad-frame"

    def __init__(self, offset: int, reason: str) -> None:
        super().__init__(self.code_on_wire, f"{reason} at byte {offset}")
        self.offset = offset
        self.reason = reason


class UnknownKind(DecodeError):
    """A well-formed frame of a kind that this version does not know; other frames of that peer still count."""

    code_on_wire = "unknown-kind"


class OtherVersion(DecodeError):
    """A handshake of another major version whose layout this version cannot read."""

    code_on_wire = "version"


class KeyFileError(Error):
    """A key, credential or station file is missing, damaged, or readable by others. Never quotes its content."""


class LibraryTooOld(Error):
    """The linked libzmq has known remote holes, or no CURVE."""


class CannotBind(Error):
    """An endpoint of this station is taken, or is no address of this machine."""
