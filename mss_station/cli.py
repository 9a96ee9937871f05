"""The command `mss-station`. Exit codes: 0 fine, 1 `logs verify` has found something, 2 wrong use, 3 could not run.

`status` of a stopped station gives 3; a `message` of which nobody knows whether it was taken 4.

`run` ends with 0 when it was told to (SIGTERM), or when the orderly retirement of its station is done.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from roamcast.middleware.errors import Error
from roamcast.mss_station import (
    config_commands,
    host_commands,
    log_commands,
    mail_commands,
    plan_commands,
    printing,
    setup_commands,
    station_commands,
    topic_commands,
)
from roamcast.mss_station.control import NotRunning, ask
from roamcast.mss_station.errors import DirectoryInUse, RetirementDone, WrongUse
from roamcast.mss_station.kill_points import VARIABLE
from roamcast.mss_station.station import Station
from roamcast.mss_station.status import table
from roamcast.transport.errors import KeyFileError
from roamcast.transport.station_files import STATION_FILE

FINE, WRONG_USE, COULD_NOT_RUN = 0, 2, 3

IN_USE_S: Final = 2.0
"""For so long `run` waits for another process on the directory: a command at the stopped station is done by then."""

IN_USE_STEP_S: Final = 0.05

KEY_OPTION: Final = "--public-key"

_log = logging.getLogger("roamcast.station")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns its exit code."""
    options = parser().parse_args(_with_keys(sys.argv[1:] if arguments is None else arguments))
    try:
        _check_texts(options)
        outcome: str | int | log_commands.Told = options.action(options)
        if isinstance(outcome, int):
            return outcome
        text, code = outcome if isinstance(outcome, log_commands.Told) else (outcome, FINE)
        _print(text)
        return code
    except BrokenPipeError:  # the reader of our output has gone
        return COULD_NOT_RUN
    except (KeyFileError, WrongUse) as error:
        print(f"mss-station: {error}", file=sys.stderr)
        return COULD_NOT_RUN if options.action is run else WRONG_USE
    except Error as error:
        print(f"mss-station: {error}", file=sys.stderr)
        return COULD_NOT_RUN
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        print(f"mss-station: {where}{error.strerror or error}", file=sys.stderr)
        return COULD_NOT_RUN


def _with_keys(arguments: Sequence[str]) -> list[str]:
    """One key of 85 begins with "-": argparse takes it for an option, unless it is joined to that which it is for."""
    words = list(arguments)
    while KEY_OPTION in words[:-1]:
        at = words.index(KEY_OPTION)
        words[at : at + 2] = [f"{KEY_OPTION}={words[at + 1]}"]
    return words


def _print(text: str) -> None:
    printing.write(text)
    printing.flush()


def _check_texts(options: argparse.Namespace) -> None:
    """Raise WrongUse for an argument that is no text; a path may be any bytes."""
    for value in vars(options).values():
        if isinstance(value, str) and not _is_text(value):
            raise WrongUse(f"{value!r} is no text in UTF-8")


def _is_text(value: str) -> bool:
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def run(options: argparse.Namespace) -> int:
    """Serve until SIGTERM or SIGINT, or until an orderly retirement is done."""
    level = (options.log_level or "info").upper()
    logging.basicConfig(level=level, format="%(asctime)s %(levelname)s %(message)s", stream=sys.stderr)
    try:
        station = _open(options)
    except ValueError as error:
        raise WrongUse(str(error)) from error
    with station:
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: station.stop())
        try:
            station.run()
        except RetirementDone as done:
            _log.info("stopped: %s", done)
            return FINE
        except Error as error:
            _log.critical("stopped: %s", error, exc_info=not error_is_told(error))
            return COULD_NOT_RUN
        except Exception:
            _log.critical("stopped by a fault of its own", exc_info=True)
            return COULD_NOT_RUN
    _log.info("stopped")
    return FINE


def _open(options: argparse.Namespace) -> Station:
    """The station, as soon as no other process works on its directory. Raises DirectoryInUse after IN_USE_S."""
    end = time.monotonic() + IN_USE_S
    while True:
        try:
            return Station(
                options.dir,
                alone=options.alone,
                kill_point=os.environ.get(VARIABLE, ""),
                log_level=options.log_level is None,
            )
        except DirectoryInUse:
            if time.monotonic() >= end:
                raise
        time.sleep(IN_USE_STEP_S)


def error_is_told(error: Error) -> bool:
    """Whether the text of an error says all that helps; else it is a fault of ours and the trace is wanted."""
    return not type(error).__module__.startswith("roamcast.middleware")


def status(options: argparse.Namespace) -> str | int:
    """What a running station tells of itself."""
    if not options.dir.is_dir():
        raise WrongUse(f"there is no directory {options.dir}")
    if not options.json and not (options.dir / STATION_FILE).exists():
        raise WrongUse(f"{options.dir} is not the directory of a station: there is no {STATION_FILE} in it")
    try:
        told = ask(options.dir, {"command": "status"})["status"]
    except NotRunning as error:
        _print(json.dumps({"running": False}) if options.json else f"{error}: stopped")
        return COULD_NOT_RUN
    return json.dumps({"running": True, **told}, indent=1) if options.json else table(told)


def parser() -> argparse.ArgumentParser:
    """All commands with their arguments."""
    top = argparse.ArgumentParser(prog="mss-station", description="A station of Roamcast: make, run and look after it.")
    commands = top.add_subparsers(title="commands", required=True)
    setup_commands.add_parsers(commands)

    running = commands.add_parser(
        "run", help="serve until SIGTERM (or retirement)", epilog="example: mss-station run /var/lib/s1"
    )
    running.add_argument("dir", type=Path, metavar="DIR")
    running.add_argument("--alone", action="store_true", help="take messages although no peer has answered yet")
    running.add_argument(
        "--log-level",
        choices=("debug", "info", "warning", "error"),
        help="whatever the group has set; otherwise its setting log-level holds (info)",
    )
    running.set_defaults(action=run)

    told = commands.add_parser(
        "status", help="what a running station does", epilog="example: mss-station status /var/lib/s1 --json"
    )
    told.add_argument("dir", type=Path, metavar="DIR")
    told.add_argument("--json", action="store_true")
    told.set_defaults(action=status)

    host_commands.add_parsers(commands)
    station_commands.add_parsers(commands)
    mail_commands.add_parsers(commands)
    topic_commands.add_parsers(commands)
    config_commands.add_parsers(commands)
    log_commands.add_parsers(commands)
    plan_commands.add_parsers(commands)
    return top


if __name__ == "__main__":
    sys.exit(main())
