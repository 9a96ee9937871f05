"""The invitations of a sponsor: which one-time keys open the door, until when, and for whom.

An invitation is for one newcomer, told by the generation and the key of its directory. Its first use is durable before
anything is answered (the driver commits what `use` returns with the newcomer's membership), and from then on the answer
to that newcomer is always the same: its first answer may be lost. ZAP sees a key and no frame, so it cannot tell two
holders of one token: the one-time key opens the door until the invitation is over, and another newcomer under a used
one is refused by the answer to its Join. Over it is when its time has passed, a day later if it was used, or as soon as
its newcomer has linked with its own key; then the handshake fails.
"""

from __future__ import annotations

from collections.abc import Container, Iterable
from dataclasses import replace
from typing import Final

from roamcast.middleware.errors import Error
from roamcast.middleware.host_frames import PROTOCOL_VERSION
from roamcast.middleware.membership.frames import Join, JoinRefused
from roamcast.middleware.membership.invitations import (
    DropInvitation,
    Invitation,
    InvitationImage,
    InvitationWrite,
    Newcomer,
    PutInvitation,
)
from roamcast.middleware.settings import DAY, SECOND
from roamcast.mss_station.schema import ENDED, StationRecord
from roamcast.transport.curve import generate, is_key
from roamcast.transport.errors import KeyFileError
from roamcast.transport.join_token import Token, utc
from roamcast.transport.limits import INT64_MAX, SLOT_MAX
from roamcast.transport.station_files import HEX32, StationCard, check_station

OPEN_MAX: Final = 16
VALID: Final = 3_600 * SECOND
VALID_MAX: Final = 7 * DAY
ASKING_AGAIN: Final = DAY
"""A used invitation answers its newcomer for so long after its time."""


class CannotInvite(Error):
    """No further invitation can be given out now."""


