"""Journals of agents against what the stations claim.

Source: docs/protocols/delivery-log.md. The application's own record is the better witness: where a host has a journal,
exactly-once and order are judged by it, and this check tells where the stations' claims differ. Of what an agent had
not written yet when it was killed the stations' word is taken, and that is told.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from roamcast.analytics.columns import found, place_of, place_text
from roamcast.analytics.history import NEVER, History
from roamcast.analytics.receivers import LEFT_BEHIND, Journals
from roamcast.analytics.streams import Deliveries
from roamcast.analytics.tables import INFO, UNDECIDED, Flags, Ints, Tables

PER_CLIENT_MAX = 100


def judged_by(journals: Journals, client: int, claims: Deliveries, kept: Flags) -> Deliveries:
    """What exactly-once is judged by: the journal's rows, and claims from before it begins and from its holes.

    kept: claims that the agent may have kept to itself (withheld.py); the stations' word is taken for them.
    """
    rows = journals.of(client)
    old = claims["place"] < _begin(journals, client)
    old |= _holed(journals, client, claims) | (kept & ~np.isin(claims["message"], journals.message[rows]))
    count = len(journals.row[rows])
    wall = journals.wall[rows]
    mine = {
        "client": np.full(count, client, np.int64), "place": journals.place[rows], "message": journals.message[rows],
        "station": np.zeros(count, np.int64), "e": journals.e[rows], "position": journals.c[rows], "wall": wall,
        "acked": np.ones(count, np.int64), "slot": journals.slot[rows], "n": journals.n[rows],
    }  # fmt: skip
    made = {name: np.concatenate((claims[name][old], values)) for name, values in mine.items()}
    by = np.argsort(made["place"], kind="stable")
    return {name: values[by] for name, values in made.items()}


def _holed(journals: Journals, client: int, claims: Deliveries) -> Flags:
    """Acknowledged claims from a hole of the journal that it does not have anywhere."""
    lacking: Flags = ~np.isin(claims["message"], journals.message[journals.of(client)])
    lacking &= (claims["acked"] != 0) & journals.in_hole(client, claims["place"])
    return lacking


def _begin(journals: Journals, client: int) -> int:
    """The place at which the journal begins: claims from before are not contradicted by it.

    A send names what had been given before it, so the journal begins behind that.
    """
    given, sent = journals.place[journals.of(client)], journals.sent_place[journals.sent_of(client)] + 1
    return int(min(given.min(initial=NEVER), sent.min(initial=NEVER)))


def against_claims(
    history: History, journals: Journals, client: int, name: str, claims: Deliveries, kept: Flags
) -> list[dict[str, Any]]:
    """Find where a client's journal and its stations' claims differ. kept: as in `judged_by`.

    Findings: `claim_not_given`, `journal_hole`, `given_not_claimed`, `claim_order_differs`, `journal_facts_differ`,
    `taken_differs`.
    """
    rows = journals.of(client)
    given = journals.message[rows]
    holed = _holed(journals, client, claims)
    acked = (claims["acked"] != 0) & (claims["message"] >= 0) & (claims["place"] >= _begin(journals, client)) & ~holed
    claimed = {column: values[acked] for column, values in claims.items()}
    base = {"client": client, "host": name}
    ends = int(journals.place[rows].max(initial=0))
    made = _not_given(history, base, {column: values[~kept[acked]] for column, values in claimed.items()}, given, ends)
    if holed.any():
        text = f"the journal of {name} has a hole where its agent was killed: of {holed.sum()} messages"
        last = int(claims["wall"][holed].max())
        made.append(base | {
            "kind": "journal_hole", "severity": INFO, "count": int(holed.sum()), "wall": last,
            "witness": text + " the stations' word is taken",
        })  # fmt: skip
    unclaimed = np.flatnonzero(~np.isin(given, claims["message"]))
    if len(unclaimed):
        x = int(given[unclaimed[0]])
        text = f"the journal of {name} has {len(unclaimed)} messages that no station counts as acknowledged"
        made.append(base | {
            "kind": "given_not_claimed", "severity": INFO, "count": len(unclaimed), "witness": text,
            "slot": journals.slot[rows][unclaimed[0]], "n": journals.n[rows][unclaimed[0]],
            "other_n": 0 if x < 0 else history.number[x], "wall": journals.wall[rows][unclaimed[-1]],
        })  # fmt: skip
    made += _order(history, base, claimed, given, journals.e[rows])
    return made + _facts(history, base, journals, rows) + _taken(history, base, journals, client)


def _not_given(
    history: History, base: dict[str, Any], claimed: Deliveries, given: Ints, ends: int
) -> list[dict[str, Any]]:
    lacking = np.flatnonzero(~np.isin(claimed["message"], given))
    made = []
    for i in lacking[:PER_CLIENT_MAX].tolist():
        x, behind = int(claimed["message"][i]), claimed["place"][i] > ends
        text = (
            f"station {claimed['station'][i]} counts {history.name(x)} as acknowledged by {base['host']} at "
            f"{place_text(claimed['place'][i])}, but the journal does not have it"
        )
        row = base | {
            "kind": "claim_not_given", "station": claimed["station"][i], "slot": history.slot[x], "n": history.n[x],
            "place": claimed["place"][i], "wall": claimed["wall"][i], "witness": text,
        }  # fmt: skip
        if behind:
            row |= {"severity": UNDECIDED, "witness": text + ", which ends before"}
        made.append(row)
    return made


def _order(history: History, base: dict[str, Any], claimed: Deliveries, given: Ints, e: Ints) -> list[dict[str, Any]]:
    """First occurrences must stand in one order in both. e: session of each row of `given`.

    What was given in one session and acknowledged in a later one came again there, and was not given again: only its
    first place counts.
    """
    order = np.argsort(given, kind="stable")
    first = np.ones(len(order), bool)
    first[1:] = np.diff(given[order]) != 0
    at = found(given[order][first], claimed["message"])
    if not len(given):
        return []
    row = order[first][np.maximum(at, 0)]
    at[(at >= 0) & (e[row] < claimed["e"])] = -1
    row, x = row[at >= 0], claimed["message"][at >= 0]
    made = []
    for i in (np.flatnonzero(row[1:] < row[:-1]) + 1)[:PER_CLIENT_MAX].tolist():
        a, b = int(x[i - 1]), int(x[i])
        made.append(base | {
            "kind": "claim_order_differs", "slot": history.slot[b], "n": history.n[b], "other_slot": history.slot[a],
            "other_n": history.n[a], "place": claimed["place"][at >= 0][i], "wall": claimed["wall"][at >= 0][i],
            "witness": f"{base['host']} was given {history.name(b)} before {history.name(a)} by its journal, and "
            "after it by its stations",
        })  # fmt: skip
    return made


def _facts(history: History, base: dict[str, Any], journals: Journals, rows: slice) -> list[dict[str, Any]]:
    """Sender's own number of each message: what the application saw and what the stations tell."""
    real = np.flatnonzero(journals.message[rows] >= 0)
    message, number = journals.message[rows][real], journals.number[rows][real]
    bad = np.flatnonzero((history.number[message] != number) & (history.client[message] >= 0))
    return [
        base | {
            "kind": "journal_facts_differ", "slot": history.slot[x], "n": history.n[x], "wall": history.wall[x],
            "witness": f"{base['host']} was given {history.name(x)} as number {says} of its sender, the stations say "
            f"{history.number[x]}",
        }
        for x, says in zip(message[bad][:PER_CLIENT_MAX].tolist(), number[bad].tolist(), strict=False)
    ]  # fmt: skip


