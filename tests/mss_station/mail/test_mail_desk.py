"""Programs and commands at a station: what waits for a tick, what is answered when, and who reads."""

from __future__ import annotations

import base64
from concurrent.futures import Future
from typing import Any

import pytest

from roamcast.middleware.causal_unicast.errors import MailRefused
from roamcast.middleware.causal_unicast.frames import MailBatch
from roamcast.middleware.causal_unicast.records import Mail
from roamcast.middleware.errors import Error
from roamcast.middleware.settings import SECOND
from roamcast.mss_station.errors import MailReaderBusy
from roamcast.mss_station.mail_door import PROGRAM, Sending, Taking


class Client:
    """A command's connection."""

    def __init__(self, station: Any) -> None:
        self.answers: list[dict[str, Any]] = []
        self.on_end = lambda: None
        self.stays = False
        self._commands = station.desk.commands

    def answer(self, answer: dict[str, Any]) -> None:
        self.answers.append(answer)

    def say(self, command: str, **fields: Any) -> None:
        self._commands[command](self, fields)

    def read(self, after: int = 0, follow: bool = False, keep: bool = False, process: int = 5) -> None:
        self.say("messages", after=after, follow=follow, keep=keep, process=process)

    def take(self) -> dict[str, Any]:
        (answer,) = self.answers
        self.answers.clear()
        return answer


@pytest.fixture
def client(station: Any) -> Client:
    return Client(station)


def ask(station: Any, to: str = "s2", body: bytes = b"x") -> Future[int]:
    sending = Sending(to, body, Future())
    station.door.requests.append(sending)
    return sending.result


def arrive(station: Any, *numbers: int) -> None:
    mails = tuple(Mail(2, 1, ((2, number),), (), b"m%d" % number) for number in numbers)
    station.hear(2, MailBatch(2, 1, mails))
    station.loop.tick()


def bodies(answer: dict[str, Any]) -> list[bytes]:
    return [base64.b64decode(mail["body"]) for mail in answer["mails"]]


# ---- sends ----


def test_a_mail_is_answered_for_when_it_is_durable(station: Any) -> None:
    first, second = ask(station), ask(station, "s3")
    station.desk.serve(0)
    assert not first.done() and station.loop.is_open
    station.loop.tick()
    assert (first.result(0), second.result(0)) == (1, 2)


def test_a_mail_of_a_tick_that_failed_is_refused_and_its_number_is_given_again(station: Any) -> None:
    first = ask(station)
    station.loop.guard.reason = "no room"
    station.loop.tick(fails=True)
    with pytest.raises(MailRefused, match="no room") as caught:
        first.result(0)
    assert caught.value.code == "store"
    second = ask(station)
    station.loop.tick()
    assert second.result(0) == 1


def test_no_mail_is_numbered_before_a_peer_has_answered_and_one_may_be_given_up_meanwhile(station: Any) -> None:
    """Or else a store that went back would give numbers that were given before."""
    station.loop.is_linked = False
    first, given_up = ask(station), ask(station)
    for _ in range(2):
        station.loop.tick()
    assert not first.done() and station.door.hindrance is not None and "no peer has answered" in station.door.hindrance
    assert given_up.cancel()
    station.loop.is_linked = True
    last = ask(station)
    station.loop.tick()
    assert (first.result(0), last.result(0)) == (1, 2) and station.door.hindrance is None


@pytest.mark.parametrize("state", ["reserve", "closed"])
def test_while_the_store_takes_nothing_mail_is_refused_at_once(station: Any, state: str) -> None:
    station.loop.guard.state, station.loop.guard.reason = state, "the disk is full"
    result = ask(station)
    station.desk.serve(0)
    with pytest.raises(MailRefused, match="the disk is full"):
        result.result(0)


def test_what_is_refused_takes_no_number(station: Any) -> None:
    bad, good = ask(station, "s9"), ask(station)
    station.loop.tick()
    with pytest.raises(MailRefused, match="no station 's9'"):
        bad.result(0)
    assert good.result(0) == 1


# ---- what a program takes ----


def test_what_a_program_has_taken_does_not_come_again_although_the_tick_failed(station: Any) -> None:
    arrive(station, 1, 2)
    taking = Taking(1, 0, Future())
    station.door.requests.append(taking)
    station.loop.tick(fails=True)
    assert not taking.result.done() and [one.position for one in station.offered()] == [2]
    station.loop.tick()
    assert taking.result.result(0) is None
    station.start()
    assert [one.position for one in station.offered()] == [2]


def test_while_the_store_is_closed_nothing_is_taken_and_then_it_is(station: Any) -> None:
    arrive(station, 1)
    taking = Taking(1, 0, Future())
    station.door.requests.append(taking)
    station.loop.guard.state = "closed"
    station.desk.serve(0)
    assert not station.loop.is_open and not taking.result.done()
    station.loop.guard.state = "open"
    station.loop.tick()
    assert taking.result.done()


# ---- commands ----


def test_message_is_answered_when_it_is_durable(station: Any, client: Client) -> None:
    client.say("message", to="s2", body=base64.b64encode(b"x").decode(), wait=10)
    assert not client.answers
    station.loop.tick()
    assert client.take() == {"ok": True, "number": 1}
    client.say("message", to="s9", body="", wait=10)
    answer = client.take()
    assert (answer["ok"], answer["code"], answer["wrong_use"]) == (False, "unknown-station", True)


