"""`roamcast-simulate`: run seeds, print what they drew, their digests, and for a failure how to see it again.

`roamcast-simulate study NAME` measures something over many seeds instead: a table, and a chart in a file.

Exit codes: 0 all promises kept, 1 a violation was found, 2 wrong use, 3 could not run (interrupted).
"""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import FrameType
from typing import Any

from roamcast.middleware.simulator.campaign import SCENARIOS, campaign, draw
from roamcast.middleware.simulator.clusters.study import study_clusters
from roamcast.middleware.simulator.lan.study import Finding, study_theorems, study_windows
from roamcast.middleware.simulator.live.study import study_max_cb
from roamcast.middleware.simulator.result import Result
from roamcast.middleware.simulator.unicast.study import study_records

Study = Callable[[range, Callable[[str], None]], Finding]
"""Of seeds; the second argument hears of the progress."""

STUDIES: dict[str, tuple[Study, str, int]] = {
    "lan": (study_windows, "how briefly nodes of a LAN may run together before updates come late (paper 004)", 300),
    "lan-theorems": (study_theorems, "whether the theorems of paper 004 hold, and how near runs come to them", 300),
    "s-records": (study_records, "what a mail between stations carries beside the matrix and SES (paper 002)", 3),
    "max-cb": (study_max_cb, "how long live messages wait, and what their tags hold, by MAX_CB (paper 003)", 3),
    "clusters": (study_clusters, "what clusters with gateways cost and save, beside the paper's loads (paper 001)", 3),
}
"""Name -> (the study, what it measures, seeds that are enough)."""


class _Stopped(BaseException):
    """SIGTERM or SIGINT; not an Exception, so that no run takes it for its own finding."""


def main(arguments: Sequence[str] | None = None) -> int:
    """The command. Returns the exit code."""
    parser = _parser()
    try:
        chosen = parser.parse_args(arguments)
        overrides = dict(_override(text) for text in chosen.set)
        draw(chosen.scenario, chosen.seed, overrides)
        if chosen.count < 1 or chosen.jobs < 1:
            raise ValueError("--count and --jobs are at least 1")
        if chosen.command == "study" and chosen.seeds is not None and chosen.seeds < 1:
            raise ValueError("--seeds is at least 1")
    except SystemExit as stop:
        return 0 if stop.code == 0 else 2
    except ValueError as error:
        print(f"roamcast-simulate: {error}", file=sys.stderr)
        return 2
    before = {number: signal.signal(number, _stop) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        return _study(chosen) if chosen.command == "study" else _run(chosen, overrides)
    except _Stopped:
        print("roamcast-simulate: stopped", file=sys.stderr)
        return 3
    except OSError as error:
        print(f"roamcast-simulate: {error}", file=sys.stderr)
        return 3
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("roamcast-simulate", description="Run the protocol cores in a simulated world.")
    parser.add_argument("--scenario", choices=SCENARIOS, default="mixed")
    parser.add_argument("--seed", type=int, default=1, help="the first seed")
    parser.add_argument("--count", type=int, default=1, help="how many seeds, one after the other")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--set", action="append", default=[], metavar="OPTION=VALUE", help="override one drawn option")
    parser.add_argument("--quiet", action="store_true", help="no banner and no digest of runs that pass")
    commands = parser.add_subparsers(dest="command", metavar="study NAME")
    study = commands.add_parser("study", help=f"measure over many seeds: {', '.join(STUDIES)}")
    listing = "; ".join(f"{name}: {what}" for name, (_, what, _) in STUDIES.items())
    study.add_argument("name", choices=STUDIES, metavar="NAME", help=listing)
    study.add_argument("--out", type=Path, default=Path(), metavar="DIR", help="where NAME.svg goes (default: here)")
    enough = ", ".join(f"{seeds} for {name}" for name, (_, _, seeds) in STUDIES.items())
    study.add_argument("--seeds", type=int, metavar="N", help=f"seeds 1 .. N, default {enough}")
    return parser


def _override(text: str) -> tuple[str, Any]:
    """'hosts=3' as an option and its value."""
    name, separator, value = text.partition("=")
    if not separator:
        raise ValueError(f"--set {text!r}: OPTION=VALUE is wanted")
    if value in ("True", "False"):
        return name, value == "True"
    try:
        number = float(value) if "." in value else int(value)
    except ValueError:
        raise ValueError(f"--set {text!r}: the value is a number, True or False") from None
    if number < 0:
        raise ValueError(f"--set {text!r}: the value must not be negative")
    return name, number


def _run(chosen: argparse.Namespace, overrides: dict[str, Any]) -> int:
    failures = 0
    totals: dict[str, int] = {}
    seeds = range(chosen.seed, chosen.seed + chosen.count)
    for done, result in enumerate(campaign(chosen.scenario, seeds, chosen.jobs, overrides=overrides), start=1):
        for name, count in result.counts.items():
            totals[name] = totals.get(name, 0) + count
        if result.rule:
            failures += 1
            _explain(result, chosen.set)
        elif not chosen.quiet:
            print(f"{result.scenario} seed {result.seed}: {result.options.banner()}")
        if result.rule or not chosen.quiet:
            print(f"trace sha256 {result.sha256}", flush=True)
        if chosen.count > 1 and (done % 100 == 0 or done == chosen.count):
            print(f"[{done}/{chosen.count}] {failures} failed", file=sys.stderr, flush=True)
    words = " ".join(f"{name}={count}" for name, count in totals.items())
    print(f"{chosen.scenario}: {chosen.count} seeds from {chosen.seed}, {failures} failed; {words}", flush=True)
    return 1 if failures else 0


def _study(chosen: argparse.Namespace) -> int:
    """The table on stdout, the chart in a file, progress on stderr."""
    study, _, enough = STUDIES[chosen.name]
    chosen.out.mkdir(parents=True, exist_ok=True)
    finding = study(range(1, (chosen.seeds or enough) + 1), lambda line: print(line, file=sys.stderr, flush=True))
    path = chosen.out / f"{chosen.name}.svg"
    path.write_text(finding.chart, encoding="utf-8")
    print(f"{finding.table}\nchart: {path}", flush=True)
    return 1 if finding.broken else 0


def _explain(result: Result, overrides: Sequence[str]) -> None:
    """A failed run: what was drawn, the witness, the end of the trace, and the line that replays it."""
    print(f"FAILED {result.scenario} seed {result.seed}: {result.options.banner()}")
    print(f"broken: {result.rule}")
    for sentence in result.witness:
        print(f"  {sentence}")
    print("last events:")
    for line in result.tail:
        print(f"  {line}")
    sets = "".join(f" --set {text}" for text in overrides)
    print(f"reproduce: roamcast-simulate --scenario {result.scenario} --seed {result.seed}{sets}")


def _stop(number: int, frame: FrameType | None) -> None:
    raise _Stopped


if __name__ == "__main__":
    sys.exit(main())
