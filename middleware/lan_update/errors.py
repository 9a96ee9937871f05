"""What a node of the LAN update layer raises at its caller."""

from __future__ import annotations

from roamcast.middleware.errors import LocalProtocolError


class LanRefused(LocalProtocolError):
    """The local update is not taken, and nothing has changed; the text says why and what to do."""