def test_message_is_given_up_after_its_time(station: Any, client: Client) -> None:
    station.loop.is_linked = False
    client.say("message", to="s2", body="", wait=2.5)
    assert station.desk.waits_until() == round(2.5 * SECOND)
    station.loop.now = round(2.5 * SECOND)
    station.desk.serve(station.loop.now)
    answer = client.take()
    assert answer["code"] == "not-now" and "no peer has answered" in answer["error"] and not answer["wrong_use"]
    assert station.desk.waits_until() is None


@pytest.mark.parametrize("body", ["x", "=", "\u00e9"])
def test_message_without_base64_is_a_fault_of_the_request(client: Client, body: str) -> None:
    with pytest.raises(ValueError):
        client.say("message", to="s2", body=body, wait=1)


@pytest.mark.parametrize("field", ["to", "body"])
def test_message_without_text_is_a_fault_of_the_request(client: Client, field: str) -> None:
    with pytest.raises(Error, match=f"'{field}' must be text"):
        client.say("message", **{"to": "s2", "body": "", "wait": 1, field: None})


def test_messages_gives_what_waits_and_forgets_what_is_taken(station: Any, client: Client) -> None:
    client.read()
    assert client.take() == {"ok": True, "mails": [], "lost": []}
    assert client.stays, "it may print for as long as it likes"
    arrive(station, 1, 2, 3)
    client.read()
    answer = client.take()
    assert bodies(answer) == [b"m1", b"m2", b"m3"] and [mail["sender"] for mail in answer["mails"]] == ["s2"] * 3
    client.say("messages taken", upto=2, lost=[])
    assert not client.answers
    station.loop.tick()
    assert client.take() == {"ok": True}
    client.read()
    assert bodies(client.take()) == [b"m3"]
    assert [one.position for one in station.offered()] == [3]


def test_messages_that_follow_are_answered_as_soon_as_something_is_durable(station: Any, client: Client) -> None:
    client.read(follow=True)
    station.hear(2, MailBatch(2, 1, (Mail(2, 1, ((2, 1),), (), b"m1"),)))
    assert not client.answers
    station.loop.tick()
    assert bodies(client.take()) == [b"m1"]
    arrive(station, 2)
    assert not client.answers, "it has not asked again"
    client.read(after=1, follow=True)
    assert bodies(client.take()) == [b"m2"]


def test_one_reads_at_a_time_and_a_second_one_is_told_who(station: Any, client: Client) -> None:
    other, keeping = Client(station), Client(station)
    client.read(process=77)
    with pytest.raises(MailReaderBusy, match=r"read by mss-station messages \(process 77\)"):
        other.read(process=78)
    arrive(station, 1)
    keeping.read(keep=True)
    assert bodies(keeping.take()) == [b"m1"], "who acknowledges nothing disturbs nobody"
    with pytest.raises(Error, match="does not read"):
        keeping.say("messages taken", upto=1, lost=[])
    assert station.mail.status()["reader"] == "mss-station messages (process 77)"
    client.on_end()
    keeping.on_end()
    other.read(process=78)
    assert bodies(other.take()) == [b"m1"]
    other.on_end()
    station.door.become_reader(station.door, PROGRAM)
    with pytest.raises(MailReaderBusy, match="the program in which this station runs"):
        client.read()


def test_the_reader_is_a_connection_whatever_process_it_says_it_is(station: Any, client: Client) -> None:
    other, third = Client(station), Client(station)
    client.read(process=77)
    with pytest.raises(MailReaderBusy, match="process 77"):
        other.read(process=77)
    other.read(process=77, keep=True)
    other.on_end()
    with pytest.raises(MailReaderBusy):
        third.read(process=78)
    client.on_end()
    third.read(process=78)


def test_an_answer_has_a_bounded_size(station: Any, client: Client) -> None:
    arrive(station, *range(1, 301))
    client.read()
    first = client.take()
    assert len(first["mails"]) == 256
    client.read(after=first["mails"][-1]["position"])
    assert len(client.take()["mails"]) == 44


def test_losses_are_told_once_in_a_session_until_they_are_taken(station: Any, client: Client) -> None:
    station.send("s2", b"x")
    station.close_station(2, final=True)
    client.read(follow=True)
    station.loop.tick()
    assert client.take()["lost"] == [{"to": "s2", "slot": 2, "numbers": [1]}]
    client.read()
    assert client.take()["lost"] == []
    again = Client(station)
    again.read(keep=True)
    assert again.take()["lost"] != []
    client.say("messages taken", upto=0, lost=[2])
    station.loop.tick()
    assert client.take() == {"ok": True} and station.mail.losses == {}


def test_what_was_not_given_cannot_be_taken(station: Any, client: Client) -> None:
    client.read()
    client.take()
    with pytest.raises(Error, match="was not given"):
        client.say("messages taken", upto=7, lost=[])
    station.loop.guard.state = "closed"
    with pytest.raises(Error, match="nothing can be changed"):
        client.say("messages taken", upto=0, lost=[])
