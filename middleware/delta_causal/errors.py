"""What the delta-causal core raises at its caller."""

from __future__ import annotations

from roamcast.middleware.errors import LocalProtocolError


class LiveRefused(LocalProtocolError):
    """The message is not sent, and nothing has changed; `code` for programs, the text says why."""

    def __init__(self, code: str, text: str) -> None:
        super().__init__(text)
        self.code = code
