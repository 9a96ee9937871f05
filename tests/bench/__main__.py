"""``python3 dev.py bench``: what the station costs, side by side with bare pyzmq, in one run.

Real sockets on loopback with CURVE, real SQLite stores, real processes. Rounds of the station and of the baseline go in
turn, and the best of each counts, for other work on the machine makes single figures worthless: read the ratios.
``--lan`` measures the replicated configuration instead, partly in virtual time, and the setting `copies`; ``--log`` the
delivery log; ``--audit`` the audit of such logs, beside Spark's own shuffle and sort, and DuckDB; ``--topics`` messages
on topics, subscriptions, rights, presence, and mail by number of stations; ``--live`` live messages against offered
load, and floods; ``--publish`` broadcasts between stations on DEALERs and by PUB/SUB. Exit codes: 0 done; 1 the bytes
of header or what is logged of a message depend on the number of hosts, or the bytes of header on that of topics, a
message was lost, a live one late, stations do not come to hold the same, or an audit takes more than its gate; 3 it
could not be run.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import signal
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import zmq

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "examples"))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "analytics"))

from bench import (
    causal_headers,
    cluster_load,
    cluster_tables,
    fan_out,
    headers,
    lan,
    lan_tables,
    latency,
    live_flood,
    live_load,
    live_tables,
    log_cost,
    mail_rate,
    publish,
    tables,
    topic_costs,
    topic_fan,
    topic_tables,
)
from bench.child import ChildFailed, Json
from bench.plan import Plan, default_plan, quick_plan
from demo.cluster import CommandFailed

LIMIT_S, LONG_LIMIT_S = 540, 1_200
JUDGED = lan.NotEqual, log_cost.NotFlat, topic_costs.HeadersDiffer
"""What was measured is not as it should be."""

BUSY = 0.7
"""Load per core from which on the figures are called noisy."""


Measure = Callable[[Path, Plan], Json]


class TookTooLong(Exception):
    """The whole run has a limit."""


def options(arguments: list[str]) -> argparse.Namespace:
    """Read the command line; wrong use ends the process with 2."""
    parser = argparse.ArgumentParser(
        prog="dev.py bench",
        description="CPU, latency, handoff time, memory and header bytes of stations, beside bare pyzmq in the same "
        "run. Exit code 1: the bytes of header depend on the number of hosts, a handoff lost something, or stations "
        "do not come to hold the same, or causal headers are above 8 + 2 x stations; 3: it could not be run.",
    )
    parser.add_argument("--quick", action="store_true", help="about a minute: fewer and shorter rounds")
    parser.add_argument("--hosts", default="100,1000", help="fan-outs to measure, with commas (default %(default)s)")
    parser.add_argument(
        "--lan",
        action="store_true",
        help="instead: one recovery and one change of the configuration, and what the setting copies costs",
    )
    parser.add_argument(
        "--log", action="store_true", help="instead: the delivery log, beside the same ticks without it"
    )
    parser.add_argument(
        "--audit", action="store_true", help="instead: the audit of large logs on Spark, in one process, and peers"
    )
    parser.add_argument(
        "--topics", action="store_true", help="instead: topics, subscriptions, rights, presence; mail by stations"
    )
    parser.add_argument(
        "--headers", action="store_true", help="instead: causal headers by number of stations and by who sends"
    )
    parser.add_argument(
        "--live", action="store_true", help="instead: live messages against offered load, and what floods do"
    )
    parser.add_argument(
        "--publish", action="store_true", help="instead: broadcasts between stations, DEALERs beside PUB/SUB"
    )
    parser.add_argument(
        "--clusters", action="store_true", help="instead: one flat cluster beside composite ones, for many stations"
    )
    parser.add_argument("--json", type=Path, default=Path("bench.json"), metavar="FILE", help="default %(default)s")
    given = parser.parse_args(arguments)
    try:
        given.hosts = tuple(int(number) for number in given.hosts.split(","))
    except ValueError:
        parser.error("--hosts: numbers with commas between them")
    if not all(2 <= number <= 5_000 for number in given.hosts):
        parser.error("--hosts: from 2 to 5000")
    return given


def machine() -> Json:
    """Where this was measured."""
    return {
        "python": platform.python_version(),
        "system": platform.platform(),
        "cores": os.cpu_count(),
        "pyzmq": zmq.pyzmq_version(),
        "libzmq": zmq.zmq_version(),
        "load": os.getloadavg(),
    }


def load_line(when: str) -> str:
    """The load average, and what to think of the figures under it."""
    load, cores = os.getloadavg()[0], os.cpu_count() or 1
    line = f"load average {when}: {load:.2f} on {cores} cores"
    if load > BUSY * cores:
        line += ". WARNING: the machine is busy; figures are noisy, compare ratios only"
    return line


def measure(home: Path, plan: Plan) -> Json:
    """All sections."""
    return {
        "fan_out": [fan_out.measure(home, hosts, plan) for hosts in plan.hosts],
        "latency": latency.paths(home, plan),
        "agents": latency.agents(home, plan),
        "headers": [headers.measure(home, hosts, plan) for hosts in plan.headers_at],
    }


def chosen(given: argparse.Namespace) -> tuple[Measure, Callable[[Json], str], Callable[[Json], bool]]:
    """What is measured, its tables, and whether it is as it should be."""
    if given.lan:
        return measure_lan, lan_tables.report, lambda found: True
    if given.log:
        return lambda home, plan: {"log": log_cost.measure(home, plan)}, log_cost.report, lambda found: True
    if given.headers:
        return measure_headers, lambda found: causal_headers.report(found["headers"]), are_within_bound
    if given.topics:
        return measure_topics, topic_tables.report, lambda found: True
    if given.live:
        return measure_live, live_tables.report, lambda found: live_flood.is_good(found["flood"])
    if given.publish:
        return publish.measure, publish.report, lambda found: True
    if given.clusters:
        return cluster_load.measure, cluster_tables.report, lambda found: True
    if given.audit:
        from bench import audit, audit_tables  # with Spark

        return audit.measure, audit_tables.report, audit_tables.is_good
    return measure, report, is_good


def measure_headers(home: Path, plan: Plan) -> Json:
    """The section of --headers."""
    return {"headers": causal_headers.measure(plan)}


def are_within_bound(found: Json) -> bool:
    """The verdict of --headers."""
    return causal_headers.is_good(found["headers"])


def measure_lan(home: Path, plan: Plan) -> Json:
    """The sections of --lan."""
    return {"lan": lan.measure(home, plan), "copies": latency.copies(home, plan)}


def measure_topics(home: Path, plan: Plan) -> Json:
    """The sections of --topics."""
    return {
        "headers": topic_costs.headers(home, plan),
        "subscribing": topic_costs.subscribing(home, plan),
        "attaching": topic_costs.attaching(home, plan),
        "revoking": topic_costs.revoking(home, plan),
        "presence": topic_costs.presence(home, plan),
        "mail": mail_rate.measure(home, plan),
        "fan": topic_fan.measure(home, plan),
    }


def measure_live(home: Path, plan: Plan) -> Json:
    """The sections of --live."""
    load = [live_load.measure(home, stations, plan) for stations in plan.live_stations]
    return {"load": load, "flood": live_flood.measure(home, load[0]["capacity"][live_load.STATION], plan)}


def report(found: Json) -> str:
    """All tables of `measure`."""
    agents = found["agents"]
    return "\n".join(
        [
            tables.fan_out(found["fan_out"]),
            tables.split(found["fan_out"]),
            tables.latency(found["latency"], agents),
            tables.handoff(agents["handoff"]),
            tables.memory(found["fan_out"]),
            tables.headers(found["headers"], found["fan_out"]),
        ]
    )


def give_up(*_: object) -> None:
    """The alarm of the run's limit."""
    raise TookTooLong("not done in the time that is set")


