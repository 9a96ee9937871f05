"""What a witness journal says of live messages. The agent's core alone: no thread, no link."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from roamcast.middleware.delivery_log import GIVEN, HEARD, SENT
from roamcast.middleware.host_frames import PROTOCOL_VERSION, LiveMsg, Msg, Welcome
from roamcast.middleware.mobile_host.core import AgentCore
from roamcast.middleware.mobile_host.effects import Connect
from roamcast.middleware.mobile_host.settings import AgentSettings
from roamcast.middleware.mobile_host.state import AgentImage
from roamcast.middleware.rows import Item, Kind
from roamcast.transport import witness
from roamcast.transport.segment import read_segment


class Witness:
    """A core that journals, in its first session."""

    def __init__(self, path: Path, held: ExitStack) -> None:
        self.path, self.now = path, 1_000_000_000
        self.core = witness.WitnessedCore(
            path, "g", held, name="me", stations=[("s1", 1, "tcp://s1:1", b"k" * 40)], enrolled_at=1,
            image=AgentImage(), settings=AgentSettings(), rng=random.Random(1),
        )  # fmt: skip
        effects = self.tick(AgentCore.start)
        assert any(isinstance(each, Connect) for each in effects)
        self.hear(Welcome(PROTOCOL_VERSION, 1, 0, False, 0, 1 << 18, 512))

    def tick(self, *calls: Any, after: int = 0) -> list[Any]:
        self.now += after
        self.core.begin(self.now)
        for call in calls:
            call(self.core)
        self.core.expire()
        return self.core.flush()

    def hear(self, *frames: Any, after: int = 0) -> None:
        """Frames come as soon as they are handed down."""
        at = self.now + after
        fresh = [replace(frame, at=at) if isinstance(frame, LiveMsg) else frame for frame in frames]
        self.tick(*(lambda core, frame=frame: core.receive(frame) for frame in fresh), after=after)

    def take(self, after: int = 0) -> Any:
        found: list[Any] = []
        self.tick(lambda core: found.append(core.take()), after=after)
        return found[0]

    def ack(self, given: Any) -> None:
        self.tick(lambda core: core.ack(given.token))

    def told(self, *events: str) -> list[tuple[Any, ...]]:
        """Rows in their order, of these events."""
        self.tick(after=2 * witness.BATCH_AGE)
        rows = []
        for file in sorted(self.path.glob("*.rclog")):
            segment = read_segment(file.read_bytes())
            for event in set(events) & segment.names:
                columns = segment.columns(event)
                names = [name for name in columns if name not in ("wall", "seq", "addressee", "host32", "number")]
                rows += [(columns["seq"][i], event, *(columns[name][i] for name in names))
                         for i in range(len(columns["seq"]))]  # fmt: skip
        return [row[1:] for row in sorted(rows)]


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Witness]:
    with ExitStack() as held:
        yield Witness(tmp_path / "journal", held)


def live(last: int, stamp: int = 70, left: int = 1_000) -> LiveMsg:
    return LiveMsg(last, (stamp, 2), "bob", 7, Kind.BROADCAST, "", left, 0, b"x")


def row(n: int) -> Msg:
    return Msg(n - 1, n, ((n, Item(2, n, "bob", 7, n, Kind.BROADCAST, b".")),))


def test_it_is_told_at_once_if_nothing_before_it_is_to_be_acknowledged(rig: Witness) -> None:
    rig.hear(live(0))
    rig.take(after=400)
    assert rig.told(HEARD) == [(HEARD, 1, 0, 2, 70, 0, 600)]


def test_it_is_told_behind_what_was_given_before_it(rig: Witness) -> None:
    rig.hear(row(1), live(1), row(2))
    first, second, third = rig.take(), rig.take(), rig.take()
    assert rig.told(GIVEN, HEARD) == []
    rig.ack(first)
    assert rig.told(GIVEN, HEARD) == [(GIVEN, 1, 1, 2, 1), (HEARD, 1, 1, 2, 70, 0, 1_000)]
    rig.ack(third)
    assert rig.told(GIVEN, HEARD)[2:] == [(GIVEN, 1, 2, 2, 2)]
    assert second.body == b"x"


def test_it_says_behind_which_own_message_it_was_given(rig: Witness) -> None:
    rig.tick(lambda core: core.submit(b"1"))
    rig.hear(live(0))
    rig.take()
    rig.tick(lambda core: core.submit(b"2"))
    rig.hear(live(0, 80))
    rig.take()
    assert [event for event, *_ in rig.told(SENT, HEARD)] == [SENT, HEARD, SENT, HEARD]
    assert [after for _, _, _, _, _, after, _ in rig.told(HEARD)] == [1, 2]


def test_what_comes_twice_and_what_comes_late_is_told_so(rig: Witness) -> None:
    """The journal does not rely on the inbox: it has the frame's word."""
    rig.hear(live(0), live(0))
    rig.core.session.inbox._live = type(rig.core.session.inbox._live)(  # an inbox that forgets deadlines
        (hand, notices, by * 2, until * 2, live) for hand, notices, by, until, live in rig.core.session.inbox._live
    )
    rig.take(after=1_500)
    rig.take()
    assert [values[-1] for _, *values in rig.told(HEARD)] == [-500, -500]


def test_a_flood_that_nobody_acknowledges_takes_no_memory(rig: Witness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(witness, "LIVE_MAX", 10)
    rig.hear(row(1))
    first = rig.take()
    for stamp in range(100, 200):
        rig.hear(live(1, stamp))
        rig.take()
    assert len(rig.core._given) == 10 and len(rig.core._until) <= 10
    rig.ack(first)
    assert len(rig.told(HEARD)) == 9
