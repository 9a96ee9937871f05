"""Each rule that a mutant switches off is needed: a scenario that holds with the rule and falls without it."""

from __future__ import annotations

import pytest

from roamcast.middleware.host_frames import Ack, Ask, Data, LiveMsg, Msg, Seen
from roamcast.middleware.mobile_host.core import MUTANTS, AgentCore
from roamcast.middleware.mobile_host.effects import SendUp
from roamcast.middleware.rows import Item, Kind
from roamcast.middleware.settings import SECOND


def left(rig, kind: type) -> list:
    """Frames of the last tick that left before the crash."""
    return [effect.frame for effect in rig.effects if isinstance(effect, SendUp) and isinstance(effect.frame, kind)]


def number_late(rig, make_item) -> bool:
    """A number whose DATA has left is not given to another message."""
    rig.attach()
    for crash_at in (1, 2):
        rig.tick(lambda core: core.submit(b"first"), crash_at=crash_at)
        used = [frame.number for frame in left(rig, Data)]
        rig.crash()
        if rig.submit(b"second") in used:
            return False
    return True


def welcome_late(rig, make_item) -> bool:
    """A session whose acknowledgement has left is the one that the next HELLO names."""
    rig.tick(AgentCore.start)
    rig.tick(lambda core: core.receive(rig.welcome(at=-4)), crash_at=2)
    acknowledged = left(rig, Ack)
    rig.crash()
    return not acknowledged or (rig.hello.le, rig.hello.c) == (1, -4)


def c_late(rig, make_item) -> bool:
    """A position that was acknowledged to the station is not taken back by a crash."""
    rig.attach(window=4)
    rig.msg(0, 1, (1, make_item(2, 1)))
    given = rig.take()
    rig.tick(lambda core: core.ack(given.token), crash_at=1)
    said = [frame.c for frame in left(rig, Ack)]
    rig.crash()
    return not said or rig.hello.c >= said[-1]


def own_not_dropped(rig, make_item) -> bool:
    """What has come back is stored: after a loss of state it is neither unknown nor sent again."""
    rig.attach()
    rig.submit()
    rig.msg(0, 1, (1, make_item(1, 1, "me", rig.disk.incarnation & 0xFFFFFFFF, 1)))
    rig.reattach(at=5)
    return left(rig, Data) == []


def live_last(rig, make_item) -> bool:
    """Nothing live is given before what was lost on the air and comes again."""
    rig.attach()
    rig.hear(LiveMsg(1, (7, 2), "other", 7, Kind.BROADCAST, "", SECOND, 1, b"x"))
    return rig.take() is None


def live_age(rig, make_item) -> bool:
    """What waited in buffers is as old as it is."""
    rig.attach()
    rig.hear(LiveMsg(0, (7, 2), "other", 7, Kind.BROADCAST, "", SECOND, 1, b"x"))
    rig.hear(LiveMsg(0, (8, 2), "other", 7, Kind.BROADCAST, "", SECOND, 2, b"y"), after=2 * SECOND)
    return rig.take() is None


def prev_ignored(rig, make_item) -> bool:
    """A lost frame is noticed."""
    rig.attach()
    rig.msg(1, 2, (2, make_item(2, 2)))
    return rig.take() is None


def msg_before_welcome(rig, make_item) -> bool:
    """A frame of a session whose WELCOME was lost moves nothing."""
    rig.attach()
    rig.tick(lambda core: core.link_lost("cut"), after=10 * SECOND)
    rig.hear(Msg(9, 12, ()))
    rig.tick(after=2 * SECOND)
    return rig.hello.c == 0


def hand_kept(rig, make_item) -> bool:
    """What was in hand at the end of a session is given once."""
    rig.attach()
    rig.msg(0, 1, (1, make_item(2, 1)))
    rig.reattach(at=5)
    rig.msg(5, 6, (6, make_item(2, 1)))
    return rig.bodies() == [b"2.1"]


def given_forgotten(rig, make_item) -> bool:
    """What was given and not acknowledged is not given again."""
    rig.attach()
    rig.msg(0, 1, (1, make_item(2, 1)))
    rig.take()
    rig.reattach(at=5)
    rig.msg(5, 6, (6, make_item(2, 1)))
    return rig.take() is None


def late_ack_lost(rig, make_item) -> bool:
    """An acknowledgement without a session survives the process."""
    rig.attach()
    rig.msg(0, 1, (1, make_item(2, 1)))
    given = rig.take()
    rig.tick(lambda core: core.link_lost("cut"), after=10 * SECOND)
    rig.ack(given)
    rig.crash()
    rig.attach(at=5)
    rig.msg(5, 6, (6, make_item(2, 1)))
    return rig.take() is None


def epoch_late(rig, make_item) -> bool:
    """No epoch is used again after a crash: a late HELLO of the former life would pass for the newer one."""
    rig.tick(AgentCore.start)
    rig.tick(after=2 * SECOND)
    used = rig.hello.e
    rig.crash()
    return rig.hello.e > used


def seen_not_saved(rig, make_item) -> bool:
    """What SEEN has said is not taken back by a crash."""
    rig.attach(passed=((2, 0),))
    rig.msg(0, 1, (1, make_item(2, 1)))
    rig.ack(rig.take())
    rig.hear(Ask(rig.epoch))
    said = left(rig, Seen)[-1].seen
    rig.crash()
    rig.hear(Ask(rig.epoch))
    return left(rig, Seen)[-1].seen == said


def value_unheld(rig, make_item) -> bool:
    """A last value that was not acknowledged comes again with its SUB after a crash."""
    rig.attach()
    rig.tick(lambda core: core.submit(b"", "t", Kind.SUB))
    own = Item(1, 5, "me", rig.disk.incarnation & 0xFFFFFFFF, 1, Kind.SUB, b"", "t")
    rig.msg(0, 1, (1, own), (1, Item(2, 3, "other", 7, 1, Kind.RETAINED, b"value", "t")))
    rig.ack(rig.take())
    rig.crash()
    return rig.hello.c == 0


def end_not_saved(rig, make_item) -> bool:
    """The end of a subscription, once it was heard of, is told though the process dies and no station says it again."""
    rig.attach(ended=((1, 5, "t"),))
    rig.crash()
    rig.attach(at=3)
    return rig.take() is not None


SCENARIOS = (
    number_late, welcome_late, c_late, own_not_dropped, prev_ignored, msg_before_welcome, hand_kept, given_forgotten,
    late_ack_lost, epoch_late, seen_not_saved, value_unheld, end_not_saved, live_last,
    live_age,
)  # fmt: skip


def test_every_mutant_has_a_scenario():
    assert {scenario.__name__ for scenario in SCENARIOS} == set(MUTANTS)


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)
def test_rule_is_needed(make_rig, make_item, scenario):
    assert scenario(make_rig(), make_item)
    assert not scenario(make_rig(mutants=frozenset({scenario.__name__})), make_item)
