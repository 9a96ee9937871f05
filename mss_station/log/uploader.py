"""Uploads by the running station: what `mss-station logs upload` does, on schedule, in a thread of its own.

The thread touches closed segments, the store (a look at it) and the destination, nothing else; whether the destination
answers slowly or never, messages do not wait for it, nor does the end of the process.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from roamcast.middleware.effects import Notice
from roamcast.middleware.settings import SECOND
from roamcast.mss_station.asking import look
from roamcast.mss_station.clock import Clock
from roamcast.mss_station.log.files import segments
from roamcast.mss_station.log.public_keys import known_keys
from roamcast.mss_station.log.upload import NOT_CLOSED, shown, upload
from roamcast.mss_station.tally import Tally
from roamcast.transport.station_files import LogUpload

FIRST_S: Final = 1.0
"""After the start."""
RETRY_S: Final = 60.0
"""At most, after one that failed."""
SILENT: Final = 900 * SECOND
"""A destination that takes a segment for so long counts as not answering."""
STOP_S: Final = 1.0
"""So long the end of the station waits for a running upload."""


class Uploader:
    """What the station has of its uploads. All but the thread's own methods belong to the thread of the station.

    Args:
        newest: number of the last segment that was closed; None: none in this life.
    """

    def __init__(
        self, path: Path, wanted: LogUpload, newest: Callable[[], int | None], clock: Clock, tally: Tally
    ) -> None:
        self._path = path
        self._wanted = wanted
        self._newest = newest
        self._clock = clock
        self._tally = tally
        self._seen: int | None = None
        self._told: str | None = None
        self._failures_told = 0
        self._wake = threading.Event()
        self._stopping = False
        # Written by the thread:
        self._there: frozenset[int] = frozenset()
        self._last = 0
        self._failure: str | None = None
        self._failures = 0
        self._heard: int | None = None
        """When the upload that runs has last come on, monotonic."""
        self._thread = threading.Thread(target=self._run, name="log upload", daemon=True)

    def start(self) -> None:
        """Begin; the first upload is soon."""
        self._thread.start()

    def stop(self) -> None:
        """Begin no other upload. One that runs is waited for a moment, and then left behind."""
        self._stopping = True
        self._wake.set()
        self._thread.join(STOP_S)

    def look(self) -> None:
        """Once a second: wake the thread when a segment was closed, tell the operator what has changed."""
        newest = self._newest()
        if newest != self._seen:
            self._seen = newest
            self._wake.set()
        failures = self._failures
        if failures > self._failures_told:
            self._tally.count("uploads_failed", failures - self._failures_told)
            self._failures_told = failures
        problem = self.problem
        if problem is not None and self._told is None:
            self._tally.notice(Notice("alarm", "upload_failed", {"text": problem}))
        elif problem is None and self._told is not None:
            self._tally.notice(Notice("warning", "upload_works_again", {}))
        self._told = problem

    @property
    def problem(self) -> str | None:
        """Why the last upload failed, or what the present one waits for; None: all is well."""
        heard = self._heard
        if heard is not None and self._clock.now() - heard > SILENT:
            return f"{shown(self._wanted.destination)}: no answer for {(self._clock.now() - heard) // SECOND} s"
        return self._failure

    def has(self, seq: int) -> bool:
        """Whether segment `seq` was seen at the destination."""
        return seq in self._there

    def waiting(self) -> list[int]:
        """Segments that are here and were not seen at the destination; the one that is written among them."""
        return [seq for seq in segments(self._path) if seq not in self._there]

    def status(self) -> dict[str, Any]:
        """For `mss-station status`."""
        last = datetime.fromtimestamp(self._last / SECOND, UTC).isoformat() if self._last else None
        return {"last": last, "waiting": len(self.waiting()), "failures": self._failures, "problem": self.problem}

    # ---- the thread ----

    def _run(self) -> None:
        wait = FIRST_S
        while True:
            self._wake.wait(wait)
            self._wake.clear()
            if self._stopping:
                return
            self._heard = self._clock.now()
            try:
                self._upload()
            except Exception as error:  # file systems of others raise what they like
                self._failure = shown(f"{error}") or type(error).__name__
                self._failures += 1
                wait = min(RETRY_S, self._wanted.every / SECOND)
            else:
                self._failure = None
                wait = self._wanted.every / SECOND
            self._heard = None

    def _upload(self) -> None:
        config, _, directory = look(self._path)
        keys = known_keys(config.card, directory, self._clock.wall())
        there: set[int] = set()
        for one in upload(self._path, config.card, self._wanted.destination, keys, self._say):
            if one.state != NOT_CLOSED:
                there.add(one.seq)
                self._there = self._there | {one.seq}
            if self._stopping:
                return
        self._there = frozenset(there)
        self._last = self._clock.wall()

    def _say(self, _text: str) -> None:
        self._heard = self._clock.now()
