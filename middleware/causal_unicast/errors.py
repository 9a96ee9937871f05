"""What the causal unicast raises at its caller."""

from __future__ import annotations

from roamcast.middleware.errors import LocalProtocolError


class MailRefused(LocalProtocolError):
    """The mail is not taken, and nothing has changed; `code` for programs, the text says why."""

    def __init__(self, code: str, text: str) -> None:
        super().__init__(text)
        self.code = code
