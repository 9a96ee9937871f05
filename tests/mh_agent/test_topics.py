"""Topics as an application and the command line see them, with real sockets and a real file."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading

import pytest

from roamcast.mh_agent import Agent, AsyncAgent, BadAddressee, Message, Presence, StateLost, Subscription
from roamcast.mh_agent.cli import main
from roamcast.middleware.delivery_log import GIVEN, SENT
from roamcast.middleware.host_frames import Ack, Data, Hello, Msg, Reset, TopicData, Uack, Unsubscribed
from roamcast.middleware.rows import Item, Kind
from roamcast.transport.segment import read_segment

COMMAND = [sys.executable, "-c", "import sys; from roamcast.mh_agent.cli import main; sys.exit(main())"]


def own(hello: Hello, n: int, number: int, kind: Kind, topic: str, body: bytes = b"") -> Item:
    """A message of this host as it comes back, number n of station 1."""
    hlc = n if kind >= Kind.TOPIC else 0
    return Item(1, n, hello.name, hello.incarnation & 0xFFFFFFFF, number, kind, body, topic, hlc)


def on(n: int, kind: Kind, topic: str, body: bytes = b"", sender: str = "bob", hlc: int = 0, number: int = 1) -> Item:
    return Item(2, n, sender, 7, number, kind, body, topic, hlc)


def test_a_topic_from_the_call_to_its_last_event(make_agent, station):
    agent = make_agent()
    receipt = agent.subscribe("weather")
    agent.unsubscribe("weather")
    hello = station.welcome()
    assert station.expect(TopicData) == TopicData(1, 1, 0, Kind.SUB, "weather", b"")
    news = on(8, Kind.TOPIC, "weather", b"rain", hlc=80)
    station.say(Msg(0, 3, (
        (1, own(hello, 5, 1, Kind.SUB, "weather")),
        (1, on(3, Kind.RETAINED, "weather", b"sun", hlc=70)),
        (2, news),
        (3, own(hello, 6, 2, Kind.UNSUB, "weather")),
    )))  # fmt: skip
    change, value, message, end = [agent.receive(10) for _ in range(4)]
    assert change == Subscription(None, 0, "weather", "subscribed")
    assert value == Message(None, 0, "bob", b"sun", False, False, (2, 3), "weather", True, (70, 2))
    assert message == Message(None, 0, "bob", b"rain", False, False, (2, 8), "weather", False, (80, 2))
    assert message.stamp > value.stamp
    assert end == Subscription(None, 0, "weather", "unsubscribed")
    assert receipt.wait(10) == "stored"
    assert receipt.id == (1, 5)
    agent.close()
    while station.expect(Ack).c != 3:
        pass


def test_what_is_sent_on_a_topic_is_kept_and_goes_up_as_it_is(make_agent, station, credential):
    agent = make_agent()
    agent.broadcast(b"sun", "weather")
    agent.broadcast(b"rain", topic="weather", retain=True)
    agent.unsubscribe("weather")
    assert b"rain" in credential.with_suffix(".state").read_bytes()
    station.welcome()
    assert [(frame.kind, frame.body) for frame in (station.expect(TopicData) for _ in range(3))] == [
        (Kind.TOPIC, b"sun"), (Kind.RETAINED, b"rain"), (Kind.UNSUB, b""),
    ]  # fmt: skip


def test_names_and_calls_that_cannot_be(make_agent):
    agent = make_agent()
    for call in (lambda: agent.subscribe(""), lambda: agent.broadcast(b"x", "a\nb"), lambda: agent.subscribe("x" * 97)):
        with pytest.raises(BadAddressee, match="topic"):
            call()
    with pytest.raises(BadAddressee, match="topic"):
        agent.broadcast(b"only a topic has a last value", retain=True)
    assert agent.broadcast(b"x").number == 1


def test_a_refusal_is_an_event_in_its_place_and_on_the_receipt(make_agent, station):
    agent = make_agent()
    hello = station.welcome()
    asked, sent = agent.subscribe("secret"), agent.broadcast(b"x", "secret")
    station.expect(TopicData)
    station.say(Msg(0, 2, (
        (1, own(hello, 5, 1, Kind.NOSUB, "secret", b"no right to receive")),
        (2, own(hello, 6, 2, Kind.REFUSED, "", b"no right to send")),
    )))  # fmt: skip
    assert agent.receive(10) == Subscription(None, 0, "secret", "refused", "no right to receive")
    assert agent.wait_for(lambda: sent.state == "refused", 10)
    assert (asked.state, asked.reason, sent.reason) == ("refused", "no right to receive", "no right to send")


def test_what_others_end_is_told_once_and_again_by_the_next_process_until_it_is_acknowledged(make_agent, station):
    agent = make_agent(acknowledge="manual")
    station.welcome(ended=((1, 5, "weather"),))
    assert agent.receive(10) == Subscription(None, 0, "weather", "ended")
    station.say(Unsubscribed(1, ((0, 0, ""), (1, 5, "weather"))))
    assert agent.receive(10) == Subscription(None, 0, "", "ended")
    agent.close()
    agent = make_agent(acknowledge="manual")
    assert [agent.receive(10).topic for _ in range(2)] == ["weather", ""]
    assert agent.receive(0.01) is None


def test_presence(make_agent, station):
    agent = make_agent()
    agent.subscribe(Presence.topic("bob"))
    station.welcome()
    assert station.expect(TopicData).topic == "$presence/bob"
    station.say(Msg(0, 2, (
        (1, on(3, Kind.ONLINE, "$presence/bob", hlc=9, number=4)),
        (2, on(4, Kind.OFFLINE, "$presence/bob", hlc=10, number=4)),
    )))  # fmt: skip
    assert [agent.receive(10) for _ in range(2)] == [
        Presence(None, 0, "bob", True, 4, False, (9, 2)), Presence(None, 0, "bob", False, 4, False, (10, 2)),
    ]  # fmt: skip


def test_async_agent_has_the_same_calls(credential, station):
    async def run() -> list:
        async with AsyncAgent(str(credential)) as agent:
            await asyncio.to_thread(station.welcome)
            await agent.subscribe("t")
            await agent.broadcast(b"x", topic="t", retain=True)
            receipt = await agent.unsubscribe("t")
            frames = [await asyncio.to_thread(station.expect, TopicData) for _ in range(3)]
            station.say(Uack(1, 3, 1, 3))
            assert await agent.wait(receipt, 10) == "stored"
            return frames

    frames = asyncio.run(run())
    assert [(frame.kind, frame.topic) for frame in frames] == [
        (kind, "t") for kind in (Kind.SUB, Kind.RETAINED, Kind.UNSUB)
    ]


def test_journal_has_what_stands_in_the_order_and_no_last_value(make_agent, station, tmp_path):
    agent = make_agent(journal=tmp_path / "journal", acknowledge="manual")
    hello = station.welcome()
    agent.subscribe("t")
    agent.broadcast(b"x", "t")
    agent.send("t", b"x")
    station.expect(Data)
    station.say(Msg(0, 9, (
        (2, own(hello, 5, 1, Kind.SUB, "t")),
        (2, on(3, Kind.RETAINED, "t", number=30)),
        (4, on(8, Kind.ONLINE, "$presence/bob", number=5)),
        (6, on(9, Kind.OFFLINE, "$presence/bob", number=4)),
        (7, on(10, Kind.TOPIC, "t", number=31)),
    )))  # fmt: skip
    events = [agent.receive(10) for _ in range(4)]
    events[-1].ack()
    agent.close()
    (segment,) = [read_segment(file.read_bytes()) for file in (tmp_path / "journal").glob("*.rclog")]
    given, sent = segment.columns(GIVEN), segment.columns(SENT)
    places = list(zip(given["c"], given["slot"], given["n"], given["number"], strict=True))
    assert places == [(2, 1, 5, 1), (4, 2, 8, 5), (7, 2, 10, 31)]
    assert list(zip(sent["number"], sent["addressee"], strict=True)) == [(1, "#t"), (2, "#t"), (3, "t")]


def test_command_listen_prints_what_is_what(credential, station):
    options = ["listen", str(credential), "--topic", "t", "--presence", "bob"]
    listener = subprocess.Popen([*COMMAND, *options], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    hello = station.welcome()
    assert [station.expect(TopicData).topic for _ in range(2)] == ["t", "$presence/bob"]
    station.say(Msg(0, 8, (
        (1, own(hello, 5, 1, Kind.SUB, "t")),
        (1, on(3, Kind.RETAINED, "t", b"last")),
        (2, on(4, Kind.TOPIC, "t", b"news")),
        (3, on(5, Kind.BROADCAST, "", b"all")),
        (4, on(6, Kind.ONLINE, "$presence/bob")),
        (5, on(7, Kind.OFFLINE, "$presence/bob")),
        (6, own(hello, 6, 2, Kind.NOSUB, "$presence/bob", b"no such topic")),
    )))  # fmt: skip
    lines = [listener.stdout.readline() for _ in range(6)]
    assert lines == [
        "!t\tsubscribed\n",
        "=t\tbob\tlast\n",
        "#t\tbob\tnews\n",
        "bob\tall\n",
        "@bob\tonline\n",
        "@bob\toffline\n",
    ]
    assert listener.stderr.readline() == "mh-agent: $presence/bob: refused: no such topic\n"
    station.say(Unsubscribed(1, ((1, 5, "t"),)))
    assert listener.stderr.readline() == "mh-agent: t: ended\n"
    station.say(Unsubscribed(1, ((0, 0, ""),)))
    assert listener.stderr.readline() == "mh-agent: all topics: ended\n"
    assert [station.expect(TopicData).number for _ in range(2)] == [3, 4], "asked for again"
    listener.terminate()
    listener.communicate()
    assert listener.returncode == 0


def test_a_lost_state_is_told_and_the_command_asks_again(credential, station):
    listener = subprocess.Popen(
        [*COMMAND, "listen", str(credential), "--topic", "t"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    station.welcome()
    station.expect(TopicData)
    station.say(Uack(1, 1, 1, 1), Reset(1))
    station.welcome()
    assert listener.stderr.readline() == f"mh-agent: {StateLost.__name__}\n"
    assert station.expect(TopicData) == TopicData(2, 1, 0, Kind.SUB, "t", b"")
    listener.terminate()
    listener.communicate()
    assert listener.returncode == 0


@pytest.mark.parametrize(
    ("options", "frame"),
    [
        (["--topic", "t"], TopicData(1, 1, 0, Kind.TOPIC, "t", b"hello")),
        (["--topic", "t", "--retain"], TopicData(1, 1, 0, Kind.RETAINED, "t", b"hello")),
    ],
)
@pytest.mark.parametrize("refused", [False, True])
def test_command_send_on_a_topic(credential, station, capsys, options, frame, refused):
    codes = []
    sender = threading.Thread(target=lambda: codes.append(main(["send", str(credential), *options, "hello"])))
    sender.start()
    hello = station.welcome()
    assert station.expect(TopicData) == frame
    station.say(Uack(1, 1, 1, 1))
    if refused:
        station.say(Msg(0, 1, ((1, own(hello, 1, 1, Kind.REFUSED, "", b"no such topic: 't'")),)))
    sender.join()
    assert codes == [3 if refused else 0]
    assert capsys.readouterr().err == ("mh-agent: refused: no such topic: 't'\n" if refused else "")


@pytest.mark.parametrize("options", [["--to", "bob", "--topic", "t"], ["--retain"], ["--retain", "--to", "bob"]])
def test_wrong_use_of_topics(credential, options, capsys):
    with pytest.raises(SystemExit) as exit_:
        main(["send", str(credential), *options, "hello"])
    assert exit_.value.code == 2


def test_help_tells_the_format(capsys):
    with pytest.raises(SystemExit):
        main(["listen", "--help"])
    text = capsys.readouterr().out
    assert all(first in text for first in ("sender", "#topic", "=topic", "!topic", "@host"))


def test_a_name_that_no_topic_has_could_not_run(credential, capsys):
    assert main(["send", str(credential), "--topic", "x" * 97, "hello"]) == 3
    assert "1 to 96 bytes" in capsys.readouterr().err
    with Agent(credential) as agent:
        assert agent.status["outbox"] == 0
