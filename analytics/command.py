"""One call of `roamcast-audit`: engine, keys, the days that are opened again, the day that is meant, their reports."""

from __future__ import annotations

import argparse
import json
import time
import uuid
from collections.abc import Callable
from contextlib import ExitStack
from importlib.metadata import version
from pathlib import Path

from roamcast.analytics import keys, nights
from roamcast.analytics.carried import path_of, provisional_days
from roamcast.analytics.days import WHOLE
from roamcast.analytics.engine import Engine, EngineError
from roamcast.analytics.engine_local import LocalEngine
from roamcast.analytics.progress import Progress
from roamcast.analytics.report.plain import text
from roamcast.analytics.report.publish import HTML, JSON, PublishError, locked, publish
from roamcast.analytics.report.summary import About
from roamcast.analytics.verdict import EXIT_CODES

FAILURES = (EngineError, PublishError, ValueError, OSError, MemoryError)
"""Why an audit cannot run; the text says what to do."""


class Audit:
    """One call of the command: the days that are opened again, and the day that is meant."""

    def __init__(
        self, options: argparse.Namespace, held: ExitStack, progress: Progress, tell: Callable[[str], None]
    ) -> None:
        """held: what is to be let go of at the end. tell: hears what has come out."""
        self._out: Path = options.out
        self._tell = tell
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
        for each in [] if day == WHOLE else provisional_days(self._out, day):
            night, about = self._judged(each)
            if path_of(self._out, each).read_text() == night.state.text():
                break  # nothing has come since, and so it is with the days behind it
            publish(self._out, night, about)
            opened.append(each)
            self._progress.done()
            self._tell(f"{each} again: {night.report.verdict}")
        night, about = self._judged(day)
        folder = publish(self._out, night, about, opened)
        self._progress.done()
        self._tell(text(json.loads((folder / JSON).read_text()), [str(folder / HTML)]))
        return EXIT_CODES[night.report.verdict]

    def _judged(self, day: str) -> tuple[nights.Night, About]:
        begun = time.time_ns() // 1_000
        whole = day == WHOLE
        night = nights.audit_whole(self._source) if whole else nights.audit_night(self._source, self._out, day)
        return night, About(
            day=day, logs=self._source.logs, engine=self._engine, keys=self._signed, group=night.group,
            software=f"roamcast {version('roamcast')}", run=uuid.uuid4().hex[:12], begun=begun,
            ended=time.time_ns() // 1_000,
        )  # fmt: skip
