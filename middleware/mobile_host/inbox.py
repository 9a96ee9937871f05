"""What is in hand, given and acknowledged: the agent's end of a host's stream.

Positions belong to one session. A frame is taken iff its `prev` is the position in hand. An entry goes through three
states: *in hand* (received), *given* (the application took it), *acknowledged*. c is the position before the first
entry that is not acknowledged, or the position in hand if there is none.

From the HELLO that names (le, c) until the next WELCOME c is frozen, since the station may use any claim it has heard.
What was given but not acknowledged is then remembered by (slot, n); what is acknowledged while its position in the next
session is unknown is a *late acknowledgement*, durable by (slot, n). When the replay brings a remembered message it is
not given again; it takes its new position, already acknowledged if its acknowledgement was late. A late
acknowledgement is forgotten in the same Save as the c that covers it.

Remembered ids cannot leak: within one session the messages of one origin come in the order of their numbers, so once
(k, n') has come, a remembered (k, n) with n < n' never will (it fell into a gap): it is dropped. For an origin that
stays silent after a gap the number of late acknowledgements is bounded by `late_max`. They outlive a new incarnation as
well, whose stream may bring old messages again. (To drop all ids at a gap would be wrong: a record that expired at a
station behind the former one may replay what the former one had sent.)

*Topics.* A last value comes with its SUB, at the same position, and may be older than what came before: it is no part
of the order, is not remembered by (slot, n), and says nothing of what was `seen`. Its SUB remembers it: replayed with
the value that the application was given with it, that is not given again; with another one, that is. c passes the SUB
when both are acknowledged. An acknowledged value is not durable without the c that covers it: after the process died it
is given again, also where the acknowledgement of the SUB was late. Of the presence of a host nothing is given that is
older than what was given before; it counts as acknowledged.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Set

from roamcast.middleware.errors import LocalProtocolError
from roamcast.middleware.mobile_host.effects import (
    Delivered,
    Discontinuity,
    LiveDelivered,
    Notice,
    StateLost,
    SubscriptionEnded,
)
from roamcast.middleware.mobile_host.ended import EndedSubscriptions
from roamcast.middleware.mobile_host.live_age import LiveAge
from roamcast.middleware.mobile_host.settings import AgentSettings
from roamcast.middleware.mobile_host.state import AgentImage, Fact, LateAck, Told
from roamcast.middleware.rows import PRESENCE_KINDS, SUBSCRIPTION_KINDS, Item, Kind, MessageId


class Entry:
    """One message of the stream, or the last value of a topic, without its content."""

    __slots__ = ("acked", "gone", "late", "le", "n", "pos", "retained", "size", "slot", "token", "value")

    def __init__(self, slot: int, n: int, size: int, retained: bool = False) -> None:
        self.slot = slot
        self.n = n
        self.size = size
        self.le = 0
        """Session in which it was last received ..."""
        self.pos = 0
        """... and its position there."""
        self.token = 0
        self.acked = False
        self.late = False
        self.retained = self.gone = retained
        """Gone: it will not come again under its (slot, n), so its acknowledgement is not to be kept by that."""
        self.value: Entry | None = None
        """Of a SUB: the last value that came with it, in the session in which it was last received or before."""

    @property
    def settled(self) -> bool:
        """The application has it, and the last value that came with it."""
        value = self.value
        return self.acked and (value is None or value.acked or value.le != self.le)


class Inbox:
    """One host's stream as the agent sees it. `facts` collects what is to be saved; the owner empties it."""

    def __init__(self, image: AgentImage, settings: AgentSettings, mutants: Set[str]) -> None:
        self.le = image.le
        self.position = image.c
        """Position in hand."""
        self.frozen = False
        self.facts: list[Fact] = []
        self.forget: list[MessageId] = []
        """Late acknowledgements that may go with the next Acked."""
        self.unsaid = 0
        self.unsaid_bytes = 0
        """Acknowledged since the last ACK, PING or HELLO."""
        self.seen = dict(image.seen)
        """Slot -> n: of its messages to this host all up to n are covered by c, or were not owed. Empty: unknown, until
        a station has said where the host stands."""
        self.fresh: dict[int, int] = {}
        """What changed in `seen` and is to be saved; the owner empties it."""
        self._settings = settings
        self._mutants = mutants
        self._hand: deque[tuple[Entry, Item, bool]] = deque()
        """In hand: (entry, content, own)."""
        self._queue: deque[Entry] = deque()
        """Entries of the session from the first that c does not cover, in order of position."""
        self._handed = 0
        """How many were ever in hand and are not any more."""
        self._given: deque[Entry | Notice] = deque()
        """Given and not acknowledged, in order of tokens."""
        self._notices: deque[tuple[int, Notice]] = deque()
        """To be given once so many were in hand and are not any more."""
        self._told_notices = 0
        """Notices that were given so far."""
        self._live: deque[tuple[int, int, int, int, LiveDelivered]] = deque()
        """To be given once so many were in hand and are not any more, and so many notices given; until when, by the own
        clock and by the station's."""
        self._age = LiveAge()
        self.live_given = self.live_expired = 0
        """Expired: they came, and were too old once the application took what was before them."""
        self._presence: dict[tuple[str, int], tuple[int, bool]] = {}
        """Host and its incarnation -> (attempt, away) as last given."""
        self._subscribed: dict[str, MessageId] = {}
        """Topic -> the last own SUB that the application was given."""
        self._late: dict[MessageId, Entry] = {}
        self._remembered: dict[int, deque[Entry]] = {}
        """Per origin, ascending: given or acknowledged in an earlier session and not replayed yet in this one."""
        self._token = 0
        for slot, n in image.late:
            entry = Entry(slot, n, 0)
            entry.acked = entry.late = True
            self._late[slot, n] = entry
        self._ended = EndedSubscriptions(image.ended)
        if image.lost:
            self.notify(StateLost(0))
        if image.gap:
            self.notify(Discontinuity(0))
        for notice in self._ended.untold():
            self.notify(notice)

    # ---- positions ----

    @property
    def c(self) -> int:
        """Last position acknowledged by the application, cumulative."""
        return self._queue[0].pos - 1 if self._queue else self.position

    @property
    def given_position(self) -> int:
        """Last position given to the application; a SUB counts without its last value."""
        if not self._hand:
            return self.position
        first = self._hand[0][0]
        return first.pos if first.retained else first.pos - 1

    @property
    def in_hand(self) -> int:
        """Messages received and not given yet."""
        return len(self._hand)

    @property
    def unacknowledged(self) -> int:
        """Messages of the session that c does not cover, the station's window in use."""
        return len(self._queue)

    # ---- session ----

    def freeze(self) -> None:
        """A HELLO that names (le, c) is made."""
        self.frozen = True
        self.unsaid = self.unsaid_bytes = 0

    def drop_hand(self) -> None:
        """The session has ended: what was not given will be replayed."""
        self._live.clear()
        if "hand_kept" not in self._mutants:
            self._handed += len(self._hand)
            self._hand.clear()

    def open(self, le: int, at: int, gap: bool, now: int, reading: int) -> None:
        """The WELCOME of session `le`: positions start at `at`. reading: of the station's clock; 0 = not told."""
        self.le, self.position, self.frozen = le, at, False
        self._age.reset()
        if reading:
            self._age.came(now, reading)
        self._queue.clear()
        self.unsaid = self.unsaid_bytes = 0
        if gap:
            self.notify(Discontinuity(0))
        keep = list(self._late.values())
        if "given_forgotten" not in self._mutants:
            keep += [entry for entry in self._given if isinstance(entry, Entry) and not entry.gone]
        by_origin: dict[int, list[Entry]] = {}
        for entry in keep:
            by_origin.setdefault(entry.slot, []).append(entry)
        self._remembered = {slot: deque(sorted(of, key=lambda entry: entry.n)) for slot, of in by_origin.items()}

    def renew(self) -> None:
        """A new incarnation begins: no session, nothing acknowledged."""
        self.le, self.position = 0, 0
        self.seen, self.fresh = {}, {}
        self._queue.clear()
        self._handed += len(self._hand)
        self._hand.clear()
        self._ended = EndedSubscriptions({})
        self._notices = deque((at, notice) for at, notice in self._notices if not isinstance(notice, SubscriptionEnded))

    def notify(self, notice: Notice) -> None:
        """Give `notice` before everything that is received from now on; equal ones not given yet are one."""
        if all(waiting != notice for _, waiting in self._notices):
            self._notices.append((self._handed + len(self._hand), notice))

    def end(self, ended: tuple[tuple[int, int, str], ...], welcome: bool) -> None:
        """A station says which subscriptions have ended without the host's doing: in its WELCOME, or later."""
        notices, fact = self._ended.heard(ended, self.le, welcome)
        late = {notice.sub for notice in notices if self._is_former(notice)}
        for notice in notices:
            if notice.sub not in late:
                self.notify(notice)
        if fact is not None and "end_not_saved" not in self._mutants:
            self.facts.append(fact)
        if late:  # the application has subscribed anew since, and was given that
            self.facts.append(self._ended.told(late))

    def _is_former(self, notice: SubscriptionEnded) -> bool:
        """Whether the application was given a later SUB on that topic, as far as numbers of one origin tell."""
        slot, n = self._subscribed.get(notice.topic, notice.sub)
        return slot == notice.sub[0] and n > notice.sub[1]

    # ---- stream ----

    def put(self, pos: int, item: Item, own: bool) -> None:
        """Take in the entry at `pos`. The owner sets `position` and calls `advance` after the frame."""
        remembered = self._remembered.get(item.slot)
        entry = self._recall(remembered, item.n) if remembered else None
        if entry is None:
            entry = Entry(item.slot, item.n, len(item.body))
            if item.kind is Kind.REFUSED or (item.kind in SUBSCRIPTION_KINDS and not own):
                entry.acked = True  # told by a receipt; of another incarnation of this host
            else:
                self._hand.append((entry, item, own))
        entry.pos, entry.le = pos, self.le
        self._queue.append(entry)

    def put_value(self, item: Item, own: bool) -> None:
        """Take in the last value of the topic whose SUB was put just before."""
        sub = self._queue[-1]
        value = sub.value
        if value is None or not value.token or (value.slot, value.n) != (item.slot, item.n):
            value = sub.value = Entry(item.slot, item.n, 0, retained=True)
            self._hand.append((value, item, own))
        sub.size = len(item.body)
        value.pos, value.le = sub.pos, self.le

    def put_live(self, live: LiveDelivered, now: int, at: int, left: int) -> None:
        """Give it behind all that is in hand, or not at all: within `left` from `at`, a reading of the station."""
        age = 0 if "live_age" in self._mutants else self._age.came(now, at)
        while self._live and (self._live[0][2] < now or len(self._live) >= self._settings.live_in_hand):
            self._live.popleft()
            self.live_expired += 1
        behind = self._handed + len(self._hand), self._told_notices + len(self._notices)
        self._live.append((*behind, now - age + left, at + left, live))

    def _take_live(self, now: int) -> LiveDelivered | None:
        while self._live and self._live[0][0] <= self._handed and self._live[0][1] <= self._told_notices:
            _, _, by, until, live = self._live.popleft()
            if now <= min(by, until + self._age.least):  # what has come since may show that it was old
                live.token = self._token
                self.live_given += 1
                return live
            self.live_expired += 1
        return None

    def take(self, now: int) -> Delivered | LiveDelivered | Notice | None:
        """The next for the application at `now`, monotonic; it is given thereby."""
        while True:
            live = self._take_live(now)
            if live is not None:
                return live
            if self._notices and self._notices[0][0] <= self._handed:
                return self._take_notice()
            if not self._hand:
                return None
            entry, item, own = self._hand.popleft()
            self._handed += 1
            if item.kind in PRESENCE_KINDS and self._is_old_presence(item):
                entry.acked = True
                self.advance()
                continue
            if item.kind is Kind.SUB:
                self._subscribed[item.topic] = (item.slot, item.n)
            self._token = entry.token = self._token + 1
            self._given.append(entry)
            return Delivered(
                entry.token,
                (entry.slot, entry.n),
                item.sender,
                item.incarnation32,
                item.number,
                item.kind,
                own,
                item.body,
                item.topic,
                item.hlc,
                entry.retained,
                (entry.le, entry.pos),
            )

    def _take_notice(self) -> Notice:
        notice = self._notices.popleft()[1]
        self._told_notices += 1
        self._token = notice.token = self._token + 1
        self._given.append(notice)
        return notice

    def _is_old_presence(self, item: Item) -> bool:
        """Whether newer was given of this incarnation of the host; else this is the newest now."""
        host, order = (item.sender, item.incarnation32), (item.number, item.kind is Kind.OFFLINE)
        if order < self._presence.get(host, order):
            return True
        self._presence[host] = order
        return False

    def ack(self, token: int) -> None:
        """The application has everything given up to `token`. Raises LocalProtocolError for one never given."""
        if token > self._token:
            raise LocalProtocolError(f"token {token} was never given")
        told: list[Notice] = []
        given = self._given
        counted: list[Entry] = []
        while given and given[0].token <= token:
            entry = given.popleft()
            if not isinstance(entry, Entry):
                told.append(entry)
                continue
            entry.acked = True
            if (self.frozen or entry.le != self.le) and not entry.gone:
                self._ack_late(entry)
            else:
                counted.append(entry)
        if told:
            self._told(told)
        self.advance()
        for entry in counted:  # a replay in another order, or its value, keeps it behind what c covers
            if self._queue and entry.pos >= self._queue[0].pos and not entry.gone:
                self._ack_late(entry)

    def _told(self, told: list[Notice]) -> None:
        """The application knows, unless something of the same kind is still to be acknowledged."""
        left = [notice for _, notice in self._notices] + [one for one in self._given if not isinstance(one, Entry)]
        general = [notice for notice in told if not isinstance(notice, SubscriptionEnded)]
        if general and all(isinstance(notice, SubscriptionEnded) for notice in left):
            self.facts.append(Told())
        ended = {notice.sub for notice in told if isinstance(notice, SubscriptionEnded)}
        ended -= {notice.sub for notice in left if isinstance(notice, SubscriptionEnded)}
        if ended:
            self.facts.append(self._ended.told(ended))

    def advance(self) -> None:
        """Move c over what is acknowledged at the head of the session, unless it is frozen."""
        queue = self._queue
        while queue and (queue[0].settled or ("value_unheld" in self._mutants and queue[0].acked)) and not self.frozen:
            entry = queue.popleft()
            self.unsaid += 1
            self.unsaid_bytes += entry.size
            if self.seen:  # without a first statement nobody knows what came before
                self._see(entry.slot, entry.n)
            if entry.late:
                self._forget(entry)

    def pass_over(self, passed: Iterable[tuple[int, int]]) -> None:
        """A station says: of these slots nothing up to these numbers is owed any more."""
        for slot, n in passed:
            self._see(slot, n)

    def _see(self, slot: int, n: int) -> None:
        if n > self.seen.get(slot, -1):
            self.seen[slot] = self.fresh[slot] = n

    def _ack_late(self, entry: Entry) -> None:
        if "late_ack_lost" in self._mutants:
            return
        entry.late = True
        self._late[entry.slot, entry.n] = entry
        self.facts.append(LateAck(entry.slot, entry.n))
        if len(self._late) > self._settings.late_max:
            self._forget(next(iter(self._late.values())))

    def _forget(self, entry: Entry) -> None:
        if self._late.pop((entry.slot, entry.n), None) is not None:
            self.forget.append((entry.slot, entry.n))

    def _recall(self, remembered: deque[Entry], n: int) -> Entry | None:
        """The remembered entry with number n of this origin; those below never come again."""
        while remembered and remembered[0].n < n:
            entry = remembered.popleft()
            entry.gone = True
            if entry.late:
                self._forget(entry)
        return remembered.popleft() if remembered and remembered[0].n == n else None
