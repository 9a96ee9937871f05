"""The nasty scenarios of delta-causal.md B.d, by their numbers; where a rule is needed, what happens without it."""

from __future__ import annotations

import pytest

from roamcast.middleware.delta_causal.errors import LiveRefused
from roamcast.middleware.delta_causal.settings import LiveSettings, Rule

DELTA, SKEW, T = 100, 20, 1_000


def without(*names: str) -> frozenset[str]:
    return frozenset(names)


def relay(net, body: str = "b", at: int = T + 5):
    """0 sends a to 1 and 2, and 1, once it has it, `body` to 2: both messages to 2."""
    first = net.send(0, "a", [1, 2], T)
    assert net.come(1, first, at) == ["a"]
    return first, net.send(1, body, 2, at)


# ---- 1: the last tick ----


@pytest.mark.parametrize("timer_first", [True, False])
def test_1_a_predecessor_on_the_tick_of_its_deadline_comes_first(group, timer_first):
    net = group(3)
    first, second = relay(net)
    assert net.come(2, second, T + 10) == []
    if timer_first:
        assert net.timer(2, T + DELTA) == []
    assert net.come(2, first, T + DELTA) == ["a", "b"]
    assert net.timer(2, T + DELTA) == [] and net.up[2].next_deadline() is None


def test_1_the_second_may_itself_come_on_that_tick(group):
    for mutants, words in [(without(), [[], ["a", "b"]]), (without("deadline_inclusive"), [["b"], ["a"]])]:
        net = group(3, mutants)
        first, second = relay(net)
        assert [net.come(2, second, T + DELTA), net.come(2, first, T + DELTA)] == words


def test_1_a_tick_later_it_is_over(group):
    net = group(3)
    first, second = relay(net)
    assert net.come(2, second, T + 10) == []
    assert net.up[2].next_deadline() == T + DELTA + 1
    assert net.timer(2, T + DELTA + 1) == ["b"]
    assert net.come(2, first, T + DELTA + 1) == ["-late"]


# ---- 2, 3: clocks that differ ----


def fast_relay(net):
    """0 is slow, 1 fast: 1 relays when by its clock the message to 3 is over; 2, slow too, goes on to 3."""
    slow = net.send(0, "a", [1, 3], T)
    assert net.come(1, slow, T + DELTA) == ["a"]
    onward = net.send(1, "b", 2, T + DELTA + 1)
    assert net.come(2, onward, T + DELTA + 1 - SKEW) == ["b"]
    third = net.send(2, "c", 3, T + DELTA + 2 - SKEW)
    return slow, third


def test_2_a_fast_relay_prunes_and_hybrid_stamps_make_the_pair_unrelated(group):
    net = group(4)
    slow, third = fast_relay(net)
    assert third.stamp > slow.stamp + DELTA
    net = group(4, without("raw_stamps"))
    slow, third = fast_relay(net)
    assert third.stamp <= slow.stamp + DELTA, "related"
    assert net.come(3, third, T + DELTA - SKEW) == ["c"] and net.come(3, slow, T + DELTA) == ["a"]


def test_3_a_lost_predecessor_of_a_fast_sender_is_over_in_time(group):
    net = group(3)
    first = net.send(0, "a", [1, 2], T + SKEW)
    assert net.come(1, first, T + 1) == ["a"]
    second = net.send(1, "b", 2, T + 2)
    assert second.stamp == T + SKEW + 1
    assert net.come(2, second, T + 4) == []
    assert net.up[2].next_deadline() == first.stamp + DELTA + 1 == second.stamp + DELTA
    assert net.timer(2, first.stamp + DELTA + 1) == ["b"]


def test_3_with_raw_stamps_it_could_never_be_delivered(group):
    """Its predecessor has a later stamp, and so a later deadline: such a tag is refused as nonsense."""
    net = group(3, without("raw_stamps"))
    first = net.send(0, "a", [1, 2], T + SKEW)
    net.come(1, first, T + 1)
    assert net.come(2, net.send(1, "b", 2, T + 2), T + 4) == ["live-tag"]


# ---- 4, 5: lists that were cut ----


def full(net):
    """0 and 1 have sent to 3, 2 has heard of both, and then sends to 3: two entries."""
    early = [net.send(0, "a", [2, 3], T), net.send(1, "b", [2, 3], T + 1)]
    assert [net.come(2, message, T + 5) for message in early] == [["a"], ["b"]]
    last = net.send(2, "c", 3, T + 6)
    assert last.past.of(3).entries == ((T, 0), (T + 1, 1))
    for message in early:
        net.come(3, message, T + 8)
    return last


def test_4_exactly_max_cb_entries_and_nothing_cut(group):
    net = group(4, entries_max=2)
    assert net.come(3, full(net), T + 10) == ["c"]
    net = group(4, entries_max=2, rule=Rule.PAPER)
    assert net.come(3, full(net), T + 10) == []
    assert net.up[3].next_deadline() == T + 1 + DELTA + 1
    assert net.timer(3, T + DELTA + 2) == ["c"]


