"""A newcomer's directory: keys and generation first, station.toml last, and an old store that is never lost."""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from roamcast.middleware.settings import SECOND
from roamcast.mss_station import join_files, rotation
from roamcast.mss_station.join_files import (
    STORE_FILES,
    Draft,
    complete,
    finish,
    has_begun,
    next_id,
    prepare,
    prepare_again,
)
from roamcast.mss_station.schema import StationRecord
from roamcast.mss_station.store import STORE_NAME
from roamcast.transport.errors import KeyFileError
from roamcast.transport.station_files import StationCard, StationConfig, read_signing_key, read_station

WALL = 1_764_300_000 * SECOND
ASIDE = "store.old-20251128T032000Z"
HOSTS, STATIONS = "tcp://10.0.0.4:7001", "tcp://10.0.0.4:7002"


class Stopped(Exception):
    """The process ends here."""


def begin(directory: Path) -> Draft:
    return prepare(directory, id="dale", hosts=HOSTS, stations=STATIONS)


def content(directory: Path) -> dict[str, str]:
    return {str(path.relative_to(directory)): path.read_text() for path in directory.rglob("*") if path.is_file()}


def store_of(directory: Path) -> Callable[[StationCard], None]:
    """What makes a store, or takes up the one that it has made."""
    return lambda card: [(directory / name).write_text(f"new {card.generation}") for name in STORE_FILES] and None


def test_keys_and_generation_stay_the_same_until_the_join_has_come_to_its_end(tmp_path: Path) -> None:
    draft = begin(tmp_path)
    assert has_begun(tmp_path) and begin(tmp_path) == draft
    assert draft.key == draft.host_key and not (tmp_path / "station.toml").exists()
    other = prepare(tmp_path, id="glen", hosts=HOSTS, stations=STATIONS)
    assert replace(other, id="dale") == draft, "the sponsor judges by generation and key"
    config = complete(tmp_path, draft, 4, "fleet", store_of(tmp_path))
    assert config == read_station(tmp_path) and not has_begun(tmp_path)
    assert (config.card.slot, config.card.group, config.card.generation) == (4, "fleet", draft.generation)
    assert (config.card.key, config.card.signing_key) == (draft.key, draft.signing_key)
    with pytest.raises(KeyFileError, match=r"holds a station already; .* --rejoin makes another of it"):
        begin(tmp_path)


def test_secrets_are_only_in_the_key_files(tmp_path: Path) -> None:
    begin(tmp_path)
    secrets = [line for name in ("curve.key", "signing.key") for line in (tmp_path / name).read_text().splitlines()]
    texts = content(tmp_path)
    for line in secrets:
        if line.startswith("secret"):
            value = line.split(" = ", 1)[1]
            assert [name for name, text in texts.items() if value in text and not name.endswith(".key")] == []


def test_a_fall_before_station_toml_is_there_loses_nothing(tmp_path: Path) -> None:
    draft = begin(tmp_path)

    def fall(card: StationCard) -> None:
        store_of(tmp_path)(card)
        raise Stopped

    with pytest.raises(Stopped):
        complete(tmp_path, draft, 4, "fleet", fall)
    assert begin(tmp_path) == draft
    assert complete(tmp_path, draft, 4, "fleet", store_of(tmp_path)).card.slot == 4


# ---- another station of a lost one ----


@pytest.fixture
def station(tmp_path: Path) -> StationConfig:
    """A station with a store, and with a route, an address and a remark of its operator."""
    complete(tmp_path, begin(tmp_path), 4, "fleet", lambda card: None)
    for name in STORE_FILES:
        (tmp_path / name).write_text("old")
    path = tmp_path / "station.toml"
    text = path.read_text().replace("slot = 4", 'slot=4  # given by hill\nbind-hosts = "tcp://0.0.0.0:1"')
    path.write_text(text + '\n[routes]\nhill = "tcp://127.0.0.1:5"  # not slot = 9\n')
    return read_station(tmp_path)


def again(directory: Path, wall: int = WALL) -> Draft:
    return prepare_again(directory, None, wall)


def test_another_station_is_made_with_everything_but_store_id_and_link_keys(
    tmp_path: Path, station: StationConfig
) -> None:
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "00000001.rclog").write_text("old")
    draft = again(tmp_path)
    assert again(tmp_path, WALL + 99 * SECOND) == draft, "the same newcomer, and the same folder"
    assert (draft.id, draft.group, draft.aside, draft.host_key) == ("dale.2", "fleet", ASIDE, station.card.key)
    assert read_station(tmp_path) == station, "nothing has changed yet"
    config = complete(tmp_path, draft, 7, "fleet", store_of(tmp_path))
    assert config.card == replace(
        station.card,
        id="dale.2",
        slot=7,
        generation=draft.generation,
        key=draft.key,
        signing_key=draft.signing_key,
    )
    assert not {draft.generation, draft.key, draft.signing_key} & {
        station.card.generation,
        station.card.key,
        station.card.signing_key,
    }
    assert rotation.read_host_keys(tmp_path) == station.keys
    assert (config.bind_hosts, config.routes) == ("tcp://0.0.0.0:1", {"hill": "tcp://127.0.0.1:5"})
    assert "slot = 7\nbind-hosts" in (tmp_path / "station.toml").read_text()
    texts = content(tmp_path)
    for name in STORE_FILES:
        assert (texts[f"{ASIDE}/{name}"], texts[name]) == ("old", f"new {draft.generation}")
    assert (tmp_path / ASIDE / "logs" / "00000001.rclog").exists() and not (tmp_path / "logs").exists()
    assert not has_begun(tmp_path) and not (tmp_path / "joining").exists()


