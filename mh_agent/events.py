"""What an application is told beside the events: receipts, and that the agent is closed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from roamcast.middleware.errors import Error
from roamcast.middleware.rows import MessageId

if TYPE_CHECKING:
    from roamcast.mh_agent.agent import Agent


class AgentClosed(Error):
    """The agent was closed, or stopped because its state cannot be kept, or belongs to the parent of this process."""


class Receipt:
    """The fate of an own message. `state` is pending, stored (durable at a station), refused, lost or unknown.

    What may not be sent is stored first, and refused in its place in the order (`reason`). Lost: it was stored, and
    the only station that had it is lost for good; send it again if it still matters. Unknown: it was under way when the
    station, or this host's state, was lost; others may have it. `number` changes when the host goes on under a new
    incarnation; `id` is that of the message, if it was learned. Both `lost` and `refused` may follow `stored`.
    Of a live message: sent, or dropped, also later. `reason`: not-attached, congested, or why the station dropped it,
    perhaps after it had passed it on (docs/protocols/delta-causal.md). That nothing follows `sent` proves nothing.
    """

    def __init__(self, agent: Agent, number: int, state: str = "pending", reason: str = "") -> None:
        self.number = number
        self.state, self.reason = state, reason
        self.id: MessageId | None = None
        self._agent = agent

    def wait(self, timeout: float | None = None) -> str:
        """Wait until the state is not pending any more, at most `timeout` seconds. Returns the state."""
        self._agent.wait_for(lambda: self.state != "pending", timeout)
        return self.state
