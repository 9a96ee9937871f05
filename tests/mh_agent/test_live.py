"""Live messages of the agent as a library: sent now or not at all, never kept, whatever the link does."""

from __future__ import annotations

import asyncio
import os
import threading
import time
import weakref
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from roamcast.mh_agent import Agent, AgentClosed, AsyncAgent, BadAddressee, Live
from roamcast.mh_agent.agent import LIVE_TODO_MAX
from roamcast.mh_agent.cli import main
from roamcast.middleware.host_frames import Data, Hello, LiveData, LiveMsg, LiveRefused, Refused
from roamcast.middleware.rows import Kind

BODY = bytes(48 << 10)
FLOOD_S = 60.0


@pytest.fixture
def station(make_station: Callable[..., Any]) -> Any:
    """One that takes few frames before it is asked for them."""
    return make_station(queue=4)


@pytest.fixture
def attached(make_agent: Callable[..., Agent], station: Any) -> Agent:
    agent = make_agent()
    station.welcome()
    assert agent.wait_for(lambda: agent.status["state"] == "open", 10)
    return agent


def live(body: bytes, topic: str = "", kind: Kind = Kind.BROADCAST, left: int = 10_000_000) -> LiveMsg:
    return LiveMsg(0, (70, 2), "bob", 7, kind, topic, left, time.time_ns() // 1_000, body)


def dropped(agent: Agent, receipt: Any) -> str:
    assert agent.wait_for(lambda: receipt.state == "dropped", 10)
    reason: str = receipt.reason
    return reason


def test_it_goes_up_and_its_receipt_waits_for_nothing(attached: Agent, station: Any) -> None:
    receipts = [attached.broadcast(b"all", deadline=0.25), attached.send("bob", b"mail", deadline=1)]
    receipts.append(attached.broadcast(bytearray(b"topic"), "t", deadline=2))
    assert [receipt.wait() for receipt in receipts] == ["sent"] * 3
    frames = [station.expect(LiveData) for _ in range(3)]
    said = [(frame.to, frame.is_topic, frame.deadline, frame.body) for frame in frames]
    assert said == [
        (None, False, 250_000, b"all"), ("bob", False, 1_000_000, b"mail"), ("t", True, 2_000_000, b"topic")
    ]  # fmt: skip
    assert len({frame.tag for frame in frames}) == 3 and all(frame.tag for frame in frames)
    assert attached.status["live"] == {"sent": 3, "given": 0, "dropped": 0, "expired": 0}


def test_what_the_station_drops_is_told(attached: Agent, station: Any) -> None:
    first, second = attached.broadcast(b"1", deadline=1), attached.broadcast(b"2", deadline=1)
    tag = station.expect(LiveData).tag
    station.say(LiveRefused("expired", "it was over", tag))
    assert dropped(attached, first) == "expired" and second.state == "sent"
    assert attached.status["live"]["dropped"] == 1


def test_receipts_that_nobody_keeps_are_forgotten(attached: Agent, station: Any) -> None:
    gone = weakref.ref(attached.broadcast(b"1", deadline=1))
    station.say(LiveRefused("expired", "it was over", station.expect(LiveData).tag))
    assert gone() is None and attached.wait_for(lambda: attached.status["live"]["dropped"] == 1, 10)


def test_without_a_link_it_is_dropped_and_nothing_raised(make_agent: Callable[..., Agent], station: Any) -> None:
    agent = make_agent()
    receipt = agent.broadcast(b"x", deadline=1)
    assert (receipt.wait(), receipt.reason) == ("dropped", "not-attached")
    station.welcome()
    agent.broadcast(b"durable")
    station.expect(Data)
    assert not [frame for frame in station.heard if isinstance(frame, LiveData)], "it is not sent later either"


@pytest.mark.parametrize("deadline", [0, -1, float("nan"), float("inf")])
def test_no_such_deadline(attached: Agent, deadline: float) -> None:
    with pytest.raises(ValueError, match="deadline"):
        attached.send("bob", b"x", deadline=deadline)


@pytest.mark.parametrize("deadline", [10**400, 1e300, 86_401])
def test_a_deadline_of_more_than_a_day(attached: Agent, deadline: float) -> None:
    with pytest.raises(ValueError, match="deadline is more than 0 and at most 86400 seconds"):
        attached.broadcast(b"x", deadline=deadline)


@pytest.mark.parametrize("deadline", ["1", [], Decimal(1), True, b"1"])
def test_a_deadline_that_is_no_number(attached: Agent, station: Any, deadline: Any) -> None:
    for call in (attached.broadcast, lambda body, **more: attached.send("bob", body, **more)):
        with pytest.raises(TypeError, match=f"deadline is .* an int or a float, not {type(deadline).__name__}"):
            call(b"x", deadline=deadline)


@pytest.mark.parametrize("deadline", [None, 1])
def test_names_that_are_no_text(attached: Agent, deadline: float | None) -> None:
    for name in (5, b"t"):
        with pytest.raises(TypeError, match=f"topic is a str, not {type(name).__name__}"):
            attached.broadcast(b"x", topic=name, deadline=deadline)  # type: ignore[arg-type]
        with pytest.raises(TypeError, match=f"host is a str, not {type(name).__name__}"):
            attached.send(name, b"x", deadline=deadline)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="topic is a str"):
        attached.subscribe(5)  # type: ignore[arg-type]
    assert attached.status["outbox"] == 0


