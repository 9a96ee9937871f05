"""Many seeds on several processes; results come in the order of the seeds."""

from __future__ import annotations

import multiprocessing
import signal
from collections.abc import Iterator, Mapping
from typing import Any

from roamcast.middleware.simulator import scenario as stations
from roamcast.middleware.simulator.clusters.options import draw_clusters
from roamcast.middleware.simulator.clusters.run import run_clusters
from roamcast.middleware.simulator.lan.keys_options import draw_keys
from roamcast.middleware.simulator.lan.keys_run import run_keys
from roamcast.middleware.simulator.live.options import draw_live
from roamcast.middleware.simulator.live.run import run_live
from roamcast.middleware.simulator.result import Drawn, Result
from roamcast.middleware.simulator.run import run
from roamcast.middleware.simulator.unicast.options import draw_unicast
from roamcast.middleware.simulator.unicast.run import run_unicast

LAN = "lan"
"""The LAN update layer alone."""
CMD = "cmd"
"""The causal unicast alone."""
LIVE = "live"
"""Delta-causal messages alone."""
CLUSTERS = "clusters"
"""Composite clusters of stations and gateways alone; all other scenarios are of stations and hosts."""
SCENARIOS = (*stations.SCENARIOS, LAN, CMD, LIVE, CLUSTERS)

Job = tuple[str, int, frozenset[str], Mapping[str, Any]]


def draw(scenario: str, seed: int, overrides: Mapping[str, Any]) -> Drawn:
    """The options of a seed. Raises ValueError for an unknown scenario or option."""
    if scenario == CMD:
        return draw_unicast(seed, overrides)
    if scenario == LIVE:
        return draw_live(seed, overrides)
    if scenario == CLUSTERS:
        return draw_clusters(seed, overrides)
    return draw_keys(seed, overrides) if scenario == LAN else stations.draw(scenario, seed, overrides)


def campaign(
    scenario: str,
    seeds: range,
    jobs: int,
    mutants: frozenset[str] = frozenset(),
    overrides: Mapping[str, Any] | None = None,
) -> Iterator[Result]:
    """Run `seeds` of `scenario` on `jobs` processes. Closing the iterator ends them."""
    work = [(scenario, seed, mutants, dict(overrides or {})) for seed in seeds]
    if jobs <= 1 or len(work) == 1:
        yield from map(_one, work)
        return
    with multiprocessing.get_context("spawn").Pool(jobs, initializer=_ignore_interrupt) as pool:
        yield from pool.imap(_one, work, chunksize=max(1, min(16, len(work) // (4 * jobs))))


def _one(job: Job) -> Result:
    scenario, seed, mutants, overrides = job
    if scenario == LAN:
        return run_keys(seed, mutants, overrides)
    if scenario == CMD:
        return run_unicast(seed, mutants, overrides)
    if scenario == LIVE:
        return run_live(seed, mutants, overrides)
    if scenario == CLUSTERS:
        return run_clusters(seed, mutants, overrides)
    return run(scenario, seed, mutants, overrides)


def _ignore_interrupt() -> None:
    """Ctrl-C reaches the parent alone, which ends the workers."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