def test_ids_go_on_and_the_operator_may_give_one(tmp_path: Path, station: StationConfig) -> None:
    assert [next_id(id) for id in ("s2", "s2.2", "s2.9", "a.b", "7")] == ["s2.2", "s2.3", "s2.10", "a.b.2", "7.2"]
    assert prepare_again(tmp_path, "glen", WALL).id == "glen"
    with pytest.raises(KeyFileError, match="a name of at most"):
        prepare_again(tmp_path, "g len", WALL)


def test_a_store_that_was_destroyed_leaves_nothing_to_move(tmp_path: Path, station: StationConfig) -> None:
    for name in STORE_FILES:
        (tmp_path / name).unlink()
    complete(tmp_path, again(tmp_path), 7, "fleet", store_of(tmp_path))
    assert read_station(tmp_path).card.slot == 7 and (tmp_path / STORE_NAME).exists()


def test_a_rotation_that_was_under_way_is_over(tmp_path: Path, station: StationConfig) -> None:
    record = StationRecord("dale", 4, 1, HOSTS, STATIONS, (station.card.key,), (station.card.signing_key,))
    rotation.begin(tmp_path, record)
    draft = again(tmp_path)
    complete(tmp_path, draft, 7, "fleet", store_of(tmp_path))
    assert rotation.pending(tmp_path) is None and read_station(tmp_path).card.key == draft.key


STEPS = 14


@pytest.mark.parametrize("nth", range(1, STEPS + 1))
def test_wherever_it_falls_the_old_store_is_kept_and_the_command_finishes(
    tmp_path: Path, station: StationConfig, nth: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every step that changes the directory, one after the other, is the last one of the process."""
    steps = iter(range(1, 100))

    def falling(step: Callable[..., object]) -> Callable[..., object]:
        def first(*arguments: object, **named: object) -> object:
            if next(steps) == nth:
                raise Stopped
            return step(*arguments, **named)

        return first

    draft = again(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr("os.replace", falling(join_files.os.replace))
        for name in ("keep_host_keys", "sync_folder", "_forget"):
            patch.setattr(join_files, name, falling(getattr(join_files, name)))
        patch.setattr("pathlib.Path.rmdir", falling(Path.rmdir))
        with pytest.raises(Stopped):
            complete(tmp_path, draft, 7, "fleet", store_of(tmp_path))
    slot = tomllib.loads((tmp_path / "station.toml").read_text())["slot"]
    assert (slot == 7) == (nth == STEPS), "the new identity comes last but one"
    if slot == 7:
        assert finish(tmp_path) == read_station(tmp_path)
    else:
        assert finish(tmp_path) is None
        assert again(tmp_path, WALL + 60 * SECOND) == draft
        assert complete(tmp_path, draft, 7, "fleet", store_of(tmp_path)).card.slot == 7
    assert not has_begun(tmp_path)
    card = read_station(tmp_path).card
    assert (card.key, card.signing_key) == (draft.key, draft.signing_key)
    assert read_signing_key(tmp_path).public_key().public_bytes_raw().hex() == draft.signing_key
    assert rotation.read_host_keys(tmp_path) == station.keys
    texts = content(tmp_path)
    for name in STORE_FILES:
        assert (texts[f"{ASIDE}/{name}"], texts[name]) == ("old", f"new {draft.generation}")


def test_what_was_left_from_before_there_was_a_station_does_not_take_part(
    tmp_path: Path, station: StationConfig
) -> None:
    (tmp_path / "joining.toml").write_text("format = 1\ngeneration = 77\n")
    assert finish(tmp_path) is None
    draft = again(tmp_path)
    assert draft.generation != 77 and draft.aside == ASIDE


def test_a_station_toml_that_cannot_be_changed_line_by_line_is_left_as_it_is(
    tmp_path: Path, station: StationConfig
) -> None:
    path = tmp_path / "station.toml"
    text = path.read_text().replace("slot=4", '"slot" = 4')
    path.write_text(text)
    with pytest.raises(KeyFileError, match=r"slot = \.\.\. and generation = \.\.\. on lines of their own"):
        complete(tmp_path, again(tmp_path), 7, "fleet", store_of(tmp_path))
    assert path.read_text() == text
    path.write_text(text.replace('"slot" = 4', "slot = 4"))
    assert complete(tmp_path, again(tmp_path), 7, "fleet", store_of(tmp_path)).card.slot == 7


def test_a_directory_without_a_station_cannot_come_back(tmp_path: Path) -> None:
    with pytest.raises(KeyFileError, match=r"station\.toml cannot be read"):
        again(tmp_path)
