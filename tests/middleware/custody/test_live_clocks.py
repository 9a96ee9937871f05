"""Live service of a station whose clock is wrong, was set, or went on while the machine slept."""

from __future__ import annotations

from dataclasses import replace

import pytest

from roamcast.middleware.custody.live_gate import AWAITED
from roamcast.middleware.host_frames import LiveRefused
from roamcast.middleware.settings import MS, SECOND


@pytest.mark.rules()
def test_no_live_service_with_a_wrong_clock_and_all_else_goes_on(net, live_trio):
    a, b, c = live_trio
    for peer in (2, 3):
        net.tick(1, lambda core, slot=peer: core.peer_clock(slot, 90 * MS))
    (refused,) = a.live(b"x")
    assert isinstance(refused, LiveRefused) and refused.code == "clock" and "90 ms behind" in refused.text
    b.live(b"y")
    a.send(b"row")
    net.deliver()
    assert a.got == [b"row"] and c.got == [b"*y", b"row"] and "live-refused" in net.rejected()
    assert "90 ms" in net.cores[1].status()["live_refused"]
    net.tick(1, lambda core: core.peer_clock(3, 10 * MS))
    net.run(SECOND)
    a.live(b"z")
    net.deliver()
    assert c.got[-1] == b"*z" and "live-resumed" in net.rejected()


@pytest.mark.rules()
@pytest.mark.parametrize(("mutants", "got"), [((), [b"row", b"*z"]), (("live_frozen",), [b"row"])])
def test_a_step_of_the_own_clock_counts_at_once_and_not_for_an_hour(net, live_trio, mutants, got):
    """Nobody has to tell it that its clock was set, and set right; then it starts anew, with the pause of a start."""
    a, _, c = live_trio
    net.cores[1].ledger.mutants = frozenset(mutants)
    for peer in (2, 3):
        net.tick(1, lambda core, slot=peer: core.peer_clock(slot, 0))
    net.skews[1] = 3_600 * SECOND
    (refused,) = a.live(b"x")
    assert isinstance(refused, LiveRefused) and refused.code == "clock" and "jumped ahead by 3600000" in refused.text
    for peer in (2, 3):
        net.tick(1, lambda core, slot=peer: core.peer_clock(slot, -3_600 * SECOND))
    (refused,) = a.live(b"x")
    assert refused.code == "clock" and "3600000 ms ahead" in refused.text and "live-refused" in net.rejected()
    a.send(b"row")
    net.run(SECOND)
    net.skews[1] = 0
    assert mutants or a.live(b"y")[-1].code == "quiet"
    net.run(SECOND)
    a.live(b"z")
    net.deliver()
    assert c.got == got


@pytest.mark.rules()
@pytest.mark.parametrize("asked", [(2, 3), ()])
def test_a_clock_that_went_on_while_the_machine_slept_is_compared_before_anybody_is_accused(net, live_trio, asked):
    """Its UTC has gained on the monotonic clock, as after a step; a peer that is gone is not waited for for ever."""
    a, _, _ = live_trio
    for peer in (2, 3):
        net.tick(1, lambda core, slot=peer: core.peer_clock(slot, 0))
    net.skews[1] = 3 * SECOND
    assert a.live(b"x")[-1].code == "clock"
    for peer in asked:
        net.tick(1, lambda core, slot=peer: core.peer_clock(slot, 0))
    if not asked:
        net.run(AWAITED + SECOND)
        net.tick(1, lambda core: core.peer_clock(2, 0))
    assert not {"live-refused", "live-resumed"} & set(net.rejected())
    net.run(SECOND)
    assert a.live(b"y") == [], "taken"


@pytest.mark.rules()
def test_a_small_pause_does_not_add_to_what_clocks_differ_by(net, live_trio):
    a, _, c = live_trio
    for peer in (2, 3):
        net.tick(1, lambda core, slot=peer: core.peer_clock(slot, -30 * MS))
    net.skews[1] = 40 * MS
    a.live(b"x")
    net.deliver()
    assert c.got == [b"*x"] and "live-refused" not in net.rejected()


@pytest.mark.rules()
def test_status_tells_of_the_pause_after_a_change_of_delta(net, live_trio):
    core = net.cores[1]
    net.run(SECOND)
    net.tick(1, lambda core: None)
    assert core.status()["live_refused"] is None
    net.tick(1, lambda core: core.configure(replace(net.settings, live_delta=2 * SECOND)))
    assert "a change of live-delta: a pause of 2" in core.status()["live_refused"]
    net.run(3 * SECOND)
    net.tick(1, lambda core: None)
    assert core.status()["live_refused"] is None
