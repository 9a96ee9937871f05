"""The files below a folder of logs: which there are, and reading one on the driver.

What is listed here is what a run answers for. Spark reads almost all of it; it passes over files that it takes for its
own (`_...`), that it cannot open, or that are too large for it: those are read here, one by one.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from roamcast.analytics import reading
from roamcast.analytics.engine import EngineError, Wanted
from roamcast.analytics.evidence import DAMAGED, Segment
from roamcast.analytics.reading import Keys
from roamcast.analytics.spark.tasks import Shown
from roamcast.analytics.staging import local_path

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class LogFiles:
    """All files below a folder that may be segments; hidden ones are left out."""

    url: str
    """The folder, as Spark calls it."""
    shown: Shown
    names: list[str]
    """As reports call them, in the order in which they are read."""
    content: Callable[[str], bytes] | None
    """Reads one; None: they are files that can be opened. Raises whatever it likes."""

    def read(self, name: str, wanted: Wanted, keys: Keys | None) -> Segment | None:
        """Read one file here; None: it is not wanted."""
        if self.content is None:
            return reading.read(Path(name), keys) if wanted(reading.header_of(Path(name)) or {}) else None
        try:
            data = self.content(name)
        except Exception:  # of Java, or of the connection to it
            return Segment({}, {}, DAMAGED, f"{name} (cannot be read)") if wanted({}) else None
        return reading.decode(data, name, keys) if wanted(reading.header_in(data) or {}) else None


def log_files(session: SparkSession, logs: str) -> LogFiles:
    """List the files. Raises EngineError if there is no such folder."""
    local = local_path(logs)
    if local is None:
        return _elsewhere(session, logs)
    directory = Path(local)
    if not directory.is_dir():
        raise EngineError(f"{logs}: no directory here")
    root = os.path.abspath(directory)
    shown = Shown(os.path.join(root, ""), os.path.join(str(directory), "") if str(directory) != "." else "")
    return LogFiles("file:" + root, shown, [str(path) for path in reading.files(directory)], None)


def key_files(session: SparkSession, logs: str) -> list[tuple[str, bytes]]:
    """Name and content of each keys.json below a folder that is not of this machine."""
    found = _elsewhere(session, logs, keys=True)
    assert found.content is not None
    return [(name, found.content(name)) for name in found.names]


def _elsewhere(session: SparkSession, logs: str, keys: bool = False) -> LogFiles:
    jvm: Any = session.sparkContext._jvm
    root = jvm.org.apache.hadoop.fs.Path(logs)
    system = root.getFileSystem(session._jsc.hadoopConfiguration())
    if not system.exists(root) or not system.getFileStatus(root).isDirectory():
        raise EngineError(f"{logs}: no directory here")
    names = []
    each = system.listFiles(root, True)
    while each.hasNext():
        path = each.next().getPath()
        if not path.getName().startswith(".") and (path.getName() == reading.KEYS_NAME) == keys:
            names.append(str(path.toString()))

    def content(name: str) -> bytes:
        stream = system.open(jvm.org.apache.hadoop.fs.Path(name))
        try:
            return bytes(jvm.org.apache.commons.io.IOUtils.toByteArray(stream))
        finally:
            stream.close()

    return LogFiles(str(root.toString()), Shown("", ""), sorted(names), content)
