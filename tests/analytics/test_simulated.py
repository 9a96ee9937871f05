"""Logs of simulator runs: honest ones are clean, and whatever the simulator's own judge finds, the audit finds too."""

from __future__ import annotations

import random

import pytest
import simulated

from roamcast.analytics.engine_local import audit
from roamcast.analytics.verdict import CLEAN, VIOLATED


@pytest.mark.parametrize(("scenario", "count"), [("few", 15), ("mixed", 15), ("group", 15), ("topics", 8)])
def test_honest_runs_are_clean(scenario: str, count: int) -> None:
    for chosen in range(1, count + 1):
        simulation, rule = simulated.run(scenario, chosen)
        assert not rule, f"simulator seed {chosen}: {rule}"
        report = audit(simulated.logs(simulation))
        found = [row for row in report.findings.to_pylist() if row["severity"] != "info"]
        print(f"{scenario} seed {chosen}", *(f"{row['kind']}: {row['witness']}" for row in found), sep="\n")
        assert not found
        assert report.verdict == CLEAN or report.findings.num_rows


def test_what_a_base_claims_too_much_is_found() -> None:
    """A station that leaves a message out at a handoff."""
    seed = 1
    rng = random.Random(seed)
    tried = found = 0
    for chosen in range(seed, seed + 20):
        simulation, _ = simulated.run("mixed", chosen)
        segments = simulated.logs(simulation)
        report = audit(segments)
        before = {row["kind"] for row in report.findings.to_pylist()}
        sessions = report.case.sessions
        good = [
            i for i in range(1, len(sessions.e)) if sessions.client[i - 1] == sessions.client[i] and sessions.seen[i]
        ]
        if not good or "missing" in before:
            continue
        i = rng.choice(good)
        for segment in segments:
            columns = segment.events.get("session") or {}
            hit = [
                j
                for j in range(len(columns.get("e", ())))
                if columns["e"][j] == sessions.e[i]
                and report.tables["clients"].column("host")[int(sessions.client[i])].as_py() == columns["host"][j]
                and report.tables["clients"].column("incarnation")[int(sessions.client[i])].as_py()
                == columns["incarnation"][j]
            ]
            for j in hit:
                begin = int(columns["base_len"][:j].sum())
                columns["base"][begin : begin + int(columns["base_len"][j])] += 1_000
        tried += 1
        changed = audit(segments)
        kinds = {row["kind"] for row in changed.findings.to_pylist() if row["severity"] == "violation"}
        found += changed.verdict == VIOLATED and bool(kinds & {"missing", "base_unearned", "not_owed"})
    print(f"{found} of {tried} found")
    assert tried > 5
    assert found >= tried // 2  # the host may have had everything, or have never come back
