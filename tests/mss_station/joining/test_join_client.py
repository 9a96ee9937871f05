"""Joining a group over real sockets: a sponsor with CURVE, ZAP and invitations, a newcomer that may be interrupted."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from roamcast.middleware.errors import Error
from roamcast.middleware.lan_update.records import Entry
from roamcast.middleware.settings import SECOND
from roamcast.mss_station import join_client, join_files
from roamcast.mss_station.join_client import JoinError, Names, Rejoin, join
from roamcast.mss_station.schema import LOST
from roamcast.mss_station.store import STORE_NAME
from roamcast.transport import curve
from roamcast.transport.errors import KeyFileError
from roamcast.transport.join_codec import decode_join_answer
from roamcast.transport.join_token import Token, TokenError
from roamcast.transport.station_files import StationCard, StationConfig, create_station, read_station

NOW = 1_764_300_000 * SECOND
NAMES = Names("dale", "tcp://10.0.0.4:7001", "tcp://10.0.0.4:7002")


class Newcomer:
    """The command at a new station, as often as it is given."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.told: list[str] = []
        self.filled: list[tuple[StationCard, int, tuple[Entry, ...]]] = []
        self.on_tell: Callable[[str], None] = lambda text: None
        self.on_fill: Callable[[], None] = lambda: None

    def join(self, token: Token | str, who: Names | Rejoin = NAMES, timeout_s: float = 20) -> StationConfig:
        text = token if isinstance(token, str) else token.secret_text()
        return join(self.directory, text, who, fill=self._fill, wall=NOW, tell=self._tell, timeout_s=timeout_s)

    def _tell(self, text: str) -> None:
        self.told.append(text)
        self.on_tell(text)

    def _fill(self, card: StationCard, sponsor_slot: int, entries: tuple[Entry, ...]) -> None:
        self.filled.append((card, sponsor_slot, entries))
        self.on_fill()


@pytest.fixture
def newcomer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Newcomer:
    monkeypatch.setattr(join_client, "REPEAT_S", 0.05)
    return Newcomer(tmp_path / "new" / "dale")


def interrupt(*_: object) -> None:
    raise KeyboardInterrupt


# ---- counted in ----


def test_a_newcomer_becomes_a_station_with_the_slot_that_the_sponsor_gives(sponsor: Any, newcomer: Newcomer) -> None:
    there: list[bool] = []
    newcomer.on_fill = lambda: there.append((newcomer.directory / "station.toml").exists())
    config = newcomer.join(token := sponsor.invite())
    assert (token.slot, config.card.slot) == (2, 3)
    assert config == read_station(newcomer.directory) and there == [False], "station.toml is written last"
    assert newcomer.filled == [(config.card, 1, sponsor.group.entries())]
    frame = sponsor.joins[0]
    assert (frame.generation, frame.key) == (config.card.generation, config.card.key)
    assert not (newcomer.directory / "joining.toml").exists()
    assert token.keys.secret not in "".join(newcomer.told)


def test_it_asks_again_and_tells_once_who_is_waited_for(sponsor: Any, newcomer: Newcomer) -> None:
    sponsor.waits = 3
    newcomer.join(sponsor.invite())
    assert len(sponsor.joins) == 4
    assert newcomer.told == ["hill is reached, and asked", "waiting for glen to confirm slot 3"]


def test_a_lost_answer_is_asked_for_again_and_is_the_same(sponsor: Any, newcomer: Newcomer) -> None:
    sponsor.answers_lost = 2
    assert newcomer.join(sponsor.invite()).card.slot == 3
    assert len(sponsor.joins) == 3 and len(set(sponsor.joins)) == 1


def test_a_door_that_is_busy_is_tried_again(sponsor: Any, newcomer: Newcomer) -> None:
    sponsor.busy = 2
    newcomer.join(sponsor.invite())
    assert "not now" in newcomer.told[0] and newcomer.told[-1] == "hill is reached, and asked"


# ---- interrupted ----


def test_an_interrupted_join_goes_on_as_the_same_newcomer_even_after_the_tokens_time(
    sponsor: Any, newcomer: Newcomer
) -> None:
    token = sponsor.invite()
    sponsor.waits = 1_000
    newcomer.on_tell = lambda text: interrupt() if "confirm" in text else None
    with pytest.raises(JoinError, match="interrupted; the same command"):
        newcomer.join(token)
    assert not (newcomer.directory / "station.toml").exists()
    sponsor.waits = 0
    sponsor.wall = token.expires_s * SECOND + 1
    join_again = newcomer.join(token)
    assert len(set(sponsor.joins)) == 1 and join_again.card.generation == sponsor.joins[0].generation


