"""Station mail in the ticks of the station: its core beside the one of messages, in the same transactions.

What the core wants sent leaves after the commit, several mails in a frame; what has come is offered to whoever reads
(mail_door.py, mail_desk.py). The core is told who belongs to the group by the station's view: nothing of a closed
station is taken, and it counts as retired when its end is final. Ground: docs/protocols/causal-unicast.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

from roamcast.middleware.causal_unicast.effects import Arrived, MailLost, MailPersist, SendMail
from roamcast.middleware.causal_unicast.errors import MailRefused
from roamcast.middleware.causal_unicast.frames import MailBatch, MailLinkFrame, MailNone, MailQuery
from roamcast.middleware.causal_unicast.records import InboxItem, Mail, MailAcks, MailFrame
from roamcast.middleware.causal_unicast.settings import MailSettings
from roamcast.middleware.causal_unicast.station import MailStation
from roamcast.middleware.delivery_log import Logged
from roamcast.middleware.effects import Notice, Reject
from roamcast.middleware.links import REMEDY
from roamcast.middleware.membership.view import View
from roamcast.middleware.settings import MIB
from roamcast.mss_station.directory import LanDirectory
from roamcast.mss_station.errors import StoreWentBack
from roamcast.mss_station.mail_door import MailDoor, Offer, Taking
from roamcast.mss_station.mail_log import MailLog
from roamcast.mss_station.opening import group_value
from roamcast.mss_station.schema import ENDED, RETIRING
from roamcast.mss_station.server import Server
from roamcast.mss_station.store import DropMailLost, PutMailLost, Store, StoreWrite
from roamcast.mss_station.tally import Tally
from roamcast.transport.limits import MAIL_ACKS_MAX, MAILS_MAX
from roamcast.transport.station_codec import encode_peer
from roamcast.transport.station_files import StationCard

FRAME_BYTES: Final = MIB
"""Mails of one frame together; a larger one goes alone."""

PROGRAM_HINT: Final = "mss-station messages DIR prints and takes it"


class MailService:
    """Station mail of one station process. It is a `MailBooks` for the link set-up.

    Args:
        own: this station.
        door: for the program in which the station runs.
    """

    def __init__(
        self, own: StationCard, directory: LanDirectory, server: Server, store: Store, door: MailDoor, tally: Tally
    ) -> None:
        self._own = own
        self._directory = directory
        self._server = server
        self._store = store
        self._door = door
        self._tally = tally
        self.on_news: Callable[[], None] = lambda: None
        """Called when there is more to read."""
        self._offered = 0
        """Position up to which the door has been offered mail, in all of this life."""
        self._offered_losses: set[int] = set()
        self._without: set[int] = set()
        """Peers that have no mail for this station, which is being retired."""
        self._load()

    def _load(self) -> None:
        image = self._store.load_mail(self._own.slot)
        self.losses = self._store.load_mail_lost()
        """By addressee: mail that was given up, of which the reader was not told yet."""
        self.log = MailLog(self._own.slot, image, self._server.clock.wall)
        self.core = MailStation(self._own.slot, (), image, self._settings())
        self._view: View | None = None
        self._writes: list[StoreWrite] = []
        self._frames: dict[int, list[MailFrame]] = {}
        self._words: list[tuple[int, MailQuery | MailNone]] = []
        self._fresh = list(self.core.unread())
        """Delivered, to be offered once that is durable."""

    def start_again(self) -> None:
        """The tick was rolled back: all anew from what is durable. Nothing of it had left."""
        self._load()

    def _settings(self) -> MailSettings:
        named = {"outbox_bytes_max": "mail-bytes", "inbox_bytes_max": "mail-inbox-bytes"}
        return MailSettings(**{field: int(group_value(self._directory, name)) for field, name in named.items()})

    def configure(self) -> None:
        """The group's settings have changed."""
        self.core.configure(self._settings())

    # ---- the books, for the links ----

    @property
    def sent_number(self) -> int:
        """Number of the newest own mail."""
        return self.core.sent_number

    def known_of(self, peer: int) -> int:
        """The highest number of a mail of `peer` that anything here tells of."""
        return self.core.known_of(peer)

    def acknowledged_by(self, peer: int) -> int:
        """The highest own number that `peer` has acknowledged."""
        return self.core.acknowledged_by(peer)

    # ---- a tick ----

    def begin(self, now: int) -> None:
        """Open a tick. now: monotonic, microseconds."""
        self.core.begin(now)
        self._follow()

    def _follow(self) -> None:
        """Who belongs to the group, as the station's view says."""
        view = self._server.core.ledger.view
        if view is self._view:
            return
        self._view = view
        for slot in view.members:
            if slot == self._own.slot:
                continue
            if slot in view.final:
                self.core.retire(slot)
            else:
                self.core.add(slot)

    def receive(self, slot: int, frame: MailLinkFrame) -> None:
        """A frame of the linked peer `slot`. A newcomer that has not joined completely takes nothing yet."""
        core = self._server.core
        if slot in core.ledger.view.closed or core.newcomer is not None:
            return
        match frame:
            case MailBatch(mails=mails):
                for mail in mails:
                    self.core.receive(slot, mail)
            case MailAcks():
                self.core.receive(slot, frame)
            case MailQuery():
                self._words.append((slot, MailNone()))
            case MailNone():
                self._without.add(slot)

    def link_up(self, slot: int) -> None:
        """The peer has come to be linked."""
        self.core.link_up(slot)
        if self._asks():
            self._words.append((slot, MailQuery()))
        if self._is_done_with(slot):  # it will ask, or has asked before this station could answer
            self._words.append((slot, MailNone()))

    def flush(self) -> tuple[list[StoreWrite], list[Logged]]:
        """Close the tick: what is to be made durable, and what the delivery log tells of it."""
        self._follow()
        writes, self._writes = self._writes, []
        logged: list[Logged] = []
        for effect in self.core.flush():
            match effect:
                case MailPersist(batch):
                    writes += batch
                    logged += self.log.events(batch)
                case SendMail(peer, frame):
                    self._frames.setdefault(peer, []).append(frame)
                case Arrived(item):
                    self._fresh.append(item)
                case MailLost(to, numbers):
                    writes.append(PutMailLost(to, numbers))
                    self.losses[to] = numbers
                case Notice():
                    self._tally.notice(effect)
                case Reject():
                    self._refused(effect)
        return writes, logged

    def _refused(self, effect: Reject) -> None:
        self._tally.reject(effect)
        if effect.code == "mail-ahead":  # only a later life of this store can have sent that
            fields = {"peer": effect.source, "text": effect.text}
            self._tally.notice(Notice("alarm", "store-went-back", fields))
            self._server.end(StoreWentBack(REMEDY))

    def committed(self) -> None:
        """What the tick wanted to make durable is: send what stands behind it, offer what has come."""
        if self._frames or self._words:
            self._send()
        losses = [slot for slot in self.losses if slot not in self._offered_losses]
        if not self._fresh and not losses:
            return
        fresh, self._fresh = self._fresh, []
        offers = [self._offer(item) for item in fresh if item.position > self._offered]
        self._offered = max(self._offered, fresh[-1].position if fresh else 0)
        for slot in losses:
            self._offered_losses.add(slot)
            offers.append(Offer(self.name_of(slot), 0, lost=slot, numbers=self.losses[slot]))
        self._door.offer(offers)
        self.on_news()

    def _offer(self, item: InboxItem) -> Offer:
        return Offer(self.name_of(item.src), item.position, item.number, item.body)

    def name_of(self, slot: int) -> str:
        """Id of the station in `slot`."""
        if slot == self._own.slot:
            return self._own.id
        return next((record.id for record in self._directory.members() if record.slot == slot), f"slot {slot}")

    def _send(self) -> None:
        frames, self._frames = self._frames, {}
        words, self._words = self._words, []
        peers = self._server.peers
        for slot, said in frames.items():
            if peers.links.is_linked(slot):  # else it is repeated anyway when the link is there
                for frame in _frames(self._own.slot, slot, said):
                    peers.send(slot, encode_peer(frame))
        for slot, word in words:
            if isinstance(word, MailQuery) or self._is_done_with(slot):
                peers.send(slot, encode_peer(word))

    def next_deadline(self) -> int | None:
        """When a tick has something to send again."""
        return self.core.next_deadline()

    # ---- what is sent and taken here ----

    def send(self, to: str, body: bytes) -> int:
        """Take a mail for station `to`, in an open tick. Returns its number. Raises MailRefused."""
        slot = self._addressee(to)
        try:
            return self.core.send(slot, body)
        except MailRefused as refused:
            raise MailRefused(refused.code, self._told(refused, to, slot)) from None

    def _told(self, refused: MailRefused, to: str, slot: int) -> str:
        limits = self._settings()
        match refused.code:
            case "mailbox-full":
                return (
                    f"the mailbox of {to} here is full: it has not acknowledged {self.core.unacknowledged(slot)} mails "
                    f"yet; no more than {limits.outbox_bytes_max} bytes are kept for it (setting mail-bytes)"
                )
            case "inbox-full":
                return f"the inbox of this station is full (setting mail-inbox-bytes); {PROGRAM_HINT}"
        return str(refused)

    def _addressee(self, to: str) -> int:
        if to == self._own.id:
            return self._own.slot
        record, view = self._directory.record(to), self._server.core.ledger.view
        if record is None:
            raise MailRefused("unknown-station", f"there is no station {to!r}; `mss-station stations list` shows all")
        if record.state in ENDED or record.slot in view.closed:
            state = record.state if record.state in ENDED else "about to end"
            raise MailRefused("retired", f"station {to} is no member any more: it is {state}")
        if record.state == RETIRING:
            raise MailRefused("retired", f"station {to} is being retired: no mail is taken for it any more")
        if self._directory.peer(to) is None or record.slot not in view.members:
            raise MailRefused("not-now", f"station {to} is not counted as a member here yet; try again")
        return record.slot

    def hindrance(self) -> str | None:
        """Why no mail is numbered yet; None: nothing is in the way. Raises MailRefused: it is refused."""
        server, view = self._server, self._server.core.ledger.view
        if server.guard.state != "open":
            raise MailRefused("store", f"no mail is taken now: {server.guard.reason}")
        if view.retiring:
            raise MailRefused("retired", f"station {self._own.id} is being retired and sends no mail any more")
        if server.core.newcomer is not None:
            return "this station has not joined completely"
        return None if server.is_linked else "no peer has answered since this station was started"

    def take(self, taking: Taking) -> None:
        """The reader needs this no more, in an open tick. Raises LocalProtocolError: it was not given."""
        if not taking.lost:
            self.core.taken(taking.upto)
        elif self.losses.pop(taking.lost, None) is not None:
            self._writes.append(DropMailLost(taking.lost))
        self._door.taken(taking.upto, taking.lost)

    def waiting(self, after: int) -> Iterator[Offer]:
        """What was delivered behind position `after` and not taken, in order; it is durable between ticks."""
        return (self._offer(item) for item in self.core.unread() if after < item.position <= self._offered)

    # ---- an orderly retirement ----

    def _is_done_with(self, slot: int) -> bool:
        """Whether a station that is being retired, or was, will have no mail from here any more."""
        record = next((record for record in self._directory.members() if record.slot == slot), None)
        ends = record is not None and record.state in (RETIRING, *ENDED)
        return ends and not self.core.unacknowledged(slot)

    def look(self) -> None:
        """Once a second: while this station is being retired, ask who has mail for it."""
        if self._asks() and self._server.guard.state != "closed":
            self._server.open_tick()
            peers = self._server.core.ledger.fifo.peers
            self._words += [(slot, MailQuery()) for slot in peers if slot not in self._without]

    def _asks(self) -> bool:
        view = self._server.core.ledger.view
        return bool(view.retiring) and not view.handing

    def tell_obstacles(self) -> None:
        """The core of messages hands nothing over before there is no mail that would be lost."""
        core = self._server.core
        if core.ledger.view.retiring:
            core.heir.set_elsewhere(tuple(self._obstacles(core.ledger.fifo.peers)))

    def _obstacles(self, peers: Iterable[int]) -> Iterator[str]:
        told, names = self.core.status(), self.name_of
        for slot, waiting in told["unacknowledged"].items():
            yield f"{waiting['mails']} station mails to {names(slot)} are not acknowledged by it"
        if told["held"]:
            yield f"{told['held']} station mails wait here for others that come before them"
        if told["unread"]:
            yield f"{told['unread']} station mails were not taken yet; {PROGRAM_HINT}"
        for slot in peers:
            if slot not in self._without:
                yield f"{names(slot)} has not said yet that it has no station mail for this one"

    # ---- status ----

    def status(self) -> dict[str, Any]:
        """What an operator wants to know; plain data."""
        told, limits = self.core.status(), self._settings()
        oldest = self.log.since
        waiting = [
            {"station": self.name_of(slot), "slot": slot, **each, **oldest(slot)}
            for slot, each in sorted(told["unacknowledged"].items())
        ]
        return {
            "sent": told["sent"],
            "records": told["records"],
            "waiting": waiting,
            "inbox": {"mails": told["unread"], "bytes": told["unread_bytes"], "delivered": self.log.last},
            "held": {"mails": told["held"], "bytes": told["held_bytes"]},
            "postponed": told["postponed"],
            "lost": {self.name_of(slot): len(numbers) for slot, numbers in self.losses.items()},
            "reader": self._door.reader,
            "limits": {
                "mail_bytes": limits.outbox_bytes_max,
                "inbox_bytes": limits.inbox_bytes_max,
                "held_bytes": limits.held_bytes_max,
                "body_bytes": limits.body_bytes_max,
            },
        }


def _frames(own: int, peer: int, said: list[MailFrame]) -> Iterator[MailLinkFrame]:
    """What is said to one peer in a tick: acknowledgements first, then mails in their order."""
    numbers = [number for frame in said if isinstance(frame, MailAcks) for number in frame.numbers]
    for first in range(0, len(numbers), MAIL_ACKS_MAX):
        yield MailAcks(tuple(numbers[first : first + MAIL_ACKS_MAX]))
    batch: list[Mail] = []
    size = 0
    for mail in [frame for frame in said if isinstance(frame, Mail)]:
        if batch and (size + mail.size > FRAME_BYTES or len(batch) >= MAILS_MAX):
            yield MailBatch(own, peer, tuple(batch))
            batch, size = [], 0
        batch.append(mail)
        size += mail.size
    if batch:
        yield MailBatch(own, peer, tuple(batch))
