"""The end of ``demo --audit``: logs of stations and journals of agents are uploaded, and audited from them alone."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

from demo.cluster import GROUP, CommandFailed, Station, program, station_command

AUDIT_S_MAX = 300.0

VERDICTS = {0: "clean", 1: "violated", 4: "undecided"}
"""By the exit code of roamcast-audit."""


def upload(stations: Sequence[Station], journals: Path, to: Path) -> str:
    """Stop the stations, and copy what they have logged and what the agents have journaled. Returns what was copied."""
    for station in stations:
        station.close()
        station_command("logs", "upload", station.directory, to)
    there = sorted(journals.iterdir()) if journals.exists() else []
    for journal in there:
        shutil.copytree(journal, to / GROUP / "journals" / journal.name, ignore=shutil.ignore_patterns("lock"))
    count = sum(1 for _ in to.rglob("*.rclog"))
    return f"{count} segments of {len(stations)} stations and {len(there)} journals are uploaded to {to}"


def audit(logs: Path, out: Path, engine: str, say: Callable[[str], None]) -> tuple[str, Path]:
    """Run `roamcast-audit` over all that was uploaded. Returns the verdict and the page.

    Raises CommandFailed if it could not run.
    """
    command = [program("roamcast-audit"), "--logs", logs, "--out", out, "--date", "all", "--engine", engine]
    done = subprocess.run([*map(str, command)], capture_output=True, text=True, timeout=AUDIT_S_MAX)
    if done.returncode not in VERDICTS:
        raise CommandFailed(f"roamcast-audit: exit {done.returncode}\n{done.stdout}{done.stderr}")
    say(done.stdout.rstrip())
    report = json.loads((out / "all" / "report.json").read_text())
    if report["verdict"] != VERDICTS[done.returncode]:
        raise CommandFailed(f"roamcast-audit says {report['verdict']} and ends with {done.returncode}")
    return report["verdict"], out / "all" / "report.html"