class Invitations:
    """The open invitations of this station. `wall` is UTC microseconds.

    What a method returns must be committed; if it was not, `start_again` with what the store holds.

    Args:
        image: what the store holds; it is kept up to date here.
    """

    def __init__(self, image: InvitationImage) -> None:
        self._image = image

    def start_again(self, image: InvitationImage) -> None:
        """The tick was rolled back: the store holds `image`."""
        self._image = image

    def issue(
        self, sponsor: StationCard, highest: int, wall: int, valid: int = VALID
    ) -> tuple[Token, tuple[InvitationWrite, ...]]:
        """A new token. It may be shown when the writes are durable, and must not be kept.

        Args:
            sponsor: this station.
            highest: highest slot of any station that is or was a member.
            valid: time until it expires, microseconds.

        Raises:
            CannotInvite: too many are open, or there is no slot left.
        """
        writes = self.expire(wall)
        invitations = self._image.invitations.values()
        if len(invitations) >= OPEN_MAX:
            first = min(self._end(invitation) for invitation in invitations)
            raise CannotInvite(f"{OPEN_MAX} invitations are open; the first of them ends at {utc(first // SECOND)}")
        slot = 1 + max([highest, *(invitation.slot for invitation in invitations)])
        if slot > SLOT_MAX:
            raise CannotInvite(f"slot {SLOT_MAX} is the last one, and it has been given or proposed")
        keys, expires_s = generate(), (wall + min(valid, VALID_MAX)) // SECOND
        token = Token(
            sponsor.group, sponsor.id, slot, sponsor.stations, sponsor.key, sponsor.signing_key, keys, expires_s
        )
        return token, (*writes, self._apply(PutInvitation(Invitation(keys.public, slot, expires_s * SECOND))))

    def admits(self, key: str, wall: int) -> bool:
        """Whether a connection under this CURVE key (Z85) may come in, for Join frames alone."""
        invitation = self._image.invitations.get(key)
        return invitation is not None and wall < self._end(invitation)

    def judge(self, key: str, join: Join, wall: int) -> JoinRefused | None:
        """Whether a Join that came under `key` is refused for the sake of its invitation or its form."""
        invitation = self._image.invitations.get(key)
        if join.version[0] != PROTOCOL_VERSION[0]:
            ours, theirs = (".".join(map(str, version)) for version in (PROTOCOL_VERSION, join.version))
            return JoinRefused("version", f"version {theirs} is spoken there, {ours} here", False)
        if invitation is None or wall >= self._end(invitation):
            return JoinRefused("expired", "the invitation is over; ask for a new token", False)
        if invitation.used_by not in (None, _newcomer(join)):
            return JoinRefused("used", "another station has used this token; ask for a new one", False)
        return _malformed(join)

    def use(self, key: str, join: Join) -> tuple[InvitationWrite, ...]:
        """The invitation is its newcomer's now; nothing to write if it was before.

        Call it with the first durable step that is taken for the newcomer, after `judge` and `refusal`.
        """
        invitation = self._image.invitations[key]
        if invitation.used_by is not None:
            return ()
        return (self._apply(PutInvitation(replace(invitation, used_by=_newcomer(join)))),)

    def arrived(self, generations: Container[int]) -> tuple[InvitationWrite, ...]:
        """The stations of these generations have linked with their own keys: they ask no more."""
        return self._drop(
            [one for one in self._image.invitations.values() if one.used_by and one.used_by.generation in generations]
        )

    def expire(self, wall: int) -> tuple[InvitationWrite, ...]:
        """Drop the invitations whose time is over."""
        return self._drop([one for one in self._image.invitations.values() if self._end(one) <= wall])

    def status(self) -> list[dict[str, object]]:
        """Slot proposed, end of its time, and whether it is used, of every open invitation."""
        return [
            {"slot": one.slot, "until": utc(one.expires // SECOND), "used": one.used_by is not None}
            for one in sorted(self._image.invitations.values(), key=lambda one: one.slot)
        ]

    def _end(self, invitation: Invitation) -> int:
        return invitation.expires + (ASKING_AGAIN if invitation.used_by else 0)

    def _drop(self, over: list[Invitation]) -> tuple[InvitationWrite, ...]:
        return tuple([self._apply(DropInvitation(one.key)) for one in over])

    def _apply(self, write: InvitationWrite) -> InvitationWrite:
        self._image.apply(write)
        return write


def refusal(join: Join, stations: Iterable[StationRecord]) -> JoinRefused | None:
    """Why the group cannot take this newcomer beside its `stations`, all that are or were members; None: it can.

    A newcomer that is a member already asks again, and is not refused. No id is used twice.
    """
    for known in stations:
        if known.generation == join.generation:
            if known.id == join.id and known.state not in ENDED and join.key in known.keys:
                continue
            text = f"this directory is that of {known.id}, slot {known.slot}, {known.state}; take a new one"
            return JoinRefused("generation", text, False)
        if known.id == join.id:
            text = f"{known.id} is {known.state} in this group, and no id is used twice; take another id"
            return JoinRefused("id", text, False)
        if join.key in known.keys or join.signing_key in known.signing:
            return JoinRefused("key", f"a key of this directory is that of {known.id}; take a new one", False)
        if known.state not in ENDED and {known.hosts, known.stations} & {join.hosts, join.stations}:
            text = (
                f"{known.id} is at one of the endpoints {join.hosts}, {join.stations}; if that station has lost its "
                f"store, run this at a running one first: mss-station stations retire DIR {known.id} --lost"
            )
            return JoinRefused("endpoint", text, False)
    return None


def record_of(join: Join, slot: int) -> StationRecord:
    """The record of a newcomer that is counted in."""
    keys, signing = (join.key,), (join.signing_key,)
    return StationRecord(
        join.id, slot, join.generation, join.hosts, join.stations, keys, signing, host_key=join.host_key
    )


def _newcomer(join: Join) -> Newcomer:
    return Newcomer(join.generation, join.key)


def _malformed(join: Join) -> JoinRefused | None:
    try:
        check_station(id=join.id, group=join.id, hosts=join.hosts, stations=join.stations)
    except KeyFileError as error:
        return JoinRefused("form", str(error), False)
    keys = is_key(join.key) and is_key(join.host_key) and HEX32.fullmatch(join.signing_key)
    if not keys or not 1 <= join.generation <= INT64_MAX:
        return JoinRefused("form", "a key or the generation is not of the form that it must have", False)
    return None
