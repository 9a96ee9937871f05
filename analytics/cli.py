"""The command `roamcast-audit`, and the same as a main for spark-submit.

Exit codes: 0 clean, 1 a promise was broken, 2 wrong use, 3 could not run, 4 undecided: evidence is missing or not to be
trusted. Source: audit.md R1.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from importlib.metadata import version
from pathlib import Path
from types import FrameType
from typing import NoReturn

from roamcast.analytics.days import WHOLE, today
from roamcast.analytics.progress import Progress

COULD_NOT_RUN = 3

EPILOG = """\
Exit codes: 0 clean, 1 a promise was broken, 2 wrong use, 3 could not run, 4 undecided (evidence is missing).

examples: roamcast-audit --logs /mnt/logs --out /var/lib/audit                  yesterday, with Spark on this machine
          roamcast-audit --logs /mnt/logs --out /var/lib/audit --engine local   without Spark
          spark-submit --master spark://... PATH/roamcast/analytics/cli.py --logs s3a://bucket/logs --out /mnt/audit
"""


def parser() -> argparse.ArgumentParser:
    """The command line."""
    made = argparse.ArgumentParser(
        prog="roamcast-audit",
        description="Proves from the delivery logs of stations (and the journals of agents) what was delivered on a "
        "day: nothing lost, doubled, out of order; or names the messages, the host, the stations and the log "
        "positions. Days before that were undecided are judged again if more has come.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    made.add_argument("--logs", required=True, metavar="DIR", help="where `mss-station logs upload` has put them")
    made.add_argument("--out", required=True, type=Path, metavar="DIR", help="where reports go: DIR/DATE/report.html")
    made.add_argument(
        "--date", metavar="DATE", help="UTC day, YYYY-MM-DD (default: yesterday); or `all`: all there is, in one run"
    )
    made.add_argument("--group", metavar="NAME", help="of this group, if there are logs of several")
    made.add_argument("--engine", choices=("spark", "local"), default="spark", help="default %(default)s")
    made.add_argument("--master", metavar="URL", help="Spark master (default: as spark-submit says, else local[*])")
    made.add_argument("--keys", type=Path, metavar="FILE", help="trust these keys alone (`mss-station logs keys`)")
    made.add_argument("--staging", metavar="DIR", help="where Spark's tasks leave things for each other, and only then")
    made.add_argument("--deliveries", action="store_true", help="write every delivery as a row of Parquet, too")
    made.add_argument("--version", action="version", version=f"roamcast-audit {version('roamcast')}")
    return made


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit code."""
    options = parser().parse_args(arguments)
    day = _day(options.date)
    if "://" not in options.logs and options.out.resolve().is_relative_to(Path(options.logs).resolve()):
        parser().error("--out: not inside --logs, or reports would be taken for logs")
    signal.signal(signal.SIGTERM, _stopped)
    progress = Progress()
    try:
        from roamcast.analytics.command import FAILURES, Audit
    except ImportError as error:
        return _cannot(progress, f"more has to be installed ({error}): pip install 'roamcast[audit]'")
    try:
        with ExitStack() as held:
            return Audit(options, held, progress, _tell).of(day)
    except FAILURES as error:
        return _cannot(progress, _reason(error))
    except KeyboardInterrupt:
        progress.done()
        sys.stderr.write("roamcast-audit: stopped\n")
        return 130


def _tell(text: str) -> None:
    try:
        print(text, flush=True)
    except BrokenPipeError:  # the reader has gone; the report is there
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _cannot(progress: Progress, why: str) -> int:
    progress.done()
    plain = "".join(sign if sign.isprintable() else ascii(sign)[1:-1] for sign in why)  # names in it may be hostile
    sys.stderr.write(f"roamcast-audit: {plain}\n")
    return COULD_NOT_RUN


def _day(given: str | None) -> str:
    """The day that is meant. Wrong use ends the process with 2."""
    now = today()
    if given is None:
        return (now - timedelta(days=1)).isoformat()
    if given == WHOLE:
        return given
    try:
        day = datetime.strptime(given, "%Y-%m-%d").replace(tzinfo=UTC).date()
    except ValueError:
        parser().error(f"--date: {given!r} is no day; it is written YYYY-MM-DD")
    if day >= now:
        parser().error(f"--date: {day} is not over (UTC, where it is {now}); what there is by now: --date all")
    return day.isoformat()


def _stopped(number: int, _frame: FrameType | None) -> NoReturn:
    sys.stderr.write("roamcast-audit: stopped\n")
    sys.exit(128 + number)


def _reason(error: BaseException) -> str:
    if isinstance(error, MemoryError):
        return "not enough memory on this machine; see --engine and --master"
    if isinstance(error, OSError) and error.filename:
        return f"{error.filename}: {error.strerror}"
    return str(error)


if __name__ == "__main__":
    sys.exit(main())
