"""Invitations at the sponsor: who may come in, until when, what is durable, and whom the group cannot take."""

from __future__ import annotations

from dataclasses import replace

import pytest

from roamcast.middleware.host_frames import PROTOCOL_VERSION
from roamcast.middleware.membership.frames import Join, JoinRefused
from roamcast.middleware.membership.invitations import DropInvitation, InvitationImage, InvitationWrite, PutInvitation
from roamcast.middleware.settings import SECOND
from roamcast.mss_station.invitations import (
    ASKING_AGAIN,
    OPEN_MAX,
    VALID,
    VALID_MAX,
    CannotInvite,
    Invitations,
    record_of,
    refusal,
)
from roamcast.mss_station.schema import LOST, RETIRED, StationRecord
from roamcast.transport.curve import generate
from roamcast.transport.join_token import Token
from roamcast.transport.station_files import StationCard

NOW = 1_764_300_000 * SECOND
KEY, OTHER = generate().public, generate().public
SPONSOR = StationCard("hill", 1, "fleet", 9, "tcp://10.0.0.1:7001", "tcp://10.0.0.1:7002", generate().public, "aa" * 32)
JOIN = Join(PROTOCOL_VERSION, "dale", 77, "tcp://10.0.0.4:7001", "tcp://10.0.0.4:7002", KEY, KEY, "bb" * 32)
HILL = StationRecord("hill", 1, 9, SPONSOR.hosts, SPONSOR.stations, (SPONSOR.key,), (SPONSOR.signing_key,))
DALE = StationRecord("dale", 4, 77, JOIN.hosts, JOIN.stations, (KEY,), (JOIN.signing_key,))


class Sponsor:
    """Invitations over a disk that has every write that was returned."""

    def __init__(self) -> None:
        self.disk = InvitationImage()
        self.invitations = Invitations(InvitationImage())

    def commit(self, writes: tuple[InvitationWrite, ...]) -> tuple[InvitationWrite, ...]:
        for write in writes:
            self.disk.apply(write)
        return writes

    def restart(self) -> None:
        self.invitations = Invitations(InvitationImage(dict(self.disk.invitations)))

    def issue(self, highest: int = 1, wall: int = NOW, valid: int = VALID) -> Token:
        token, writes = self.invitations.issue(SPONSOR, highest, wall, valid)
        self.commit(writes)
        return token

    def code(self, token: Token, join: Join = JOIN, wall: int = NOW) -> str | None:
        refused = self.invitations.judge(token.keys.public, join, wall)
        return refused and refused.code


@pytest.fixture
def sponsor() -> Sponsor:
    return Sponsor()


