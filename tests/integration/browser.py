"""A real browser without a window: Chromium, by its DevTools protocol through two pipes."""

from __future__ import annotations

import base64
import contextlib
import fcntl
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Final

NAMES: Final = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
OPTIONS: Final = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage",
    "--remote-debugging-pipe",
)  # fmt: skip
ANSWER_S_MAX: Final = 30.0


def find_browser() -> str | None:
    """The program, if this machine has one."""
    return next((found for name in NAMES if (found := shutil.which(name))), None)


class Browser:
    """One process with one page. A context manager; at its end no process is left."""

    def __init__(self, program: str, profile: Path, width: int = 1320, height: int = 860) -> None:
        """`profile` is an empty directory, or none yet."""
        ours, theirs = zip(*(os.pipe()[::step] for step in (-1, 1)), strict=True)
        inside = [fcntl.fcntl(end, fcntl.F_DUPFD, 10) for end in theirs]
        command = [program, *OPTIONS, f"--user-data-dir={profile}", f"--window-size={width},{height}", "about:blank"]
        begin = f"import os, sys; os.dup2({inside[0]}, 3); os.dup2({inside[1]}, 4); os.execv(sys.argv[1], sys.argv[1:])"
        environment = {**os.environ, "XDG_CONFIG_HOME": str(profile), "XDG_CACHE_HOME": str(profile)}
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-c", begin, *command], pass_fds=inside, start_new_session=True,
                env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            )  # fmt: skip
        finally:
            for end in (*theirs, *inside):
                os.close(end)
        self._to, self._from = ours
        self._rest, self._count, self._session = b"", 0, ""

    def __enter__(self) -> Browser:
        try:
            page = self._call("Target.createTarget", url="about:blank")["targetId"]
            self._session = self._call("Target.attachToTarget", targetId=page, flatten=True)["sessionId"]
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End all of its processes: they are a group of their own."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait(10)
        for end in (self._to, self._from):
            os.close(end)

    def open(self, url: str) -> None:
        """Begin to load a page."""
        self._call("Page.navigate", url=url)

    def ask(self, script: str) -> Any:
        """What an expression of JavaScript gives in the page; a promise is waited for."""
        answer = self._call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def click(self, selector: str) -> None:
        """Press the left button of the mouse in the middle of an element, which must not be covered by another one."""
        box = f"document.querySelector({json.dumps(selector)})?.getBoundingClientRect()"
        middle = self.ask(f"(b => b ? [b.x + b.width / 2, b.y + b.height / 2] : null)({box})")
        assert middle, f"there is no {selector}"
        for kind in ("mousePressed", "mouseReleased"):
            where = {"x": middle[0], "y": middle[1], "button": "left", "clickCount": 1}
            self._call("Input.dispatchMouseEvent", type=kind, **where)

    def color_scheme(self, scheme: str) -> None:
        """Prefer light or dark."""
        self._call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    def picture(self, file: Path) -> None:
        """Write the page as it looks now, as PNG."""
        file.write_bytes(base64.b64decode(self._call("Page.captureScreenshot")["data"]))

    def _call(self, method: str, **fields: Any) -> dict[str, Any]:
        self._count += 1
        told = {"id": self._count, "method": method, "params": fields}
        if self._session:
            told["sessionId"] = self._session
        data = json.dumps(told).encode() + b"\0"
        while data:
            data = data[os.write(self._to, data) :]
        end = time.monotonic() + ANSWER_S_MAX
        while (answer := self._read(end)).get("id") != self._count:
            pass
        assert "error" not in answer, f"{method}: {answer['error']}"
        result: dict[str, Any] = answer["result"]
        return result

    def _read(self, end: float) -> dict[str, Any]:
        while b"\0" not in self._rest:
            ready, _, _ = select.select([self._from], [], [], max(0.0, end - time.monotonic()))
            more = os.read(self._from, 1 << 20) if ready else b""
            assert more or not ready, f"the browser has ended with {self._process.poll()}"
            assert more, f"the browser does not answer within {ANSWER_S_MAX:g} s"
            self._rest += more
        line, _, self._rest = self._rest.partition(b"\0")
        told: dict[str, Any] = json.loads(line)
        return told
