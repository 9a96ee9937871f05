"""The judge on hand-made traces: a good one for each rule, and a bad one with its expected witness."""

from __future__ import annotations

import pytest

from roamcast.middleware.simulator.chains import chain
from roamcast.middleware.simulator.checkers import Judge, Violation

HOSTS = ["h1", "h2", "h3"]


def judge(*lines: str, gaps: bool = False, hosts: list[str] | None = None) -> Judge:
    """A judge that has seen h1..h3 become members at 0, and then `lines`, one time unit apart, from 10 on."""
    made = Judge(gaps_allowed=gaps)
    for host in hosts or HOSTS:
        made.observe((0, "member", host))
        made.observe((0, "born", host))
    for time, line in enumerate(lines, start=10):
        observe(made, time, line)
    return made


def observe(made: Judge, time: int, line: str) -> None:
    """'h1 sends m1', 'h1 mails m1 to h2', 'h1 is given m1' ... as the event that the judge takes."""
    match line.split():
        case [host, "sends", label]:
            made.observe((time, "sent", host, label, None, True))
        case [host, "mails", label, "to", name]:
            known = True if name in made.current else False if name == "nobody" else None
            made.observe((time, "sent", host, label, name, known))
        case [host, "is", "given", label]:
            made.observe((time, "given", host, label))
        case [host, "acknowledges", label]:
            made.observe((time, "acked", host, label))
        case [host, "hears", label, "stored" | "unknown" as what]:
            made.observe((time, "receipt", host, label, what))
        case [host, "hears", label, "refused", "by", row]:
            made.observe((time, "refused", host, label, row))
        case [host, "restarts"]:
            made.observe((time, "born", host))
        case [host, "misses"]:
            made.observe((time, "gap", host))
        case [host, "forgets", *carried]:
            made.observe((time, "identity", host, "unknown here", *carried))
        case [host, "is", "wiped"]:
            made.observe((time, "identity", host, "wiped"))
            made.observe((time, "born", host))
        case [host, "leaves"]:
            made.observe((time, "left", host))
        case _:
            raise AssertionError(line)


def everybody(label: str) -> list[str]:
    return [f"{host} {verb} {label}" for host in HOSTS for verb in ("is given", "acknowledges")]


def test_a_good_trace() -> None:
    lines = ["h1 sends m1", *everybody("m1"), "h2 sends m2", *everybody("m2"), "h3 mails m3 to h3"]
    made = judge(*lines, "h3 is given m3", "h3 acknowledges m3")
    assert made.missing(HOSTS) is None
    made.finish(HOSTS)
    assert made.deliveries == 7


BAD: list[tuple[str, list[str], list[str]]] = [
    (
        "order",
        ["h1 sends m1", "h2 is given m1", "h2 sends m2", "h3 is given m2"],
        ["m1 before m2 because h2 was given m1 before it sent m2", "h3 was given m2 without m1"],
    ),
    (
        "order",
        ["h1 mails m1 to h3", "h1 sends m2", "h2 is given m2", "h2 mails m3 to h3", "h3 is given m3"],
        [
            "m1 before m3 because h1 sent m1 before it sent m2, h2 was given m2 before it sent m3",
            "h3 was given m3 without m1",
        ],
    ),
    (
        "order",
        ["h1 sends m1", "h1 sends m2", "h2 is given m2"],
        ["m1 before m2 because h1 sent m1 before it sent m2", "h2 was given m2 without m1"],
    ),
    (
        "twice",
        ["h1 sends m1", "h2 is given m1", "h2 is given m1"],
        ["h2 had been given m1 at 11 us (since not acknowledged)", "h2 was given it again at 12 us"],
    ),
    (
        "twice",
        ["h1 sends m1", "h2 is given m1", "h2 acknowledges m1", "h2 restarts", "h2 is given m1"],
        ["h2 had been given m1 at 11 us (since acknowledged)", "h2 was given it again at 14 us"],
    ),
    (
        "not owed",
        ["h1 mails m1 to h2", "h3 is given m1"],
        ["m1 is mail of h1 to h2", "h3 was given it"],
    ),
    ("never sent", ["h1 is given m9"], ["h1 was given m9, which nobody has sent"]),
    (
        "refused wrongly",
        ["h1 mails m1 to h2", "h1 hears m1 refused by 1/1"],
        ["m1 of h1 to h2 was refused", "it could be delivered"],
    ),
    (
        "refused twice",
        ["h1 mails m1 to nobody", "h1 hears m1 refused by 1/1", "h1 hears m1 refused by 2/7"],
        ["m1 of h1 was refused by 1/1 and by 2/7"],
    ),
    (
        "refused to another",
        ["h1 mails m1 to nobody", "h2 hears m1 refused by 1/1"],
        ["m1 is of h1", "h2 was told of a refusal"],
    ),
    (
        "gap without cause",
        ["h1 misses"],
        ["h1 was told of a gap at 10 us", "nothing can expire in this run"],
    ),
    (
        "state lost",
        ["h1 forgets"],
        [
            "h1 was told at 10 us that its session is unknown",
            "its state was never lost, and nothing can expire in this run",
        ],
    ),
    ("acknowledged unseen", ["h1 acknowledges m1"], ["h1 acknowledged m1 without having been given it"]),
]


@pytest.mark.parametrize(("rule", "lines", "witness"), BAD)
def test_a_broken_promise_is_seen_at_once_and_told_in_words(rule: str, lines: list[str], witness: list[str]) -> None:
    judge(*lines[:-1])
    with pytest.raises(Violation) as caught:
        judge(*lines)
    assert (caught.value.rule, caught.value.witness) == (rule, witness)


