"""Lines from a person or a script, and lines for them. A line that comes while one is typed does not tear it."""

from __future__ import annotations

import os
import queue
import select
import sys
import threading
from typing import Final

try:
    import readline
    import termios
except ImportError:  # a Python without them: lines are read, only the half-typed one is not drawn again
    readline = termios = None  # type: ignore[assignment]

PROMPT: Final = "> "
UP_AND_CLEAR, CLEAR = "\x1b[A\x1b[2K", "\r\x1b[2K"


class Terminal:
    """`interactive`: a person types. Otherwise lines come from a file or pipe and are shown as they are taken."""

    def __init__(self) -> None:
        self.interactive = sys.stdin.isatty() and sys.stdout.isatty()
        self._typed: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._rest = b""
        self._saved = termios.tcgetattr(0) if self.interactive and termios else None
        if self.interactive:
            threading.Thread(target=self._read, daemon=True).start()

    def show(self, text: str) -> None:
        """One line."""
        if self.interactive:
            half = readline.get_line_buffer() if readline else ""
            print(f"{CLEAR}{text}\n{PROMPT}{half}", end="", flush=True)
        else:
            print(text, flush=True)

    def line(self) -> str | None:
        """The next line that was typed, "" if there is none yet, None at the end of the input."""
        if not self.interactive:
            return self._line_of_script()
        try:
            return self._typed.get_nowait()
        except queue.Empty:
            return ""

    def close(self) -> None:
        """Leave the terminal as it was: the reader may stand in the middle of a line."""
        if self._saved is not None:
            termios.tcsetattr(0, termios.TCSADRAIN, self._saved)
            print(CLEAR, end="", flush=True)

    def _read(self) -> None:
        """The thread that waits for a person; it ends with the process."""
        while True:
            try:
                line = input(PROMPT)
            except EOFError:
                self._typed.put(None)
                return
            print(UP_AND_CLEAR, end="", flush=True)  # it comes again in its place in the order
            self._typed.put(line)

    def _line_of_script(self) -> str | None:
        while b"\n" not in self._rest:
            if not select.select([0], [], [], 0)[0]:
                return ""
            if data := os.read(0, 4096):
                self._rest += data
            elif self._rest:
                self._rest += b"\n"
            else:
                return None
        line, _, self._rest = self._rest.partition(b"\n")
        text = line.decode(errors="replace").strip()
        print(PROMPT + text, flush=True)
        return text
