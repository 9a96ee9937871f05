"""What a sponsor keeps of its invitations over restarts."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(slots=True, frozen=True)
class Newcomer:
    """Who has used an invitation."""

    generation: int
    key: str
    """CURVE public key for the links between stations, Z85."""


@dataclass(slots=True, frozen=True)
class Invitation:
    """One token that was given out; its secret half is in the token alone."""

    key: str
    """CURVE public key of the one-time pair, Z85: names the invitation."""
    slot: int
    """Proposed in the token: no other open invitation of this sponsor proposes it."""
    expires: int
    """UTC microseconds."""
    used_by: Newcomer | None = None


@dataclass(slots=True, frozen=True)
class PutInvitation:
    """Insert an invitation, or note who has used it."""

    invitation: Invitation


@dataclass(slots=True, frozen=True)
class DropInvitation:
    """The invitation is over: nobody comes in with its key any more."""

    key: str


InvitationWrite = PutInvitation | DropInvitation


@dataclass(slots=True)
class InvitationImage:
    """All invitations that are not over, by key. `apply` is the reference meaning of every write."""

    invitations: dict[str, Invitation] = field(default_factory=dict)

    def apply(self, write: InvitationWrite) -> None:
        """Apply one write."""
        match write:
            case PutInvitation(invitation):
                self.invitations[invitation.key] = invitation
            case DropInvitation(key):
                self.invitations.pop(key, None)
