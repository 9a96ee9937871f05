"""Key pairs and the credential: what an agent reads, and what it refuses without showing a secret."""

from __future__ import annotations

from pathlib import Path

import pytest

from roamcast.transport import curve
from roamcast.transport.credential import Credential, StationAddress, read_credential
from roamcast.transport.errors import KeyFileError

KEYS = curve.generate()
OTHER = curve.generate()
GOOD = f"""format = 1
group = "fleet"
name = "ann"
public = "{KEYS.public}"
secret = "{KEYS.secret}"
last = 3
[[stations]]
id = "hill"
slot = 3
endpoint = "tcp://10.0.0.3:7001"
key = "{OTHER.public}"
"""


def write(path: Path, text: str, mode: int = 0o600) -> Path:
    path.write_text(text)
    path.chmod(mode)
    return path


def test_a_credential_is_read(tmp_path: Path) -> None:
    assert read_credential(write(tmp_path / "ann", GOOD)) == Credential(
        "fleet", "ann", KEYS, 3, (StationAddress("hill", 3, "tcp://10.0.0.3:7001", OTHER.public),)
    )


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o604, 0o660])
def test_a_secret_that_others_can_read_is_refused(tmp_path: Path, mode: int) -> None:
    path = write(tmp_path / "ann", GOOD, mode)
    with pytest.raises(KeyFileError, match=f"can be read by others: chmod 600 {path}"):
        read_credential(path)


@pytest.mark.parametrize(
    ("old", "new", "text"),
    [
        ("format = 1", "format = 2", "format must be 1"),
        ("format = 1\n", "", "format must be 1"),
        ('group = "fleet"', 'group = "../x"', "group must be a name"),
        ('name = "ann"', "name = 7", "name must be a name"),
        (f'public = "{KEYS.public}"', f'public = "{OTHER.public}"', "does not belong"),
        (f'public = "{KEYS.public}"', 'public = "short"', "public must be a key of 40 signs"),
        (f'secret = "{KEYS.secret}"', f"secret = '{'~' * 40}'", "secret must be a key"),
        (f'secret = "{KEYS.secret}"', f"secret = '{'#' * 40}'", "secret must be a key"),
        ("last = 3", "last = 1024", "last must be an integer from 0 to 1023"),
        ("last = 3", "last = true", "last must be an integer"),
        ("slot = 3", 'slot = "3"', "stations 1: slot must be an integer"),
        ("tcp://10.0.0.3:7001", "ipc:///tmp/x", "stations 1: endpoint must be of the form tcp://ADDRESS:PORT"),
        ("[[stations]]", "[stations]", "stations must be an array"),
        ("[[stations]]", "[[others]]", "stations must be at least one"),
        ("last = 3", "last = ", "is damaged"),
    ],
    ids=range(15),
)
def test_a_wrong_field_is_named_and_no_secret_is_shown(tmp_path: Path, old: str, new: str, text: str) -> None:
    assert old in GOOD
    path = write(tmp_path / "ann", GOOD.replace(old, new))
    with pytest.raises(KeyFileError, match=text) as caught:
        read_credential(path)
    assert str(path) in str(caught.value)
    assert KEYS.secret not in "".join(map(str, (caught.value, caught.value.__cause__, repr(caught.value))))


def test_two_stations_with_one_slot_are_refused(tmp_path: Path) -> None:
    with pytest.raises(KeyFileError, match="a slot of its own"):
        read_credential(write(tmp_path / "ann", GOOD + GOOD[GOOD.index("[[stations]]") :]))


def test_a_file_that_is_missing_too_large_or_no_text_is_refused(tmp_path: Path) -> None:
    with pytest.raises(KeyFileError, match="No such file"):
        read_credential(tmp_path / "none")
    with pytest.raises(KeyFileError, match="larger than"):
        read_credential(write(tmp_path / "large", "#" * ((1 << 20) + 1)))
    binary = write(tmp_path / "binary", "")
    binary.write_bytes(b"\xff\xfe")
    with pytest.raises(KeyFileError, match="damaged"):
        read_credential(binary)


def test_the_text_form_of_keys_shows_no_secret() -> None:
    assert KEYS.secret not in repr(KEYS)
    assert KEYS.public in repr(KEYS)


def test_a_pair_belongs_together() -> None:
    assert curve.CurveKeys(KEYS.public, KEYS.secret) == KEYS
    with pytest.raises(ValueError, match="does not belong"):
        curve.CurveKeys(OTHER.public, KEYS.secret)


def test_what_is_a_key() -> None:
    assert curve.is_key(KEYS.public)
    for text in ("", KEYS.public[:-1], KEYS.public + "0", "\u00e9" * 40, '"' * 40, "#" * 40):
        assert not curve.is_key(text)
