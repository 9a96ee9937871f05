"""The agent for asyncio: the same thread behind `call_soon_threadsafe`."""

from __future__ import annotations

import asyncio
import contextlib
import functools
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from roamcast.mh_agent.agent import Agent
from roamcast.mh_agent.events import AgentClosed, Receipt
from roamcast.middleware.mobile_host.errors import AgentEnded
from roamcast.middleware.mobile_host.events import Event

T = TypeVar("T")
_CALLS = (
    "broadcast", "send", "subscribe", "unsubscribe", "move", "suspend", "resume", "network_changed", "leave",
)  # fmt: skip


class AsyncAgent:
    """As Agent: `async with AsyncAgent(...) as agent`, `async for event in agent`, `await agent.broadcast(body)`."""

    def __init__(self, file: str, **options: Any) -> None:
        self._make = functools.partial(Agent, file, **options)

    async def __aenter__(self) -> AsyncAgent:
        self._loop, self._news = asyncio.get_running_loop(), asyncio.Event()
        self.agent = await asyncio.to_thread(self._make)
        self.agent.watchers.append(self._ring)
        return self

    async def __aexit__(self, *error: Any) -> None:
        await asyncio.to_thread(self.agent.__exit__, *error)

    def __getattr__(self, name: str) -> Callable[..., Awaitable[Any]]:
        if name not in _CALLS:
            raise AttributeError(name)
        return functools.partial(asyncio.to_thread, getattr(self.agent, name))

    def __aiter__(self) -> AsyncAgent:
        return self

    async def __anext__(self) -> Event:
        try:
            return await self.receive()  # type: ignore[return-value]
        except (AgentClosed, AgentEnded) as error:
            if self.agent.ended_well:
                raise StopAsyncIteration from error
            raise

    async def receive(self, timeout: float | None = None) -> Event | None:
        """See Agent.receive."""
        return await self._ask(lambda: self.agent.receive(0), timeout)

    async def wait(self, receipt: Receipt, timeout: float | None = None) -> str:
        """The state of a receipt, once it is not pending any more, at most `timeout` seconds later."""
        await self._ask(lambda: receipt.state != "pending", timeout)
        return receipt.state

    def _ring(self) -> None:
        with contextlib.suppress(RuntimeError):  # the loop was closed with the agent still open
            self._loop.call_soon_threadsafe(self._news.set)

    async def _ask(self, question: Callable[[], T], timeout: float | None) -> T | None:
        """Ask at once and whenever there is news, until the answer is true."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout):
                while True:
                    self._news.clear()
                    if answer := question():
                        return answer
                    await self._news.wait()
        return None
