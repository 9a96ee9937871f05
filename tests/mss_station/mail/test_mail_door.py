"""The door between the threads of a program and its station, in every order of their steps."""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import pytest

from roamcast.middleware.causal_unicast.errors import MailRefused
from roamcast.mss_station.errors import MailReaderBusy, MailUnknown, StationStopped
from roamcast.mss_station.mail_door import MailDoor, MailLoss, Offer, Sending, StationMessage, Taking

PATIENCE_S = 20.0


class Program:
    """A call of the program in a thread of its own."""

    def __init__(self, call: Callable[[], Any]) -> None:
        self.result: Future[Any] = Future()
        self._call = call
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        try:
            self.result.set_result(self._call())
        except BaseException as error:
            self.result.set_exception(error)

    def get(self) -> Any:
        self._thread.join(PATIENCE_S)
        return self.result.result(0)


class Rig:
    """A door whose station is the test."""

    def __init__(self) -> None:
        self.door = MailDoor()
        self._woken = threading.Semaphore(0)

    def open(self) -> None:
        self.door.open(self._woken.release)

    def next(self) -> Any:
        """The next request, once the station was woken for it."""
        assert self._woken.acquire(timeout=PATIENCE_S)
        return self.door.requests.popleft()


@pytest.fixture
def rig() -> Rig:
    rig = Rig()
    rig.open()
    rig.door._thread = None  # the test is the program's thread too
    return rig


def mail(position: int) -> Offer:
    return Offer("s2", position, 10 + position, b"m%d" % position)


def test_before_and_after_its_life_a_station_takes_and_gives_nothing() -> None:
    rig = Rig()
    for call in (lambda: rig.door.send("s2", b"x", None), lambda: rig.door.receive(None)):
        with pytest.raises(StationStopped, match="does not run yet"):
            call()
    rig.open()
    rig.door.offer([mail(1)])
    rig.door.close("it is over")
    for call in (lambda: rig.door.send("s2", b"x", None), lambda: rig.door.receive(None)):
        with pytest.raises(StationStopped, match="it is over"):
            call()
    assert rig.door.reader is None


def test_send_returns_the_number_or_raises_what_the_station_says(rig: Rig) -> None:
    program = Program(lambda: rig.door.send("s2", bytearray(b"x"), None))
    request = rig.next()
    assert isinstance(request, Sending) and (request.to, request.body) == ("s2", b"x")
    request.result.set_running_or_notify_cancel()
    request.result.set_result(7)
    assert program.get() == 7
    program = Program(lambda: rig.door.send("s2", b"x", None))
    rig.next().result.set_exception(MailRefused("retired", "no"))
    with pytest.raises(MailRefused):
        program.get()
    assert not rig.door._open


@pytest.mark.parametrize(
    ("station", "body", "timeout", "error", "told"),
    [
        (["s2"], b"x", None, TypeError, "one station, by its id: a str, not list"),
        (None, b"x", None, TypeError, "not NoneType"),
        ("s2", "text", None, TypeError, "bytes, not str"),
        ("s2", 5, None, TypeError, "bytes, not int"),
        ("s2", b"x", "5", TypeError, "number of seconds or None, not str"),
        ("s2", b"x", math.nan, ValueError, "not nan"),
    ],
)
def test_what_cannot_be_sent_is_refused_to_the_caller_and_asked_of_nobody(
    rig: Rig, station: Any, body: Any, timeout: Any, error: type[Exception], told: str
) -> None:
    with pytest.raises(error, match=told):
        rig.door.send(station, body, timeout)
    assert not rig.door.requests
    if timeout is not None:
        rig.door.offer([mail(1)])
        with pytest.raises(error, match=told):
            rig.door.receive(timeout)
        assert rig.door.reader is None


@pytest.mark.parametrize("timeout", [math.inf, 1e300, 10**400], ids=["inf", "1e300", "10^400"])
def test_a_time_beyond_all_clocks_is_without_limit(rig: Rig, timeout: float) -> None:
    sender = Program(lambda: rig.door.send("s2", b"x", timeout))
    request = rig.next()
    request.result.set_running_or_notify_cancel()
    request.result.set_result(7)
    assert sender.get() == 7
    reader = Program(lambda: rig.door.receive(timeout))
    rig.door.offer([mail(1)])
    assert reader.get().body == b"m1"


