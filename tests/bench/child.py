"""Processes of the benchmark: a parent asks with a line of JSON on stdin, the child answers with one on stdout.

A child ends when its stdin does, so nothing outlives the benchmark.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import resource
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

Json = dict[str, Any]
Handler = Callable[..., Json]

ANSWER_S_MAX = 120.0
AGAIN_S = 0.02
TESTS = Path(__file__).resolve().parents[1]


class ChildFailed(Exception):
    """A process of the benchmark ended or did not answer; the text says which, and what it said."""


class Child:
    """A running module of the benchmark, with what it prints on stderr in a file."""

    def __init__(self, name: str, home: Path, module: str, *arguments: object) -> None:
        """`home`: where its log goes. Starts the process; it answers `hello` when it is ready."""
        self.name = name
        self._log = home / f"{name}.log"
        folders = [str(TESTS), str(TESTS.parent / "examples")]
        environment = dict(os.environ, PYTHONPATH=os.pathsep.join(folders), PYTHONHASHSEED="0")
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", f"bench.{module}", *map(str, arguments)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                env=environment,
                text=True,
                start_new_session=True,
            )
        self._answers: queue.SimpleQueue[str] = queue.SimpleQueue()
        threading.Thread(target=self._read, daemon=True).start()
        self.hello = self.ask("hello")

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._answers.put(line)
        self._answers.put("")

    def tell(self, command: str, **fields: object) -> None:
        """Send a command; its answer is to be taken with `answer`."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps({"command": command, **fields}) + "\n")
            self._process.stdin.flush()
        except OSError:
            raise ChildFailed(f"{self.name} has ended: {self._said()}") from None

    def answer(self, timeout_s: float = ANSWER_S_MAX) -> Json:
        """The next answer. Raises ChildFailed."""
        try:
            line = self._answers.get(timeout=timeout_s)
        except queue.Empty:
            raise ChildFailed(f"{self.name} did not answer within {timeout_s:g} s: {self._said()}") from None
        if not line:
            raise ChildFailed(f"{self.name} has ended: {self._said()}")
        answer: Json = json.loads(line)
        if "error" in answer:
            raise ChildFailed(f"{self.name}: {answer['error']}: {self._said()}")
        return answer

    def ask(self, command: str, **fields: object) -> Json:
        """Send a command and wait for its answer."""
        self.tell(command, **fields)
        return self.answer()

    def resident_kib(self) -> int:
        """Memory of the process that is resident now, KiB."""
        told = subprocess.run(["ps", "-o", "rss=", "-p", str(self._process.pid)], capture_output=True, text=True)
        return int(told.stdout or 0)

    def _said(self) -> str:
        return "\n" + self._log.read_text(errors="replace")[-3000:]

    def close(self) -> None:
        """End of stdin, and wait; kill what does not end."""
        if self._process.stdin is not None and not self._process.stdin.closed:
            with contextlib.suppress(OSError):  # it had gone before it read all
                self._process.stdin.close()
        try:
            self._process.wait(15)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def serve(handlers: Mapping[str, Handler]) -> None:
    """Answer commands in the calling thread until stdin ends."""
    for line in sys.stdin:
        answer(handlers, line)


def serve_beside(handlers: Mapping[str, Handler], end: Callable[[], None]) -> None:
    """Answer commands while the main thread works: each is carried out in the main thread, by a signal handler.

    So `usage` can tell the CPU of the main thread from that of all. The reading thread only ever waits.

    Args:
        end: called when stdin has ended; makes the main thread's work return.
    """
    lines: queue.SimpleQueue[str] = queue.SimpleQueue()
    answered = threading.Semaphore(0)
    main = threading.main_thread().ident or 0

    def read() -> None:
        for line in sys.stdin:
            lines.put(line)
            signal.pthread_kill(main, signal.SIGUSR1)
            while not answered.acquire(timeout=AGAIN_S):  # it came when the main thread was just about to wait
                signal.pthread_kill(main, signal.SIGUSR1)
        end()

    def handle(*_: object) -> None:
        if not lines.empty():  # never more than one: an answer is not begun within another one
            answer(handlers, lines.get())
            answered.release()

    signal.signal(signal.SIGUSR1, handle)
    threading.Thread(target=read, daemon=True).start()


def answer(handlers: Mapping[str, Handler], line: str) -> None:
    """Carry out one command and print its answer."""
    fields = json.loads(line)
    try:
        told = handlers[fields.pop("command")](**fields)
    except Exception as error:
        told = {"error": f"{type(error).__name__}: {error}"}
        sys.excepthook(type(error), error, error.__traceback__)
    print(json.dumps(told), flush=True)


def usage() -> Json:
    """CPU of this process so far, seconds: all, and user and system of the calling thread and of all others."""
    everything = resource.getrusage(resource.RUSAGE_SELF)
    own = resource.getrusage(getattr(resource, "RUSAGE_THREAD", resource.RUSAGE_SELF))
    return {
        "cpu_s": time.process_time(),
        "main_user_s": own.ru_utime,
        "main_system_s": own.ru_stime,
        "other_user_s": everything.ru_utime - own.ru_utime,
        "other_system_s": everything.ru_stime - own.ru_stime,
    }


def difference(after: Json, before: Json) -> Json:
    """What was used between two calls of `usage`: every number subtracted, dicts entry by entry."""
    return {
        key: difference(value, before.get(key, {})) if isinstance(value, dict) else value - before.get(key, 0)
        for key, value in after.items()
    }


def percentile(values: list[float], share: float) -> float:
    """The value below which `share` (0..1) of `values` lie; 0.0 if there is none."""
    if not values:
        return 0.0
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]
