"""Each host gets each message of its audience exactly once: duplicates, skipped messages, and what sessions claim.

Source: audit.md 3.3, R6; docs/protocols/delivery-log.md. A message is *missing* if the host is past it (some station's
stream of it is, or the base of a session) and it was never acknowledged, and no Discontinuity was told for it. What the
host has not come to yet is *pending*. What a base claims that no session explains, because the session that the host
names is in no log, cannot be told.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from roamcast.analytics.columns import place_text, topic_text
from roamcast.analytics.history import BROADCAST, TO_ALL, TO_ITSELF, TO_SUBSCRIBERS, History
from roamcast.analytics.membership import Life, Membership
from roamcast.analytics.owed import Owed
from roamcast.analytics.streams import Deliveries, Sessions
from roamcast.analytics.tables import INFO, UNDECIDED, Ints

JOINED_AT = -(1 << 32)
"""Where the positions of a new incarnation begin; as in middleware/host_frames.py, a test compares them."""

PER_HOST_MAX = 100
"""Findings of one kind at one host that are told one by one; the rest is counted in the last one."""


@dataclass(slots=True)
class Account:
    """What became of all that one incarnation is owed; messages as indices in History."""

    missing: Ints
    unverified: Ints
    """Skipped, but the session before is in no log."""
    given_up: Ints
    """Skipped, and the host was told."""
    pending: Ints


class Accounts:
    """The check for one bucket after the other; it keeps no findings."""

    def __init__(
        self,
        history: History,
        sessions: Sessions,
        membership: Membership,
        owed: Owed,
        names: list[str],
        floor: Mapping[int, int],
        since: int,
    ) -> None:
        """floor: slot -> n below which messages were settled by nights before `since`, and are not looked at again."""
        self._floor = floor
        self._since = since
        self._history = history
        self._sessions = sessions
        self._membership = membership
        self._owed = owed
        self._names = names
        self._exists = history.n <= membership.cut[history.column] if history.count else np.zeros(0, bool)

    def check(
        self, client: int, mine: Deliveries, earlier: list[Deliveries], kept: Ints | None = None
    ) -> tuple[Account, list[dict[str, Any]]]:
        """One client: `mine` is what its sessions gave it, `earlier` what incarnations that it goes on for were given.
        kept: messages that its agent may have kept to itself, if `mine` is what its journal has.

        Findings: `duplicate`, `missing`, `unverified`, `invented`, `not_meant`, `not_subscribed`,
        `subscription_unknown`, `not_owed`, `base_unearned`, `discontinuity`, `gap_unexplained`.
        """
        history = self._history
        made = self._strange(client, mine) + self._unasked(client, mine)
        real = (mine["acked"] != 0) & (mine["message"] >= 0)
        acked = mine["message"][real]
        counts = np.bincount(acked, minlength=history.count)
        made += self._duplicates(client, mine, np.flatnonzero(real), counts)
        life = self._membership.lives.get(client)
        nothing = np.zeros(0, np.int64)
        if life is None:
            return Account(nothing, nothing, nothing, nothing), made
        for other in earlier:
            ok = (other["acked"] != 0) & (other["message"] >= 0)
            counts = counts + np.bincount(other["message"][ok], minlength=history.count)
        if kept is not None:
            counts[kept] += 1
        account = self._account(life, mine, acked, counts)
        made += self._skipped(life, account) + self._early(life, mine)
        made += self._unearned(client, mine) + self._gaps(life, account)
        return account, made

    # ---- what was given ----

    def _row(self, kind: str, client: int, **values: Any) -> dict[str, Any]:
        return {"kind": kind, "client": client, "host": self._names[client], **values}

    def _strange(self, client: int, mine: Deliveries) -> list[dict[str, Any]]:
        """Messages that no station tells of, and messages for somebody else: only spools can have them."""
        unknown = np.flatnonzero(mine["message"] < 0)
        floor = np.array([self._floor.get(slot, 0) for slot in mine["slot"][unknown].tolist()], np.int64)
        a, b = (int(i) for i in self._sessions.range_of[client : client + 2])
        at = np.searchsorted(self._sessions.e[a:b], mine["e"][unknown])
        began = np.append(self._sessions.wall[a:b], 0)[np.minimum(at, b - a)]  # 0: by its journal alone
        old = unknown[(mine["n"][unknown] < floor) & (began >= self._since)]
        unknown = unknown[mine["n"][unknown] >= floor]
        made = []
        if len(old):
            i = int(old[0])
            made.append(self._row(
                "below_window", client, severity=UNDECIDED, station=mine["station"][i], slot=mine["slot"][i],
                n=mine["n"][i], place=mine["place"][i], wall=mine["wall"][i], count=len(old),
                witness=f"host {self._names[client]} was given {len(old)} messages, from {mine['slot'][i]}:"
                f"{mine['n'][i]} on, of which an earlier night has kept nothing: their order cannot be told",
            ))  # fmt: skip
        for i in unknown[:PER_HOST_MAX].tolist():
            made.append(self._row(
                "invented", client, station=mine["station"][i], slot=mine["slot"][i], n=mine["n"][i],
                place=mine["place"][i], wall=mine["wall"][i],
                witness=f"host {self._names[client]} was given {mine['slot'][i]}:{mine['n'][i]} by station "
                f"{mine['station'][i]}, but no station tells of that message",
            ))  # fmt: skip
        real = np.flatnonzero((mine["message"] >= 0) & (mine["position"] < 0))  # positions of an order were filtered
        message = mine["message"][real]
        to = self._history.audience[message]
        hosts = self._sessions.host_of_client
        own = (to == TO_ITSELF) & (hosts[self._history.client[message]] == hosts[client])
        wrong = real[(to != TO_ALL) & (to != TO_SUBSCRIBERS) & ~own & (to != self._sessions.host_of_client[client])]
        for i in wrong[:PER_HOST_MAX].tolist():
            made.append(self._row(
                "not_meant", client, station=mine["station"][i], slot=mine["slot"][i], n=mine["n"][i],
                place=mine["place"][i], wall=mine["wall"][i],
                witness=f"host {self._names[client]} was given {mine['slot'][i]}:{mine['n'][i]}, which is not for it",
            ))  # fmt: skip
        return made

    def _unasked(self, client: int, mine: Deliveries) -> list[dict[str, Any]]:
        """What was sent on topics that the host was not subscribed to there: in spools and journals, as ranges are cut
        by subscriptions.
        """
        every, unknown = self._owed.unasked(client, mine)
        return self._not_subscribed(client, mine, every[~unknown]) + [
            {**row, "kind": "subscription_unknown", "severity": UNDECIDED,
             "witness": f"{row['witness']}, as far as is known: what it was subscribed to before is not"}
            for row in self._not_subscribed(client, mine, every[unknown])
        ]  # fmt: skip

    def _not_subscribed(self, client: int, mine: Deliveries, rows: Ints) -> list[dict[str, Any]]:
        made = []
        for count, i in enumerate(rows[:PER_HOST_MAX].tolist(), 1):
            message = int(mine["message"][i])
            topic = topic_text(int(self._history.addressee[message]))
            made.append(self._row(
                "not_subscribed", client, station=mine["station"][i], slot=mine["slot"][i], n=mine["n"][i],
                place=mine["place"][i], wall=mine["wall"][i],
                count=1 + (len(rows) - count if count == PER_HOST_MAX else 0),
                witness=f"host {self._names[client]} was given {self._history.name(message)} on {topic} at "
                f"{self._where(mine, i)}, where it was not subscribed to it",
            ))  # fmt: skip
        return made

    def _duplicates(self, client: int, mine: Deliveries, real: Ints, counts: Ints) -> list[dict[str, Any]]:
        made = []
        twice = np.flatnonzero(counts > 1)
        for count, message in enumerate(twice[:PER_HOST_MAX].tolist(), 1):
            rows = real[mine["message"][real] == message]
            a, b = int(rows[0]), int(rows[1])
            made.append(self._row(
                "duplicate", client, station=mine["station"][b], slot=mine["slot"][b], n=mine["n"][b],
                place=mine["place"][b], other_place=mine["place"][a], wall=mine["wall"][b],
                count=1 + (len(twice) - count if count == PER_HOST_MAX else 0),
                witness=f"host {self._names[client]} acknowledged {self._history.name(message)} {len(rows)} times: at "
                f"{self._where(mine, a)} and {self._where(mine, b)}",
            ))  # fmt: skip
        return made

    def _where(self, mine: Deliveries, i: int) -> str:
        station = mine["station"][i]
        return f"{place_text(mine['place'][i])} ({f'station {station}' if station else 'its journal'})"

    def _early(self, life: Life, mine: Deliveries) -> list[dict[str, Any]]:
        """Broadcasts from before the enrolment."""
        if not life.enrolled or life.heir_of or not life.start.any():
            return []
        history = self._history
        real = np.flatnonzero((mine["message"] >= 0) & (mine["position"] > 0))
        message = mine["message"][real]
        early = real[(history.n[message] <= life.start[history.column[message]]) & (history.kind[message] == BROADCAST)]
        return [
            self._row(
                "not_owed", life.client, station=mine["station"][i], slot=mine["slot"][i], n=mine["n"][i],
                place=mine["place"][i], wall=mine["wall"][i],
                witness=f"host {self._names[life.client]} was given {mine['slot'][i]}:{mine['n'][i]} of before it was "
                "enrolled",
            )
            for i in early[:PER_HOST_MAX].tolist()
        ]  # fmt: skip

    # ---- what was not ----

    def _account(self, life: Life, mine: Deliveries, acked: Ints, counts: Ints) -> Account:
        history, sessions = self._history, self._sessions
        a, b = (int(i) for i in sessions.range_of[life.client : life.client + 2])
        seen = sessions.seen[a:b]
        base, width = sessions.base[a:b][seen], len(history.slots)
        past = base.max(axis=0, initial=0)
        np.maximum.at(past, history.column[acked], history.n[acked])
        meant = history.audience_of(life.host)
        meant[self._owed.of(life.client)[0]] = True
        owed = np.flatnonzero(meant & self._exists & (counts == 0))
        owed = owed[history.n[owed] > life.start[history.column[owed]]]
        n, column = history.n[owed], history.column[owed]
        skipped = n <= past[column]
        if b > a:
            last = np.flatnonzero(seen)
            skipped &= ~np.isin(owed, self._waiting(a + int(last[-1]) if len(last) else b - 1))
            told = self._told(life)
            unknown = ~np.isin(sessions.le[a:b][seen], np.append(sessions.e[a:b], 0))
            claimed = base[unknown].max(axis=0, initial=0)
        else:
            told = claimed = np.zeros(width, np.int64)
        given_up = skipped & (n <= told[column])
        unverified = skipped & ~given_up & (n <= claimed[column])
        pending = owed[~skipped] if life.live else owed[:0]
        return Account(owed[skipped & ~given_up & ~unverified], owed[unverified], owed[given_up], pending)

    def _told(self, life: Life) -> Ints:
        """n per slot up to which messages were given up and the host was told, in this or an inherited incarnation."""
        told = np.zeros(len(self._history.slots), np.int64)
        for client in (life.client, *life.heir_of):
            a, b = (int(i) for i in self._sessions.range_of[client : client + 2])
            told_in = self._sessions.gap[a:b] & self._sessions.seen[a:b]
            told = np.maximum(told, self._sessions.base[a:b][told_in].max(axis=0, initial=0))
        return told

    def _waiting(self, session: int) -> Ints:
        """What is in the spool of a session and not acknowledged: pending, though its base covers it."""
        sessions = self._sessions
        i, j = np.searchsorted(sessions.spool_session, (session, session + 1))
        left = (sessions.spool_position[i:j] > sessions.acked[session]) & ~sessions.dropped[i:j]
        waiting: Ints = sessions.spool_message[i:j][left]
        return waiting

    def _skipped(self, life: Life, account: Account) -> list[dict[str, Any]]:
        made = []
        for kind, severity, messages in (
            ("missing", None, account.missing), ("unverified", UNDECIDED, account.unverified),
        ):  # fmt: skip
            for count, message in enumerate(messages[:PER_HOST_MAX].tolist(), 1):
                row = self._skip(kind, life, message)
                row["count"] = 1 + (len(messages) - count if count == PER_HOST_MAX else 0)
                made.append(row | ({"severity": severity} if severity else {}))
        return made

    def _skip(self, kind: str, life: Life, message: int) -> dict[str, Any]:
        """Say what shows that the host is past the message: the first session whose base covers it, or its stream."""
        history, sessions = self._history, self._sessions
        a, b = (int(i) for i in sessions.range_of[life.client : life.client + 2])
        name, what = self._names[life.client], history.name(message)
        row = self._row(kind, life.client, slot=history.slot[message], n=history.n[message], wall=history.wall[message])
        covers = sessions.base[a:b, history.column[message]] >= history.n[message]
        covering = np.flatnonzero(covers & sessions.seen[a:b])
        if len(covering):
            s = a + int(covering[0])
            why = f"session {sessions.e[s]} at station {sessions.station[s]} counts it as had"
            if kind == "unverified":
                why += f", and session {sessions.le[s]} before it is in no log"
            row |= {"station": sessions.station[s], "wall": sessions.wall[s], "place": sessions.e[s]}
        else:
            why = f"it has acknowledged later messages of station {history.slot[message]}"
        return row | {"witness": f"host {name} never acknowledged {what}, and {why}"}

    def _unearned(self, client: int, mine: Deliveries) -> list[dict[str, Any]]:
        """Bases that were claimed too early: a later session gives what an earlier one counted as had."""
        sessions, history = self._sessions, self._history
        a, b = (int(i) for i in sessions.range_of[client : client + 2])
        if b - a < 2:
            return []
        base = np.where(sessions.seen[a:b, None], sessions.base[a:b], 0)
        highest = np.maximum.accumulate(base, axis=0)
        if not (sessions.base[a:b] < highest).any():
            return []
        real = np.flatnonzero((mine["message"] >= 0) & (mine["acked"] != 0) & (mine["position"] > 0))
        message = mine["message"][real]
        session = np.searchsorted(sessions.e[a:b], mine["e"][real])
        bad = np.flatnonzero(history.n[message] <= highest[session, history.column[message]])
        made = []
        for i in bad[:PER_HOST_MAX].tolist():
            s, m = a + int(session[i]), int(message[i])
            by = a + int(np.argmax(base[:, history.column[m]] >= history.n[m]))
            made.append(self._row(
                "base_unearned", client, station=sessions.station[by], slot=history.slot[m], n=history.n[m],
                place=mine["place"][real[i]], wall=mine["wall"][real[i]],
                witness=f"session {sessions.e[by]} of host {self._names[client]} at station {sessions.station[by]} "
                f"counts {history.name(m)} as had, but it was given in session {sessions.e[s]}",
            ))  # fmt: skip
        return made

    def _gaps(self, life: Life, account: Account) -> list[dict[str, Any]]:
        """Discontinuities: each must follow from an expiry, a join, or the loss of a station."""
        sessions = self._sessions
        a, b = (int(i) for i in sessions.range_of[life.client : life.client + 2])
        made = []
        for count, s in enumerate((np.flatnonzero(sessions.gap[a:b] & sessions.seen[a:b]) + a).tolist()):
            name = self._names[life.client]
            row = self._row(
                "discontinuity", life.client, station=sessions.station[s], place=sessions.e[s], wall=sessions.wall[s]
            )
            given_up = len(account.given_up) if count == 0 else 0
            text = f"host {name} was told of a gap in session {sessions.e[s]} at station {sessions.station[s]}"
            settled_join = bool(self._floor) and sessions.at[s] == JOINED_AT  # its JOIN row is not read again
            joined = s == a and (life.joined or not life.enrolled or settled_join)
            if joined or self._membership.lost or life.expired:  # by whose clock it was first proves nothing
                why = "its custody had ended" if life.expired else "it is new" if joined else "a station was lost"
                row |= {"severity": INFO, "witness": f"{text}: {why}; {given_up} messages given up"}
                made.append(row | {"count": max(1, given_up)})
            else:
                made.append(row | {"kind": "gap_unexplained", "witness": f"{text}, and its custody had not ended"})
        return made
