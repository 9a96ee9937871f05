"""Identity: a new incarnation, state that went back, other holders of the identity, the end."""

from __future__ import annotations

import pytest

from roamcast.middleware.host_frames import JOINED_AT, Data, Refused, Replaced, Reset, Welcome
from roamcast.middleware.mobile_host.core import AgentCore
from roamcast.middleware.mobile_host.effects import Disconnect, Receipt, Save, StateLost
from roamcast.middleware.mobile_host.errors import AgentEnded
from roamcast.middleware.mobile_host.state import NewIncarnation, Queued, Welcomed
from roamcast.middleware.settings import SECOND


def facts(rig) -> list:
    return [fact for save in rig.of(Save) for fact in save.facts]


def test_reset_takes_a_new_incarnation_and_says_so(rig):
    rig.attach()
    before = rig.disk.incarnation
    rig.submit(b"on a link")
    rig.tick(lambda core: core.link_lost("cut"), after=10 * SECOND)
    rig.submit(b"never on a link")
    rig.hear(Reset(rig.epoch))
    assert rig.effects[0].facts[-3:-1] == (
        NewIncarnation(rig.disk.incarnation, 1, True),
        Queued(1, None, b"never on a link", sent=False),
    )
    assert rig.disk.incarnation not in (0, before)
    assert rig.receipts == [(1, "unknown"), (2, "renumbered")]
    assert rig.of(Receipt)[1].became == 1
    assert (rig.hello.incarnation, rig.hello.last, rig.hello.le, rig.hello.c) == (rig.disk.incarnation, 1, 0, 0)
    assert isinstance(rig.take(), StateLost)
    rig.attach()
    assert [(frame.number, frame.body) for frame in rig.sent(Data)] == [(1, b"never on a link")]


def test_after_a_restart_it_is_known_what_may_have_been_on_a_link(rig):
    rig.attach()
    rig.submit(b"on a link")
    rig.tick(lambda core: core.link_lost("cut"), after=10 * SECOND)
    rig.submit(b"never")
    rig.crash()
    rig.hear(Reset(rig.epoch))
    assert rig.receipts == [(1, "unknown"), (2, "renumbered")]
    assert rig.disk.outbox == {1: (None, b"never", 0)}


def test_state_lost_is_told_again_until_it_is_acknowledged(rig):
    rig.attach()
    rig.tick(lambda core: core.link_lost("cut"), after=10 * SECOND)
    rig.hear(Reset(rig.epoch))
    assert isinstance(rig.take(), StateLost)
    rig.crash()
    notice = rig.take()
    assert isinstance(notice, StateLost)
    rig.ack(notice)
    rig.crash()
    assert rig.take() is None


def test_reset_of_another_attempt_counts_for_nothing(rig):
    rig.tick(AgentCore.start)
    assert rig.hear(Reset(rig.epoch - 1)) == []


def test_reset_again_and_again_backs_off(rig):
    rig.attach()
    rig.tick(lambda core: core.link_lost("cut"), after=10 * SECOND)
    rig.hear(Reset(rig.epoch))
    assert rig.connects == [1]
    rig.hear(Reset(rig.epoch))
    assert rig.connects == []
    assert rig.core.status()["state"] == "paused"


def test_lastseq_above_the_own_numbers_means_that_the_state_went_back(rig):
    rig.tick(AgentCore.start)
    before = rig.core.status()["incarnation"]
    rig.hear(rig.welcome(lastseq=20))
    assert "state-lost" in rig.reports
    assert rig.core.status()["incarnation"] != before
    assert (rig.hello.le, rig.connects) == (0, [1])
    assert not any(isinstance(fact, Welcomed) for fact in facts(rig))


def test_lastseq_of_numbers_that_were_never_on_a_link_means_the_same(rig):
    rig.submit(b"1")
    rig.crash()
    rig.submit(b"2")
    rig.hear(rig.welcome(lastseq=2))
    assert rig.receipts == [(1, "renumbered"), (2, "renumbered")]
    rig.attach()
    assert [frame.body for frame in rig.sent(Data)] == [b"1", b"2"]


def test_takeover_by_another_holder_is_an_alarm_and_a_long_pause(rig):
    rig.attach()
    rig.hear(Replaced(rig.epoch), after=SECOND)
    assert "replaced" in rig.reports
    pause = rig.core.next_deadline() - rig.now
    assert 15 * SECOND <= pause <= 30 * SECOND
    rig.tick(AgentCore.network_changed)
    assert rig.connects == []
    rig.tick(after=pause)
    assert rig.connects == [1]


def test_takeover_of_an_older_session_counts_for_nothing(rig):
    rig.attach()
    rig.reattach()
    assert rig.hear(Replaced(rig.epoch - 1)) == []


@pytest.mark.parametrize(
    ("frame", "code"),
    [(Replaced(0), "replaced"), *[(Refused(code, "no"), code) for code in ("version", "name", "gone", "revoked")]],
)
def test_final_answers_end_the_agent(rig, frame, code):
    rig.tick(AgentCore.start)
    rig.hear(frame)
    assert isinstance(rig.effects[0], Disconnect)
    assert "ended" in rig.reports
    assert rig.core.next_deadline() is None
    assert rig.take().code == rig.take().code == code
    with pytest.raises(AgentEnded):
        rig.core.submit(b"x")
    for call in (AgentCore.start, AgentCore.resume, AgentCore.network_changed, AgentCore.suspend):
        assert rig.tick(call) == []


def test_welcome_of_another_major_version_ends_the_agent(rig):
    rig.tick(AgentCore.start)
    rig.hear(Welcome((2, 0), 1, 0, False, 0, 1, 1))
    assert rig.take().code == "version"


def test_a_state_that_was_lost_is_told_when_the_stations_know_an_older_incarnation(rig):
    """O-3: its first WELCOME opens a join; until it is acknowledged it is told, also after a restart."""
    rig.attach(at=JOINED_AT)
    assert isinstance(rig.take(), StateLost)
    rig.crash()
    rig.attach(at=-1)
    notice = rig.take()
    assert isinstance(notice, StateLost)
    rig.ack(notice)
    rig.crash()
    rig.attach(at=-1)
    assert rig.take() is None


def test_a_reset_that_ends_in_a_join_is_told_once(rig):
    rig.attach()
    rig.tick(lambda core: core.link_lost("cut"), after=10 * SECOND)
    rig.hear(Reset(rig.epoch))
    rig.ack(rig.take())
    rig.attach(at=JOINED_AT)
    assert rig.take() is None
