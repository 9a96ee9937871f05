"""The files of a station's directory: written whole, read strictly, secrets for the owner alone."""

from __future__ import annotations

import stat
from dataclasses import replace
from pathlib import Path

import pytest

from roamcast.transport import curve
from roamcast.transport.credential import Credential, StationAddress, read_credential
from roamcast.transport.errors import KeyFileError

pytest.importorskip("cryptography", reason="stations need the extra [station]")

from roamcast.transport.station_files import (
    LogUpload,
    StationConfig,
    create_station,
    read_signing_key,
    read_station,
    toml_text,
    write_credential,
    write_new,
)

HOSTS, STATIONS = "tcp://10.0.0.3:7001", "tcp://10.0.0.3:7002"


def create(path: Path) -> StationConfig:
    return create_station(path, id="hill", slot=3, group="fleet", hosts=HOSTS, stations=STATIONS)


def edit(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def test_a_new_station_can_be_read(tmp_path: Path) -> None:
    config = create(tmp_path / "a" / "hill")
    assert read_station(tmp_path / "a" / "hill") == config
    card = config.card
    assert (card.id, card.slot, card.group, card.hosts, card.stations) == ("hill", 3, "fleet", HOSTS, STATIONS)
    assert card.key == config.keys.public
    assert read_signing_key(tmp_path / "a" / "hill").public_key().public_bytes_raw().hex() == card.signing_key
    assert (config.bind_hosts, config.bind_stations) == (HOSTS, STATIONS)
    assert (config.durability, config.spacing_us, config.routes) == (None, None, {})


def test_every_directory_is_a_generation_of_its_own(tmp_path: Path) -> None:
    one, other = create(tmp_path / "one").card, create(tmp_path / "other").card
    assert one.generation != other.generation and one.key != other.key and one.signing_key != other.signing_key


def test_secrets_are_in_files_for_the_owner_alone_and_nowhere_else(tmp_path: Path) -> None:
    config = create(tmp_path)
    signing = read_signing_key(tmp_path).private_bytes_raw().hex()
    for path in sorted(tmp_path.rglob("*")):
        if path.is_file():
            secret = any(each in path.read_text() for each in (config.keys.secret, signing))
            assert secret == (path.suffix == ".key")
            assert stat.S_IMODE(path.stat().st_mode) == (0o600 if secret else 0o644)
    assert config.keys.secret not in repr(config)


@pytest.mark.parametrize("file", ["curve.key", "signing.key"])
def test_a_secret_that_others_can_read_stops_the_station(tmp_path: Path, file: str) -> None:
    create(tmp_path)
    (tmp_path / file).chmod(0o640)
    with pytest.raises(KeyFileError, match=f"chmod 600 .*{file}"):
        read_station(tmp_path)


@pytest.mark.parametrize(
    ("endpoint", "said"),
    [
        *((f"tcp://{host}:7001", "bind-hosts and bind-stations") for host in ("*", "0.0.0.0", "0", "0x0.0", "[::]")),
        *((f"tcp://{host}:7001", "bind-hosts and bind-stations") for host in ("::0", "[0:0::0]", "[::ffff:0.0.0.0]")),
        ("tcp://10.0.0.3:0", "PORT from 1 to 65535"),
        ("tcp://10.0.0.3:*", "PORT from 1 to 65535"),
    ],
)
def test_an_endpoint_that_nobody_can_reach_is_refused(tmp_path: Path, endpoint: str, said: str) -> None:
    for hosts, stations in ((endpoint, STATIONS), (HOSTS, endpoint)):
        with pytest.raises(KeyFileError, match=said):
            create_station(tmp_path, id="hill", slot=3, group="fleet", hosts=hosts, stations=stations)
    assert list(tmp_path.iterdir()) == []
    create(tmp_path)
    edit(tmp_path / "station.toml", HOSTS, endpoint)
    with pytest.raises(KeyFileError, match=f"station.toml: hosts must be .*{said}"):
        read_station(tmp_path)


def test_what_only_looks_like_a_wildcard_is_taken(tmp_path: Path) -> None:
    for i, host in enumerate(("10.0.0.0", "0.0.0.1", "[::1]", "0.example", "zero")):
        ends = {"hosts": f"tcp://{host}:1", "stations": f"tcp://{host}:2"}
        assert create_station(tmp_path / str(i), id="hill", slot=3, group="fleet", **ends).card.hosts == ends["hosts"]


def test_a_station_is_not_made_twice_in_one_place(tmp_path: Path) -> None:
    config = create(tmp_path)
    with pytest.raises(KeyFileError, match="holds a station already"):
        create(tmp_path)
    assert read_station(tmp_path) == config


def test_a_station_that_was_half_made_can_be_made_again(tmp_path: Path) -> None:
    create(tmp_path)
    (tmp_path / "station.toml").unlink()  # it is written last
    assert create(tmp_path) == read_station(tmp_path)


@pytest.mark.parametrize(
    "wrong",
    [
        {"id": "a/b"}, {"id": ""}, {"id": ".."}, {"id": "x" * 65}, {"group": "a b"}, {"slot": 0}, {"slot": 1024},
        {"hosts": "10.0.0.3:7001"}, {"hosts": "tcp://10.0.0.3"}, {"stations": "tcp://a b:1"}, {"stations": "tcp://a/b:1"},
        {"hosts": "tcp://10.0.0.3:0"}, {"hosts": "tcp://10.0.0.3:65536"}, {"stations": "tcp://10.0.0.3:70000"},
        {"hosts": STATIONS},
    ],
    ids=str,
)  # fmt: skip
def test_what_is_no_name_slot_or_endpoint_makes_no_station(tmp_path: Path, wrong: dict[str, str]) -> None:
    values = {"id": "hill", "slot": 3, "group": "fleet", "hosts": HOSTS, "stations": STATIONS} | wrong
    with pytest.raises(KeyFileError, match=r"a name of at most 64|tcp://ADDRESS:PORT|from 1 to|a port of its own"):
        create_station(tmp_path / "new", **values)  # type: ignore[arg-type]
    assert not (tmp_path / "new").exists()


def test_what_the_operator_may_add_to_station_toml(tmp_path: Path) -> None:
    config = create(tmp_path)
    with (tmp_path / "station.toml").open("a") as file:
        file.write('bind-hosts = "tcp://0.0.0.0:1"\nbind-stations = "tcp://*:2"\npublish-port = 7003\n')
        file.write('durability = "process"\nspacing-us = 0\n\n[routes]\ndale = "tcp://127.0.0.1:7999"\n')
        file.write('[log]\nupload = "s3://logs/all"\nupload-every = "30min"\n')
    routes = {"dale": "tcp://127.0.0.1:7999"}
    upload = LogUpload("s3://logs/all", 1_800_000_000)
    assert read_station(tmp_path) == StationConfig(
        config.card, config.keys, "tcp://0.0.0.0:1", "tcp://*:2", "process", 0, routes, upload, 7_003
    )


@pytest.mark.parametrize(
    ("old", "new", "text"),
    [
        ("slot = 3", "slot = 3\nsolt = 4", "unknown key 'solt'; known are format, id"),
        ("slot = 3", "slot = ", r"no TOML file \(at line 3, column 8\)"),
        ("slot = 3", "", "slot must be an integer"),
        ("slot = 3", "slot = 3\nroutes = 1", "routes must be a table"),
        ("slot = 3", 'slot = 3\nroutes = { dale = "10.0.0.4" }', "routes: dale must be of the form tcp://"),
        ("slot = 3", 'slot = 3\nroutes = { "a/b" = "tcp://a:1" }', "routes: 'a/b' must be the id of a station"),
        ("slot = 3", 'slot = 3\ndurability = "none"', "durability must be 'power' or 'process'"),
        ("slot = 3", "slot = 3\nlog = 1", "log must be a table"),
        ("slot = 3", "slot = 3\npublish-port = 0", "publish-port must be an integer from 1 to 65535"),
        ("slot = 3", 'slot = 3\nlog = { upload = "here" }', "log: upload must be the absolute path of a folder, or a"),
        ("slot = 3", 'slot = 3\nlog = { upload-every = "1h" }', "log: upload must be"),
        ("slot = 3", 'slot = 3\nlog = { upload = "/x", upload-every = 15 }', "upload-every must be a duration"),
        ("slot = 3", 'slot = 3\nlog = { upload = "/x", upload-every = "2d" }', "must be a duration from 10s"),
        ("slot = 3", 'slot = 3\nlog = { uplaod = "/x" }', "log: unknown key 'uplaod'; known are upload"),
        ("format = 1", "format = 9", "belongs to another release"),
    ],
)
def test_a_wrong_station_toml_is_refused(tmp_path: Path, old: str, new: str, text: str) -> None:
    create(tmp_path)
    edit(tmp_path / "station.toml", old, new)
    with pytest.raises(KeyFileError, match=text):
        read_station(tmp_path)


def test_a_credential_is_written_for_its_owner_alone_and_not_over_another(tmp_path: Path) -> None:
    address = StationAddress("hill", 3, HOSTS, curve.generate().public)
    credential = Credential("fleet", "ann", curve.generate(), 3, (address, replace(address, id="dale", slot=4)))
    write_credential(tmp_path / "ann", credential)
    assert read_credential(tmp_path / "ann") == credential
    with pytest.raises(KeyFileError, match="is there already"):
        write_credential(tmp_path / "ann", replace(credential, name="bob"))
    assert read_credential(tmp_path / "ann") == credential
    assert [path.name for path in tmp_path.iterdir()] == ["ann"], "no draft is left"


def test_a_place_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    with pytest.raises(KeyFileError, match="cannot be written: No such file"):
        write_new(tmp_path / "none" / "file", "")
    (tmp_path / "file").write_text("")
    with pytest.raises(KeyFileError, match="cannot be written: Not a directory"):
        write_new(tmp_path / "file" / "file", "")


def test_every_text_survives_the_toml_writer(tmp_path: Path) -> None:
    import tomllib

    text = "".join(map(chr, range(1, 0x250))) + '"""\'\\\u2028\U0001f4e1'
    assert tomllib.loads(toml_text({"a": text, "b": -1, "c": True})) == {"format": 1, "a": text, "b": -1, "c": True}
