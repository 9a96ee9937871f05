"""`mss-station logs ...`: the delivery log of a station, whether it runs or not."""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, NamedTuple

from roamcast.middleware.settings import SECOND
from roamcast.mss_station.asking import look
from roamcast.mss_station.clock import Clock
from roamcast.mss_station.log.heads import read_heads
from roamcast.mss_station.log.public_keys import known_keys
from roamcast.mss_station.log.upload import upload
from roamcast.mss_station.log.verify import verify_log
from roamcast.mss_station.store import STORE_NAME, read_tail
from roamcast.mss_station.store.failures import damaged
from roamcast.mss_station.tables import columns
from roamcast.transport.errors import DecodeError
from roamcast.transport.station_files import write_new
from roamcast.transport.tail_codec import decode_tail

FOUND: Final = 1
"""Exit code: something does not hold."""


class Told(NamedTuple):
    """What a command has to say, and its exit code."""

    text: str
    code: int


def add_parsers(commands: Any) -> None:
    """Add `logs` to the commands."""
    logs = commands.add_parser("logs", help="the delivery log of a station")
    subcommands = logs.add_subparsers(title="commands", required=True)
    one = subcommands.add_parser(
        "verify",
        help="check segments, chain and signatures",
        description="Check every segment, that each follows the one before, that this station has signed it, and that "
        "the newest one that it has told the others is there. Exit code 1: something does not hold.",
        epilog="example: mss-station logs verify /var/lib/s1",
    )
    one.set_defaults(action=verify)
    two = subcommands.add_parser(
        "upload",
        help="copy closed segments to where audits read them",
        description="Copy closed segments that are not there yet. The segment that is written now comes with a later "
        "upload. Copies are read back; an upload that was cut short goes on.",
        epilog="example: mss-station logs upload /var/lib/s1 /mnt/logs (or s3://bucket/logs)",
    )
    two.set_defaults(action=send)
    three = subcommands.add_parser(
        "keys",
        help="the public keys that have signed logs of this group",
        description="Print, for every station that there is or was, the public keys of its signatures, as `logs "
        "upload` puts them beside the segments. An audit can be given the file instead of those.",
        epilog="example: mss-station logs keys /var/lib/s1 --out keys.json",
    )
    three.set_defaults(action=show_keys)
    three.add_argument("--out", type=Path, metavar="FILE", help="write a file, which must not be there yet")
    for command in (one, two, three):
        command.add_argument("dir", type=Path, metavar="DIR")
    for command in (one, two):
        command.add_argument("--json", action="store_true", help="for a program")
    two.add_argument("dest", metavar="DEST", help="a folder, or a URL that fsspec knows")


def _say(text: str) -> None:
    if sys.stderr.isatty():
        sys.stderr.write(f"\r{text} ")
        sys.stderr.flush()


def verify(options: argparse.Namespace) -> Told:
    """Check the log."""
    config, image, directory = look(options.dir)
    record = directory.own_record()
    publics = [bytes.fromhex(each) for each in (record.signing if record is not None else (config.card.signing_key,))]
    head = read_heads(image.entries).get(config.card.slot)
    found = list(verify_log(options.dir, config.card, publics, head, _reach(options.dir), _say))
    rows = [[one.seq, one.status, one.events, _time(one.opened), one.problem or one.note] for one in found]
    table = "\n".join(columns(["segment", "status", "events", "opened", "remark"], rows)).rstrip() or "no segments"
    text = json.dumps([asdict(one) for one in found], indent=1) if options.json else table
    return Told(text, FOUND if any(one.problem for one in found) else 0)


def _reach(path: Path) -> tuple[int, int]:
    """How far the log must reach at least: segment, and events in it. Raises StoreError."""
    try:
        return max((decode_tail(each.events).reach for each in read_tail(path)[:1]), default=(0, 0))
    except DecodeError as error:
        raise damaged(path / STORE_NAME, f"the tail of the delivery log: {error.reason}") from None


def send(options: argparse.Namespace) -> str:
    """Copy what is closed."""
    config, _, directory = look(options.dir)
    keys = known_keys(config.card, directory, Clock().wall())
    done = list(upload(options.dir, config.card, options.dest, keys, _say))
    if options.json:
        return json.dumps([asdict(one) for one in done], indent=1)
    copied = [one for one in done if one.state == "copied"]
    left = sum(one.state == "not closed" for one in done)
    there = len(done) - len(copied) - left
    told = f"{len(copied)} segments copied ({sum(one.bytes for one in copied):,} bytes), {there} were there"
    return told + (f", {left} not closed yet" if left else "")


def show_keys(options: argparse.Namespace) -> str:
    """Print or write the keys."""
    config, _, directory = look(options.dir)
    text = known_keys(config.card, directory, Clock().wall())
    if options.out is None:
        return text.rstrip()
    write_new(options.out, text)
    return f"{options.out} written"


def _time(wall: int) -> str:
    return datetime.fromtimestamp(wall / SECOND, UTC).strftime("%Y-%m-%d %H:%M:%S") if wall else ""
