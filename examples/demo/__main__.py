"""``python examples/demo``: stations that come, die and go, roaming hosts, cut links, live, with a verdict."""

from __future__ import annotations

import argparse
import random
import shutil
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from demo import interrupts
from demo.cluster import CommandFailed
from demo.crew import WorkerFailed
from demo.run import Options, Run
from demo.sites import STATIONS_MIN

HOSTS_MAX, STATIONS_MAX = 200, 16
STATIONS, STATIONS_WITH_SITES = 3, 6


def options(arguments: list[str]) -> tuple[Options, Path | None]:
    """Read the command line; wrong use ends the process with 2."""
    parser = argparse.ArgumentParser(
        prog="dev.py demo",
        description="Stations as real processes on loopback: one is made, the others join it by invitation, the last "
        "one while hosts send, publish on topics, subscribe and roam. Links break, a station and an agent process are "
        "killed, a host sleeps, one loses a right and has it back; a setting is changed while a station is down, which "
        "has it when it is back; of three or more stations one is retired in order. At the end figures and the "
        "verdict of a judge that sees only what the applications sent and were given. Exit code 0: nothing lost, "
        "doubled or out of order; 1: something was, or a change did not come to its end; 3: it could not be run.",
    )
    parser.add_argument("--seed", type=int, help="for load, roaming and faults (default: drawn and printed)")
    parser.add_argument("--stations", type=int, help=f"how many; the last joins late (default {STATIONS})")
    parser.add_argument("--hosts", type=int, default=12, help="number of hosts (default %(default)s)")
    parser.add_argument("--seconds", type=float, default=30.0, help="length of the load (default %(default)s)")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="work in DIR, which must not exist, and keep it")
    parser.add_argument(
        "--clusters",
        action="store_true",
        help="the stations are two clusters, as on two sites, which a gateway joins, with a standby; the gateway is "
        f"killed under load (at least {STATIONS_MIN} stations, {STATIONS_WITH_SITES} if nothing is said)",
    )
    parser.add_argument(
        "--audit",
        nargs="?",
        const="spark",
        choices=("spark", "local"),
        metavar="ENGINE",
        help="at the end audit the stations' delivery logs and the agents' journals, with ENGINE (spark, or local: "
        "without Spark; default spark), and keep the page",
    )
    given = parser.parse_args(arguments)
    if given.stations is None:
        given.stations = STATIONS_WITH_SITES if given.clusters else STATIONS
    if given.clusters and given.stations < STATIONS_MIN:
        parser.error(f"--clusters: of at least {STATIONS_MIN} stations")
    if not 1 <= given.stations <= STATIONS_MAX:
        parser.error(f"--stations: from 1 to {STATIONS_MAX}")
    if not 2 <= given.hosts <= HOSTS_MAX:
        parser.error(f"--hosts: from 2 to {HOSTS_MAX}")
    if not 1 <= given.seconds <= 86_400:
        parser.error("--seconds: from 1 to 86400")
    if given.keep is not None and given.keep.exists():
        parser.error(f"--keep: {given.keep} exists already")
    seed = random.SystemRandom().randrange(1_000_000) if given.seed is None else given.seed
    sizes = {"stations": given.stations, "hosts": given.hosts, "seconds": given.seconds}
    return Options(seed=seed, audit=given.audit, clusters=given.clusters, **sizes), given.keep


def main(arguments: list[str]) -> int:
    """Run the demo. Exit code 0 good verdict, 1 bad verdict, 2 wrong use, 3 could not run."""
    chosen, keep = options(arguments)
    interrupts.catch()
    if keep is None:
        home = Path(tempfile.mkdtemp(prefix="roamcast-demo-"))
    else:
        keep.mkdir(parents=True)
        home = keep.resolve()
    failed, run = True, None
    try:
        run = Run(home, chosen, lambda line: print(line, flush=True))
        failed = not run.perform()
        return 1 if failed else 0
    except (CommandFailed, WorkerFailed, OSError) as error:
        print(f"the demo could not be run: {error}", file=sys.stderr)
        return 3
    finally:
        if run is not None:
            run.close()
        if failed or keep is not None:
            print(f"stores, keys and logs are in {home}", file=sys.stderr)
        else:
            _clear(home, chosen.audit is not None)
        interrupts.ignore()


def _clear(home: Path, audited: bool) -> None:
    """Remove the run's directory, but for the report of the audit."""
    for entry in home.iterdir() if audited else ():
        if entry.name != "audit":
            shutil.rmtree(entry) if entry.is_dir() else entry.unlink()
    if not audited:
        shutil.rmtree(home, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
