"""What an application is given, and its receipts."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from roamcast.middleware.errors import Error
from roamcast.middleware.rows import MessageId

if TYPE_CHECKING:
    from roamcast.mh_agent.agent import Agent


class AgentClosed(Error):
    """The agent was closed, or stopped because its state cannot be kept, or belongs to the parent of this process."""


@dataclass(slots=True)
class _Given:
    _agent: Agent = field(repr=False, compare=False)
    _token: int = field(repr=False)

    def ack(self) -> None:
        """The application has this and everything given before it: none of it comes again."""
        self._agent._tick(lambda core: core.ack(self._token))


@dataclass(slots=True)
class Message(_Given):
    """A broadcast, or a `mail` for this host alone; `own`: sent by this host itself.

    `id` is (slot of the station where it entered, its number there), the same at every host.
    """

    sender: str
    body: bytes
    own: bool
    mail: bool
    id: MessageId


class Discontinuity(_Given):
    """Messages were missed here, since the host was away for too long."""


class StateLost(_Given):
    """The host goes on under a new incarnation: messages may be missing or come twice here; see the receipts."""


Event = Message | Discontinuity | StateLost


class Receipt:
    """The fate of an own message. `state` is pending, stored (durable at a station), refused, lost or unknown.

    A mail to a host that is no member is stored first, and refused in its place in the order. Lost: it was stored, and
    the only station that had it is lost for good; send it again if it still matters. Unknown: it was under way when the
    station, or this host's state, was lost; others may have it. `number` changes when the host goes on under a new
    incarnation; `id` is that of the message, if it was learned. Both `lost` and `refused` may follow `stored`.
    """

    def __init__(self, agent: Agent, number: int) -> None:
        self.number = number
        self.state = "pending"
        self.id: MessageId | None = None
        self._agent = agent

    def wait(self, timeout: float | None = None) -> str:
        """Wait until the state is not pending any more, at most `timeout` seconds. Returns the state."""
        self._agent.wait_for(lambda: self.state != "pending", timeout)
        return self.state
