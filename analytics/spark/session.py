"""Spark's session: started with what the audit needs, on whatever master it is told, and quietly.

Source: audit.md 1.3, 1.4, 5; BL-75, BL-76. Without a master from the caller, spark-submit, the environment or Spark's
own configuration it is local on all cores, bound to the loopback; no name has to resolve and no network is needed then.
What the JVM writes goes to a file: of a failure one line is told.
"""

from __future__ import annotations

import os
import re
import signal
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from roamcast.analytics.engine import EngineError
from roamcast.analytics.spark.java import java_home

if TYPE_CHECKING:
    from pyspark import SparkConf, SparkContext
    from pyspark.sql import SparkSession

LOCAL = "local[*,4]"
"""All cores; a task may fail three times, as on a cluster: a worker process that dies costs nothing but time."""

ALWAYS = {
    "spark.app.name": "roamcast-audit",
    "spark.sql.session.timeZone": "UTC",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.adaptive.coalescePartitions.enabled": "false",
    # Of workers' C library: arrays come and go, and to give their memory back each time costs a tenth of the run.
    "spark.executorEnv.MALLOC_TRIM_THRESHOLD_": str(1 << 30),
    "spark.executorEnv.MALLOC_MMAP_THRESHOLD_": str(32 << 20),
}

OF_LOCAL = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.ui.enabled": "false",
}


def start(master: str | None, conf: Mapping[str, str], scratch: str | None, log: Path) -> tuple[SparkSession, bool]:
    """The session, and whether it was started here: one that is active is used as it is.

    master: None: as the surroundings say. conf: settings of Spark that come before ours. scratch: a folder of this
    machine for Spark's own files. log: a file for what the JVM writes.

    Raises:
        EngineError: no pyspark, no Java, or Spark does not start.
    """
    try:
        from pyspark import SparkConf, SparkContext
        from pyspark.sql import SparkSession
    except ImportError as error:
        raise EngineError(f"the Spark engine needs more ({error}): pip install 'roamcast[audit]'") from None
    active = SparkContext._active_spark_context
    if active is not None:
        return SparkSession(active), False
    settings, variables = _settings(master or conf.get("spark.master"), scratch)
    settings |= conf
    made = SparkConf(loadDefaults=False).setAll(list(settings.items()))
    with tempfile.TemporaryDirectory(prefix="roamcast-java-") as folder, log.open("ab") as output:
        if "PYSPARK_GATEWAY_PORT" not in os.environ:  # else spark-submit has started the JVM
            home = java_home(os.environ, Path(folder))
            variables |= {"JAVA_HOME": home} if home else {}
        where = f" on master {settings['spark.master']}" if "spark.master" in settings else ""
        with deferred_signals(), environment(variables), failing(f"Spark does not start{where}", log):
            session = SparkSession(_context(made, output.fileno()))
    session.sparkContext.setLogLevel("ERROR")
    return session, True


def _settings(master: str | None, scratch: str | None) -> tuple[dict[str, str], dict[str, str]]:
    """Settings of Spark, and variables of the environment."""
    settings = dict(ALWAYS)
    if master is None and not is_told(os.environ):
        master = LOCAL
    if master is not None:
        settings["spark.master"] = master
    if master is None or not master.startswith("local"):
        return settings, {}
    settings |= OF_LOCAL
    if scratch:
        settings |= {"spark.local.dir": scratch, "spark.sql.warehouse.dir": scratch}
    python = {"PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable}
    return settings, {**python, "SPARK_LOCAL_IP": "127.0.0.1", "SPARK_LOCAL_HOSTNAME": "localhost"}


def is_told(environment: Mapping[str, str]) -> bool:
    """Whether spark-submit, the environment or Spark's configuration say which master to use."""
    if "PYSPARK_GATEWAY_PORT" in environment or environment.get("MASTER"):
        return True
    if re.search(r"--master\b|spark\.master=", environment.get("PYSPARK_SUBMIT_ARGS", "")):
        return True
    folder = environment.get("SPARK_CONF_DIR") or os.path.join(environment.get("SPARK_HOME", ""), "conf")
    try:
        text = Path(folder, "spark-defaults.conf").read_text()
    except (OSError, UnicodeDecodeError):
        return False
    return bool(re.search(r"(?m)^\s*spark\.master[\s=:]", text))


@contextmanager
def deferred_signals() -> Iterator[None]:
    """Let SIGTERM and SIGINT come behind this: a JVM whose start is cut short would stay for good."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came: list[int] = []
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    for number in before:
        signal.signal(number, lambda received, _frame: came.append(received))
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        for received in came[:1]:
            signal.raise_signal(received)


def _context(conf: SparkConf, output: int) -> SparkContext:
    from pyspark import SparkContext
    from pyspark.java_gateway import launch_gateway

    gateway = SparkContext._gateway  # a JVM stays when its context is stopped
    if gateway is None:
        gateway = launch_gateway(conf, {"stdout": output, "stderr": output})  # type: ignore[no-untyped-call]
    return SparkContext(conf=conf, gateway=gateway)


@contextmanager
def environment(variables: Mapping[str, str]) -> Iterator[None]:
    """Set variables of the environment for a while."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


@contextmanager
def failing(what: str, log: Path | None = None) -> Iterator[None]:
    """Turn whatever Spark raises into an EngineError of one line; log: where else the reason may stand."""
    try:
        yield
    except EngineError:
        raise
    except Exception as error:
        raise EngineError(f"{what}: {reason(error, log)}") from None


def reason(error: Exception, log: Path | None = None) -> str:
    """The one line of a failure that says most."""
    if isinstance(error, ConnectionError) or type(error).__name__ == "Py4JNetworkError":
        return "Spark's Java process has ended (out of memory, or killed?)"
    text = str(error)
    with suppress(Exception):  # it is no failure of Java, or that has died
        text = error.java_exception.getMessage() or text  # type: ignore[attr-defined]
    if log is not None and ("JAVA_GATEWAY_EXITED" in text or "stopped SparkContext" in text):
        text = _of_log(_lines(log.read_text(errors="replace"))) or text
    lines = _lines(text)
    in_python = [i for i, line in enumerate(lines) if line.startswith("Traceback (most recent call last)")]
    if in_python:
        behind = [line for line in lines[in_python[-1] + 1 :] if re.match(r"[\w.]*(Error|Exception|Interrupt)\b", line)]
        return (behind or lines[in_python[-1] :])[0]
    return re.sub(r"^(\w+\.)+\w+(Exception|Error): ", "", lines[0]) if lines else type(error).__name__


def _of_log(lines: list[str]) -> str:
    """What the JVM says of its end: the plainest there is."""
    for pattern in (
        r"Reason: (.+)",
        r"(Error occurred during initialization of VM)",
        r"^(.*\w(?:Error|Exception): .+)",
    ):
        for line, after in zip(lines, [*lines[1:], ""], strict=True):
            if found := re.search(pattern, line):
                text = found[1].removeprefix('Exception in thread "main" ')
                return f"{text}: {after}" if text.endswith("of VM") else text
    return lines[-1] if lines else ""


def _lines(text: str) -> list[str]:
    lines = [line.strip() for line in text.splitlines()]
    return [line for line in lines if line and not line.startswith(("at ", "File "))]
