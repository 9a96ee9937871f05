"""What a peer must not say, limits against floods, and settings that change while stations run."""

from __future__ import annotations

from dataclasses import replace

import pytest

from roamcast.middleware.delta_causal.errors import LiveRefused
from roamcast.middleware.delta_causal.messages import LiveMessage
from roamcast.middleware.delta_causal.past import Lists, Past
from roamcast.middleware.delta_causal.settings import LiveSettings, Rule

DELTA, SKEW, T = 100, 20, 1_000
SOUND = LiveMessage(0, T, DELTA, None, Lists(Past(((T - 5, 2), (T - 4, 0)), T - 9), {1: Past(((T - 1, 2),))}), b"x")

FOOLISH = {
    "live-foreign": [{"src": 2}],
    "live-misdirected": [{"destinations": (2,)}, {"destinations": ()}],
    "live-stamp": [{"stamp": 0}, {"stamp": -T}, {"stamp": 1 << 63}, {"delta": 0}],
    "live-too-large": [{"body": bytes(65_537)}],
    "live-unknown-slot": [
        {"destinations": (1, 9)}, {"past": Lists(Past(), {9: Past(((T - 1, 2),))})},
        {"past": Lists(Past(((T - 1, 9),)))}, {"past": Lists(Past(), {2: Past(((T - 1, 9),))})},
    ],
    "live-tag": [
        {"past": Lists(Past(((T, 2),)))}, {"past": Lists(Past(((T - DELTA - 1, 2),)))},
        {"past": Lists(Past(((T - 1, 2), (T - 2, 0))))}, {"past": Lists(Past(((T - 1, 2), (T - 1, 2))))},
        {"past": Lists(Past(((T - 2, 2), (T - 1, 2))))}, {"past": Lists(Past(((T - 2, 2),), T - 2))},
        {"past": Lists(Past((), T))}, {"past": Lists(Past((), T - DELTA - 1))}, {"past": Lists(Past((), -1))},
        {"past": Lists(Past(tuple((T - 50 + number, number) for number in range(40))))},
        {"past": Lists(Past(), {slot: Past(((T - 1, 2),)) for slot in range(4)})},
    ],
}  # fmt: skip
"""Code -> what is wrong with a sound message."""


@pytest.mark.parametrize(("code", "wrong"), [(code, wrong) for code, changes in FOOLISH.items() for wrong in changes])
def test_what_makes_no_sense_is_refused_and_nothing_of_it_kept(group, code, wrong):
    net = group(3, tag_entries_max=30)
    assert net.say(1, net.up[1].receive(0, replace(SOUND, **wrong), T)) == [code]
    assert net.up[1].kept == 0 and net.up[1].lists == Lists()
    assert net.say(1, net.up[1].receive(0, SOUND, T)) == []


def test_strangers_newcomers_and_those_who_have_ended(group):
    net = group(3)
    message = replace(SOUND, src=3, past=Lists())
    assert net.say(1, net.up[1].receive(3, message, T)) == ["live-stranger"]
    net.up[1].add(3)
    assert net.say(1, net.up[1].receive(3, message, T)) == ["x"]
    net.up[1].remove(3)
    assert net.say(1, net.up[1].receive(3, message, T)) == ["live-stranger"]
    named = replace(SOUND, past=Lists(Past(((T - 5, 3),))))
    assert net.say(1, net.up[1].receive(0, named, T)) == [] and net.timer(1, T - 5 + DELTA + 1) == ["x"]
    with pytest.raises(LiveRefused, match="no other station 3"):
        net.send(1, "", [2, 3], T)
    with pytest.raises(LiveRefused) as refused:
        net.up[1].send([2], bytes(65_537), T)
    assert refused.value.code == "too-large"


