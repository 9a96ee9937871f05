"""Why one message comes before another, in words."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from roamcast.middleware.simulator.accounts import Sent
    from roamcast.middleware.simulator.checkers import Judge


def chain(judge: Judge, first: Sent, second: Sent) -> list[str]:
    """The shortest chain of program-order steps from `first` to `second`."""
    came_from: dict[str, tuple[str, str]] = {}
    frontier = [second.label]
    while frontier and first.label not in came_from:
        following: list[str] = []
        for label in frontier:
            life = judge.lives[judge.by_label[label].sender]
            for what, earlier in life.log[: life.log.index(("sent", label))]:
                if earlier not in came_from and earlier != second.label:
                    verb = "sent" if what == "sent" else "was given"
                    came_from[earlier] = (label, f"{life.host} {verb} {earlier} before it sent {label}")
                    following.append(earlier)
        frontier = following
    words: list[str] = []
    at = first.label
    while at != second.label and at in came_from:
        at, sentence = came_from[at]
        words.append(sentence)
    return words
