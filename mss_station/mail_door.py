"""Station mail for the program that runs a station in one of its threads: `Station.send` and `Station.receive`.

The door stands between the program's threads and the thread of the station. What the program wants goes through a
queue, and the station is woken; what has come in is offered, once it is durable. One reader at a time takes it: the
program from its first `receive` on, or a command.
"""

from __future__ import annotations

import math
import os
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, InvalidStateError
from concurrent.futures import TimeoutError as FutureTimeout
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final

from roamcast.middleware.causal_unicast.errors import MailRefused
from roamcast.mss_station.errors import MailReaderBusy, MailUnknown, StationStopped

PROGRAM: Final = "the program in which this station runs"
NOT_STARTED: Final = "this station does not run yet"
FORKED: Final = (
    "forked: this station belongs to the process that runs it; call it there, or send by `mss-station message`"
)


@dataclass(frozen=True, slots=True)
class Sending:
    """A mail that the program wants to be taken; the number is the result."""

    to: str
    body: bytes
    result: Future[int]


@dataclass(frozen=True, slots=True)
class Taking:
    """The program needs this no more: all mail up to a position, or the news of a loss. Durable: the result."""

    upto: int
    lost: int
    """Slot of the former addressee; 0: `upto` is meant."""
    result: Future[None]


@dataclass(slots=True, frozen=True)
class _Given:
    _acknowledge: Callable[[], None] = field(repr=False, compare=False)

    def ack(self) -> None:
        """The program has this, and all mail given before it; it never comes again, once this returns.

        Raises StationStopped: the station has ended, and it is not known whether it comes again.
        """
        self._acknowledge()


@dataclass(slots=True, frozen=True)
class StationMessage(_Given):
    """A mail of another station's program, or of this one's own. `number` counts what `sender` has sent to anybody."""

    sender: str
    body: bytes
    number: int


@dataclass(slots=True, frozen=True)
class MailLoss(_Given):
    """Mails of this station, by their numbers, that `station` had not acknowledged when it ended: they are given up."""

    station: str
    numbers: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Offer:
    """What the station has for its reader: a mail at a position, or a loss (position 0)."""

    station: str
    position: int
    number: int = 0
    body: bytes = b""
    lost: int = 0
    """Slot of the station that has ended; 0: it is a mail."""
    numbers: tuple[int, ...] = ()


