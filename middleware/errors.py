"""Errors of the protocol cores: our caller's fault, a peer's fault, our own bug."""

from __future__ import annotations


class Error(Exception):
    """Root of every error that Roamcast raises."""


class LocalProtocolError(Error):
    """The caller of a core broke its rules; nothing has changed in the core."""


class RemoteProtocolError(Error):
    """A peer or a host broke the protocol; carries the code that goes on the wire."""

    def __init__(self, code: str, text: str) -> None:
        super().__init__(f"{code}: {text}")
        self.code = code
        self.text = text


class InvariantError(Error):
    """One of our own invariants fell: a bug. The process stops rather than guess."""


def ensure(condition: object, why: str) -> None:
    """Raise InvariantError with `why` unless `condition` holds (kept under ``python -O``)."""
    if not condition:
        raise InvariantError(why)
