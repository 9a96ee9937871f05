"""The tests can fail: with a rule switched off, or a fact not durable, the simulator finds a violation.

Rare ones fall to directed tests instead; docs/faults.md says which.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest

from roamcast.middleware.simulator.run import run

Found = tuple[str, int, int, dict[str, Any]]
"""(scenario, first seed, count, options): at least one of these seeds falls, and none of them without the mutant."""

AT_ONCE = (
    "no_query", "no_spooled", "mail_shared", "no_epoch", "no_sent", "no_lastseq", "accept_on_state", "no_acked",
    "skip_holds", "no_spool", "save:open", "save:moved", "save:deletion", "prev_ignored", "given_forgotten",
    "late_ack_lost", "disk:PutRow", "late:PutRow", "disk:PlaceRow", "disk:PutLastSeq", "disk:PutRecord:state=open",
    "disk:PutRecord:state=moved", "disk:DropRecord", "disk:SpoolAdd", "disk:SpoolTrim", "disk:DropSpoolItems",
    "agent-disk:Queued", "agent-late:Queued", "agent-disk:Sent", "agent-disk:Acked", "agent-late:Acked",
    "agent-disk:NewIncarnation", "base_newest",
)  # fmt: skip
"""Found among the first seeds of any kind."""

WHOLE = {"lean_bytes": 0}
"""Unless the options of a mutant say otherwise."""
LEAN = {"lean_bytes": 1, "lean_blind": True, "copies": 1}
KILLS = {"kill_per_effect": 0.05}
CRASHES = {"crash_per_effect": 0.05, "one_by_one": True}
NAPS = {"naps_count": 8, "spool_grace": 10_000}
HOPS = {"hops_count": 40}

FALLS: dict[str, Found] = {
    **{mutant: ("mixed", 1, 25, {}) for mutant in AT_ONCE},
    "disk:PutHost": ("mixed", 42, 4, {**CRASHES, "late_hosts": 3}),
    "disk:PutRecord:state=tomb": ("mixed", 20, 25, {}),
    "agent-disk:Welcomed": ("few", 1, 15, {}),
    "agent-late:Sent": ("mixed", 3, 8, {**KILLS, "hops_count": 60}),
    "agent-late:Welcomed": ("few", 1, 15, {**KILLS, "hops_count": 60}),
    "number_late": ("mixed", 8, 20, KILLS),
    "c_late": ("mixed", 1, 20, KILLS),
    "agent-disk:LateAck": ("mixed", 1, 20, {**HOPS, "lazy": 1.0, "kill_per_effect": 0.02}),
    "hand_kept": ("mixed", 1, 20, {**HOPS, "lazy": 1.0}),
    "msg_before_welcome": ("mixed", 1, 20, {**HOPS, "radio_loss": 0.1, "storm": 0.7}),
    "mail_apart": ("mixed", 5, 20, {"mail": 0.6, "wired_slow": 0.2}),
    "late_data": (
        "few",
        52,
        5,
        {"hops_count": 60, "storm": 0.7, "radio_loss": 0.0, "cuts_count": 0, "messages": 80, "burst": 0.5},
    ),
    "accept_early": ("mixed", 12, 15, {**HOPS, "storm": 0.3, "wired_slow": 0.2}),
    "moved_spool": ("mixed", 20, 5, {**HOPS, "wired_slow": 0.2, "spool_grace": 10_000}),
    "no_probe": ("mixed", 1, 15, {**HOPS, "crashes_count": 6, "wired_loss": 0.3}),
    "claim_c_old": ("mixed", 1, 25, {**NAPS, "storm": 0.7, "radio_loss": 0.1}),
    "front_kept": ("mixed", 1, 20, {"collect_rows": 3, "spool_behind_rows": 2, "lazy": 1.0, "mail": 0.3, "burst": 0.5}),
    "own_split": ("mixed", 1, 20, CRASHES),
    "split:PutLastSeq": ("mixed", 1, 20, CRASHES),
    "late:PlaceRow": ("mixed", 1, 15, {"crashes_count": 10}),
    "spool": ("mixed", 10, 10, {**NAPS, **CRASHES}),
    "disk:SpoolRenumber": ("mixed", 14, 12, {**NAPS, "crash_per_effect": 0.02}),
    "disk:SpoolMove": ("mixed", 20, 16, {"wipes_count": 8, "crash_per_effect": 0.03, "spool_grace": 10_000}),
    "hole": ("mixed", 1, 10, LEAN),
    "split:PutRecord": ("mixed", 14, 22, {"crash_per_effect": 0.05, "wipes_count": 4}),
}

HOLDS = {
    "no_cancel_push": "a tentative record asks by itself (B9)",
    "claim_exact": "base is written in the collection that announces R",
    "own_stamps": "rows of one origin are delivered in their order",
    "save:ready": "found again from what the host acknowledges",
    "save:fallback": "asked and answered again",
    "save:succ_ok": "said again",
    "save:exp_acked": "asked and answered again",
    "lean_blind": "whoever needs a body pulls it",
    "disk:PutBody": "it is pulled again",
    "agent-disk:OutboxTrimmed": "lastseq of the next WELCOME says it again",
    "agent-disk:Told": "a notice is told again",
    "split:DropRows": "what is dropped has been passed by all",
}
"""Rules and writes that only save time, or that others imply; why."""

SEEDS_OF_HOLDS = range(1, 13)


@cache
def holds(scenario: str, seed: int, options: tuple[tuple[str, Any], ...]) -> bool:
    """Whether the seed passes as the code is."""
    return not run(scenario, seed, overrides={**WHOLE, **dict(options)}).rule


@pytest.mark.parametrize("mutant", FALLS)
def test_falls(mutant):
    scenario, first, count, options = FALLS[mutant]
    seeds = range(first, first + count)
    fallen = (seed for seed in seeds if run(scenario, seed, frozenset({mutant}), {**WHOLE, **options}).rule)
    assert next(fallen, None) is not None, f"{mutant} is not noticed in {scenario} {first} .. {seeds[-1]}, {options}"


@pytest.mark.parametrize("mutant", FALLS)
def test_the_same_seeds_pass_without(mutant):
    scenario, first, count, options = FALLS[mutant]
    failed = [seed for seed in range(first, first + count) if not holds(scenario, seed, tuple(options.items()))]
    assert not failed, f"{scenario} {failed}, {options}"


@pytest.mark.parametrize("mutant", HOLDS)
def test_superfluous(mutant):
    assert not [seed for seed in SEEDS_OF_HOLDS if run("few", seed, frozenset({mutant})).rule], HOLDS[mutant]
