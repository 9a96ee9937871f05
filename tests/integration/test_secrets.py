"""Private keys and tokens after a run with everything that handles them: in their own files, and nowhere else."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from demo.cluster import must
from harness import Bench, until
from newcomers import let_in, newcomer_of
from zmq.utils import z85

from roamcast.transport.credential import read_credential
from roamcast.transport.join_token import parse
from roamcast.transport.toml_files import read_table

KEY_FILES = ("curve.key", "signing.key", "hosts.key", "next.key")


def station_secrets(directory: Path) -> list[bytes]:
    """Every secret in a station's key files, as it stands there and as its bytes."""
    tables = [read_table(directory / name, private=True) for name in KEY_FILES if (directory / name).exists()]
    texts = [str(table.values[field]) for table in tables for field in ("secret", "signing") if field in table.values]
    return [
        secret
        for text in texts
        for secret in (text.encode(), bytes.fromhex(text) if len(text) == 64 else z85.decode(text.encode()))
    ]


def token_secrets(token: str) -> list[bytes]:
    """The token itself, and the one-time key in it."""
    secret = parse(token).keys.secret.encode()
    return [token.strip().encode(), secret, z85.decode(secret)]


def test_private_keys_and_tokens_stand_in_no_other_file(make_bench: Callable[..., Bench]) -> None:
    """Also those of a rotation under way and of a station that has joined, and a token that nobody has used."""
    bench = make_bench()
    bench.hosts({"a": "s1", "b": "s2"})
    bench.load(["a", "b"], rate=20, roam_s=1)
    bench.run_for(2)
    bench.station("s1").kill()
    bench.cluster.start()
    fourth = newcomer_of(bench, 4)
    secrets = token_secrets(let_in(fourth, bench.station("s1")))
    secrets += token_secrets(must("mss-station", "invite", bench.station("s2").directory))
    must("mss-station", "keys", "rotate", bench.station("s1").directory)
    for station in bench.cluster.stations:
        secrets += station_secrets(station.directory)
    statuses = [json.dumps(station.status()) for station in bench.cluster.stations]
    statuses += [must("mss-station", "status", station.directory) for station in bench.cluster.stations[:3]]
    fourth.start()
    until(lambda: bench.station("s1").status()["rotation_waits_for"] is None, "the new keys are in use", 30)
    bench.settle()
    key_files = {*bench.cluster.credentials.values()}
    for station in bench.cluster.stations:
        key_files |= {file for name in KEY_FILES if (file := station.directory / name).exists()}
        secrets += station_secrets(station.directory)
    for file in bench.cluster.credentials.values():
        secret = read_credential(file).keys.secret.encode()
        secrets += [secret, z85.decode(secret)]
    for file in key_files:
        assert file.stat().st_mode & 0o077 == 0, f"{file} can be read by others"
    looked = 0
    for file in sorted(bench.home.rglob("*")):
        if file.is_file() and file not in key_files:
            looked += 1
            data = file.read_bytes()
            assert not [secret for secret in secrets if secret in data], f"a private key stands in {file}"
    assert looked > 10 and len(set(secrets)) >= 30
    assert not [secret for secret in secrets if secret in " ".join(statuses).encode()]