def test_a_flood_of_one_sender_is_bounded_and_harms_no_other(group):
    net = group(3, kept_max=50)
    never = Lists(Past(((T - 1, 2),)))
    words = [net.come(1, LiveMessage(0, T + number % 20, DELTA, None, never, b"f"), T) for number in range(20)]
    assert words == [[]] * 20
    flood = [LiveMessage(0, T + number, DELTA, None, Lists(), b"f") for number in range(20, 90)]
    words = [net.come(1, message, T + 90) for message in flood]
    assert words == [["f"]] * 30 + [["-full"]] * 40 and net.up[1].kept == 50
    assert net.come(1, net.send(2, "other", None, T + 90), T + 91) == ["other"]
    net.timer(1, T + 500)
    assert net.up[1].kept == 0 and net.up[1].waiting == 0 and net.up[1].next_deadline() is None


def test_bytes_that_wait_are_bounded_and_what_need_not_wait_goes_on(group):
    net = group(3, waiting_bytes_max=30)
    never = Lists(Past(((T - 1, 2),)))
    words = [net.come(1, LiveMessage(0, T + number, DELTA, None, never, bytes(10)), T + 9) for number in range(5)]
    assert words == [[]] * 3 + [["-full"]] * 2
    assert len(net.come(1, LiveMessage(0, T + 8, DELTA, None, Lists(), bytes(10)), T + 9)) == 1, "it is given at once"
    net.timer(1, T + 500)
    late = T + 600
    never = Lists(Past(((late - 1, 2),)))
    words = [net.come(1, LiveMessage(0, late + number, DELTA, None, never, bytes(10)), late + 9) for number in range(4)]
    assert words == [[]] * 3 + [["-full"]], "what is over gives its room back"


def test_settings_that_make_no_sense():
    for wrong in ({"delta": 0}, {"skew": -1}, {"kept_max": 0}, {"entries_max": -1}):
        with pytest.raises(ValueError, match="at least"):
            LiveSettings(**wrong)
    with pytest.raises(ValueError, match="at least 1"):
        LiveSettings(rule=Rule.PAPER, entries_max=0)
    assert LiveSettings(entries_max=0).quiet == 600_001


# ---- a change of delta ----


def changed(net, slot: int, delta: int, now: int) -> list[str]:
    return net.say(slot, net.up[slot].configure(replace(net.settings, delta=delta), now))


@pytest.mark.parametrize("delta", [DELTA // 2, 3 * DELTA])
def test_a_change_of_delta_hands_down_what_waits_and_pauses_for_the_longer(group, delta):
    net = group(3)
    first = net.send(0, "a", [1, 2], T)
    net.come(1, first, T + 1)
    second, third = net.send(1, "b", 2, T + 2), net.send(1, "c", 2, T + 3)
    assert net.come(2, third, T + 4) == net.come(2, second, T + 4) == []
    assert changed(net, 2, delta, T + 5) == ["b", "c"]
    assert net.come(2, first, T + 6) == ["-quiet"] and net.up[2].kept == 0
    pause = T + 5 + max(delta, DELTA) + 2 * SKEW + 1
    assert net.up[2].quiet_until == pause
    assert net.come(2, net.send(0, "old", 2, pause + 1), pause + 1) == ["-delta"]
    assert net.send(2, "new", 1, pause + 1).delta == delta


def test_other_settings_change_without_a_pause(group):
    net = group(3)
    message = net.send(0, "a", None, T)
    net.up[1].configure(replace(net.settings, entries_max=1, skew=SKEW + 1), T)
    assert net.come(1, message, T) == ["a"]
    assert net.come(2, net.send(1, "b", None, T), T + 1) == []
    assert net.come(2, message, T + 2) == ["a", "b"]


@pytest.mark.parametrize("mutants", [frozenset(), frozenset({"any_delta"})])
def test_stations_that_change_at_different_times_do_not_mix(group, mutants):
    """0 and 3 have the longer delta already, 1 and 2 not: what 1 calls over 3 still takes."""
    net = group(4, mutants)
    for slot in (0, 3):
        changed(net, slot, 3 * DELTA, T)
    now = T + 3 * DELTA + 2 * SKEW + 2
    first = net.send(0, "a", [1, 3], now)
    assert net.come(1, first, now + 1) == (["a"] if mutants else ["-delta"])
    onward = net.send(1, "b", 3, now + DELTA + 2)
    assert net.come(3, onward, now + DELTA + 3) == (["b"] if mutants else ["-delta"])
    assert net.come(3, first, now + DELTA + 4) == ["a"]