def test_a_newcomer_that_fell_after_it_was_counted_in_gets_the_same_slot(sponsor: Any, newcomer: Newcomer) -> None:
    token = sponsor.invite()

    def fail() -> None:
        newcomer.on_fill = lambda: None
        raise Error("the disk is full")

    newcomer.on_fill = fail
    with pytest.raises(Error, match="disk is full"):
        newcomer.join(token)
    assert not (newcomer.directory / "station.toml").exists()
    assert newcomer.join(token).card == newcomer.filled[0][0]


def test_another_token_may_carry_on_where_the_first_one_stopped(sponsor: Any, newcomer: Newcomer) -> None:
    sponsor.answers_lost = 1
    newcomer.on_tell = interrupt
    with pytest.raises(JoinError, match="interrupted"):
        newcomer.join(sponsor.invite())
    newcomer.on_tell = lambda text: None
    newcomer.join(sponsor.invite())
    assert len(set(sponsor.joins)) == 1 and sorted(sponsor.group.records) == ["dale", "hill"]


def test_other_endpoints_than_those_that_were_counted_in_are_told(sponsor: Any, newcomer: Newcomer) -> None:
    token = sponsor.invite()
    newcomer.on_fill = interrupt
    with pytest.raises(JoinError, match="interrupted"):
        newcomer.join(token)
    with pytest.raises(JoinError, match=f"--hosts {NAMES.hosts} --stations {NAMES.stations}: give these"):
        newcomer.join(token, replace(NAMES, hosts="tcp://10.0.0.4:9999"))


# ---- refused ----


def test_another_newcomer_cannot_use_a_used_token(sponsor: Any, newcomer: Newcomer, tmp_path: Path) -> None:
    token = sponsor.invite()
    newcomer.join(token)
    other = Newcomer(tmp_path / "other")
    with pytest.raises(JoinError, match="hill refuses: another station has used this token"):
        other.join(token, replace(NAMES, id="glen"))
    sponsor.invitations.arrived([sponsor.joins[0].generation])
    with pytest.raises(JoinError, match="does not let this token in"):
        other.join(token, replace(NAMES, id="glen"))


def test_a_token_that_has_expired_at_the_sponsor_is_told_with_its_time(sponsor: Any, newcomer: Newcomer) -> None:
    token = sponsor.invite()
    sponsor.wall = token.expires_s * SECOND
    with pytest.raises(JoinError, match=r"expired there \(it was good until 2025-11-28 04:20:00 UTC\)"):
        newcomer.join(token)


def test_an_id_that_is_taken_is_refused_with_the_sponsors_words(sponsor: Any, newcomer: Newcomer) -> None:
    token = sponsor.invite()
    with pytest.raises(JoinError, match=r"hill is active in this group, .* take another id; the keys .* are kept: put"):
        newcomer.join(token, replace(NAMES, id="hill"))
    newcomer.join(token)
    assert sponsor.joins[0].key == sponsor.joins[1].key


def test_another_station_at_the_sponsors_endpoint_is_found_out(sponsor: Any, newcomer: Newcomer) -> None:
    token = replace(sponsor.invite(), key=curve.generate().public)
    with pytest.raises(JoinError, match=f"at {sponsor.endpoint} there is not the hill of this token"):
        newcomer.join(token)


def test_a_sponsor_that_is_not_there_is_told_and_waited_for_until_the_time_is_over(
    sponsor: Any, newcomer: Newcomer
) -> None:
    token = replace(sponsor.invite(), endpoint="tcp://127.0.0.1:1")
    with pytest.raises(
        JoinError, match=r"not counted in within 0\.5 s: hill at tcp://127\.0\.0\.1:1: unreachable; the s"
    ):
        newcomer.join(token, timeout_s=0.5)
    assert newcomer.told == ["hill at tcp://127.0.0.1:1: unreachable"]


@pytest.mark.parametrize("endpoint", ["tcp://*:1", "tcp://;:1"])
def test_an_endpoint_that_is_none_is_told_without_a_trace(sponsor: Any, newcomer: Newcomer, endpoint: str) -> None:
    with pytest.raises((JoinError, TokenError), match="hill at tcp"):
        newcomer.join(replace(sponsor.invite(), endpoint=endpoint))


