"""The agent as a library, with real sockets and a real file."""

from __future__ import annotations

import asyncio
import os
import threading

import pytest

from roamcast.mh_agent import Agent, AgentClosed, AgentEnded, AsyncAgent, Discontinuity, Message, StateError
from roamcast.mh_agent.cli import main
from roamcast.middleware.errors import LocalProtocolError
from roamcast.middleware.host_frames import (
    Ack,
    Ask,
    Data,
    Detach,
    Fates,
    Hello,
    Leave,
    Left,
    Move,
    Ping,
    Pong,
    Refused,
    Seen,
    Uack,
)
from roamcast.middleware.mobile_host.settings import AgentSettings
from roamcast.transport.curve import generate

QUICK = AgentSettings(ack_delay=10_000)


def test_messages_come_in_order_and_taking_acknowledges_the_one_before(make_agent, station):
    agent = make_agent(settings=QUICK)
    station.welcome()
    station.deliver(0, b"1", b"2")
    first, second = agent.receive(10), agent.receive(10)
    assert [(m.sender, m.body, m.own, m.mail, m.id) for m in (first, second)] == [
        ("bob", b"1", False, False, (2, 1)),
        ("bob", b"2", False, False, (2, 2)),
    ]
    assert station.expect(Ack).c == 0
    assert station.expect(Ack).c == 1


def test_receive_without_a_message_returns_none(make_agent):
    assert make_agent().receive(0.01) is None


def test_acknowledged_is_done_with_and_the_rest_comes_again(make_agent, station):
    agent = make_agent(acknowledge="manual")
    station.welcome()
    station.deliver(0, b"1", b"2")
    agent.receive(10).ack()
    agent.receive(10)
    agent.close()
    agent = make_agent(acknowledge="manual")
    hello = station.welcome(at=1)
    assert (hello.le, hello.c) == (1, 1)
    station.deliver(1, b"2")
    assert agent.receive(10).body == b"2"


def test_leaving_the_block_acknowledges_the_last_one_unless_by_an_error(credential, station):
    with Agent(credential) as agent:
        station.welcome()
        station.deliver(0, b"1", b"2")
        agent.receive(10)
    with pytest.raises(ZeroDivisionError), Agent(credential) as agent:
        assert station.welcome(at=1).c == 1
        station.deliver(1, b"2")
        agent.receive(10)
        raise ZeroDivisionError
    with Agent(credential):
        assert station.expect(Hello).c == 1


def test_accepted_message_is_in_the_file_and_goes_up_when_there_is_a_link(make_agent, station, credential):
    agent = make_agent()
    receipt = agent.broadcast(bytearray(b"before any link"))
    assert receipt.state == "pending"
    assert b"before any link" in credential.with_suffix(".state").read_bytes()
    station.welcome()
    data = station.expect(Data)
    assert data.body == b"before any link"
    station.say(Uack(1, data.number, 1, 30))
    assert receipt.wait(10) == "stored"
    assert receipt.id == (1, 30)


def test_receipt_that_does_not_come_stays_pending(make_agent):
    assert make_agent().broadcast(b"x").wait(0.01) == "pending"


def test_text_is_no_body(make_agent):
    with pytest.raises(TypeError):
        make_agent().broadcast("text")


def test_discontinuity_is_an_event(make_agent, station):
    agent = make_agent()
    station.welcome(gap=True)
    assert isinstance(agent.receive(10), Discontinuity)


def test_close_says_the_acknowledgements_and_goodbye(make_agent, station):
    agent = make_agent(acknowledge="manual")
    station.welcome()
    station.deliver(0, b"1")
    agent.receive(10).ack()
    agent.close()
    station.expect(Detach)
    assert any(frame == Ack(1, 1) for frame in station.heard)
    with pytest.raises(AgentClosed):
        agent.broadcast(b"x")
    agent.close()


def test_iteration_ends_when_the_agent_is_closed(make_agent, station):
    agent = make_agent()
    station.welcome()
    station.deliver(0, b"1")
    bodies = []
    for message in agent:
        bodies.append(message.body)
        threading.Timer(0, agent.close).start()
    assert bodies == [b"1"]


def test_leave_ends_the_iteration(make_agent, station):
    agent = make_agent()
    station.welcome()
    leaver = threading.Thread(target=agent.leave)
    leaver.start()
    station.expect(Leave)
    station.say(Left())
    leaver.join()
    assert list(agent) == []
    with pytest.raises(AgentEnded):
        agent.broadcast(b"x")


