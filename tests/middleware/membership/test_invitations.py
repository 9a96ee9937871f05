"""What a sponsor keeps of its invitations: the image is the writes, in their order."""

from __future__ import annotations

from dataclasses import replace

from roamcast.middleware.membership.invitations import (
    DropInvitation,
    Invitation,
    InvitationImage,
    Newcomer,
    PutInvitation,
)

OPEN = Invitation("key", 4, 1_000)
USED = replace(OPEN, used_by=Newcomer(77, "other key"))


def test_the_last_write_of_a_key_holds() -> None:
    image = InvitationImage()
    image.apply(PutInvitation(OPEN))
    image.apply(PutInvitation(replace(OPEN, key="second")))
    image.apply(PutInvitation(USED))
    assert image.invitations == {"key": USED, "second": replace(OPEN, key="second")}


def test_what_is_dropped_is_gone_and_may_be_dropped_again() -> None:
    image = InvitationImage({"key": USED})
    image.apply(DropInvitation("key"))
    image.apply(DropInvitation("key"))
    assert image.invitations == {}