def test_a_bad_token_or_name_makes_no_directory_that_hinders(newcomer: Newcomer, sponsor: Any) -> None:
    token = sponsor.invite()
    with pytest.raises(TokenError, match="cut off"):
        newcomer.join(token.secret_text()[:-9])
    with pytest.raises(TokenError, match="was good until"):
        newcomer.join(replace(token, expires_s=NOW // SECOND))
    assert not newcomer.directory.exists()
    with pytest.raises(KeyFileError, match="a name of at most"):
        newcomer.join(token, replace(NAMES, id="a b"))
    newcomer.join(token)


def test_a_directory_that_holds_a_station_is_left_alone(newcomer: Newcomer, sponsor: Any) -> None:
    config = create_station(newcomer.directory, id="x", slot=1, group="g", hosts="tcp://a:1", stations="tcp://a:2")
    with pytest.raises(KeyFileError, match="holds a station already"):
        newcomer.join(sponsor.invite())
    assert read_station(newcomer.directory) == config and sponsor.joins == []


# ---- lost, and here again ----


def test_a_lost_station_comes_back_as_another_one_and_hosts_know_its_key(sponsor: Any, newcomer: Newcomer) -> None:
    before = newcomer.join(sponsor.invite())
    directory = newcomer.directory
    (directory / STORE_NAME).write_text("old")
    again = sponsor.invite()
    with pytest.raises(JoinError, match=r"dale is at one of the .* mss-station stations retire DIR dale --lost"):
        newcomer.join(again, Rejoin())
    assert read_station(directory) == before and (directory / STORE_NAME).read_text() == "old", "nothing has changed"
    sponsor.group.records["dale"] = replace(sponsor.group.records["dale"], state=LOST)
    after = newcomer.join(again, Rejoin())
    assert (after.card.id, after.card.slot, after.card.hosts) == ("dale.2", 5, before.card.hosts)
    new, old = (sponsor.group.records[id] for id in ("dale.2", "dale"))
    assert (old.state, new.host_key, after.card.key) == (LOST, before.card.key, new.keys[0])
    assert not {*old.keys, *old.signing, old.generation} & {*new.keys, *new.signing, new.generation}
    assert not (directory / STORE_NAME).exists()
    assert [path.read_text() for path in directory.glob(f"store.old-*/{STORE_NAME}")] == ["old"]


def test_the_operator_may_say_under_which_id_it_comes_back(sponsor: Any, newcomer: Newcomer) -> None:
    newcomer.join(sponsor.invite())
    sponsor.group.records["dale"] = replace(sponsor.group.records["dale"], state=LOST)
    token = sponsor.invite()
    with pytest.raises(JoinError, match="dale is lost in this group, and no id is used twice"):
        newcomer.join(token, Rejoin("dale"))
    assert newcomer.join(token, Rejoin("glen")).card.id == "glen"


def test_a_join_that_was_cut_off_at_its_very_end_is_done(
    sponsor: Any, newcomer: Newcomer, monkeypatch: pytest.MonkeyPatch
) -> None:
    token = sponsor.invite()
    with monkeypatch.context() as patch:
        patch.setattr(join_files, "_forget", interrupt)
        with pytest.raises(JoinError, match="interrupted"):
            newcomer.join(token)
    asked = len(sponsor.joins)
    assert newcomer.join(token) == read_station(newcomer.directory)
    assert len(sponsor.joins) == asked and not (newcomer.directory / "joining.toml").exists()


def test_a_token_of_another_group_takes_no_station_back(sponsor: Any, newcomer: Newcomer) -> None:
    create_station(newcomer.directory, id="x", slot=1, group="convoy", hosts="tcp://a:1", stations="tcp://a:2")
    with pytest.raises(KeyFileError, match=r"for group 'fleet', .* belongs to 'convoy'"):
        newcomer.join(sponsor.invite(), Rejoin())


def test_an_answer_that_cannot_be_read_is_told(
    sponsor: Any, newcomer: Newcomer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(join_client, "decode_join_answer", lambda _: decode_join_answer(b"nonsense"))
    with pytest.raises(JoinError, match="answers what this release cannot read"):
        newcomer.join(sponsor.invite())