def test_a_token_says_where_its_sponsor_is_and_the_secret_is_kept_nowhere(sponsor: Sponsor) -> None:
    token = sponsor.issue()
    assert (token.group, token.sponsor, token.endpoint) == ("fleet", "hill", SPONSOR.stations)
    assert (token.key, token.signing_key, token.expires_s) == (SPONSOR.key, "aa" * 32, (NOW + VALID) // SECOND)
    assert token.keys.secret not in repr(sponsor.disk)


def test_the_one_time_key_opens_the_door_until_its_time_is_over(sponsor: Sponsor) -> None:
    token = sponsor.issue()
    sponsor.restart()
    key = token.keys.public
    end = token.expires_s * SECOND
    assert [sponsor.invitations.admits(key, wall) for wall in (NOW, end - 1, end)] == [True, True, False]
    assert not sponsor.invitations.admits(generate().public, NOW)
    assert sponsor.code(token, wall=end) == "expired"
    sponsor.commit(sponsor.invitations.expire(end))
    assert sponsor.disk.invitations == {}


def test_a_used_token_is_its_newcomers_alone_also_after_a_restart_and_its_time(sponsor: Sponsor) -> None:
    token = sponsor.issue()
    key = token.keys.public
    assert sponsor.code(token) is None
    (write,) = sponsor.commit(sponsor.invitations.use(key, JOIN))
    assert isinstance(write, PutInvitation)
    sponsor.restart()
    late = token.expires_s * SECOND + ASKING_AGAIN - 1
    assert sponsor.invitations.expire(late) == () and sponsor.invitations.admits(key, late)
    assert sponsor.code(token, wall=late) is None and sponsor.invitations.use(key, JOIN) == ()
    assert sponsor.code(token, replace(JOIN, generation=78)) == "used"
    assert sponsor.code(token, replace(JOIN, key=OTHER)) == "used"
    assert not sponsor.invitations.admits(key, late + 1)


def test_the_door_is_shut_as_soon_as_the_newcomer_is_there(sponsor: Sponsor) -> None:
    used, unused = sponsor.issue(), sponsor.issue()
    sponsor.commit(sponsor.invitations.use(used.keys.public, JOIN))
    assert sponsor.commit(sponsor.invitations.arrived([77, 78])) == (DropInvitation(used.keys.public),)
    assert [sponsor.invitations.admits(token.keys.public, NOW) for token in (used, unused)] == [False, True]
    assert sponsor.code(used) == "expired"


def test_no_two_open_invitations_propose_one_slot(sponsor: Sponsor) -> None:
    assert [sponsor.issue(highest=5).slot for _ in range(3)] == [6, 7, 8]
    sponsor.restart()
    assert sponsor.issue(highest=9).slot == 10
    assert [entry["slot"] for entry in sponsor.invitations.status()] == [6, 7, 8, 10]
    with pytest.raises(CannotInvite, match="slot 1023"):
        sponsor.issue(highest=1023)


def test_few_invitations_are_open_at_once_and_those_that_are_over_make_room(sponsor: Sponsor) -> None:
    tokens = [sponsor.issue() for _ in range(OPEN_MAX)]
    with pytest.raises(CannotInvite, match="16 invitations are open; the first of them ends at 2025-11-28"):
        sponsor.issue()
    end = tokens[0].expires_s * SECOND
    assert sponsor.issue(wall=end).slot == 2
    assert len(sponsor.disk.invitations) == 1, "what is over went with the same writes"


def test_a_token_is_good_for_a_week_at_most(sponsor: Sponsor) -> None:
    assert sponsor.issue(valid=100 * VALID_MAX).expires_s == (NOW + VALID_MAX) // SECOND


def test_a_newcomer_that_speaks_another_protocol_is_told_both_versions(sponsor: Sponsor) -> None:
    token = sponsor.issue()
    refused = sponsor.invitations.judge(token.keys.public, replace(JOIN, version=(9, 0)), NOW)
    assert refused == JoinRefused("version", "version 9.0 is spoken there, 1.1 here", False)


@pytest.mark.parametrize(
    "wrong",
    [
        {"id": "a/b"}, {"hosts": "tcp://nowhere"}, {"stations": JOIN.hosts}, {"key": "short"}, {"host_key": "~" * 40},
        {"signing_key": "AA" * 32}, {"generation": 0}, {"generation": 1 << 63},
    ],
    ids=str,
)  # fmt: skip
def test_what_is_no_station_is_not_counted_in(sponsor: Sponsor, wrong: dict[str, object]) -> None:
    assert sponsor.code(sponsor.issue(), replace(JOIN, **wrong)) == "form"  # type: ignore[arg-type]


def refused(*stations: StationRecord, join: Join = JOIN) -> str | None:
    found = refusal(join, [HILL, *stations])
    return found and found.code


def test_a_newcomer_of_its_own_and_one_that_asks_again_are_taken() -> None:
    assert refused() is None
    assert refused(DALE) is None


def test_an_id_belongs_to_one_station_for_ever() -> None:
    other = replace(DALE, generation=5, keys=(OTHER,))
    assert [refused(replace(other, state=state)) for state in ("active", RETIRED, LOST)] == ["id"] * 3


def test_a_directory_is_one_station_for_ever() -> None:
    assert refused(DALE, join=replace(JOIN, id="glen")) == "generation"
    assert refused(replace(DALE, state=LOST)) == "generation"
    assert refused(DALE, join=replace(JOIN, key=OTHER)) == "generation"


def test_keys_and_endpoints_are_nobody_elses() -> None:
    glen = StationRecord("glen", 5, 3, "tcp://10.0.0.5:7001", "tcp://10.0.0.5:7002", (OTHER,), ("cc" * 32,))
    assert refused(replace(glen, keys=(OTHER, KEY), state=LOST)) == "key"
    assert refused(replace(glen, signing=(JOIN.signing_key,))) == "key"
    assert refused(replace(glen, hosts=JOIN.stations)) == "endpoint"
    assert refused(replace(glen, hosts=JOIN.stations, state=LOST)) is None
    assert refused(glen) is None


def test_a_lost_store_is_named_as_what_stands_behind_a_taken_endpoint() -> None:
    found = refusal(replace(JOIN, id="dale.2"), [replace(DALE, generation=5, keys=(OTHER,), signing=("cc" * 32,))])
    assert found is not None and found.code == "endpoint" and "stations retire DIR dale --lost" in found.text


def test_the_record_of_a_newcomer_says_what_it_has_said() -> None:
    assert record_of(JOIN, 4) == replace(DALE, host_key=KEY)
    assert record_of(replace(JOIN, host_key=OTHER), 4).key_for_hosts == OTHER
