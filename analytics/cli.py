"""The command `roamcast-audit`, and the same as a main for spark-submit.

Exit codes: 0 clean, 1 a promise was broken, 2 wrong use, 3 could not run, 4 undecided: evidence is missing or not to be
trusted. Source: audit.md R1.
"""

from __future__ import annotations

import argparse
import signal
import sys
import time
import uuid
from collections.abc import Sequence
from contextlib import ExitStack
from datetime import UTC, date, datetime, timedelta
from importlib.metadata import version
from pathlib import Path
from types import FrameType
from typing import NoReturn

from roamcast.analytics import keys, nights
from roamcast.analytics.carried import path_of, provisional_days
from roamcast.analytics.engine import Engine, EngineError
from roamcast.analytics.engine_local import LocalEngine
from roamcast.analytics.progress import Progress
from roamcast.analytics.report.plain import text
from roamcast.analytics.report.publish import PublishError, locked, publish
from roamcast.analytics.report.summary import About, summary
from roamcast.analytics.verdict import EXIT_CODES

WRONG_USE, COULD_NOT_RUN = 2, 3

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


class Audit:
    """One call of the command: the days that are opened again, and the day that is meant."""

    def __init__(self, options: argparse.Namespace, held: ExitStack, progress: Progress) -> None:
        self._out: Path = options.out
        self._progress = progress
        held.enter_context(locked(self._out))
        engine, self._engine = self._start(options, held)
        known, doubts = keys.load(engine.key_files(options.logs), options.keys)
        self._signed = f"by the keys in {options.keys}" if options.keys else "by the keys beside the uploaded segments"
        self._source = nights.Source(
            engine=engine, logs=options.logs, group=options.group, keys=known, doubts=doubts, say=progress
        )

    def _start(self, options: argparse.Namespace, held: ExitStack) -> tuple[Engine, str]:
        deliveries = str(self._out / "deliveries") if options.deliveries else None
        if options.engine == "local":
            return LocalEngine(deliveries=deliveries), "local"
        from roamcast.analytics.engine_spark import SparkEngine

        self._progress("starting Spark")
        staging = options.staging or str(self._out / ".staging")
        engine = held.enter_context(SparkEngine(staging, master=options.master, deliveries=deliveries))
        return engine, f"spark {engine.session.version}"

    def of(self, day: str) -> int:
        """Judge the day, and what is opened again before it. Returns the exit code."""
        opened = []
        for each in [] if day == nights.WHOLE else provisional_days(self._out, day):
            night, about = self._judged(each)
            if path_of(self._out, each).read_text() == night.state.text():
                break  # nothing has come since, and so it is with the days behind it
            publish(self._out, night, about)
            opened.append(each)
            self._progress.done()
            print(f"{each} again: {night.report.verdict}")
        night, about = self._judged(day)
        folder = publish(self._out, night, about, opened)
        self._progress.done()
        print(text(summary(night, about, opened), [str(folder / "report.html")]))
        return EXIT_CODES[night.report.verdict]

    def _judged(self, day: str) -> tuple[nights.Night, About]:
        begun = time.time_ns() // 1_000
        whole = day == nights.WHOLE
        night = nights.audit_whole(self._source) if whole else nights.audit_night(self._source, self._out, day)
        return night, About(
            day=day, logs=self._source.logs, engine=self._engine, keys=self._signed, group=night.group,
            software=f"roamcast {version('roamcast')}", run=uuid.uuid4().hex[:12], begun=begun,
            ended=time.time_ns() // 1_000,
        )  # fmt: skip


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit code."""
    options = parser().parse_args(arguments)
    day = _day(options.date)
    signal.signal(signal.SIGTERM, _stopped)
    progress = Progress()
    try:
        with ExitStack() as held:
            return Audit(options, held, progress).of(day)
    except (EngineError, PublishError, ValueError, OSError, MemoryError) as error:
        progress.done()
        sys.stderr.write(f"roamcast-audit: {_reason(error)}\n")
        return COULD_NOT_RUN
    except KeyboardInterrupt:
        progress.done()
        sys.stderr.write("roamcast-audit: stopped; nothing was written\n")
        return 130


def today() -> date:
    """The UTC day it is."""
    return datetime.now(UTC).date()


def _day(given: str | None) -> str:
    """The day that is meant. Wrong use ends the process with 2."""
    now = today()
    if given is None:
        return (now - timedelta(days=1)).isoformat()
    if given == nights.WHOLE:
        return given
    try:
        day = date.fromisoformat(given)
    except ValueError:
        parser().error(f"--date: {given!r} is no day; it is written YYYY-MM-DD")
    if day >= now:
        parser().error(f"--date: {day} is not over (UTC, where it is {now}); what there is by now: --date all")
    return day.isoformat()


def _stopped(number: int, _frame: FrameType | None) -> NoReturn:
    sys.stderr.write("roamcast-audit: stopped; nothing was written\n")
    sys.exit(128 + number)


def _reason(error: BaseException) -> str:
    if isinstance(error, MemoryError):
        return "not enough memory on this machine; see --engine and --master"
    if isinstance(error, OSError) and error.filename:
        return f"{error.filename}: {error.strerror}"
    return str(error)


if __name__ == "__main__":
    sys.exit(main())
