"""The chat's client: what it makes of events, and what it sends for them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from chat.client import ChatClient, News

from roamcast.mh_agent import Discontinuity, Message, Presence, Receipt, StateLost, Subscription


class Told:
    """Stands where the agent stands, and keeps what it is asked to do."""

    def __init__(self) -> None:
        self.subscribed: list[str] = []
        self.sent: list[tuple[str, str, str]] = []
        self.receipts: list[Receipt] = []

    def subscribe(self, topic: str) -> Receipt:
        self.subscribed.append(topic)
        return self._receipt()

    def unsubscribe(self, topic: str) -> Receipt:
        self.subscribed.remove(topic)
        return self._receipt()

    def broadcast(self, body: bytes, topic: str, retain: bool) -> Receipt:
        told = json.loads(body)
        assert retain == (told["what"] == "subject")
        self.sent.append((topic, told["what"], told["text"]))
        return self._receipt()

    def send(self, host: str, body: bytes) -> Receipt:
        told = json.loads(body)
        self.sent.append((f"to {host}", told["what"], told["text"]))
        return self._receipt()

    def _receipt(self) -> Receipt:
        self.receipts.append(Receipt(None, len(self.receipts) + 1))  # type: ignore[arg-type]
        return self.receipts[-1]


@pytest.fixture
def agent() -> Told:
    return Told()


@pytest.fixture
def ada(agent: Told) -> ChatClient:
    client = ChatClient(agent)  # type: ignore[arg-type]
    client.join("lobby")
    assert client.take(change("lobby", "subscribed")) == News("in", "lobby")
    agent.sent.clear()
    return client


def change(topic: str, state: str, reason: str = "") -> Subscription:
    return Subscription(None, 0, topic, state, reason)  # type: ignore[arg-type]


def message(what: str, text: str, sender: str = "bob", topic: str | None = "lobby", **more: Any) -> Message:
    body = json.dumps({"what": what, "text": text}).encode()
    fields = {"own": sender == "ada", "mail": topic is None, "id": (1, 1), "topic": topic, **more}
    return Message(None, 0, sender, body, **fields)  # type: ignore[arg-type]


def presence(online: bool, retained: bool = False) -> Presence:
    return Presence(None, 0, "bob", online, 1, retained, (1, 1))  # type: ignore[arg-type]


def test_who_comes_in_says_so_and_who_is_there_answers(agent: Told) -> None:
    client = ChatClient(agent)  # type: ignore[arg-type]
    client.take(change("lobby", "subscribed"))
    assert agent.sent == [("lobby", "joins", "")]
    assert client.take(message("joins", "", "bob")) == News("joins", "lobby", "bob")
    assert agent.sent[1:] == [("to bob", "here", "lobby")]
    assert client.take(message("here", "lobby", "eve", None)) is None
    assert client.rooms["lobby"].people == {"bob", "eve"}
    assert agent.subscribed == ["$presence/bob", "$presence/eve"]
    client.take(message("here", "elsewhere", "eve", None))
    assert [*client.rooms] == ["lobby"]
    client.take(message("leaves", "", "bob"))
    assert client.rooms["lobby"].people == {"eve"}


def test_the_newest_subject_stays_whatever_comes_last(ada: ChatClient) -> None:
    old = ada.take(message("subject", "tea", stamp=(5, 1), retained=True))
    assert old == News("subject", "lobby", "bob", "tea")
    assert ada.take(message("subject", "cake", stamp=(7, 2))) == News("sets", "lobby", "bob", "cake")
    assert ada.take(message("subject", "milk", stamp=(7, 1))) is None
    assert ada.rooms["lobby"].subject == "cake"


def test_presence_is_news_only_when_it_changes(ada: ChatClient) -> None:
    ada.take(message("says", "hello"))
    assert ada.take(presence(True, retained=True)) is None
    assert ada.take(presence(False)) == News("goes", who="bob")
    assert ada.take(presence(False)) is None
    assert ada.take(presence(True)) == News("comes", who="bob")
    assert ada.take(change(Presence.topic("bob"), "refused", "no such topic")) is None


def test_a_room_that_one_may_not_be_in_is_left(ada: ChatClient) -> None:
    assert ada.take(change("vault", "refused", "no right to receive")) == News(
        "refused", "vault", "", "no right to receive"
    )
    assert ada.take(change("lobby", "ended")) == News("out", "lobby", text="the right was taken back")
    assert not ada.rooms


def test_after_a_lost_state_or_the_end_of_all_everything_is_asked_for_again(agent: Told, ada: ChatClient) -> None:
    ada.take(message("says", "hello"))
    for event in (StateLost(None, 0), change("", "ended")):  # type: ignore[arg-type]
        agent.subscribed.clear()
        assert ada.take(event) == News("missed")
        assert agent.subscribed == ["lobby", "$presence/bob"]
    agent.subscribed.clear()
    assert ada.take(Discontinuity(None, 0)) == News("missed")  # type: ignore[arg-type]
    assert not agent.subscribed


def test_what_was_refused_or_lost_is_told_once(agent: Told, ada: ChatClient) -> None:
    first, second = ada.say("lobby", "one"), ada.say("lobby", "two")
    first.state = "stored"
    assert not [*ada.troubles()]
    first.state, first.reason, second.state = "refused", "no right to send on 'lobby'", "lost"
    assert [*ada.troubles()] == [
        News("unsaid", "lobby", text="no right to send on 'lobby'"), News("unsaid", "lobby", text="lost"),
    ]  # fmt: skip
    assert not [*ada.troubles()]


@pytest.mark.parametrize(
    "body", [b"plain words", b"", b"[1]", b'{"what": "shouts", "text": "x"}', b'{"what": "says"}', b"\xff"]
)
def test_what_is_no_chat_is_shown_as_it_is(ada: ChatClient, body: bytes) -> None:
    told = message("says", "")
    told.body = body
    assert ada.take(told) == News("says", "lobby", "bob", body.decode(errors="backslashreplace"))
