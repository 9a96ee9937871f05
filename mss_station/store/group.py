"""What the store holds of the group: the view, slots that are meant for somebody, invitations."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from typing import Any, Final

from roamcast.middleware.membership.invitations import DropInvitation, Invitation, Newcomer, PutInvitation
from roamcast.middleware.membership.view import Ending, View
from roamcast.middleware.writes import DurableState, PutReservation, PutView
from roamcast.mss_station.store.columns import signed, unsigned
from roamcast.mss_station.store.sums import checked, summed

GroupWrite = PutView | PutReservation | PutInvitation | DropInvitation

INVITATION_NAMES: Final = "key, slot, expires, used_generation, used_key"
PUT_VIEW: Final = "INSERT OR REPLACE INTO group_view (one, content, checksum) VALUES (?,?,?)"
PUT_RESERVATION: Final = "INSERT OR REPLACE INTO reservation (slot, generation, checksum) VALUES (?,?,?)"
PUT_INVITATION: Final = f"INSERT OR REPLACE INTO invitation ({INVITATION_NAMES}, checksum) VALUES (?,?,?,?,?,?)"
DROP_INVITATION: Final = "DELETE FROM invitation WHERE key = ?"


def write_group(connection: sqlite3.Connection, writes: Sequence[GroupWrite]) -> None:
    """Execute the writes of one transaction, in order. Raises sqlite3.Error."""
    for write in writes:
        match write:
            case PutView(view):
                connection.execute(PUT_VIEW, summed(1, _view_text(view)))
            case PutReservation(slot, generation):
                connection.execute(PUT_RESERVATION, summed(slot, signed(generation)))
            case PutInvitation(invitation):
                connection.execute(PUT_INVITATION, _invitation_columns(invitation))
            case DropInvitation(key):
                connection.execute(DROP_INVITATION, (key,))


def load_group(connection: sqlite3.Connection, state: DurableState) -> None:
    """Fill in all of it. Raises sqlite3.Error, ValueError: the store does not hold what was written."""
    for _, content in checked(connection, "group_view", "one, content"):
        state.view = _view(content)
    for slot, generation in checked(connection, "reservation", "slot, generation", "ORDER BY slot"):
        state.reserved[slot] = unsigned(generation)
    for columns in checked(connection, "invitation", INVITATION_NAMES, "ORDER BY key"):
        invitation = _invitation(*columns)
        state.invitations.invitations[invitation.key] = invitation


def _view_text(view: View) -> str:
    closed = [[slot, *end] for slot, end in sorted(view.closed.items())]
    final = [[slot, end.heir, end.cut, end.floor] for slot, end in sorted(view.final.items())]
    sets = [view.members, closed, final, sorted(view.released), sorted(view.dropped)]
    return json.dumps([*sets, view.serving, view.sponsor, view.retiring, view.handing])


def _view(text: str) -> View:
    members, closed, final, released, dropped, *rest = json.loads(text)
    return View(
        tuple(members),
        {slot: (heir, tuple(guard)) for slot, heir, guard in closed},
        {slot: Ending(heir, cut, tuple(floor)) for slot, heir, cut, floor in final},
        frozenset(released),
        frozenset(dropped),
        *rest,
    )


def _invitation_columns(invitation: Invitation) -> tuple[Any, ...]:
    used = invitation.used_by
    by = (None, None) if used is None else (signed(used.generation), used.key)
    return summed(invitation.key, invitation.slot, invitation.expires, *by)


def _invitation(key: str, slot: int, expires: int, generation: int | None, used_key: str) -> Invitation:
    used_by = None if generation is None else Newcomer(unsigned(generation), used_key)
    return Invitation(key, slot, expires, used_by)