def test_leave_that_nobody_confirms_times_out(make_agent):
    with pytest.raises(TimeoutError):
        make_agent().leave(0.01)


def test_final_refusal_is_an_error_for_the_iteration(make_agent, station):
    agent = make_agent()
    station.expect(Hello)
    station.say(Refused("revoked", "no longer"))
    with pytest.raises(AgentEnded, match="revoked: no longer"):
        list(agent)


def test_suspend_closes_sockets_and_context_and_resume_attaches(make_agent, station):
    agent = make_agent()
    station.welcome()
    station.expect(Ack)
    agent.suspend()
    assert (agent._link._open, agent._link._context) == (None, None)
    agent.broadcast(b"meanwhile")
    assert agent.status["state"] == "off"
    agent.resume()
    assert station.welcome().le == 1
    assert station.expect(Data).body == b"meanwhile"


def test_drain_gives_all_that_waits_and_says_goodbye(make_agent, station):
    agent = make_agent()
    station.expect(Hello)  # of the connection that suspend() closes
    agent.suspend()
    bodies = []

    def drain() -> None:
        bodies.extend(event.body for event in agent.drain(10))

    drainer = threading.Thread(target=drain)
    drainer.start()
    station.welcome()
    station.deliver(0, b"1", b"2")
    for _ in range(2):
        while station.expect(Ping).c != 2:
            station.say(Pong(2))
        station.say(Pong(2))
    station.expect(Detach)
    drainer.join()
    assert bodies == [b"1", b"2"]
    assert agent.status["state"] == "off"


def test_status_names_stations_and_is_told_when_it_changes(make_agent, station):
    told = []
    opened = threading.Event()

    def on_status(status: dict) -> None:
        told.append((status["state"], status["station"]))
        if status["state"] == "open":
            opened.set()

    agent = make_agent(on_status=on_status)
    station.welcome()
    assert opened.wait(10)
    assert told[-1] == ("open", "north")
    assert agent.status["name"] == "ada"


def test_stations_that_join_are_learnt_and_known_after_a_restart(make_agent, station, make_station):
    """And a station that has another key or address now is called there."""
    south, north = make_station(), make_station()
    agent = make_agent()
    station.welcome(stations=(north.listed("north", 1), south.listed("south", 2)))
    assert agent.wait_for(lambda: agent.status["stations"] == ["north", "south"], 10)
    agent.move("south")
    assert south.welcome().last == 1
    assert agent.wait_for(lambda: (agent.status["state"], agent.status["station"]) == ("open", "south"), 10)
    agent.close()
    agent = make_agent()
    assert south.welcome().last == 2
    agent.move("north")
    assert north.welcome().last == 2


def test_move_of_the_station_attaches_at_another_one_at_once(make_agent, station, make_station):
    south = make_station()
    agent = make_agent()
    station.welcome()
    receipt = agent.broadcast(b"on the way")
    station.expect(Data)
    station.say(Move((station.listed("north", 1), south.listed("south", 2))))
    south.welcome()
    assert south.expect(Data).body == b"on the way"
    south.say(Uack(2, 1, 2, 1))
    assert receipt.wait(10) == "stored"


def test_message_that_went_with_a_lost_station_is_told_by_its_receipt(make_agent, station):
    agent = make_agent()
    station.welcome()
    receipt = agent.broadcast(b"x")
    station.expect(Data)
    station.say(Uack(1, 1, 1, 1))
    assert receipt.wait(10) == "stored"
    station.say(Ask(1))
    assert station.expect(Seen) == Seen(1, (), 1, 1, (1,))
    station.say(Fates(1, (1,)))
    assert agent.wait_for(lambda: receipt.state == "lost", 10)


@pytest.mark.parametrize(("endpoint", "key"), [("tcp://127.0.0.1:7001", b"\xff" * 40), ("nowhere", b"y" * 40)])
def test_station_list_with_an_impossible_entry_stops_nobody(make_agent, station, endpoint, key):
    agent = make_agent()
    station.welcome(stations=(("north", 1, endpoint, key),))
    assert agent.wait_for(lambda: agent.status["state"] == "open", 10)
    agent.network_changed()
    assert agent.wait_for(lambda: "no connection" in (agent.status["problem"] or ""), 10)
    assert station.welcome().e > 1  # of the credential: after a whole round