@pytest.mark.parametrize("rule", Rule)
def test_5_the_cut_entry_is_waited_for_too(group, rule):
    """5 merges {a, b} and {b, c} of two lists that hold two: a is cut, and comes last."""
    for mutants in (without(), without("cut_ignored")):
        net = group(6, mutants, entries_max=2, rule=rule)
        sent = {name: net.send(slot, name, [3, 4, 5], T + slot) for slot, name in enumerate("abc")}
        for name in "ab":
            net.come(3, sent[name], T + 5)
        for name in "bc":
            net.come(4, sent[name], T + 5)
        onward = [net.send(3, "d", 0, T + 6), net.send(4, "e", 0, T + 7)]
        for message in onward:
            net.come(0, message, T + 8)
        last = net.send(0, "f", 5, T + 9)
        assert len(last.past.of(5).entries) <= 2
        net.come(5, sent["b"], T + 10)
        net.come(5, sent["c"], T + 10)
        words = net.come(5, last, T + 11)
        assert words == (["f"] if mutants else [])
        net.come(5, sent["a"], T + 60)
        net.timer(5, T + DELTA + 3)
        assert net.got[5] == (["b", "c", "f", "a"] if mutants else ["b", "c", "a", "f"])


# ---- 6, 7: names of messages ----


def test_6_a_burst_of_one_sender_is_one_entry(group):
    net = group(3, entries_max=1)
    burst = [net.send(0, f"{number}", 2, T + number) for number in range(10)]
    hint = net.send(0, "hint", 1, T + 10)
    assert hint.past.of(2).entries == ((T + 9, 0),) and hint.past.of(2).horizon == 0
    net.come(1, hint, T + 11)
    relayed = net.send(1, "relayed", 2, T + 12)
    assert net.come(2, relayed, T + 13) == []
    for message in reversed(burst):
        net.come(2, message, T + 14)
    assert net.got[2] == [*(f"{number}" for number in range(10)), "relayed"]


def test_6_the_paper_lists_them_all(group):
    net = group(3, entries_max=4, rule=Rule.PAPER)
    for number in range(10):
        net.send(0, f"{number}", 2, T + number)
    assert len(net.send(0, "hint", 1, T + 10).past.of(2).entries) == 4


def test_7_two_sends_in_one_tick(group):
    for mutants, words in [(without(), [["a"], ["b"]]), (without("equal_stamps"), [["a"], ["live-tag"]])]:
        net = group(2, mutants)
        pair = [net.send(0, name, 1, T) for name in "ab"]
        assert [net.come(1, message, T + 1) for message in pair] == words


def test_7_an_equal_stamp_of_another_sender_is_another_message(group):
    for mutants, words in [(without(), []), (without("stamp_only"), ["c"])]:
        net = group(4, mutants)
        awaited, other = net.send(0, "a", [2, 3], T), net.send(1, "b", 3, T)
        net.come(2, awaited, T + 1)
        assert net.come(3, other, T + 2) == ["b"]
        assert net.come(3, net.send(2, "c", 3, T + 2), T + 3) == words


# ---- 8, 9, 10: what must not be taken ----


def test_8_duplicates_before_at_and_after_the_deadline(group):
    for mutants, words in [(without(), "-duplicate"), (without("duplicates_taken"), "a")]:
        net = group(2, mutants)
        message = net.send(0, "a", 1, T)
        assert net.come(1, message, T + 1) == ["a"]
        assert [net.come(1, message, at) for at in (T + 2, T + DELTA)] == [[words], [words]]
        assert net.come(1, message, T + DELTA + 1) == ["-late"] and net.up[1].kept == 0
    net = group(3)
    _, waiting = relay(net)
    net.come(2, waiting, T + 10)
    assert net.come(2, waiting, T + 11) == ["-duplicate"]


def test_9_a_restart_just_before_it_would_have_delivered(group):
    """What it had taken is lost; whoever names that waits until it is over; nothing is done twice."""
    net = group(3)
    first, second = relay(net)
    net.come(2, second, T + 10)
    net.restart(2, T + DELTA)
    pause = T + DELTA + net.settings.quiet
    assert net.come(2, first, T + DELTA) == ["-quiet"]
    with pytest.raises(LiveRefused, match="pauses") as refused:
        net.send(2, "x", 0, pause)
    assert refused.value.code == "quiet"
    naming = net.send(1, "c", 2, T + DELTA - 1)
    assert naming.past.of(2).entries == (second.id,)
    assert net.come(2, naming, pause) == ["-quiet"]
    later = net.send(1, "d", 2, pause)
    assert later.past.of(2) == ((), 0)
    assert net.come(2, later, pause + 1) == ["d"] and net.up[2].next_deadline() is None


def test_9_without_the_pause_it_sends_before_what_it_knew_of(group):
    """2 had a, restarts, and sends to 3, where a comes later."""
    net = group(4, without("no_quarantine"))
    first = net.send(0, "a", [2, 3], T)
    net.come(2, first, T + 1)
    net.restart(2, T + 2)
    net.come(3, net.send(2, "b", 3, T + 3), T + 4)
    net.come(3, first, T + 5)
    assert net.got[3] == ["b", "a"], "a was first"


