"""The agent of Roamcast: causally ordered broadcast, mail and topics for a program on a mobile host."""

from typing import TYPE_CHECKING, Any

from roamcast.mh_agent.agent import Agent
from roamcast.mh_agent.events import AgentClosed, Receipt
from roamcast.middleware.errors import Error
from roamcast.middleware.mobile_host.errors import AgentEnded, BadAddressee, MessageTooLarge, OutboxFull, StateError
from roamcast.middleware.mobile_host.events import Discontinuity, Live, Message, Presence, StateLost, Subscription
from roamcast.transport.errors import KeyFileError

if TYPE_CHECKING:
    from roamcast.mh_agent.async_agent import AsyncAgent

__all__ = [
    "Agent", "AgentClosed", "AgentEnded", "AsyncAgent", "BadAddressee", "Discontinuity", "Error", "KeyFileError",
    "Live", "Message", "MessageTooLarge", "OutboxFull", "Presence", "Receipt", "StateError", "StateLost",
    "Subscription",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name != "AsyncAgent":
        raise AttributeError(name)
    from roamcast.mh_agent.async_agent import AsyncAgent  # when it is asked for: asyncio takes longer than all the rest

    return AsyncAgent