def test_a_forked_child_is_told_that_the_station_belongs_to_another_process(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig.door.offer([mail(1)])
    message = rig.door.receive(0)
    assert message is not None
    monkeypatch.setattr(os, "getpid", lambda: -1)
    with rig.door._changed:  # held by another thread as the process was forked
        for call in (lambda: rig.door.send("s2", b"x", None), lambda: rig.door.receive(None), message.ack):
            program = Program(call)
            with pytest.raises(StationStopped, match="forked: this station belongs to the process that runs it"):
                program.get()
    assert not rig.door.requests


def test_a_send_that_is_not_taken_in_time_is_given_up_for_good(rig: Rig) -> None:
    rig.door.hindrance = "no peer has answered"
    with pytest.raises(MailRefused, match="no peer has answered") as caught:
        rig.door.send("s2", b"x", 0.01)
    assert caught.value.code == "not-now"
    assert not rig.next().result.set_running_or_notify_cancel(), "the station must not take it any more"


def test_a_send_that_is_being_taken_is_waited_for_beyond_its_time(rig: Rig) -> None:
    program = Program(lambda: rig.door.send("s2", b"x", 0.05))
    request = rig.next()
    assert request.result.set_running_or_notify_cancel()
    program._thread.join(0.1)
    assert not program.result.done()
    request.result.set_result(3)
    assert program.get() == 3


def test_a_station_that_ends_tells_whether_the_mail_may_have_been_taken(rig: Rig) -> None:
    one, two = (Program(lambda: rig.door.send("s2", b"x", None)) for _ in range(2))
    taken, left = rig.next(), rig.next()
    taken.result.set_running_or_notify_cancel()
    rig.door.close("the disk is broken")
    told = []
    for program in (one, two):
        with pytest.raises(StationStopped, match="the disk is broken") as caught:
            program.get()
        told.append(type(caught.value))
    assert sorted(told, key=str) == sorted([MailUnknown, StationStopped], key=str)
    assert left.result.done() and taken.result.done()


def test_the_next_receive_acknowledges_the_one_before(rig: Rig) -> None:
    rig.door.offer([mail(1), mail(2)])
    first = rig.door.receive(0)
    assert isinstance(first, StationMessage) and (first.sender, first.body, first.number) == ("s2", b"m1", 11)
    assert not rig.door.requests
    second = rig.door.receive(0)
    assert isinstance(second, StationMessage) and second.body == b"m2"
    taking = rig.next()
    assert isinstance(taking, Taking) and (taking.upto, taking.lost) == (1, 0)
    assert rig.door.receive(0) is None
    assert rig.next().upto == 2
    assert rig.door.receive(0.01) is None and not rig.door.requests


def test_ack_returns_when_it_is_durable_and_the_next_receive_adds_nothing(rig: Rig) -> None:
    rig.door.offer([mail(1), mail(2)])
    message = rig.door.receive(0)
    assert message is not None
    program = Program(message.ack)
    taking = rig.next()
    assert not program.result.done()
    rig.door.taken(taking.upto, taking.lost)
    taking.result.set_result(None)
    program.get()
    second = rig.door.receive(0)
    assert isinstance(second, StationMessage) and second.body == b"m2" and not rig.door.requests


def test_losses_come_with_the_mail_and_are_acknowledged_for_themselves(rig: Rig) -> None:
    rig.door.offer([Offer("s3", 0, lost=3, numbers=(4, 5)), mail(1)])
    loss = rig.door.receive(0)
    assert isinstance(loss, MailLoss) and (loss.station, loss.numbers) == ("s3", (4, 5))
    assert isinstance(rig.door.receive(0), StationMessage)
    taking = rig.next()
    assert (taking.upto, taking.lost) == (0, 3)


def test_what_somebody_else_has_taken_is_not_given(rig: Rig) -> None:
    rig.door.offer([mail(1), Offer("s3", 0, lost=3), mail(2), mail(3)])
    rig.door.taken(2, 0)
    assert [(one.position, one.lost) for one in rig.door._offers] == [(0, 3), (3, 0)]
    rig.door.taken(0, 3)
    assert [one.position for one in rig.door._offers] == [3]


def test_a_reader_that_waits_is_woken_by_mail_and_by_the_end(rig: Rig) -> None:
    program = Program(lambda: rig.door.receive(None))
    rig.door.offer([mail(1)])
    assert program.get().body == b"m1"
    program = Program(lambda: rig.door.receive(None))
    rig.next()
    rig.door.close("over")
    with pytest.raises(StationStopped):
        program.get()


def test_a_program_does_not_read_beside_a_command(rig: Rig) -> None:
    command = object()
    rig.door.become_reader(command, "a command")
    with pytest.raises(MailReaderBusy, match="read by a command"):
        rig.door.receive(0)
    rig.door.end_reading(object())
    with pytest.raises(MailReaderBusy):
        rig.door.receive(0)
    rig.door.end_reading(command)
    assert rig.door.receive(0) is None and rig.door.reader == "the program in which this station runs"


def test_the_stations_own_thread_is_told_that_it_cannot_wait_for_itself() -> None:
    rig = Rig()
    rig.open()
    with pytest.raises(RuntimeError, match="own thread"):
        rig.door.send("s2", b"x", None)
