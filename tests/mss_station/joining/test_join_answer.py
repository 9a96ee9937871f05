"""What a newcomer checks in its sponsor's answer: that a true sponsor gives it, and to this newcomer."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from roamcast.middleware.lan_update.records import Entry
from roamcast.middleware.membership.frames import Join, Joined
from roamcast.mss_station.join_client import JoinError, check_answer
from roamcast.mss_station.join_files import Draft
from roamcast.mss_station.schema import LOST
from roamcast.transport import curve
from roamcast.transport.join_token import Token

HOSTS, STATIONS = "tcp://10.0.0.4:7001", "tcp://10.0.0.4:7002"


class Answer:
    """A true answer, to be made wrong."""

    def __init__(self, group: Any) -> None:
        self.group = group
        card = self.group.card
        keys = curve.generate()
        self.draft = Draft("dale", HOSTS, STATIONS, 77, keys.public, keys.public, "bb" * 32)
        asked = Join((1, 0), "dale", 77, HOSTS, STATIONS, keys.public, keys.public, "bb" * 32)
        self.own = self.group.add(asked, 4)
        self.token = Token("fleet", "hill", 4, card.stations, card.key, card.signing_key, curve.generate(), 1)

    def check(self, *entries: Entry, slot: int = 4, group: str = "fleet") -> None:
        check_answer(self.token, self.draft, Joined(slot, group, entries or self.group.entries()))

    def with_own(self, **changes: object) -> tuple[Entry, ...]:
        self.group.records["dale"] = replace(self.own, **changes)  # type: ignore[arg-type]
        return self.group.entries()


@pytest.fixture
def answer(group: Any) -> Answer:
    return Answer(group)


def test_a_true_answer_is_taken_with_other_stations_and_former_ones(answer: Answer) -> None:
    answer.check()
    glen = replace(answer.own, id="glen", slot=2, generation=3, state=LOST)
    answer.check(*answer.group.entries(), answer.group.entry(glen))


def test_an_answer_for_another_group_slot_or_newcomer_is_refused(answer: Answer) -> None:
    with pytest.raises(JoinError, match="for group 'convoy'"):
        answer.check(group="convoy")
    with pytest.raises(JoinError, match="has not counted in dale"):
        answer.check(slot=5)
    for changes in ({"generation": 78}, {"state": LOST}, {"slot": 5}):
        with pytest.raises(JoinError, match="has not counted in dale"):
            answer.check(*answer.with_own(**changes))
    with pytest.raises(JoinError, match="with other keys"):
        answer.check(*answer.with_own(signing=("cc" * 32,)))
    with pytest.raises(JoinError, match="has not counted in dale"):
        answer.check(answer.group.entries()[0])


def test_records_that_contradict_the_token_or_each_other_are_refused(answer: Answer) -> None:
    hill, dale = answer.group.entries()
    with pytest.raises(JoinError, match="one record twice"):
        answer.check(hill, dale, dale)
    with pytest.raises(JoinError, match="does not name the keys of the token"):
        answer.check(dale, *[answer.group.entry(replace(answer.group.records["hill"], keys=answer.own.keys))])
    with pytest.raises(JoinError, match="two stations with one slot"):
        answer.check(hill, dale, answer.group.entry(replace(answer.own, id="glen")))


def test_what_is_no_signed_record_of_a_station_is_refused(answer: Answer) -> None:
    hill, dale = answer.group.entries()
    with pytest.raises(JoinError, match="does not bear the signature of hill"):
        answer.check(hill, replace(dale, signature=bytes(64)))
    with pytest.raises(JoinError, match="does not bear the signature of glen"):
        answer.check(hill, replace(dale, version=dale.version._replace(node="glen")))
    for entry in (replace(dale, value=None), replace(dale, key="hosts/ann")):
        with pytest.raises(JoinError, match="no record of a station"):
            answer.check(hill, entry)
    with pytest.raises(JoinError, match="cannot read"):
        answer.check(hill, replace(dale, value=b"\xff"))
