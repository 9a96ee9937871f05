"""The witness journal of an agent: what it says of what the application was given and has sent, and when."""

from __future__ import annotations

import asyncio
import resource
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from roamcast.mh_agent import Agent, AgentClosed, AsyncAgent, Discontinuity, StateLost
from roamcast.mh_agent.cli import main
from roamcast.middleware.delivery_log import GAP, GIVEN, LOST, SENT
from roamcast.middleware.host_frames import Ack, Data, Hello, Reset, Uack
from roamcast.middleware.mobile_host.settings import AgentSettings
from roamcast.transport import witness
from roamcast.transport.segment import Segment, read_segment
from roamcast.transport.segment_folder import FolderInUse

ORDER = {GIVEN: ("e", "c", "slot", "n", "host32", "number"), SENT: ("number", "e", "c", "addressee"), GAP: ("e", "c")}


@pytest.fixture
def journal(tmp_path) -> Path:
    return tmp_path / "journal"


def segments(journal: Path) -> list[Segment]:
    contents = [file.read_bytes() for file in sorted(journal.glob("*.rclog"))]
    return [read_segment(content) for content in contents if content]  # one may just have been made


def told(journal: Path) -> list[tuple]:
    """(event, values) of all segments, in order."""
    rows = []
    for at, segment in enumerate(segments(journal)):
        for event in segment.names:
            columns = segment.columns(event)
            values = [columns[name] for name in ORDER.get(event, ())]
            for i, seq in enumerate(columns["seq"]):
                rows.append(((at, seq), event, *[column[i] for column in values]))
    return [row[1:] for row in sorted(rows)]


def given_at(position: int, e: int = 1) -> tuple:
    """As `StationEnd.deliver` makes it."""
    return (GIVEN, e, position, 2, position, 7, position)


def test_what_is_acknowledged_is_told_in_order_with_its_place(make_agent, station, journal):
    agent = make_agent(journal=journal, acknowledge="manual")
    station.welcome(at=10)
    station.deliver(10, b"1", b"2", b"3")
    messages = [agent.receive(10) for _ in range(3)]
    messages[1].ack()
    agent.close()
    assert told(journal) == [(LOST,), given_at(11), given_at(12)], "the third was given and never acknowledged"
    (segment,) = segments(journal)
    assert (segment.status, segment.header.writer, segment.header.group) == ("unsigned", "journal", "demo")
    assert (segment.header.id, segment.header.note) == ("ada", "")
    assert segment.header.incarnation & 0xFFFFFFFF == int(agent._core.status()["incarnation"], 16)


def test_taking_the_next_and_closing_count_as_acknowledging(make_agent, station, journal):
    agent = make_agent(journal=journal)
    station.welcome()
    station.deliver(0, b"1", b"2")
    agent.receive(10)
    agent.receive(10)
    agent.close()
    assert told(journal) == [(LOST,), given_at(1), given_at(2)]


def test_what_is_sent_is_told_with_what_had_been_given(make_agent, station, journal):
    agent = make_agent(journal=journal, acknowledge="manual")
    agent.broadcast(b"before any session")
    station.welcome(at=5)
    assert station.expect(Data).c == 5
    station.deliver(5, b"1", b"2")
    agent.receive(10)
    agent.send("bob", b"x")
    data = station.expect(Data)
    agent.close()
    assert told(journal) == [(LOST,), (SENT, 1, 0, 0, ""), (SENT, 2, 1, 6, "bob")]
    assert (data.number, data.e, data.c) == (2, 1, 6), "as the station is told"


def test_what_was_refused_was_not_sent(make_agent, station, journal):
    agent = make_agent(journal=journal, settings=AgentSettings(outbox_entries=1))
    agent.broadcast(b"x")
    with pytest.raises(Exception, match="wait"):
        agent.broadcast(b"y")
    agent.close()
    assert told(journal) == [(LOST,), (SENT, 1, 0, 0, "")]


def test_a_message_that_comes_again_in_the_next_session_is_told_once(make_agent, station, journal):
    agent = make_agent(journal=journal, acknowledge="manual")
    station.welcome()
    station.deliver(0, b"1", b"2")
    first = agent.receive(10)
    agent.network_changed()
    station.welcome(at=100)
    station.deliver(100)
    first.ack()
    agent.close()
    assert told(journal) == [(LOST,), given_at(1)], "at the place where it was given"


def test_gaps_and_a_new_incarnation_are_told(make_agent, station, journal):
    agent = make_agent(journal=journal, acknowledge="manual")
    hello = station.welcome(at=3, gap=True)
    gap = agent.receive(10)
    assert isinstance(gap, Discontinuity)
    gap.ack()
    station.deliver(3, b"1")
    agent.receive(10).ack()
    agent.network_changed()
    station.say(Reset(station.expect(Hello).e))
    lost = station.expect(Hello)
    assert lost.incarnation != hello.incarnation
    event = agent.receive(10)
    assert isinstance(event, StateLost)
    event.ack()
    agent.close()
    assert told(journal) == [(LOST,), (GAP, 1, 3), (GIVEN, 1, 4, 2, 4, 7, 4), (LOST,)]
    assert [segment.header.incarnation for segment in segments(journal)] == [hello.incarnation, lost.incarnation]
    assert [segment.events for segment in segments(journal)] == [3, 1], "to each what was given to it"
    assert segments(journal)[1].header.prev == segments(journal)[0].end


