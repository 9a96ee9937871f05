"""`mss-station config ...`: the configuration that all stations of the group share."""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

from roamcast.middleware.lan_update.records import Entry, LanImage, PutHistory, Version
from roamcast.mss_station import config_text, schema
from roamcast.mss_station.asking import change, look
from roamcast.mss_station.control import Json
from roamcast.mss_station.errors import SchemaError
from roamcast.mss_station.group_settings import SETTINGS
from roamcast.mss_station.store import read_found, read_history
from roamcast.mss_station.tables import columns
from roamcast.mss_station.written import look_up, lost_to, remark_unseen

CELL_CHARS: Final = 72
"""Of a value in a table; `config get` shows all of it."""

ARRIVES: Final = "every station takes it over as soon as it has arrived there"

NEGATIVE: Final = re.compile(r"-\d")
EPILOG: Final = f"keys: {config_text.KNOWN}"


class _Parser(argparse.ArgumentParser):
    """Takes what begins with a minus sign and a digit for a value, which is then refused for what it is."""

    def parse_known_args(  # type: ignore[override]
        self, args: Sequence[str] | None = None, namespace: Any = None
    ) -> tuple[argparse.Namespace, list[str]]:
        given = list(args or ())  # what is behind `config NAME`
        values = [one for one in given if NEGATIVE.match(one)]
        if values and "--" not in given:
            given = [*(one for one in given if one not in values), "--", *values]
        return super().parse_known_args(given, namespace)


def add_parsers(commands: Any) -> None:
    """Add `config` to the commands."""
    config = commands.add_parser("config", help="the configuration that all stations share")
    subcommands = config.add_subparsers(title="commands", required=True, parser_class=_Parser)

    def add(name: str, action: Callable[[argparse.Namespace], str], about: str, example: str) -> Any:
        one = subcommands.add_parser(
            name,
            help=about,
            description=about,
            epilog=f"example: mss-station config {name} /var/lib/s1 {example}; {EPILOG}",
        )
        one.add_argument("dir", type=Path, metavar="DIR")
        one.add_argument("--json", action="store_true", help="for a program")
        one.set_defaults(action=action)
        return one

    add("get", get, "show one entry", "settings/away-max").add_argument("key", metavar="KEY")
    one = add("set", put, "write an entry, here and so at every station", "settings/away-max 14d")
    one.add_argument("key", metavar="KEY")
    about = "30d, 256MiB, 512, a word; names with commas for a right or group; one JSON object for all else"
    one.add_argument("value", metavar="VALUE", help=about)
    about = "let a setting go back to its default, or a right to everybody; delete a group, or a topic without lists"
    one = add("delete", delete, about, "settings/away-max")
    one.add_argument("key", metavar="KEY")
    one = add("list", listing, "show all entries, or those whose key begins with PREFIX", "settings/")
    one.add_argument("prefix", metavar="PREFIX", nargs="?", default="")
    other = one.add_mutually_exclusive_group()
    other.add_argument("--settings", action="store_true", help="all settings: value, default, meaning")
    other.add_argument("--found", action="store_true", help="entries set aside: deleted elsewhere in a long absence")
    one = add("history", history, "who wrote an entry when, and which concurrent write lost", "settings/away-max")
    one.add_argument("key", metavar="KEY")


# ---- reading ----


def get(options: argparse.Namespace) -> str:
    """One entry, or the default of a setting."""
    _, image, _ = look(options.dir)
    key, entry = options.key, _live(image).get(options.key)
    if entry is not None:
        if options.json:
            return json.dumps(config_text.describe(entry), indent=1)
        lost = lost_to(read_history(options.dir, key), entry.version)
        return "\n".join([config_text.shown(entry), *(remark_unseen(line.entry) for line in lost)])
    one = SETTINGS.get(key.removeprefix(schema.SETTINGS)) if key.startswith(schema.SETTINGS) else None
    if one is None:
        raise SchemaError(f"there is no entry {key!r}; {EPILOG}")
    if options.json:
        return json.dumps({"key": key, "value": one.default, "default": True})
    return f"{one.show(one.default)} (default)"


def listing(options: argparse.Namespace) -> str:
    """Many entries."""
    _, image, directory = look(options.dir)
    if options.settings:
        return _settings(options, {name: directory.value(name) for name in SETTINGS})
    if options.found:
        held = [line.entry for line in read_found(options.dir)]
    else:
        held = [entry for _, entry in sorted(_live(image).items())]
    entries = [entry for entry in held if entry.key.startswith(options.prefix)]
    if options.json:
        return json.dumps([config_text.describe(entry) for entry in entries], indent=1)
    rows = [
        [entry.key, _cut(config_text.shown(entry)), entry.version.node, config_text.time_of(entry.version)]
        for entry in entries
    ]
    return "\n".join(columns(["key", "value", "by", "at (UTC)"], rows)).rstrip() or "no entries"