def _taken(history: History, base: dict[str, Any], journals: Journals, client: int) -> list[dict[str, Any]]:
    """What the host had been given when it sent must not be less by the stations' word than by its own."""
    sends = journals.sent_of(client)
    mine = history.by_sender[history.sends_of[client] : history.sends_of[client + 1]]
    by = np.argsort(history.number[mine], kind="stable")
    at = found(history.number[mine][by], journals.sent_number[sends])
    known = np.flatnonzero(at >= 0)
    message = mine[by][at[known]]
    own = place_of(journals.sent_e[sends], journals.sent_c[sends])[known]
    bad = np.flatnonzero(history.place[message] < own)
    return [
        base | {
            "kind": "taken_differs", "station": history.slot[x], "slot": history.slot[x], "n": history.n[x],
            "place": history.place[x], "other_place": says, "wall": history.wall[x],
            "witness": f"{base['host']} had been given {place_text(says)} when it sent {history.name(x)}; station "
            f"{history.slot[x]} says {place_text(history.place[x])}",
        }
        for x, says in zip(message[bad].tolist(), own[bad].tolist(), strict=True)
    ]  # fmt: skip


def only_there(journals: Journals, client: int, by_claims: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Find messages that stations have skipped and a journal has: `given_unclaimed`. Nobody has signed a journal.

    by_claims: what the check of exactly-once finds by the stations' claims.
    """
    rows = journals.of(client)
    given = set(zip(journals.slot[rows].tolist(), journals.n[rows].tolist(), strict=True))
    return [
        row | {"kind": "given_unclaimed", "severity": UNDECIDED,
               "witness": f"{row['witness']}; only the journal has it, and nobody has signed that"}
        for row in by_claims
        if row["kind"] == "missing" and (int(row["slot"]), int(row["n"])) in given
    ]  # fmt: skip


def broken(journals: Journals, made: Tables, names: list[str]) -> list[dict[str, Any]]:
    """Find journals that are not used: `journal_broken`; and files of them that cannot be: `journal_damaged`."""
    found: list[dict[str, Any]] = [
        {"kind": "journal_broken", "severity": UNDECIDED, "client": client, "host": names[client],
         "witness": f"the journal of {names[client]} lacks segments, or has damaged ones, or two of one number: it is "
         "not used, and the stations' word is taken"}
        for client in sorted(journals.broken)
    ]  # fmt: skip
    for row in made["segments"].to_pylist():
        if row["writer"] == "journal" and row["status"] not in LEFT_BEHIND:
            text = (
                f"{row['path']}, a journal of {row['id']}, was changed or damaged; whole up to {row['events']} events"
            )
            found.append({"kind": "journal_damaged", "severity": UNDECIDED, "place": row["seq"], "witness": text})
    return found
