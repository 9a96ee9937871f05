"""Runs of the simulator with topics, rights, presence: also by the journals of all agents, and night after night."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest
import simulated
import simulated_journals
from test_nights import DAYS, nights

from roamcast.analytics.engine import Report
from roamcast.analytics.engine_local import audit
from roamcast.analytics.evidence import Segment
from roamcast.analytics.history import TO_SUBSCRIBERS

MET = (
    162,  # the right went in a session that the host never saw
    872,  # the heir of a retired station had come later than the SUB
    1185,  # a new incarnation takes over what waits for the one before
)
"""Seeds of the scenario `topics` that were judged wrongly once."""
MET_BY_JOURNALS = (
    126,  # a last value of presence, which no journal has, made a later one old
    1149,  # the SUB was with a lost station alone, and its host elsewhere by then
    472,  # a SUB ended in the tick in which its host went on
)


def wrong(report: Report) -> list[str]:
    found = [row for row in report.findings.to_pylist() if row["severity"] != "info"]
    return [f"{row['kind']}: {row['witness']}" for row in found]


@pytest.mark.parametrize("seed", MET)
def test_what_was_judged_wrongly_once(seed: int) -> None:
    simulation, rule = simulated.run("topics", seed)
    assert not rule
    assert not wrong(audit(simulated.logs(simulation)))


@pytest.mark.parametrize("seed", MET_BY_JOURNALS)
def test_what_was_judged_wrongly_once_by_journals(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    simulation, folders, rule = simulated_journals.journaled("topics", seed, monkeypatch)
    assert not rule
    logs = simulated.logs(simulation, first=simulated_journals.names(simulation))
    assert not wrong(audit(logs + folders.segments()))


@pytest.mark.parametrize("seed", [6, 7, 22])
def test_journals_of_honest_agents_and_of_others(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """All is well; then one journal lacks a message on a topic, and one has what its host was not subscribed to."""
    simulation, folders, rule = simulated_journals.journaled("topics", seed, monkeypatch)
    assert not rule
    logs = simulated.logs(simulation, first=simulated_journals.names(simulation))
    journals = folders.segments()
    report = audit(logs + journals)
    assert not wrong(report)
    lacking = wrong(audit(logs + without_one(report, journals, random.Random(seed))))
    kinds = {text.partition(":")[0] for text in lacking}
    assert "claim_not_given" in kinds and kinds <= {"claim_not_given", "missing", "causal"}
    more = wrong(audit(logs + with_another(report, journals, random.Random(seed))))
    assert "not_subscribed" in {text.partition(":")[0] for text in more}


def without_one(report: Report, journals: list[Segment], rng: random.Random) -> list[Segment]:
    """The journals without one row: of a message on a topic that a station counts as acknowledged."""
    history, found = report.case.history, []
    claims = report.case.deliveries(0, len(report.case.names))
    sure = set(zip(claims["client"].tolist(), claims["message"].tolist(), strict=True))
    clients = {(row["name"], row["incarnation"]): row["client"] for row in report.tables["clients"].to_pylist()}
    for k, journal in enumerate(journals):
        given = journal.events.get("given")
        client = clients.get((journal.header["id"], journal.header["incarnation"]), -1)
        if given is None or journal.status == "open":
            continue
        message = history.find(given["slot"], given["n"])
        on_topic = np.flatnonzero((history.audience[message] == TO_SUBSCRIBERS) & (history.client[message] >= 0))
        found += [(k, i) for i in on_topic.tolist() if (client, int(message[i])) in sure]
    k, i = rng.choice(found)
    given = {name: np.delete(values, i) for name, values in journals[k].events["given"].items()}
    return replaced(journals, k, given)


def with_another(report: Report, journals: list[Segment], rng: random.Random) -> list[Segment]:
    """The journals with one row more: of a message on a topic that its host never asked for."""
    history, changes = report.case.history, report.case.subscriptions
    clients = {(row["name"], row["incarnation"]): row["client"] for row in report.tables["clients"].to_pylist()}
    found = []
    for k, journal in enumerate(journals):
        given = journal.events.get("given")
        client = clients.get((journal.header["id"], journal.header["incarnation"]), -1)
        asked = changes.topic[(changes.client == client) & changes.sub]
        others = history.on_topic[~np.isin(history.topic[history.on_topic], asked)]
        if given is not None and len(given["e"]) and len(others):
            found += [(k, int(message)) for message in others.tolist()]
    k, message = rng.choice(found)
    given = journals[k].events["given"]
    row = {name: values[-1:].copy() for name, values in given.items()}
    row["slot"][0], row["n"][0], row["number"][0] = (
        values[message] for values in (history.slot, history.n, history.number)
    )
    row["c"][0] += 1
    row["seq"][0] += 1
    return replaced(journals, k, {name: np.concatenate((given[name], row[name])) for name in given})


def replaced(journals: list[Segment], k: int, given: dict[str, np.ndarray]) -> list[Segment]:
    old = journals[k]
    made = Segment(old.header, {**old.events, "given": given}, old.status, old.path, old.end, old.closed, old.count)
    return [*journals[:k], made, *journals[k + 1 :]]


def test_nights_with_topics_accuse_nobody(tmp_path: Path) -> None:
    carried = 0
    for seed in (161, 195, 439):
        simulation, _ = simulated.run("topics", seed, skew=0)
        made = nights(simulated.stretched(simulation, DAYS), tmp_path / str(seed), DAYS)
        told = [row for night in made for row in night.report.findings.to_pylist() if row["severity"] == "violation"]
        assert not told, f"seed {seed}: {told[0]['kind']}: {told[0]['witness']}"
        carried += sum(len(events.get("subscribed", ())) for night in made for events in night.state.events.values())
    assert carried > 3
