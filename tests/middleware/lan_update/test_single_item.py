"""The single-item algorithm of paper 004, step by step: each rule, and what becomes of it when it is left out."""

from __future__ import annotations

from roamcast.middleware.lan_update.single_item import (
    INITIAL,
    Message,
    Send,
    SingleItemNode,
    Step,
    Store,
    Taken,
)

OLD = Message(1, 2, "old")
NEW = Message(5, 2, "new")


def node(myname: int, nodes: int, stored: Message, *mutants: str) -> SingleItemNode:
    return SingleItemNode(myname, range(nodes), stored, frozenset(mutants))


def steps(core: SingleItemNode, first: Step | None) -> list[Step]:
    """`first` and all steps after it until the node rests."""
    done: list[Step] = []
    step = first
    while step is not None:
        done.append(step)
        step = core.resume()
    return done


def at_rest(myname: int, nodes: int, stored: Message, *mutants: str) -> SingleItemNode:
    """A node that has recovered long ago."""
    core = node(myname, nodes, stored, *mutants)
    steps(core, core.resume())
    return core


def told(done: list[Step]) -> list[int]:
    return [step.dst for step in done if isinstance(step, Send)]


def test_who_recovers_tells_all_others_what_it_has_stored() -> None:
    core = node(1, 4, NEW)
    assert steps(core, core.resume()) == [Send(NEW, 0), Send(NEW, 2), Send(NEW, 3)]
    assert not core.busy
    silent = node(1, 4, NEW, "no_recovery")
    assert steps(silent, silent.resume()) == []


def test_a_node_alone_rests_at_once_and_keeps_its_updates() -> None:
    core = at_rest(0, 1, INITIAL)
    assert steps(core, core.request("x", 7)) == [Taken(), Store(Message(7, 0, "x"))]


def test_an_update_is_stored_before_it_is_told_and_names_its_author() -> None:
    core = at_rest(0, 3, OLD)
    made = Message(9, 0, "x")
    assert steps(core, core.request("x", 9)) == [Taken(), Store(made), Send(made, 1), Send(made, 2)]


def test_an_update_by_a_slow_clock_is_newer_than_what_is_stored() -> None:
    core = at_rest(0, 2, NEW)
    assert Store(Message(6, 0, "x")) in steps(core, core.request("x", -1_000))
    back = at_rest(0, 2, NEW, "raw_clock")
    assert Store(Message(-1_000, 0, "x")) in steps(back, back.request("x", -1_000))


def test_what_is_newer_is_stored_and_told_to_all_but_the_sender() -> None:
    core = at_rest(1, 4, OLD)
    assert steps(core, core.receive(0, NEW)) == [Taken(), Store(NEW), Send(NEW, 2), Send(NEW, 3)]
    redundant = at_rest(1, 4, OLD, "sender_told")
    assert told(steps(redundant, redundant.receive(0, NEW))) == [0, 2, 3]
    mute = at_rest(1, 4, OLD, "no_relay")
    assert told(steps(mute, mute.receive(0, NEW))) == []


def test_what_is_older_is_answered_to_its_sender_alone() -> None:
    core = at_rest(1, 4, NEW)
    assert steps(core, core.receive(3, OLD)) == [Taken(), Send(NEW, 3)]
    mute = at_rest(1, 4, NEW, "no_answer")
    assert steps(mute, mute.receive(3, OLD)) == [Taken()]


def test_what_is_known_is_ignored() -> None:
    core = at_rest(1, 4, NEW)
    assert steps(core, core.receive(3, NEW)) == [Taken()]


def test_of_equal_stamps_all_nodes_take_that_of_the_same_author() -> None:
    one, other = Message(5, 1, "one"), Message(5, 2, "other")
    core = at_rest(0, 3, one)
    assert Store(other) in steps(core, core.receive(2, other))
    assert Store(one) not in steps(core, core.receive(1, one))
    assert core.myinfo == other
    torn = at_rest(0, 3, one, "stamp_alone")
    steps(torn, torn.receive(2, other))
    assert torn.myinfo == one


def test_nothing_is_looked_at_while_a_send_hangs() -> None:
    core = node(0, 3, OLD)
    assert core.resume() == Send(OLD, 1)
    assert core.receive(2, NEW) is None
    assert core.request("x", 9) is None
    assert (len(core.queue), core.myinfo) == (2, OLD)


def test_an_update_ends_the_pass_under_way_and_the_next_covers_the_rest() -> None:
    core = node(0, 4, OLD)
    first = core.resume()
    core.receive(2, NEW)
    assert steps(core, first) == [Send(OLD, 1), Taken(), Store(NEW), Send(NEW, 3), Send(NEW, 1)]


def test_entries_are_taken_until_the_queue_is_empty_before_anything_is_told() -> None:
    core = node(0, 4, OLD)
    first = core.resume()
    core.receive(2, NEW)
    core.request("x", 9)
    mine = Message(9, 0, "x")
    expected = [Send(OLD, 1), Taken(), Store(NEW), Taken(), Store(mine), Send(mine, 2), Send(mine, 3), Send(mine, 1)]
    assert steps(core, first) == expected


def test_older_information_that_came_in_mid_pass_is_answered_after_it() -> None:
    def play(*mutants: str) -> list[int]:
        core = node(0, 4, NEW, *mutants)
        first = core.resume()
        core.receive(1, OLD)
        return told(steps(core, first))

    assert play() == [1, 2, 3, 1]
    assert play("range_late") == [1, 2, 3]


def test_a_pass_of_answers_may_follow_the_pass_under_way() -> None:
    """All have the same by now: theorem 2 as printed allows N - 1 = 3 sends, and here are 1 + 2 + 2."""
    core = node(0, 4, NEW)
    first = core.resume()
    core.receive(2, OLD)
    core.receive(3, OLD)
    assert told(steps(core, first)) == [1, 2, 3, 2, 3]


def test_an_author_whose_store_went_back_is_told_its_own_update() -> None:
    """Node 2 lost NEW, which it made; node 1 hears of NEW by node 0 and of the loss in one batch."""

    def play(*mutants: str) -> list[Step]:
        core = node(1, 3, OLD, *mutants)
        first = core.resume()
        core.receive(0, NEW)
        core.receive(2, INITIAL)
        return steps(core, first)

    assert Send(NEW, 2) in play()
    assert Send(NEW, 2) not in play("source_left_out")


def test_updates_that_trickle_in_do_not_hold_up_the_last_node() -> None:
    """Nodes 1 to 4 come up one after the other, each with something newer, when all but node 5 have been told."""

    def play(*mutants: str) -> list[int]:
        core = node(0, 6, INITIAL, *mutants)
        dsts: list[int] = []
        step = core.resume()
        while step is not None:
            if isinstance(step, Send):
                dsts.append(step.dst)
                sender = {4: 1, 7: 2, 10: 3, 13: 4}.get(len(dsts))
                if sender is not None:
                    core.receive(sender, Message(sender, sender))
            step = core.resume()
        return dsts

    assert play().index(5) == 4
    assert play("fixed_order").index(5) == 16
