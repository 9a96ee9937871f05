"""Shortest counter-examples to section 3.3 of paper 002: the text fails, and the rules that are used do not."""

from __future__ import annotations

from itertools import chain, combinations

import pytest

from roamcast.middleware.simulator.unicast.paper_text import FAULTS, LITERAL, PaperText

GENEROUS = LITERAL - {"F3", "F4", "F5"}
"""The text, where the test of (i) is read as one of all senders."""


def rules_with(*faults: str) -> PaperText:
    return PaperText(frozenset(faults))


CORRECT = [None, rules_with(), rules_with("F5")]
"""Rules that hold: those that are used, the corrected sets, and these without rules 1 to 3 for mail with no record."""


def literal(net):
    """7 events: m3 overtakes m1."""
    net.send(0, 1, b"m0")
    net.arrive(b"m0")
    net.send(0, 2, b"m1")
    net.send(0, 1, b"m2")
    net.arrive(b"m2")
    net.send(1, 2, b"m3")
    net.arrive(b"m3")
    return 2, b"m1", [b"m1", b"m3"]


def merged_first(net):
    """5 events: m2 overtakes m0, whose record P2 has thrown away."""
    net.send(0, 1, b"m0")
    net.send(0, 2, b"m1")
    net.arrive(b"m1")
    net.send(2, 1, b"m2")
    net.arrive(b"m2")
    return 1, b"m0", [b"m0", b"m2"]


def known_on_both_sides(net):
    """7 events: the record of m0 comes to P2 twice, and is gone."""
    net.send(0, 1, b"m0")
    net.send(0, 2, b"m1")
    net.arrive(b"m1")
    net.send(0, 2, b"m2")
    net.arrive(b"m2")
    net.send(2, 1, b"m3")
    net.arrive(b"m3")
    return 1, b"m0", [b"m0", b"m3"]


def overtaken(net):
    """4 events: m1 waits for m0 and is never looked at again."""
    net.send(0, 1, b"m0")
    net.send(0, 1, b"m1")
    net.arrive(b"m1", b"m0")
    return 1, None, [b"m0", b"m1"]


TRACES = {
    "literal": (literal, GENEROUS),
    "F1": (merged_first, {"F1"}),
    "F2": (known_on_both_sides, {"F2"}),
    "F3": (merged_first, {"F3"}),
    "F4": (overtaken, {"F4"}),
}


def play(office, trace, rules):
    """(order of delivery, the right one)."""
    net = office(3, rules)
    where, late, right = trace(net)
    if late is not None:
        net.arrive(late)
    return net.got(where), right


@pytest.mark.parametrize("name", TRACES)
def test_the_text_fails(office, name):
    trace, faults = TRACES[name]
    got, right = play(office, trace, PaperText(frozenset(faults)))
    assert got != right
    assert set(got) <= set(right)


@pytest.mark.parametrize("name", TRACES)
@pytest.mark.parametrize("rules", CORRECT)
def test_mended_it_holds(office, name, rules):
    got, right = play(office, TRACES[name][0], rules)
    assert got == right


def test_the_text_as_printed_fails_wherever_one_fault_does(office):
    for name in ("F1", "F3", "F4"):
        got, right = play(office, TRACES[name][0], PaperText(LITERAL))
        assert got != right, name


@pytest.mark.parametrize("fault", ["F1", "F2", "F3", "F4"])
def test_each_fault_fails_alone_and_its_repair_is_needed(office, fault):
    """Whatever else is mended or not, short of faults that hide each other: some trace fails."""
    for more in chain.from_iterable(combinations(set(FAULTS) - {fault}, n) for n in range(5)):
        rules = rules_with(fault, *more)
        assert any(got != right for got, right in (play(office, trace, rules) for trace, _ in TRACES.values()))


def test_headers_of_the_first_trace_are_those_of_the_paper(office):
    net = office(3)
    literal(net)
    assert net.mails[b"m2"].records == ((0, 1, 1), (0, 2, 2))
    assert net.mails[b"m3"].records == ((0, 2, 2),)
    assert net.held(2) == [b"m3"]
