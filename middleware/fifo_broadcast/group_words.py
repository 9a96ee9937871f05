"""What CLAIMS says of the group, at one entity: the own view in words, and what the peers have shown of theirs.

Source: composition.md section 3 (bitmaps and closing claims of CTL), and G3: a peer that sees another group is asked.
"""

from __future__ import annotations

from roamcast.middleware.membership.view import Closing, GroupView, View
from roamcast.middleware.message_table import MessageTable
from roamcast.middleware.rows import Vector


class GroupWords:
    """The view as it is said and heard. What follows from it is decided elsewhere (`membership.group`)."""

    def __init__(self, own: int, view: View, table: MessageTable) -> None:
        self.view = view
        self.views: dict[int, GroupView] = {}
        """By slot: what the living peers have said of the group in this life."""
        self.off: tuple[int, ...] = ()
        """What the own CLAIMS says as `off`."""
        self._own = own
        self._table = table

    def follow(self, view: View) -> None:
        """The own view is this one now."""
        self.view = view
        for slot in view.closed:
            self.views.pop(slot, None)

    def say(self) -> GroupView:
        """The own view for CLAIMS; closings until every peer has shown that they are final there."""
        view = self.view
        return GroupView(
            view.members,
            tuple(sorted(view.closed)),
            tuple(sorted(view.final)),
            tuple(sorted(view.released)),
            self.off,
            view.serving,
            tuple(self._closing(r, *end) for r, end in view.closed.items() if not self._final_everywhere(r)),
        )

    def _closing(self, ended: int, heir: int, guard: Vector) -> Closing:
        origins = self._table.origins
        return Closing(ended, heir, origins[ended].stored, origins[self._own].stored, guard)

    def _final_everywhere(self, ended: int) -> bool:
        shown = (self.views.get(peer) for peer in self.view.living if peer != self._own)
        return ended in self.view.final and all(view is not None and ended in view.final for view in shown)

    def agrees(self, peer: int) -> bool:
        """Whether the peer has last shown the same group."""
        seen, view = self.views.get(peer), self.view
        return (
            seen is not None
            and seen.members == view.members
            and set(seen.closed) == view.closed.keys()
            and set(seen.final) == view.final.keys()
            and set(seen.released) == view.released
        )