@pytest.mark.parametrize("pause", [DELTA + SKEW + 1, DELTA + 2 * SKEW + 1])
def test_9_stamps_that_ran_ahead_and_a_clock_set_back_are_paused_for(group, monkeypatch, pause):
    """The worst that is allowed: stamps `skew` ahead, and a clock that is set back by `skew` in the restart."""
    monkeypatch.setattr(LiveSettings, "quiet", pause)
    net = group(3)
    for _ in range(SKEW):
        net.send(0, "x", 2, T)
    last = net.send(0, "a", 1, T)
    with pytest.raises(LiveRefused) as refused:
        net.send(0, "b", 1, T)
    assert refused.value.code == "ahead" and last.stamp == T + SKEW
    net.restart(0, T - SKEW)
    after = net.send(0, "b", 1, net.up[0].quiet_until + 1)
    is_related = after.stamp <= last.stamp + DELTA
    assert is_related == (pause < DELTA + 2 * SKEW)
    if is_related:
        assert net.come(1, after, T + DELTA + 3) == ["b"] and net.come(1, last, T + DELTA + 4) == ["a"]


def test_10_a_clock_a_day_ahead_is_refused(group):
    day = 86_400_000_000
    for mutants in (without(), without("ahead_taken")):
        net = group(3, mutants)
        mad = net.send(0, "mad", [1, 2], T + day)
        assert net.come(1, mad, T + 1) == (["mad"] if mutants else ["-ahead"])
        sane = net.send(1, "sane", 2, T + 1) if not mutants else None
        if sane:
            assert sane.past.size == 0 and net.come(2, sane, T + 2) == ["sane"]
        else:
            with pytest.raises(LiveRefused, match="stamp"):
                net.send(1, "sane", 2, T + 1)
    assert net.come(0, net.send(2, "x", 0, T + 2), T + day) == ["-late"]


def test_10_up_to_the_skew_it_is_taken(group):
    net = group(2)
    message = net.send(0, "a", 1, T + SKEW + 1)
    assert net.come(1, message, T) == ["-ahead"] and net.come(1, message, T + 1) == ["a"]


# ---- 11, 12: clocks that step, timers that are late ----


def test_11_a_clock_that_steps_back(group):
    """Stamps keep rising; what was over stays over."""
    for mutants, words in [(without(), ["-late"]), (without("clock_back"), ["a"])]:
        net = group(3, mutants)
        first, second = relay(net)
        net.come(2, second, T + 10)
        assert net.timer(2, T + DELTA + 1) == ["b"]
        assert net.come(2, first, T + 1) == words
    net = group(2)
    stamps = [net.send(0, "a", 1, now).stamp for now in (T + 50, T + 40, T + 41, T + 60)]
    assert stamps == [T + 50, T + 51, T + 52, T + 60]


def test_12_late_timers_drop_nothing_and_keep_the_order(group):
    for mutants, words in [(without(), ["b", "c", "d"]), (without("late_at_poll"), ["d"])]:
        net = group(3, mutants)
        _, second = relay(net)
        third = net.send(1, "c", 2, T + 7)
        assert net.come(2, third, T + 9) == net.come(2, second, T + 10) == []
        fresh = net.send(1, "d", 2, T + 100)
        late = T + DELTA + 50
        assert net.come(2, fresh, late) == words, "one input does the work of the timer that is late"
        assert net.timer(2, late) == []


def test_merging_happens_on_delivery_not_on_arrival(group):
    """1 has a, which waits for x; only when it is delivered there, a is in the past of what 1 sends."""
    net = group(4)
    net.send(0, "x", 1, T)
    net.come(3, net.send(0, "hint", 3, T + 1), T + 5)
    first = net.send(3, "a", [1, 2], T + 7)
    assert first.past.of(1).entries == ((T, 0),)
    assert net.come(1, first, T + 8) == []
    assert net.send(1, "before", 2, T + 9).past.of(2).entries == ()
    assert net.timer(1, T + DELTA + 1) == ["a"]
    assert net.send(1, "after", 2, T + DELTA + 2).past.of(2).entries == ((T + 7, 3), (T + 9, 1))


def test_without_merging_the_third_does_not_know(group):
    net = group(3, without("no_merge"))
    first, second = relay(net)
    assert [net.come(2, second, T + 10), net.come(2, first, T + 11)] == [["b"], ["a"]]


def test_an_older_message_of_the_same_sender_does_not_take_the_place_of_the_newest(group):
    """a is so old that b does not wait for it; it comes behind b, and 1 goes on to name b."""
    net = group(3)
    old, new = net.send(0, "a", None, T), net.send(0, "b", None, T + DELTA + 1)
    assert new.past.size == 0
    net.up[1] = net.fresh(1, T - 2 * DELTA)
    assert net.come(1, new, T + DELTA - SKEW + 1) == ["b"] and net.come(1, old, T + DELTA) == ["a"]
    assert net.send(1, "c", None, T + DELTA).past.of(2).entries == (new.id,)