def test_move_knows_only_the_stations_of_the_list(make_agent):
    with pytest.raises(LocalProtocolError, match="south"):
        make_agent().move("south")


def test_wrong_station_key_is_told_apart(make_credential, make_agent):
    make_credential(key=generate().public)
    agent = make_agent()
    assert agent.wait_for(lambda: "authentication failed" in (agent.status["problem"] or ""), 10)


def test_nobody_there_is_told_apart(make_agent, station):
    station.socket.close()
    agent = make_agent()
    assert agent.wait_for(lambda: agent.status["problem"] == "unreachable", 10)


def test_bad_frame_is_told_once_and_stays_in_sight(make_agent, station, caplog):
    agent = make_agent()
    for _ in range(2):
        station.welcome()
        station.socket.send_multipart([station.channel, b"\xff"])
    assert station.welcome().e == 3
    assert agent.wait_for(lambda: agent.status["state"] == "open", 10)
    assert agent.status["problem"].startswith("bad frame: ")
    warnings = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert len(warnings) == 1 and agent.status["problem"] in warnings[0]
    station.deliver(0, b"1")
    assert agent.receive(10).body == b"1"
    assert agent.status["problem"] is None


def test_state_that_cannot_be_kept_stops_the_agent(make_agent, station):
    class Full:
        left = 3

        def load(self) -> bytes:
            return b""

        def append(self, data: bytes) -> None:
            self.left -= 1
            if self.left < 0:
                raise OSError(28, "No space left on device")

    agent = make_agent(state=Full())
    station.welcome()
    station.expect(Ack)
    agent.broadcast(b"1")
    station.expect(Data)
    with pytest.raises(AgentClosed, match="No space"):
        agent.broadcast(b"2")
    with pytest.raises(AgentClosed):
        list(agent)
    with pytest.raises(AssertionError, match="no Data"):
        station.expect(Data, patience_s=0.1)


def test_second_agent_on_one_state_is_refused(make_agent, credential):
    make_agent()
    with pytest.raises(StateError, match="in use"):
        Agent(credential)


def test_ephemeral_agent_leaves_no_file(make_agent, station, credential):
    agent = make_agent(state=None)
    assert station.welcome().ephemeral
    agent.close()
    assert not credential.with_suffix(".state").exists()


def test_calls_in_a_forked_child_raise(make_agent):
    agent = make_agent()
    child = os.fork()
    if not child:
        code = 1
        try:
            agent.receive(1)
        except AgentClosed:
            code = 0
        finally:
            agent.close()
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert agent.receive(0.01) is None


def test_async_agent(credential, station):
    async def run() -> list:
        async with AsyncAgent(credential) as agent:
            await asyncio.to_thread(station.welcome)
            station.deliver(0, b"1", b"2")
            seen = [await agent.receive(10)]
            async for event in agent:
                seen.append(event)
                break
            assert await agent.receive(0.01) is None
            receipt = await agent.broadcast(b"x")
            station.say(Uack(1, (await asyncio.to_thread(station.expect, Data)).number, 1, 1))
            assert await agent.wait(receipt, 10) == "stored"
            with pytest.raises(AttributeError):
                agent.fly  # noqa: B018
        with pytest.raises(StopAsyncIteration):
            await anext(agent)
        return seen

    seen = asyncio.run(run())
    assert all(isinstance(event, Message) for event in seen)
    assert [event.body for event in seen] == [b"1", b"2"]


def test_command_send(credential, station, capsys):
    codes = []
    sender = threading.Thread(target=lambda: codes.append(main(["send", str(credential), "hello"])))
    sender.start()
    station.welcome()
    data = station.expect(Data)
    assert (data.body, data.to) == (b"hello", None)
    station.say(Uack(1, 1, 1, 1))
    sender.join()
    assert codes == [0]


def test_command_send_in_vain_is_undecided_and_stays_queued(credential, station, capsys):
    assert main(["send", str(credential), "hello", "--timeout", "0.01"]) == 4
    assert "pending" in capsys.readouterr().err
    with Agent(credential) as agent:
        assert agent.status["outbox"] == 1


def test_command_without_a_credential_could_not_run(tmp_path, capsys):
    assert main(["listen", str(tmp_path / "none.toml")]) == 3
    assert "none.toml" in capsys.readouterr().err


def test_wrong_use_of_the_command():
    with pytest.raises(SystemExit) as exit_:
        main(["dance"])
    assert exit_.value.code == 2
