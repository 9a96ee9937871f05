"""Studies of the algorithm of paper 004 over many seeds: how loose its bounds are, and whether they hold."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

from roamcast.middleware.simulator.lan.keys_run import run_keys
from roamcast.middleware.simulator.lan.single_item_options import SingleItemOptions
from roamcast.middleware.simulator.lan.single_item_run import run_single_item
from roamcast.middleware.simulator.lan.svg import line_chart

SHARES = (1.0, 0.7, 0.5, 0.4, 0.34, 0.3, 0.2, 0.1)
"""Windows, as shares of the bound."""
NODES = range(2, 8)

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Finding:
    """What came of a study."""

    table: str
    chart: str
    """SVG."""
    broken: bool
    """A promise was."""


@dataclass(frozen=True, slots=True)
class Curve:
    """One kind of run."""

    name: str
    is_late: Callable[[int, float], bool]
    """Whether, with this seed and windows of this share of the bound, an update is not where it has to be in time."""


def _single_item(slow: bool, seed: int, share: float) -> bool:
    """A chain without crashes: every node starts with information of its own, and one update is made."""
    overrides = {
        "kind": "chain", "share": share, "slow": slow, "updates": 1, "old": True, "crashes": 0, "crash_per_step": 0.0,
    }  # fmt: skip
    return run_single_item(seed, overrides).rule == "late"


def _many_keys(slow: bool, seed: int, share: float) -> bool:
    """A chain without crashes: few keys, all of which fit into one packet, and some updates."""
    overrides = {
        "story": "plain", "kind": "chain", "share": share, "slow": slow, "days": 3, "updates": 4, "entries_max": 100,
        "kept_max": 10_000, "purges": False, "crashes": 0, "crash_per_effect": 0.0,
    }  # fmt: skip
    return run_keys(seed, overrides=overrides).rule == "K3"


CURVES = (
    Curve("single item, mixed latencies", partial(_single_item, False)),
    Curve("single item, every send takes Tw", partial(_single_item, True)),
    Curve("many keys, mixed latencies", partial(_many_keys, False)),
    Curve("many keys, every send takes Tw", partial(_many_keys, True)),
)
"""Each in shares of its own bound: the single item's grows with the nodes, that of many keys does not."""


def study_windows(seeds: range, say: Say) -> Finding:
    """How far below the bound of theorem 1 the windows of a chain may be before updates come late."""
    late: dict[str, list[int]] = {}
    for curve in CURVES:
        late[curve.name] = []
        for share in SHARES:
            late[curve.name].append(sum(curve.is_late(seed, share) for seed in seeds))
            say(f"{curve.name}, windows of {share:g} x bound: {late[curve.name][-1]} of {len(seeds)} late")
    span = f"seeds {seeds[0]} .. {seeds[-1]}"
    width = max(map(len, late))
    table = [
        f"Runs with a late update, of {len(seeds)} ({span}); chain of {NODES[0]} to {NODES[-1]} nodes",
        f"{'windows / bound of theorem 1':{width}}" + "".join(f"{share:6g}" for share in SHARES),
        *(f"{name:{width}}" + "".join(f"{count:6}" for count in counts) for name, counts in late.items()),
    ]
    chart = line_chart(
        f"Late updates when nodes run together too briefly ({span})",
        "windows, as share of the bound of theorem 1", "runs with a late update, %",
        ([tenth / 10 for tenth in range(11)], range(0, 101, 20)),
        {
            name: [(share, 100 * count / len(seeds)) for share, count in zip(SHARES, counts, strict=True)]
            for name, counts in late.items()
        },
    )  # fmt: skip
    return Finding("\n".join(table), chart, any(counts[0] for counts in late.values()))


@dataclass(slots=True)
class _Sum:
    """All runs with one number of nodes."""

    runs: int = 0
    checks: int = 0
    longest: int = 0
    settled: float = 0.0
    """In Tw, the longest."""
    broken: list[str] = field(default_factory=list)


def study_theorems(seeds: range, say: Say) -> Finding:
    """Whether the theorems of paper 004, as corrected, hold in all kinds of schedules; how near runs come to them."""
    sums = {nodes: _Sum() for nodes in NODES}
    for done, seed in enumerate(seeds, start=1):
        result = run_single_item(seed)
        one = sums[result.options.nodes]
        one.runs += 1
        one.checks += result.checks
        one.longest = max(one.longest, result.longest)
        one.settled = max(one.settled, result.settled / result.options.timeout)
        if result.rule:
            one.broken.append(f"seed {seed}: {result.rule}: {' '.join(result.witness)}")
        if done % 500 == 0 or done == len(seeds):
            say(f"[{done}/{len(seeds)}] {sum(len(each.broken) for each in sums.values())} broken")
    span = f"seeds {seeds[0]} .. {seeds[-1]}"
    table = [
        f"Single item ({span}): updates demanded, longest queue and its bound, Tw until rest and its bounds (Tc = 0)",
        "nodes  runs  demanded  broken  queue  bound    rest  printed  repaired",
    ]
    for nodes, one in sums.items():
        queue = SingleItemOptions.queue_bound(nodes)
        table.append(
            f"{nodes:5}{one.runs:6}{one.checks:10}{len(one.broken):8}{one.longest:7}{queue:7}"
            f"{one.settled:8.2f}{nodes - 1:9}{2 * (nodes - 1):10}"
        )
    broken = [line for one in sums.values() for line in one.broken]
    chart = line_chart(
        f"Time from equal stores to rest ({span})", "nodes", "Tw", (NODES, range(0, 15, 2)),
        {
            "longest seen": [(nodes, one.settled) for nodes, one in sums.items()],
            "theorem 2 as printed, Tc = 0": [(nodes, nodes - 1) for nodes in NODES],
            "theorem 2 as repaired, Tc = 0": [(nodes, 2 * (nodes - 1)) for nodes in NODES],
        },
    )  # fmt: skip
    return Finding("\n".join([*table, *broken]), chart, bool(broken))
