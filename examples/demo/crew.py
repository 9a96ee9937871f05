"""The parent's hand on an agent process (worker.py): start it, command its hosts, kill it, start it again."""

from __future__ import annotations

import json
import queue
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

from demo.interrupts import shielded

WORKER = Path(__file__).with_name("worker.py")
ANSWER_S_MAX = 30.0

Answers = dict[int, queue.SimpleQueue[dict[str, Any]]]
"""By the number of a command: where its answer is waited for."""


class WorkerFailed(Exception):
    """An agent process refused a command or died; the text says which and why."""


class Worker:
    """One agent process after another under one name; each life writes ``logs/NAME-LIFE.jsonl``."""

    def __init__(self, home: Path, name: str) -> None:
        """`home` is the run's directory. Starts no process; see `start`."""
        self.name = name
        self.life = 0
        self.hosts: dict[str, dict[str, Any]] = {}
        """The hosts opened here and their `open` command, so that a new life can open them again."""
        self._logs = home / "logs"
        self._logs.mkdir(exist_ok=True)
        self._errors = home / f"{name}.log"
        self._process: subprocess.Popen[str] | None = None
        self._answers: Answers = {}
        self._count = 0

    def start(self) -> None:
        """Start a life; open the hosts that earlier lives had open."""
        self.life += 1
        with self._errors.open("ab") as errors, shielded():
            self._process = subprocess.Popen(
                [sys.executable, str(WORKER), str(self._logs / f"{self.name}-{self.life}.jsonl")],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                start_new_session=True,
            )
        self._answers = {}  # the reader of the life before may still have to say that that one has ended
        threading.Thread(target=self._read, args=(self._process, self._answers), daemon=True).start()
        for waiting in [self._post("open", host, command) for host, command in self.hosts.items()]:
            self._wait(waiting)

    def open(self, host: str, file: Path, **fields: Any) -> None:
        """Open a host's agent with its credential file. Fields: seed, ack_every, journal."""
        command = {"file": str(file), **fields}
        self._wait(self._post("open", host, command))
        self.hosts[host] = command

    def ask(self, do: str, host: str, **fields: Any) -> dict[str, Any]:
        """Give a command (see worker.py) and wait for its answer. Raises WorkerFailed."""
        return self._wait(self._post(do, host, fields))

    def tell(self, do: str, host: str, **fields: Any) -> None:
        """Give a command and do not wait."""
        self._post(do, host, fields)

    def status(self, host: str) -> dict[str, Any]:
        """The status of a host's agent."""
        status: dict[str, Any] = self.ask("status", host)["status"]
        return status

    @property
    def pid(self) -> int:
        """Process id of the present life."""
        if self._process is None:
            raise WorkerFailed(f"{self.name} does not run")
        return self._process.pid

    def send_signal(self, number: int) -> None:
        """Send a signal to the process."""
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(number)

    def kill(self) -> None:
        """SIGKILL, and wait for the end."""
        self.send_signal(signal.SIGKILL)
        if self._process is not None:
            self._process.wait(10)

    def close(self) -> None:
        """Close all hosts in good order and end the process. Raises WorkerFailed if it does not end well."""
        if self._process is None or self._process.poll() is not None or self._process.stdin is None:
            return
        self._process.stdin.close()
        try:
            code = self._process.wait(ANSWER_S_MAX)
        except subprocess.TimeoutExpired:
            self.kill()
            raise WorkerFailed(f"{self.name} did not end; see {self._errors}") from None
        if code:
            raise WorkerFailed(f"{self.name} ended with {code}; see {self._errors}")

    def _post(self, do: str, host: str, fields: dict[str, Any]) -> int:
        self._count += 1
        number = self._count
        self._answers[number] = queue.SimpleQueue()
        if self._process is None or self._process.stdin is None:
            raise WorkerFailed(f"{self.name} does not run")
        try:
            self._process.stdin.write(json.dumps({"id": number, "do": do, "host": host, **fields}) + "\n")
            self._process.stdin.flush()
        except OSError as error:
            raise WorkerFailed(f"{self.name} is gone; see {self._errors}") from error
        return number

    def _wait(self, number: int) -> dict[str, Any]:
        try:
            answer = self._answers[number].get(timeout=ANSWER_S_MAX)
        except queue.Empty:
            raise WorkerFailed(f"{self.name} does not answer; see {self._errors}") from None
        del self._answers[number]
        if "error" in answer:
            raise WorkerFailed(f"{self.name}: {answer['error']}")
        return answer

    def _read(self, process: subprocess.Popen[str], answers: Answers) -> None:
        for line in process.stdout or ():
            answer = json.loads(line)
            waiting = answers.get(answer["id"])
            if waiting is not None:
                waiting.put(answer)
        for waiting in list(answers.values()):
            waiting.put({"error": f"ended; see {self._errors}"})
