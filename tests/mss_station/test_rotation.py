"""New keys of a station: what its files and its record say at every point, wherever the process ends."""

from __future__ import annotations

import stat
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("cryptography", reason="stations need the extra [station]")

from roamcast.mss_station import rotation
from roamcast.mss_station.rotation import announced, begin, pending, read_host_keys, recover, rotate_hosts, switch
from roamcast.mss_station.schema import KEYS_MAX, StationRecord
from roamcast.transport.curve import CurveKeys
from roamcast.transport.errors import KeyFileError
from roamcast.transport.station_files import (
    StationConfig,
    create_station,
    read_signing_key,
    read_station,
)


class Stopped(Exception):
    """The process ends here."""


class Rotating:
    """A station's directory and its record in the group."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.first = create_station(
            directory, id="hill", slot=3, group="g", hosts="tcp://10.0.0.3:1", stations="tcp://10.0.0.3:2"
        )
        card = self.first.card
        self.record = StationRecord(
            "hill", 3, card.generation, card.hosts, card.stations, (card.key,), (card.signing_key,)
        )

    def config(self) -> StationConfig:
        """As a start reads it."""
        recover(self.directory)
        return read_station(self.directory)

    def put(self) -> StationRecord:
        """Bring the record up to date."""
        self.record = announced(self.record, self.config().card, pending(self.directory))
        return self.record


@pytest.fixture
def rotating(tmp_path: Path) -> Rotating:
    return Rotating(tmp_path / "hill")


def public(directory: Path) -> str:
    return read_signing_key(directory).public_key().public_bytes_raw().hex()


def test_without_a_rotation_the_record_says_the_keys_in_use(rotating: Rotating) -> None:
    before = rotating.record
    assert rotating.put() == before and pending(rotating.directory) is None
    assert read_host_keys(rotating.directory) == rotating.first.keys
    switch(rotating.directory)
    assert read_station(rotating.directory) == rotating.first


def test_new_keys_are_announced_beside_the_old_ones_which_stay_in_use(rotating: Rotating) -> None:
    coming = begin(rotating.directory, rotating.record)
    assert rotating.config() == rotating.first and pending(rotating.directory) is not None
    record = rotating.put()
    assert record.keys == (coming.curve.public, rotating.first.card.key)
    assert record.signing == (coming.signing_key, rotating.first.card.signing_key)
    assert rotating.put() == record, "after a restart there is nothing more to say"


def test_after_the_switch_the_old_key_is_out_of_use_and_what_it_signed_stays_good(rotating: Rotating) -> None:
    coming = begin(rotating.directory, rotating.record)
    rotating.put()
    switch(rotating.directory)
    config = rotating.config()
    assert (config.keys, public(rotating.directory)) == (coming.curve, coming.signing_key)
    assert config.card == replace(rotating.first.card, key=coming.curve.public, signing_key=coming.signing_key)
    record = rotating.put()
    assert record.keys == (coming.curve.public,)
    assert record.signing == (coming.signing_key, rotating.first.card.signing_key)
    assert pending(rotating.directory) is None
    secrets = [rotating.first.keys.secret]
    found = [path.name for path in rotating.directory.iterdir() if any(s in path.read_text() for s in secrets)]
    assert found == ["hosts.key"], "for hosts the old pair is in use"


def test_hosts_see_nothing_of_it(rotating: Rotating) -> None:
    for _ in range(2):
        begin(rotating.directory, rotating.record)
        rotating.put()
        switch(rotating.directory)
        assert read_host_keys(rotating.directory) == rotating.first.keys
    assert len(rotating.put().signing) == 3


def test_the_key_for_hosts_is_changed_on_demand_and_nothing_else(rotating: Rotating) -> None:
    key = rotate_hosts(rotating.directory).public
    assert read_host_keys(rotating.directory).public == key != rotating.first.card.key
    assert rotating.config() == rotating.first
    coming = begin(rotating.directory, rotating.record)
    switch(rotating.directory)
    assert (read_host_keys(rotating.directory).public, rotating.config().keys) == (key, coming.curve)


def test_secrets_are_for_the_owner_alone_and_do_not_show(rotating: Rotating) -> None:
    coming = begin(rotating.directory, rotating.record)
    rotate_hosts(rotating.directory)
    assert coming.curve.secret not in repr(coming) and coming.signing.private_bytes_raw().hex() not in repr(coming)
    for name in ("curve.key", "signing.key", "hosts.key", "next.key"):
        assert stat.S_IMODE((rotating.directory / name).stat().st_mode) == 0o600
    switch(rotating.directory)
    assert all(stat.S_IMODE((rotating.directory / n).stat().st_mode) == 0o600 for n in ("curve.key", "signing.key"))


def test_one_rotation_at_a_time(rotating: Rotating) -> None:
    begin(rotating.directory, rotating.record)
    with pytest.raises(KeyFileError, match="a rotation is under way; mss-station status names who is waited for"):
        begin(rotating.directory, rotating.record)


def test_a_record_that_is_full_is_not_forgotten_in_part(rotating: Rotating) -> None:
    full = replace(rotating.record, signing=tuple(f"{number:064x}" for number in range(KEYS_MAX)))
    with pytest.raises(KeyFileError, match="has had 16 signing keys"):
        begin(rotating.directory, full)
    assert pending(rotating.directory) is None


def falling(nth: int) -> Callable[[Callable[..., object]], Callable[..., object]]:
    """The nth call of any of the functions that are wrapped ends the process, before it does anything."""
    steps = iter(range(1, 100))

    def wrap(step: Callable[..., object]) -> Callable[..., object]:
        def stepped(*arguments: object, **named: object) -> object:
            if next(steps) == nth:
                raise Stopped
            return step(*arguments, **named)

        return stepped

    return wrap


@pytest.mark.parametrize("nth", [1, 2])
def test_wherever_the_beginning_ends_nothing_has_changed_or_it_has_begun(
    rotating: Rotating, nth: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(rotation, "write_new", falling(nth)(rotation.write_new))
        with pytest.raises(Stopped):
            begin(rotating.directory, rotating.record)
    before = rotating.record
    assert rotating.put() == before and rotating.config() == rotating.first
    assert read_host_keys(rotating.directory) == rotating.first.keys
    begin(rotating.directory, rotating.record)
    assert len(rotating.put().keys) == 2


@pytest.mark.parametrize("nth", [1, 2, 3])
def test_wherever_the_switch_ends_the_next_start_has_all_old_keys_or_all_new_ones(
    rotating: Rotating, nth: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    coming = begin(rotating.directory, rotating.record)
    announced_before = rotating.put()
    wrap = falling(nth)
    with monkeypatch.context() as patch:
        for name in ("replace_file", "sync_folder"):
            patch.setattr(rotation, name, wrap(getattr(rotation, name)))
        with pytest.raises(Stopped):
            switch(rotating.directory)
    config = rotating.config()
    old: tuple[CurveKeys, str] = (rotating.first.keys, rotating.first.card.signing_key)
    new = (coming.curve, coming.signing_key)
    assert (config.keys, public(rotating.directory)) == (old if nth == 1 else new)
    assert config.card.signing_key == public(rotating.directory)
    record = rotating.put()
    if nth == 1:
        assert record == announced_before
        switch(rotating.directory)
        record = rotating.put()
    assert record.keys == (coming.curve.public,) and pending(rotating.directory) is None