class MailDoor:
    """Every method may be called from any thread."""

    def __init__(self) -> None:
        self.requests: deque[Sending | Taking] = deque()
        """What the program wants; the station takes it out."""
        self.hindrance: str | None = None
        """Why mails wait for being taken."""
        self._changed = threading.Condition()
        self._wake: Callable[[], None] = lambda: None
        self._shut: str | None = NOT_STARTED
        self._thread: int | None = None
        self._process: int | None = None
        self._offers: deque[Offer] = deque()
        self._open: set[Future[Any]] = set()
        self._given: Offer | None = None
        self._reader: object = None
        self.reader: str | None = None
        """Who takes the mail, for a person."""

    # ---- the program ----

    def send(self, station: str, body: bytes, timeout: float | None) -> int:
        """See `Station.send`."""
        if not isinstance(station, str):
            raise TypeError(f"a mail is for one station, by its id: a str, not {_type(station)}")
        try:
            data = bytes(memoryview(body))
        except TypeError:
            raise TypeError(f"the body of a mail is bytes, not {_type(body)}") from None
        limit = _limit(timeout)
        sending = Sending(str.__str__(station), data, Future())
        self._ask(sending)
        try:
            return sending.result.result(limit)
        except FutureTimeout:
            if not sending.result.cancel():  # the station is about to commit it, or to end
                return sending.result.result()
        raise MailRefused("not-now", f"not taken within {timeout:g} s: {self.hindrance or 'the station is busy'}")

    def receive(self, timeout: float | None) -> StationMessage | MailLoss | None:
        """See `Station.receive`."""
        limit = _limit(timeout)
        end = None if limit is None else time.monotonic() + limit
        self._check_process()
        with self._changed:
            if self._shut is not None:
                raise StationStopped(self._shut)
            before, self._given = self._given, None
        self.become_reader(self, PROGRAM)
        if before is not None:
            self._ask(self._taking(before))
        with self._changed:
            while self._shut is None and not self._offers:
                left = None if end is None else end - time.monotonic()
                if left is not None and left <= 0:
                    return None
                self._changed.wait(left)
            if self._shut is not None:
                raise StationStopped(self._shut)
            offer = self._given = self._offers.popleft()
        if offer.lost:
            return MailLoss(lambda: self._acknowledge(offer), offer.station, offer.numbers)
        return StationMessage(lambda: self._acknowledge(offer), offer.station, offer.body, offer.number)

    def _acknowledge(self, offer: Offer) -> None:
        self._check_process()
        with self._changed:
            if self._given is offer:
                self._given = None
        taking = self._taking(offer)
        self._ask(taking)
        taking.result.result()

    def _taking(self, offer: Offer) -> Taking:
        return Taking(offer.position, offer.lost, Future())

    def _settled(self, result: Future[Any]) -> None:
        with self._changed:
            self._open.discard(result)

    def _check_process(self) -> None:
        if self._process not in (None, os.getpid()):  # here nobody serves, and the lock may be held for ever
            raise StationStopped(FORKED)

    def _ask(self, request: Sending | Taking) -> None:
        self._check_process()
        with self._changed:
            if self._shut is not None:
                raise StationStopped(self._shut)
            if threading.get_ident() == self._thread:
                raise RuntimeError("the station's own thread cannot wait for itself: call from another one")
            self._open.add(request.result)
            self.requests.append(request)
        request.result.add_done_callback(self._settled)
        self._wake()

    def become_reader(self, key: object, who: str) -> None:
        """From now on `key`, called `who`, takes the mail. Raises MailReaderBusy: somebody else does."""
        with self._changed:
            if self._reader not in (None, key):
                raise MailReaderBusy(
                    f"the mail of this station is read by {self.reader}; there is one reader at a time"
                )
            self._reader, self.reader = key, who

    # ---- the station ----

    def open(self, wake: Callable[[], None]) -> None:
        """The station runs, in this thread. wake: makes it look at `requests`."""
        with self._changed:
            self._wake, self._thread, self._shut = wake, threading.get_ident(), None
            self._process = os.getpid()

    def offer(self, offers: list[Offer]) -> None:
        """These are durable here, and come behind all that was offered."""
        with self._changed:
            self._offers += offers
            self._changed.notify_all()

    def taken(self, upto: int, lost: int) -> None:
        """Somebody has taken these: whatever the program was not given yet of them it is not given any more."""
        with self._changed:
            self._offers = deque(
                each for each in self._offers if (each.lost != lost if lost else each.lost or each.position > upto)
            )

    def end_reading(self, key: object) -> None:
        """`key` takes no mail any more."""
        with self._changed:
            if self._reader is key:
                self._reader = self.reader = None

    def close(self, text: str) -> None:
        """The station has ended: whoever waits is told so."""
        with self._changed:
            self._shut, self._thread = text, None
            left, self._open = self._open, set()
            self.requests.clear()
            self._offers.clear()
            self._given = self._reader = self.reader = None
            self._changed.notify_all()
        for result in left:
            error = MailUnknown(f"{text}; it is not known what has become of this") if result.running() else None
            with suppress(InvalidStateError):  # it was cancelled meanwhile
                result.set_exception(error or StationStopped(text))


def _limit(timeout: float | None) -> float | None:
    """Seconds to wait; None: without limit. Raises TypeError, ValueError."""
    if timeout is None:
        return None
    if not isinstance(timeout, int | float):
        raise TypeError(f"timeout is a number of seconds or None, not {_type(timeout)}")
    if timeout > threading.TIMEOUT_MAX:
        return None
    if math.isnan(timeout):
        raise ValueError("timeout is a number of seconds or None, not nan")
    return timeout


def _type(value: object) -> str:
    return type(value).__name__