def test_the_witness_is_the_shortest_chain() -> None:
    detour = ["h1 sends m1", "h2 is given m1", "h2 sends m2", "h3 is given m1", "h3 is given m2", "h3 sends m3"]
    made = judge(*detour)
    assert chain(made, made.by_label["m1"], made.by_label["m3"]) == ["h3 was given m1 before it sent m3"]


def test_what_a_process_did_not_acknowledge_comes_again_after_its_death() -> None:
    made = judge("h1 sends m1", "h2 is given m1", "h2 restarts", "h2 is given m1", "h2 acknowledges m1")
    assert made.missing(["h2"]) is None


def test_order_holds_again_after_a_restart() -> None:
    lines = ["h1 sends m1", "h1 sends m2", "h2 is given m1", "h2 is given m2", "h2 restarts", "h2 is given m2"]
    with pytest.raises(Violation, match="h2 was given m2 without m1"):
        judge(*lines)


OWED: list[tuple[list[str], list[str], bool]] = [
    (["h1 sends m1"], ["h1", "h2"], True),  # its sender came back
    (["h1 sends m1"], ["h2"], False),  # it did not, and nobody knows that the message ever left
    (["h1 sends m1", "h1 hears m1 unknown"], ["h1", "h2"], False),
    (["h1 sends m1", "h1 hears m1 stored", "h1 hears m1 unknown"], ["h2"], True),
    (["h1 sends m1", "h1 hears m1 unknown", "h3 is given m1"], ["h2"], True),  # somebody has it
    (["h1 sends m1", "h2 is given m1"], ["h1", "h2"], True),  # given, but never acknowledged
    (["h1 mails m1 to h3"], ["h1", "h2"], False),
    (["h1 mails m1 to h2"], ["h1", "h2"], True),
]


@pytest.mark.parametrize(("lines", "back", "owed"), OWED)
def test_what_is_owed(lines: list[str], back: list[str], owed: bool) -> None:
    made = judge(*lines)
    if not owed:
        made.finish(back)
        return
    with pytest.raises(Violation) as caught:
        made.finish(back)
    assert caught.value.rule == "lost"
    assert caught.value.witness[0].startswith("m1 is ")


def test_a_message_of_a_sender_that_vanished_is_owed_only_once_it_is_stored() -> None:
    made = judge("h1 sends m1", "h2 sends m2", "h2 is given m2", "h2 acknowledges m2")
    made.finish(["h2"])
    observe(made, 50, "h1 hears m1 stored")
    with pytest.raises(Violation, match="its receipt said stored"):
        made.finish(["h2"])


def test_a_refusal_is_owed_while_the_sender_lives() -> None:
    made = judge("h1 mails m1 to nobody")
    assert made.missing(HOSTS) == ("h1", "m1")
    observe(made, 50, "h1 hears m1 refused by 1/1")
    observe(made, 51, "h1 hears m1 refused by 1/1")
    assert made.missing(HOSTS) is None


def test_mail_to_a_name_on_its_way_is_either_refused_or_delivered() -> None:
    made = judge("h1 mails m1 to h4")
    made.observe((40, "member", "h4"))
    assert made.missing([*HOSTS, "h4"]) == ("h1", "m1")
    observe(made, 50, "h1 hears m1 refused by 1/1")
    made.finish([*HOSTS, "h4"])
    with pytest.raises(Violation) as caught:
        observe(made, 51, "h4 is given m1")
    assert caught.value.rule == "refused and delivered"


def test_a_gap_excuses_what_was_sent_before_it_and_nothing_else() -> None:
    lines = ["h1 sends m1", "h1 sends m2", "h2 misses", "h2 is given m2", "h2 acknowledges m2"]
    made = judge(*lines, gaps=True)
    made.finish(["h2"])
    with pytest.raises(Violation, match="h2 was given m2 first and m1 at"):
        observe(made, 40, "h2 is given m1")  # skipped once, it may not come late
    with pytest.raises(Violation, match="lost"):
        judge("h2 misses", "h1 sends m1", gaps=True).finish(["h1", "h2"])


def test_a_late_member_is_owed_only_what_comes_after_it() -> None:
    made = judge("h1 sends m1", *everybody("m1"), "h1 sends m2", *everybody("m2"))
    made.observe((90, "member", "h4"))
    made.finish([*HOSTS, "h4"])
    observe(made, 95, "h1 sends m3")
    assert made.missing(["h4"]) is None  # nobody is known to have stored it, and its sender is not among those back
    assert made.missing(["h1", "h4"]) == ("h1", "m3")


def test_a_new_incarnation_starts_a_life_of_its_own() -> None:
    lines = ["h1 sends m1", "h2 is given m1", "h2 acknowledges m1", "h1 sends m2", "h2 is wiped"]
    made = judge(*lines, "h2 is given m1", "h2 acknowledges m1")  # may see again what the older one saw
    assert made.missing(["h1", "h2"]) == ("h1", "m1")
    with pytest.raises(Violation, match="h2 never had it"):
        made.finish(["h2", "h1"])  # m2 waited for the older one
    judge(*lines, "h2 misses", "h1 hears m1 stored", "h1 hears m2 stored").finish(["h2"])  # joined elsewhere, told so


def test_messages_carried_into_a_new_incarnation_keep_their_order_but_not_their_past() -> None:
    before = ["h2 sends m0", "h1 is given m0", "h1 sends m1", "h1 sends m2", "h1 hears m1 unknown", "h1 forgets m2"]
    made = judge(*before, "h3 is given m2", gaps=True)  # its fate began anew: neither m0 nor m1 is before it
    assert made.by_label["m2"].past == {}


def test_mail_to_a_host_that_left_is_owed_to_nobody() -> None:
    judge("h1 mails m1 to h2", "h1 hears m1 stored", "h2 leaves", "h1 is wiped").finish(["h1"])