def _cut(text: str) -> str:
    return text if len(text) <= CELL_CHARS else f"{text[: CELL_CHARS - 4]} ..."


def _settings(options: argparse.Namespace, values: dict[str, Any]) -> str:
    if options.json:
        told = [
            {
                "name": one.name,
                "value": values[one.name],
                "default": one.default,
                "kind": one.kind.value,
                "wanted": one.wanted,
                "about": one.about,
                "effect": one.effect,
            }
            for one in SETTINGS.values()
        ]
        return json.dumps(told, indent=1)
    rows = [
        [
            one.name,
            "" if values[one.name] is None else _cut(one.show(values[one.name])),
            one.show(one.default),
            one.about,
            one.wanted,
        ]
        for one in SETTINGS.values()
    ]
    return "\n".join(columns(["setting", "value", "default", "meaning", "may be"], rows)).rstrip()


def history(options: argparse.Namespace) -> str:
    """All writes of one key that this station knows of, newest first."""
    _, image, _ = look(options.dir)
    lines = read_history(options.dir, options.key)[::-1]
    if not lines:
        raise SchemaError(f"this station knows of no write of {options.key!r}")
    held = image.entries.get(options.key)
    if options.json:
        return json.dumps([{**config_text.describe(line.entry), **_fate(line, held)} for line in lines], indent=1)
    rows = [
        [
            config_text.time_of(line.entry.version),
            config_text.shown(line.entry),
            line.entry.version.node,
            _remark(line, held),
        ]
        for line in lines
    ]
    return "\n".join(columns(["at (UTC)", "value", "by", ""], rows)).rstrip()


def _fate(line: PutHistory, held: Entry | None) -> Json:
    holds = held is not None and held.version == line.entry.version
    return {
        "state": "holds" if holds else "lost" if line.lost_to else "replaced",
        "lost_to": list(line.lost_to) if line.lost_to else None,
        "known_here": config_text.utc_text(line.wall),
    }


def _remark(line: PutHistory, held: Entry | None) -> str:
    if line.lost_to is not None:
        winner = f"{line.lost_to.node} at {config_text.time_of(line.lost_to)}"
        return f"lost to the write of {winner}, whose author had not seen it"
    return "holds" if held is not None and held.version == line.entry.version else "replaced"


# ---- writing ----


def put(options: argparse.Namespace) -> str:
    """Write an entry."""
    key, text = options.key, options.value
    request = {"command": "config set", "key": key, "text": text}
    answer = change(
        options.dir, request, lambda station: {"version": list(station.updates.set(key, text))}, _unknown(options)
    )
    return _told(options, "is", answer)


def delete(options: argparse.Namespace) -> str:
    """Delete an entry."""
    key = options.key
    request = {"command": "config delete", "key": key}
    answer = change(
        options.dir, request, lambda station: {"version": list(station.updates.delete(key))}, _unknown(options)
    )
    return _told(options, "goes back to", answer)


def _unknown(options: argparse.Namespace) -> str:
    return f"it is not known whether it was taken; look with mss-station config get {options.dir} {options.key}"


def _told(options: argparse.Namespace, word: str, answer: Json) -> str:
    """What the write has done: the new value, the one that it replaced, and when it takes effect."""
    key, version = options.key, Version(*answer["version"])
    done = look_up(options.dir, key, version)
    if options.json:
        told = {
            **config_text.describe(done.entry),
            "replaced": None if done.before is None else config_text.describe(done.before),
            "unseen": [config_text.describe(entry) for entry in done.unseen],
        }
        return json.dumps(told, indent=1)
    one = SETTINGS.get(key.removeprefix(schema.SETTINGS)) if key.startswith(schema.SETTINGS) else None
    if done.entry.value is not None or one is not None:
        value = config_text.shown(done.entry) if one is None or done.entry.value is not None else one.show(one.default)
        first = f"{key} {word} {value}"
    else:
        first = f"{key} is deleted" + (": every host has the right" if key.count("/") == 2 else "")
    return "\n".join([first, *done.remarks(), ARRIVES if one is None else one.effect])


def _live(image: LanImage) -> dict[str, Entry]:
    return {key: entry for key, entry in image.entries.items() if entry.value is not None}
