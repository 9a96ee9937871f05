"""Who a connection belongs to: the User-Id that ZAP gave it (see `access`); and whose choice its id was.

The id of a connection is the first part of what a ROUTER receives. ZAP gives a random one (`transport/zap.py`); where
the reply came too early for that, it is the ROUTER's own (0, then four bytes), or one that the client brought. An id is
therefore never proof of anything: the User-Id is.
"""

from __future__ import annotations

from dataclasses import dataclass

import zmq

OWN_ID_BYTES = 5


@dataclass(frozen=True, slots=True)
class Owner:
    """The host of a channel."""

    number: int
    name: str
    user: str
    """User-Id of its connection."""


def user_id(part: zmq.Frame) -> str | None:
    """The User-Id of the connection that `part` came on; None if it was not authenticated."""
    try:
        return str(part.get("User-Id"))
    except zmq.ZMQError:
        return None


def kind_and_name(part: zmq.Frame) -> tuple[str, str]:
    """What stands before and behind the colon in the User-Id of the connection that `part` came on; empty: nothing."""
    kind, _, name = (user_id(part) or "").partition(":")
    return kind, name


def user_of(part: zmq.Frame, kind: str) -> str | None:
    """The name behind `kind` in the User-Id of the connection that `part` came on; None if it has none of that kind."""
    found, name = kind_and_name(part)
    return name if found == kind and name else None


def brought_id(channel: bytes, part: zmq.Frame) -> bool:
    """Whether the id of the connection that `part` came on is neither the one that ZAP gave it nor the ROUTER's own."""
    if len(channel) == OWN_ID_BYTES and channel[0] == 0:
        return False
    try:
        return channel != str(part.get("Identity")).encode()
    except (zmq.ZMQError, UnicodeDecodeError):
        return True
