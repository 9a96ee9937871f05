"""All checks over all that ingest made: first of the whole, then bucket by bucket of hosts, as pure functions.

An engine makes one `Case`, calls `of_the_whole` once, `of_clients` per bucket and `of_live` per part, in any process,
and joins what they find. Source: audit.md 3.2 to 3.4. Memory: the messages and orders (history.py) and the deliveries
of one bucket.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]

from roamcast.analytics import receivers, tables
from roamcast.analytics.checks import causal, clock, completeness, fifo, journals, latency, live, mails, stamps
from roamcast.analytics.checks.exactly_once import Accounts
from roamcast.analytics.days import DAY
from roamcast.analytics.history import NEVER, History
from roamcast.analytics.lives import Lives, LiveTables, Part
from roamcast.analytics.membership import Membership
from roamcast.analytics.owed import Owed
from roamcast.analytics.receivers import Journals, Receiver
from roamcast.analytics.streams import Deliveries, Places, Sessions, add_walls
from roamcast.analytics.subscriptions import Subscriptions
from roamcast.analytics.tables import INFO, UNDECIDED, VIOLATION, Flags, Ints, Tables, is_given
from roamcast.analytics.withheld import Withheld

NOT_SURE = frozenset({
    "missing", "base_unearned", "gap_unexplained", "causal", "claim_not_given", "invented", "not_subscribed",
})  # fmt: skip
"""Findings that rest on something *not* being in a log: of a host whose evidence is not whole they prove nothing."""

GRACE = DAY


@dataclass(slots=True)
class Options:
    """What a run looks at."""

    since: int = 0
    """us; latencies and handoffs before it were counted by an earlier night."""
    until: int = 0
    """us; end of what is looked at, 0: the end of all."""
    margin: int = 600_000_000
    """us before `until` in which a message need not have been ordered by its own station yet."""
    grace: int = GRACE
    """us after which a message that its origin's log does not have, though that goes on, is invented."""
    before: completeness.Before = field(default_factory=completeness.Before)
    floor: dict[int, int] = field(default_factory=dict)
    """Slot -> n below which messages were settled by an earlier night."""
    stamps_start: dict[int, int] = field(default_factory=dict)
    """Slot -> n from which on stamps are known, where that is not 1."""
    numbers: dict[tuple[int, int], int] = field(default_factory=dict)
    """(host, incarnation) -> own number up to which earlier nights have seen all."""
    mail_unsure: frozenset[int] = frozenset()
    """Stations of whose logs earlier nights have given something up."""
    has_subscriptions: bool = True
    """Subscriptions of before are known, too."""


@dataclass(slots=True)
class Outcome:
    """What the check of some clients, or of the whole, found."""

    findings: list[dict[str, Any]] = field(default_factory=list)
    pending: dict[int, Ints] = field(default_factory=dict)
    """Client -> messages that it is still owed."""
    latencies: list[pa.Table] = field(default_factory=list)
    gaps: list[dict[str, Ints]] = field(default_factory=list)
    deliveries: int = 0
    pairs: int = 0

    def add(self, other: Outcome) -> None:
        """Join two outcomes."""
        self.findings += other.findings
        self.pending |= other.pending
        self.latencies += other.latencies
        self.gaps += other.gaps
        self.deliveries += other.deliveries
        self.pairs += other.pairs


