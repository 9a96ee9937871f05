"""`mss-station join`: a new station asks its sponsor to be counted in.

It connects under the one-time key of its token, says Join, and says it again until the sponsor answers: the sponsor
first has the slot confirmed by every living station, and tells whom it waits for. That the answer is the sponsor's is
CURVE's affair; that each record in it is its author's is checked here, beginning with the key in the token. A join that
was interrupted, at whatever point, goes on when the same command is given again.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import zmq

from roamcast.middleware.errors import Error
from roamcast.middleware.host_frames import PROTOCOL_VERSION
from roamcast.middleware.lan_update.records import Entry
from roamcast.middleware.membership.frames import Join, Joined, JoinRefused
from roamcast.mss_station.asking import look
from roamcast.mss_station.errors import SchemaError, StoreError
from roamcast.mss_station.join_files import Draft, complete, finish, has_begun, prepare, prepare_again
from roamcast.mss_station.lock import DirectoryLock
from roamcast.mss_station.rotation import recover
from roamcast.mss_station.schema import ACTIVE, STATIONS, StationRecord, author_keys, read_station
from roamcast.mss_station.signing import verify
from roamcast.transport.errors import DecodeError, KeyFileError
from roamcast.transport.join_codec import decode_join_answer, encode_join
from roamcast.transport.join_token import Token, parse, utc
from roamcast.transport.rekeying import rekey_dealer
from roamcast.transport.sockets import NOT_NOW, UNKNOWN_KEY, UP, WRONG_KEY, LinkMonitor, new_context
from roamcast.transport.station_files import STATION_FILE, StationCard, StationConfig
from roamcast.transport.station_sockets import connect_peer

REPEAT_S: Final = 3.0
TIMEOUT_S: Final = 600.0
GO_ON: Final = "the same command with the same token goes on from here"
KEPT: Final = "; the keys that were made here are kept: put it right, and give the command again"
SPENT: Final = ("generation", "key")
"""Refusals of these very keys."""

Fill = Callable[[StationCard, int, tuple[Entry, ...]], None]
"""(the new station, slot of its sponsor, all records): makes the store and puts them into it (see `complete`)."""


class JoinError(Error):
    """The station is not counted in; the text says why, and what to do."""


@dataclass(frozen=True, slots=True)
class Names:
    """What the operator gives a new station."""

    id: str
    hosts: str
    """Endpoint at which hosts reach it."""
    stations: str
    """Endpoint at which stations reach it."""


@dataclass(frozen=True, slots=True)
class Rejoin:
    """The directory is that of a station which its group has given up: another one is to be made of it."""

    id: str | None = None
    """The new one; None: made from the old one."""


def join(
    directory: Path,
    pasted: str,
    who: Names | Rejoin,
    *,
    fill: Fill,
    wall: int,
    tell: Callable[[str], object],
    timeout_s: float = TIMEOUT_S,
) -> StationConfig:
    """Make `directory` that of a station which belongs to the group.

    Args:
        pasted: the token.
        wall: UTC microseconds.
        tell: shows the operator a line of progress.
        timeout_s: without success it ends after so long; nothing is lost by that.

    Raises:
        KeyFileError: the token, a name or the directory cannot be used.
        JoinError: refused, not reached, interrupted, or answered what cannot be.
        StoreError: by `fill`, or another process works on the directory.
    """
    token = parse(pasted)
    if (done := _done(directory, who, token)) is not None:
        return done
    if not has_begun(directory):
        parse(pasted, wall)
    if isinstance(who, Names):
        directory.mkdir(parents=True, exist_ok=True)
    with DirectoryLock(directory):
        finished = finish(directory)
        if finished is not None:
            return finished
        draft = _prepare(directory, who, token, wall)
        try:
            joined = _Asking(token, draft, tell).ask(timeout_s)
            sponsor = check_answer(token, draft, joined)
            return complete(
                directory, draft, joined.slot, joined.group, lambda card: fill(card, sponsor.slot, joined.entries)
            )
        except KeyboardInterrupt:
            raise JoinError(f"interrupted; {GO_ON}") from None


def _done(directory: Path, who: Names | Rejoin, token: Token) -> StationConfig | None:
    """The station that this command has made before, if that is what `directory` holds; it may run."""
    if has_begun(directory) or not (directory / STATION_FILE).exists():
        return None
    try:
        config, _, known = look(directory)
    except (KeyFileError, StoreError):  # told by what follows
        return None
    card = config.card
    named = who == Names(card.id, card.hosts, card.stations) if isinstance(who, Names) else who.id == card.id
    signing = [key for record in known.members() if record.id == token.sponsor for key in record.signing]
    return config if named and card.group == token.group and token.signing_key in signing else None


def _prepare(directory: Path, who: Names | Rejoin, token: Token, wall: int) -> Draft:
    if isinstance(who, Names):
        return prepare(directory, id=who.id, hosts=who.hosts, stations=who.stations)
    recover(directory)
    draft = prepare_again(directory, who.id, wall)
    if draft.group != token.group:
        raise KeyFileError(f"the token is for group {token.group!r}, {directory} belongs to {draft.group!r}")
    return draft


def check_answer(token: Token, draft: Draft, joined: Joined) -> StationRecord:
    """The sponsor's record, if the answer is one that a true sponsor gives to this newcomer.

    Raises:
        JoinError: it is not.
    """
    entries = {entry.key: entry for entry in joined.entries}
    if joined.group != token.group or len(entries) != len(joined.entries):
        raise JoinError(f"{token.sponsor} answers for group {joined.group!r}, or tells one record twice")
    records: dict[str, StationRecord] = {}
    for entry in joined.entries:
        if entry.value is None or not entry.key.startswith(STATIONS):
            raise JoinError(f"{token.sponsor} tells {entry.key!r}, which is no record of a station")
        try:
            record = read_station(entry.key, entry.value)
        except SchemaError as error:
            raise JoinError(f"{token.sponsor} tells a record that this release cannot read: {error}") from None
        if not verify(entry, token.group, author_keys(entry, entries)):
            raise JoinError(f"the record of {record.id} does not bear the signature of {entry.version.node}")
        records[record.id] = record
    sponsor, own = records.get(token.sponsor), records.get(draft.id)
    if sponsor is None or token.key not in sponsor.keys or token.signing_key not in sponsor.signing:
        raise JoinError(f"the record of {token.sponsor} does not name the keys of the token; ask for a new token")
    if len({record.slot for record in records.values()}) != len(records):
        raise JoinError(f"{token.sponsor} tells of two stations with one slot")
    if own is None or (own.slot, own.generation, own.state) != (joined.slot, draft.generation, ACTIVE):
        raise JoinError(f"{token.sponsor} has not counted in {draft.id} of this directory")
    if (own.hosts, own.stations) != (draft.hosts, draft.stations):
        raise JoinError(f"{own.id} is counted in at --hosts {own.hosts} --stations {own.stations}: give these")
    if draft.key not in own.keys or draft.signing_key not in own.signing:
        raise JoinError(f"{token.sponsor} has counted in {own.id} with other keys than those in this directory")
    return sponsor


class _Asking:
    """The conversation with the sponsor."""

    def __init__(self, token: Token, draft: Draft, tell: Callable[[str], object]) -> None:
        self._token = token
        self._join = encode_join(
            Join(
                PROTOCOL_VERSION,
                draft.id,
                draft.generation,
                draft.hosts,
                draft.stations,
                draft.key,
                draft.host_key,
                draft.signing_key,
            )
        )
        self._show = tell
        self._told = f"{token.sponsor} at {token.endpoint} is not reached"
        self._up = False
        self._reached = False
        """It has shown that it has the key of the token: what looks like another key is a link that broke."""
        self._again = False
        self._due = 0.0

    def ask(self, timeout_s: float) -> Joined:
        """The sponsor's answer. Raises JoinError."""
        context = new_context()
        try:
            try:
                dealer, monitor = connect_peer(context, self._token.endpoint, self._token.keys, self._token.key)
            except zmq.ZMQError as error:
                raise JoinError(f"{self._token.sponsor} at {self._token.endpoint}: {error.strerror}") from None
            try:
                return self._converse(dealer, monitor, timeout_s)
            finally:
                monitor.close()
        finally:
            context.destroy(0)

    def _converse(self, dealer: zmq.Socket[bytes], monitor: LinkMonitor, timeout_s: float) -> Joined:
        poller = zmq.Poller()
        for socket in (dealer, monitor.socket):
            poller.register(socket, zmq.POLLIN)
        end = time.monotonic() + timeout_s
        while (now := time.monotonic()) < end:
            if now >= self._due:
                self._due = now + REPEAT_S
                self._say(dealer)
            poller.poll(1 + int(1_000 * (min(self._due, end) - now)))
            for change in monitor.changes():
                self._see(change)
            if (joined := self._hear(dealer)) is not None:
                return joined
        raise JoinError(f"not counted in within {timeout_s:g} s: {self._told}; {GO_ON}")

    def _say(self, dealer: zmq.Socket[bytes]) -> None:
        if self._again:
            self._again = False
            rekey_dealer(dealer, self._token.endpoint, self._token.keys, self._token.key)
        elif self._up:
            try:
                dealer.send(self._join, zmq.NOBLOCK)
            except zmq.Again:  # the connection has just ended: the monitor tells
                return

    def _see(self, change: str) -> None:
        token = self._token
        self._up = change == UP
        if change == UP:
            self._reached = True
            self._due = 0.0
            self._tell(f"{token.sponsor} is reached, and asked")
            return
        if change == UNKNOWN_KEY:
            raise JoinError(
                f"{token.sponsor} does not let this token in: it was used by another station, or withdrawn, or it has "
                f"expired there (it was good until {utc(token.expires_s)}); ask for a new token"
            )
        if change == WRONG_KEY and not self._reached:
            raise JoinError(
                f"at {token.endpoint} there is not the {token.sponsor} of this token, or it has changed its key since, "
                "or it ended just now: try once more, then ask for a new token"
            )
        self._again = change in (NOT_NOW, WRONG_KEY)
        self._tell(f"{token.sponsor} at {token.endpoint}: {change}")

    def _hear(self, dealer: zmq.Socket[bytes]) -> Joined | None:
        while True:
            try:
                parts = dealer.recv_multipart(zmq.NOBLOCK)
            except zmq.Again:
                return None
            try:
                frame = decode_join_answer(b"".join(parts))
            except DecodeError as error:
                raise JoinError(f"{self._token.sponsor} answers what this release cannot read: {error.text}") from None
            match frame:
                case Joined():
                    return frame
                case JoinRefused(_, text, True):
                    self._tell(text)
                case JoinRefused(code, text):
                    kept = "" if code in SPENT else KEPT
                    raise JoinError(f"{self._token.sponsor} refuses: {text}{kept}")

    def _tell(self, text: str) -> None:
        if text != self._told:
            self._told = text
            self._show(text)