@pytest.mark.parametrize("deadline", [None, 1])
def test_mail_to_nobody_is_no_broadcast(attached: Agent, station: Any, deadline: float | None) -> None:
    with pytest.raises(BadAddressee, match="none is named"):
        attached.send(None, b"secret", deadline=deadline)  # type: ignore[arg-type]
    attached.send("bob", b"mail")
    frame = station.expect(Data)
    assert (frame.to, frame.number, frame.body) == ("bob", 1, b"mail")
    assert not [frame for frame in station.heard if isinstance(frame, LiveData)]


def test_what_makes_no_sense_is_raised(attached: Agent) -> None:
    with pytest.raises(ValueError, match="retained"):
        attached.broadcast(b"x", "t", retain=True, deadline=1)
    with pytest.raises(BadAddressee):
        attached.broadcast(b"x", "", deadline=1)
    attached.close()
    with pytest.raises(AgentClosed):
        attached.broadcast(b"x", deadline=1)


def test_nothing_is_written_for_it(
    attached: Agent, station: Any, credential: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    state, synced = credential.with_suffix(".state"), []
    before = state.read_bytes()
    monkeypatch.setattr(os, "fsync", synced.append)
    for _ in range(20):
        attached.broadcast(b"x", deadline=1)
    for _ in range(20):
        station.expect(LiveData)
    assert state.read_bytes() == before and not synced


def test_more_than_the_thread_can_take_is_dropped_at_once(attached: Agent, station: Any) -> None:
    with attached._mutex:  # its thread waits for that
        receipts = [attached.broadcast(b"%d" % i, deadline=1) for i in range(LIVE_TODO_MAX + 6)]
        attached.broadcast(b"durable")
    assert [receipt.state for receipt in receipts] == ["sent"] * LIVE_TODO_MAX + ["dropped"] * 6
    assert {receipt.reason for receipt in receipts[LIVE_TODO_MAX:]} == {"congested"}
    bodies = [station.expect(LiveData).body for _ in range(LIVE_TODO_MAX)]
    assert bodies == [b"%d" % i for i in range(LIVE_TODO_MAX)]
    assert station.expect(Data).body == b"durable" and attached.broadcast(b"x", deadline=1).state == "sent"


def test_a_link_that_takes_no_more(attached: Agent, station: Any) -> None:
    """The station does not read: live messages are dropped then, durable ones wait, and go in their place."""
    receipts: list[Any] = []
    end = time.monotonic() + FLOOD_S
    while not any(receipt.state == "dropped" for receipt in receipts):
        assert time.monotonic() < end, "the link takes everything"
        assert attached.wait_for(lambda: not attached._todo, 10)
        receipts.append(attached.broadcast(BODY, deadline=1))
    assert {receipt.reason for receipt in receipts if receipt.state == "dropped"} == {"congested"}
    durable = 20
    for i in range(durable):
        attached.broadcast(b"%d" % i + BODY)
        receipts.append(attached.broadcast(b"between", deadline=1))
    assert attached.wait_for(lambda: not attached._todo, 10) and len(attached._link._out) <= durable
    bodies = [station.expect(Data, FLOOD_S).body for _ in range(durable)]
    assert bodies == [b"%d" % i + BODY for i in range(durable)]
    attached.broadcast(b"last")
    station.expect(Data, FLOOD_S)
    came = [frame for frame in station.heard if isinstance(frame, LiveData)]
    assert len(came) == sum(receipt.state == "sent" for receipt in receipts)
    assert attached.status["live"]["dropped"] == len(receipts) - len(came)
    numbers = [frame.number for frame in station.heard if isinstance(frame, Data | LiveData)]
    assert numbers == sorted(numbers), "each behind the durable message before it"


def test_what_comes_is_an_event(attached: Agent, station: Any) -> None:
    station.say(live(b"all"), live(b"mail", kind=Kind.MAIL), live(b"on t", "t", Kind.TOPIC))
    events = [attached.receive(10) for _ in range(3)]
    assert all(isinstance(event, Live) for event in events)
    assert [(event.sender, event.body, event.mail, event.topic) for event in events] == [
        ("bob", b"all", False, None), ("bob", b"mail", True, None), ("bob", b"on t", False, "t"),
    ]  # fmt: skip
    events[-1].ack()
    assert attached.status["live"]["given"] == 3


def test_what_the_application_takes_too_late_is_not_given(attached: Agent, station: Any) -> None:
    station.say(live(b"x", left=1))
    station.deliver(0, b"durable")
    assert attached.wait_for(lambda: attached.status["in_hand"] == 1, 10)
    assert attached.receive(10).body == b"durable"
    assert attached.status["live"]["expired"] == 1


def test_with_asyncio(credential: Path, station: Any) -> None:
    async def talk() -> None:
        async with AsyncAgent(str(credential)) as agent:
            await asyncio.to_thread(station.welcome)
            await asyncio.to_thread(agent.agent.wait_for, lambda: agent.agent.status["state"] == "open", 10)
            receipt = await agent.send("bob", b"x", deadline=1)
            assert await agent.wait(receipt, 10) == "sent"
            frame = await asyncio.to_thread(station.expect, LiveData)
            station.say(LiveRefused("unknown", "no member host bob", frame.tag), live(b"y"))
            assert (await agent.receive(10)).body == b"y" and receipt.reason == "unknown"

    asyncio.run(talk())


# ---- the command ----


def run_send(credential: Path, *options: str) -> tuple[threading.Thread, list[int]]:
    codes: list[int] = []
    command = ["send", str(credential), "hello", *options]
    thread = threading.Thread(target=lambda: codes.append(main(command)))
    thread.start()
    return thread, codes


@pytest.mark.parametrize(("code", "left"), [("", 0), ("clock", 3), ("overtaken", 3)])
def test_send_live(credential: Path, station: Any, capsys: pytest.CaptureFixture[str], code: str, left: int) -> None:
    sender, codes = run_send(credential, "--to", "bob", "--deadline", "0.2", "--timeout", "60")
    station.welcome()
    frame = station.expect(LiveData)
    assert (frame.to, frame.deadline, frame.body) == ("bob", 200_000, b"hello")
    if code:
        station.say(LiveRefused(code, "", frame.tag))
    sender.join(20)
    assert codes == [left]
    assert f"mh-agent: dropped: {code}" in capsys.readouterr().err if code else not capsys.readouterr().err


def test_send_live_that_is_never_attached(credential: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["send", str(credential), "hello", "--deadline", "1", "--timeout", "0.1"]) == 4
    assert "mh-agent: not-attached" in capsys.readouterr().err


def test_send_live_by_one_who_is_no_member(credential: Path, station: Any) -> None:
    sender, codes = run_send(credential, "--deadline", "1", "--timeout", "60")
    station.expect(Hello)
    station.say(Refused("revoked", "this host was revoked"))
    sender.join(20)
    assert codes == [3]


@pytest.mark.parametrize(
    "options", [("0",), ("-1",), ("nan",), ("inf",), ("1e300",), ("x",), ("1", "--retain", "--topic", "t")]
)
def test_send_live_wrongly(credential: Path, options: tuple[str, ...]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["send", str(credential), "hello", "--deadline", *options])
    assert ended.value.code == 2
