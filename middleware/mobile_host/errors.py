"""What an agent's core raises at its caller. Nothing has changed in the core when one of these is raised."""

from __future__ import annotations

from roamcast.middleware.errors import Error, LocalProtocolError


class OutboxFull(LocalProtocolError):
    """Too many messages, or bytes, wait for a station's acknowledgement: wait and call again."""


class MessageTooLarge(LocalProtocolError):
    """The body is larger than the stations take."""


class AgentEnded(LocalProtocolError):
    """The membership has ended (left, revoked, replaced for good, refused): nothing can be sent any more."""


class BadAddressee(LocalProtocolError):
    """A host's name has 1 to 64 bytes of UTF-8; a topic's 1 to 96, and nothing in it that cannot be printed.

    Mail is for a host that is named.
    """


class StateError(Error):
    """The agent's state cannot be read, written or locked. An agent stops rather than go on without it."""
