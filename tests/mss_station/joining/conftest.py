"""A sponsor for newcomers: a small one, but its sockets, its door and its invitations are the real ones."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import replace

import pytest
import zmq
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from roamcast.middleware.lan_update.records import Entry, Version
from roamcast.middleware.membership.frames import Join, Joined, JoinRefused
from roamcast.middleware.membership.invitations import InvitationImage
from roamcast.middleware.settings import SECOND
from roamcast.mss_station.invitations import VALID, Invitations, record_of, refusal
from roamcast.mss_station.schema import StationRecord, station_key, station_value
from roamcast.mss_station.user_id import user_of
from roamcast.transport import curve
from roamcast.transport.join_codec import decode_join, encode_join_answer
from roamcast.transport.join_token import Token
from roamcast.transport.lan_codec import signed_bytes
from roamcast.transport.sockets import new_context
from roamcast.transport.station_files import StationCard
from roamcast.transport.station_sockets import bind_stations
from roamcast.transport.zap import TRY_LATER, ZapResponder

NOW = 1_764_300_000 * SECOND


class Records:
    """The station records of a group whose only member is hill; it signs all of them."""

    def __init__(self) -> None:
        self.signing = Ed25519PrivateKey.generate()
        self.keys = curve.generate()
        public = self.signing.public_key().public_bytes_raw().hex()
        self.card = StationCard("hill", 1, "fleet", 9, "tcp://10.0.0.1:1", "tcp://10.0.0.1:2", self.keys.public, public)
        hill = StationRecord("hill", 1, 9, self.card.hosts, self.card.stations, (self.keys.public,), (public,))
        self.records = {"hill": hill}

    def add(self, join: Join, slot: int) -> StationRecord:
        record = self.records[join.id] = record_of(join, slot)
        return record

    def entry(self, record: StationRecord) -> Entry:
        entry = Entry(station_key(record.id), Version(1, 0, "hill", 5), station_value(record))
        return replace(entry, signature=self.signing.sign(signed_bytes("fleet", entry)))

    def entries(self) -> tuple[Entry, ...]:
        return tuple(self.entry(record) for record in self.records.values())


class Sponsor:
    """The station hill, in a thread of its own while `serving`."""

    def __init__(self, context: zmq.Context[zmq.Socket[bytes]]) -> None:
        self.group = Records()
        self.invitations = Invitations(InvitationImage())
        self.wall = NOW
        self.joins: list[Join] = []
        self.waits = self.answers_lost = self.busy = 0
        """How many of the next Joins are answered "wait", not at all; how many handshakes are put off."""
        self._zap = ZapResponder(context, self._allow, lambda *report: None)
        self._router = bind_stations(context, "tcp://127.0.0.1:*", self.group.keys)
        self.endpoint = self._router.getsockopt_string(zmq.LAST_ENDPOINT)
        self.group.card = replace(self.group.card, stations=self.endpoint)
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._serve)

    def invite(self) -> Token:
        """With a slot that is taken by the time that it is used."""
        return self.invitations.issue(self.group.card, 1, NOW, VALID)[0]

    def __enter__(self) -> Sponsor:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._thread.join()

    def _allow(self, domain: str, key: str, address: str) -> str | None:
        if self.busy:
            self.busy -= 1
            return TRY_LATER
        return f"join:{key}" if self.invitations.admits(key, self.wall) else None

    def _serve(self) -> None:
        poller = zmq.Poller()
        for socket in (self._zap.socket, self._router):
            poller.register(socket, zmq.POLLIN)
        while not self._stopping.is_set():
            poller.poll(10)
            self._zap.answer()
            while self._router.poll(0):
                channel, part = self._router.recv_multipart(copy=False)
                answer = self._answer(user_of(part, "join") or "", decode_join(part.bytes))
                if answer is not None:
                    self._router.send_multipart([channel.bytes, encode_join_answer(answer)])

    def _answer(self, key: str, frame: Join) -> Joined | JoinRefused | None:
        self.joins.append(frame)
        records = self.group.records
        refused = self.invitations.judge(key, frame, self.wall) or refusal(frame, records.values())
        if refused is not None:
            return refused
        self.invitations.use(key, frame)
        if self.waits:
            self.waits -= 1
            return JoinRefused("confirming", "waiting for glen to confirm slot 3", True)
        known = records.get(frame.id)
        if known is None or known.generation != frame.generation:
            known = self.group.add(frame, 2 + max(record.slot for record in records.values()))
        if self.answers_lost:
            self.answers_lost -= 1
            return None
        return Joined(known.slot, "fleet", self.group.entries())


@pytest.fixture
def sponsor() -> Iterator[Sponsor]:
    context = new_context()
    with Sponsor(context) as sponsor:
        yield sponsor
    context.destroy(0)


@pytest.fixture
def group() -> Records:
    return Records()
