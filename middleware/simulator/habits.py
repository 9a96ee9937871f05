"""How an application behaves, and what its agent's state file means."""

from __future__ import annotations

from dataclasses import dataclass

from roamcast.middleware.mobile_host.state import AgentImage, Fact
from roamcast.middleware.rows import Kind

STATES = {Kind.SUB: "subscribed", Kind.UNSUB: "unsubscribed", Kind.NOSUB: "refused"}
"""How the judge calls a change of a subscription."""


@dataclass(slots=True)
class Habits:
    """How the application takes and acknowledges."""

    take_max: int = 1_000
    """Taken at one go ..."""
    take_gap: int = 0
    """... then it works for this long, microseconds."""
    lag: int = 0
    """So many messages are kept unacknowledged ..."""
    ack_delay: int = 0
    """... for at most this long."""
    kill_per_effect: float = 0.0


def apply_facts(image: AgentImage, facts: tuple[Fact, ...]) -> None:
    """The reference meaning of a Save."""
    for fact in facts:
        image.apply(fact)


def copy_image(image: AgentImage) -> AgentImage:
    """A copy, made of the facts that a compacted state file would hold."""
    copy = AgentImage()
    apply_facts(copy, image.snapshot())
    return copy