def main(arguments: list[str]) -> int:
    """Measure, print, write. Returns the exit code."""
    given = options(arguments)
    plan = (quick_plan if given.quick else default_plan)(given.hosts)
    signal.signal(signal.SIGALRM, give_up)
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    long = given.audit or given.topics or given.live or given.headers or given.clusters
    signal.alarm(LONG_LIMIT_S if long else LIMIT_S)
    plan.say(load_line("before"))
    home = Path(tempfile.mkdtemp(prefix="roamcast-bench-"))
    try:
        work, tables_of, is_as_it_should = chosen(given)
        found = {"machine": machine(), **work(home, plan)}
    except (ChildFailed, CommandFailed, TookTooLong, *JUDGED) as error:
        print(f"bench: {error}\nbench: what the processes said is in {home}", file=sys.stderr)
        return 1 if isinstance(error, JUDGED) else 3
    except BaseException:  # interrupted
        shutil.rmtree(home)
        raise
    signal.alarm(0)
    shutil.rmtree(home)
    given.json.write_text(json.dumps(found, indent=1) + "\n")
    about = found["machine"]
    print(
        f"Python {about['python']}, pyzmq {about['pyzmq']}, libzmq {about['libzmq']}, {about['system']}\n"
        f"{load_line('after')}\n\n{tables_of(found)}\nall figures: {given.json}"
    )
    return 0 if is_as_it_should(found) else 1


def is_good(found: Json) -> bool:
    """Whether nothing was lost, and the bytes of header do not depend on the number of hosts."""
    moved = found["agents"]["handoff"]
    return tables.headers_are_equal(found["headers"]) and not any(
        moved[fault] for fault in ("lost", "doubled", "disordered")
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