class Case:
    """Everything that the checks look things up in: small beside the deliveries, the same for all buckets."""

    def __init__(self, made: Tables, orders: pa.Table, options: Options) -> None:
        """orders: all that was read, also of settled messages: only so can holes in it be told."""
        self.made = made
        self.options = options
        self.names: list[str] = made["clients"].column("name").to_pylist()
        self.history = History(made)
        self.sessions = Sessions(self.history, made)
        self.subscriptions = Subscriptions(self.history, self.sessions, made, options.floor)
        self.owed = Owed(self.history, self.sessions, self.subscriptions, made, options.has_subscriptions)
        self.journals = Journals(self.history, made)
        self._journaled = set(self.journals.clients.tolist())
        self.withheld = Withheld(self.history, self.sessions, self.subscriptions, self.owed, self.journals)
        self.sent_place = receivers.sent_places(self.history, self.journals)
        self.places = Places(self.history, self.sessions, self.journals, self.subscriptions)
        self.stamps = stamps.Stamps(self.history, made["stamps"], options.stamps_start)
        self.membership = Membership(self.history, self.sessions, made)
        self.accounts = Accounts(
            self.history, self.sessions, self.membership, self.owed, self.names, options.floor, options.since
        )
        self.clock: Ints = self.history.hlc
        """T; the engine replaces it by the repaired one if it does not extend happened-before."""
        self.live = LiveTables(made)
        self.live_parts = self.live.parts()
        self._sends: live.Sends | None = None
        self.holes = fifo.holes(orders)
        self.evidence = self._evidence()
        self.incomplete = {int(row["station"]) for row in self.evidence}
        self.evidence += completeness.concerned(made, self.sessions, self.incomplete, self.names)
        self.unsure = {int(row["client"]) for row in self.evidence if "client" in row}

    def _evidence(self) -> list[dict[str, Any]]:
        made, until = self.made, self.options.until
        before = completeness.with_ends(self.options.before, made["closed"], self.options.since)
        found = completeness.segments(made["segments"], before, until)
        found += completeness.stations(made, self.history, self.sessions, before)
        if not self.options.floor:  # else the orders are not all there
            found += completeness.orders(made, self.sessions)
        found += [row for row in self.holes if row.get("severity") == UNDECIDED]
        return found

    def buckets(self, rows_max: int) -> list[tuple[int, int]]:
        """Ranges of clients with about rows_max deliveries each; all incarnations of a host are in one."""
        weight = np.bincount(self.sessions.client, self.sessions.rows(), minlength=len(self.names))
        host = self.sessions.host_of_client
        made, begin, load = [], 0, 0.0
        for client in range(len(self.names)):
            if load > rows_max and host[client] != host[client - 1]:
                made.append((begin, client))
                begin, load = client, 0.0
            load += float(weight[client])
        return [*made, (begin, len(self.names))] if len(self.names) else []

    # ---- the whole ----

    def of_the_whole(self) -> Outcome:
        """Evidence, own numbers of hosts, and the stations' orders."""
        history, outcome = self.history, Outcome()
        outcome.findings += journals.broken(self.journals, self.made, self.names)
        outcome.findings += self.evidence + [row for row in self.holes if row.get("severity") != UNDECIDED]
        lossy = UNDECIDED if self.incomplete else INFO if self.membership.lost else VIOLATION
        clients = self.made["clients"]
        pairs = zip(clients.column("host").to_pylist(), clients.column("incarnation").to_pylist(), strict=True)
        numbers = {i: self.options.numbers[pair] for i, pair in enumerate(pairs) if pair in self.options.numbers}
        outcome.findings += fifo.own_numbers(history, self.names, lossy, numbers)
        outcome.findings += completeness.messages(
            history,
            self.sessions,
            self.incomplete,
            self.membership.lost,
            completeness.Times(self.options.until, self.options.margin, self.options.grace),
        )
        outcome.findings += self.mail_check().findings()
        outcome.findings += live.untold(self.made)
        outcome.findings += completeness.cuts(history, self.membership.cut, self.membership.lost)
        scratch = np.full(history.count, -1, np.int64)
        found = []
        for receiver in receivers.stations(history):
            outcome.findings += fifo.out_of_order(history, receiver, self.names, scratch)
            found.append(causal.inversions(history, self.clock, receiver, self._not_ordered(receiver)))
        outcome.findings += self._judged(outcome, found)
        counted = [
            latency.of_station(history, slot, order, self.options.since) for slot, order in history.orders.items()
        ]
        outcome.latencies.append(latency.table("station", counted))
        return outcome

    def _not_ordered(self, receiver: Receiver) -> Ints:
        """Messages behind the last one that a station has ordered of their origin; none if its log is not whole."""
        history = self.history
        ended = self.membership.cut[history.column_of_slot[receiver.station]] < NEVER
        if receiver.station in self.incomplete or ended:
            return np.zeros(0, np.int64)
        last = np.full(len(history.slots), np.iinfo(np.int64).max)
        column, n = history.column[receiver.message], history.n[receiver.message]
        last[np.unique(column)] = 0
        np.maximum.at(last, column, n)
        waiting = (history.n > last[history.column]) & (history.n <= self.membership.cut[history.column])
        return np.flatnonzero(waiting & is_given(history.kind))

    def mail_check(self) -> mails.MailCheck:
        """The check of station mail."""
        segments, until = self.made["segments"], self.options.until
        reach: dict[int, int] = {}
        for row in segments.select(["slot", "status", "closed", "wall_last"]).to_pylist():
            if row["slot"] and row["status"] != "forged":
                far = max(row["closed"], row["wall_last"])
                reach[row["slot"]] = max(reach.get(row["slot"], 0), min(far, until) if until else far)
        ended = self.options.before.ended | set(tables.column(self.made["closed"], "slot").tolist())
        about = mails.About(
            self.incomplete | self.options.mail_unsure,
            set(ended),
            self.membership.lost,
            reach,
            until,
            self.options.margin,
            self.options.grace,
        )
        return mails.MailCheck(mails.Mails(self.made), about)

    def of_live(self, part: Part) -> Outcome:
        """Live messages of a part, at stations and at hosts with journals."""
        used = np.ones(len(self.names), bool)
        used[list(self.journals.broken)] = False
        if self._sends is None:
            self._sends = live.Sends(self.history)
        lives = Lives(self.live.of(part), used)
        check = live.LiveCheck(self.history, lives, self._sends, self.membership.cut, self.incomplete, part.first)
        found = [*check.of_stations(), *check.of_hosts(self.journals, self.sessions.host_of_client, self.names)]
        return Outcome(found)

    # ---- clients ----

    def of_clients_only(self) -> Case:
        """The same, without the tables that `of_clients` does not look at: to be handed to other processes."""
        made = copy.copy(self)
        made.made = {name: self.made[name] for name in ("clients", "acks")}
        return made

    def deliveries(self, begin: int, end: int) -> Deliveries:
        """What the sessions of clients begin to end - 1 gave."""
        made = self.sessions.expand(self.history, begin, end, self.subscriptions.expand(begin, end))
        add_walls(made, self.acks(begin, end))
        return made

    def acks(self, begin: int, end: int) -> pa.Table:
        """The acknowledgements of clients begin to end - 1."""
        client = tables.column(self.made["acks"], "client")
        a, b = np.searchsorted(client, (begin, end))
        return self.made["acks"].slice(int(a), int(b - a))

    def clients(self, begin: int, end: int, found: Deliveries | None = None) -> Iterator[tuple[Receiver, Deliveries]]:
        """The receivers of a bucket, and what their stations claim. found: its deliveries, if they are there."""
        found = self.deliveries(begin, end) if found is None else found
        yield from receivers.clients(self.history, self.journals, self.sent_place, found, begin, end)

    def repair_clock(self, buckets: list[tuple[int, int]]) -> list[dict[str, Any]]:
        """Raise T where it does not extend happened-before, over all buckets.

        Needed if `of_clients` finds `clock.NOT_EXTENDED` anywhere; then all is to be done again, with the raised clock.
        """

        def all_clients() -> Iterable[Receiver]:
            return (receiver for begin, end in buckets for receiver, _ in self.clients(begin, end))

        self.clock, findings = clock.repaired(self.history, self.history.hlc, all_clients)
        return findings

    def of_clients(self, begin: int, end: int, found: Deliveries | None = None) -> Outcome:
        """All checks of clients begin to end - 1. found: their deliveries, if they are there."""
        history, outcome = self.history, Outcome()
        scratch = np.full(history.count, -1, np.int64)
        pairs = []
        everybody = list(self.clients(begin, end, found))
        kept = {
            receiver.client: self.withheld.of_claims(receiver.client, claims)
            for receiver, claims in everybody
            if receiver.client in self._journaled
        }
        judged = {receiver.client: self._by_journal(receiver.client, claims, kept) for receiver, claims in everybody}
        for receiver, claims in everybody:
            client, name = receiver.client, self.names[receiver.client]
            mine = judged[client]
            life = self.membership.lives.get(client)
            earlier = [judged[c] for c in life.heir_of] if life else []
            hidden = self.withheld.messages(client) if client in self._journaled else None
            account, rows = self.accounts.check(client, mine, earlier, hidden)
            if client in self._journaled:
                outcome.findings += journals.against_claims(history, self.journals, client, name, claims, kept[client])
                by_claims = self.accounts.check(client, claims, earlier)[1]
                outcome.findings += journals.only_there(self.journals, client, by_claims)
            outcome.findings += clock.not_extended(history, history.hlc, receiver, name, self.membership.cut)
            outcome.findings += rows + fifo.out_of_order(history, receiver, self.names, scratch)
            outcome.findings += stamps.understated(history, self.stamps, self.membership, receiver, name)
            outcome.pending[client] = account.pending
            given = np.isin(account.pending, receiver.message)  # but not acknowledged yet
            owed = account.pending[:0] if client in self.unsure else account.pending[~given]
            pairs.append(causal.inversions(history, self.clock, receiver, owed))
            outcome.gaps.append(latency.handoffs(client, claims, self.options.since))
            outcome.deliveries += len(claims["place"])
        outcome.findings += self._judged(outcome, pairs)
        claimed = ((receiver.client, claims) for receiver, claims in everybody)
        outcome.latencies.append(latency.of_clients(history, claimed, self.options.since))
        outcome.findings = [self._weighed(row) for row in outcome.findings]
        return outcome

    def _by_journal(self, client: int, claims: Deliveries, kept: dict[int, Flags]) -> Deliveries:
        if client not in self._journaled:
            return claims
        return journals.judged_by(self.journals, client, claims, kept[client])

    def _judged(self, outcome: Outcome, found: list[causal.Pairs]) -> list[dict[str, Any]]:
        pairs = causal.Pairs.joined(found)
        outcome.pairs += len(pairs.x)
        topics_of = (self.subscriptions.pairs_of, self.subscriptions.pair_topic)
        past = causal.Past(self.history, self.clock, self.places.first, self.sent_place, topics_of)
        host = self.sessions.host_of_client
        return causal.judge(self.history, past, self.stamps, pairs, host, self.names)

    def _weighed(self, row: dict[str, Any]) -> dict[str, Any]:
        if row.get("client", -1) in self.unsure and row["kind"] in NOT_SURE and row.get("severity") != INFO:
            return row | {"severity": UNDECIDED}
        return row