def test_messages_that_go_on_under_a_new_incarnation_are_sent_anew(make_agent, station, journal):
    agent = make_agent(journal=journal)
    hello = station.welcome()
    station.expect(Ack)  # it knows that it is welcome
    agent.broadcast(b"1")
    station.say(Uack(1, station.expect(Data).number, 1, 1))
    agent.suspend()
    agent.send("bob", b"2")
    agent.resume()
    station.say(Reset(station.expect(Hello).e))
    assert station.welcome().incarnation != hello.incarnation
    assert station.expect(Data).number == 1
    agent.close()
    assert told(journal) == [(LOST,), (SENT, 1, 1, 0, ""), (SENT, 2, 1, 0, "bob"), (LOST,), (SENT, 1, 0, 0, "bob")]


def test_it_is_written_while_the_agent_runs(make_agent, station, journal):
    agent = make_agent(journal=journal)
    assert until(lambda: told(journal) == [(LOST,)]), "a life that begins is told at once"
    for _ in range(20):
        agent.broadcast(b"x")
    assert until(lambda: len(told(journal)) == 21), "and the rest a second later"
    (segment,) = segments(journal)
    assert segment.status == "open" and segment.blocks <= 4
    agent.close()
    assert segments(journal)[0].status == "unsigned"


def test_it_is_written_when_enough_waits(make_agent, station, journal, monkeypatch):
    monkeypatch.setattr(witness, "BATCH_AGE", 1 << 50)
    agent = make_agent(journal=journal, state=Appended())
    assert until(lambda: told(journal) == [(LOST,)])
    for _ in range(255):
        agent.broadcast(b"x")
    assert not until(lambda: len(told(journal)) > 1, tries=20)
    agent.broadcast(b"x")
    assert until(lambda: len(told(journal)) == 257)


def until(condition: Callable[[], bool], tries: int = 500) -> bool:
    """Whether it holds within five seconds, or so many hundredths of one."""
    bell = threading.Event()
    for _ in range(tries):
        if condition():
            return True
        bell.wait(0.01)
    return False


def test_a_new_life_goes_on_in_the_next_segment(make_agent, station, journal):
    for number in (1, 2):
        agent = make_agent(journal=journal)
        agent.broadcast(b"x")
        agent.close()
        assert told(journal)[-1][:2] == (SENT, number)
    first, second = segments(journal)
    assert (second.header.prev, second.header.seq, second.header.note) == (first.end, 2, "")
    assert told(journal) == [(LOST,), (SENT, 1, 0, 0, ""), (SENT, 2, 0, 0, "")], "the state was there: nothing is lost"
    make_agent(journal=journal)
    assert until(lambda: len(segments(journal)) == 3), "also before anything is given or sent"


def test_a_journal_that_cannot_be_written_stops_nothing_and_is_said_once(make_agent, station, journal, caplog):
    agent = make_agent(journal=journal, state=Appended())
    assert until(lambda: told(journal) == [(LOST,)])
    assert agent.status["journal"] == {"problem": None, "unwritten": 0}
    station.welcome()
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, limits[1]))  # no file may grow: the disk is full
    try:
        for round in (1, 2):
            agent.broadcast(b"x")
            station.say(Uack(1, station.expect(Data).number, 1, round))
            assert until(lambda: agent.status["journal"]["unwritten"] == round)  # noqa: B023
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert agent.status["journal"]["problem"] == "File too large"
    station.deliver(0, b"1")
    assert agent.receive(10).body == b"1"
    agent.close()
    said = [record.message for record in caplog.records if "journal" in record.message]
    assert said == ["ada: the journal cannot be written: File too large"]
    assert told(journal) == [(LOST,), given_at(1)]
    assert segments(journal)[1].header.note == "2 events before this could not be written"


def test_a_folder_that_cannot_be_used_is_an_error_at_the_start(make_agent, credential, journal, tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(OSError):
        Agent(credential, journal=tmp_path / "file")
    agent = make_agent(journal=journal)
    with pytest.raises(FolderInUse):
        Agent(credential, journal=journal, state=None)
    agent.close()
    make_agent(journal=journal)


class Appended:
    """A state in memory."""

    full = False

    def load(self) -> bytes:
        return b""

    def append(self, data: bytes) -> None:
        if self.full:
            raise OSError(28, "No space left on device")


def test_what_was_not_kept_is_not_told(make_agent, station, journal):
    state = Appended()
    agent = make_agent(journal=journal, state=state)
    agent.broadcast(b"kept")
    state.full = True
    with pytest.raises(AgentClosed):
        agent.broadcast(b"not kept")
    agent.close()
    assert told(journal) == [(LOST,), (SENT, 1, 0, 0, "")]
    assert segments(journal)[0].status == "open", "its end may be missing: the next header says so"


def test_async_agent_keeps_one_too(credential, station, journal):
    async def run() -> None:
        async with AsyncAgent(credential, journal=journal) as agent:
            await asyncio.to_thread(station.welcome)
            station.deliver(0, b"1")
            await agent.receive(10)

    asyncio.run(run())
    assert told(journal) == [(LOST,), given_at(1)]


def test_command_listen_keeps_one(credential, station, journal, tmp_path):
    command = [sys.executable, "-c", "import sys; from roamcast.mh_agent.cli import main; sys.exit(main())"]
    listener = subprocess.Popen(
        [*command, "listen", str(credential), "--journal", str(journal)], stdout=subprocess.PIPE, text=True
    )
    station.welcome()
    station.deliver(0, b"1", b"2")
    assert [listener.stdout.readline() for _ in range(2)] == ["bob\t1\n", "bob\t2\n"]
    assert station.expect(Ack).c == 0
    listener.terminate()
    assert listener.wait(10) == 0
    assert told(journal) == [(LOST,), given_at(1), given_at(2)]
    assert main(["listen", str(credential), "--journal", str(credential)]) == 3
