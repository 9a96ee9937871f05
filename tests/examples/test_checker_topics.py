"""The demo's judge on topics, last values and presence: a good history, and one for each promise that may be broken."""

from __future__ import annotations

import pytest
from demo.checker import judge
from demo.history import History, event_of
from demo.verdict import Verdict


def run(script: str) -> Verdict:
    """A history from lines in program order; t is the number of the line, in milliseconds.

    H start|end|lost|gap, H sent UID [TOPIC [retain]], H receipt UID OUTCOME, H given UID [TOPIC [STAMP]],
    H value UID TOPIC STAMP, H acked UID, H asking TOPIC in|out, H change TOPIC STATE,
    H changed TOPIC EPOCH, H presence OF ATTEMPT on|off, H revoke TOPIC, H attached EPOCH. A topic of '*' is none: all.
    """
    history = History()
    for t, line in enumerate(filter(None, map(str.strip, script.splitlines()))):
        host, kind, *rest = line.split()
        names = {
            "sent": ("uid", "topic", "retain"), "given": ("uid", "topic", "stamp"), "value": ("uid", "topic", "stamp"),
            "receipt": ("uid", "outcome"), "asking": ("topic", "state"), "change": ("topic", "state"),
            "changed": ("topic", "epoch"), "attached": ("epoch",), "presence": ("of", "attempt", "online"),
            "revoke": ("topic",),
        }.get(kind, ("uid",))  # fmt: skip
        entry = {"event": kind, "host": host, "t": t * 1000, **dict(zip(names, rest, strict=False))}
        if entry.get("topic") == "*":
            entry["topic"] = ""
        if "stamp" in entry:
            entry["stamp"] = [int(entry["stamp"]), 1]
        if "epoch" in entry:
            entry["epoch"] = int(entry["epoch"])
        if kind == "presence":
            entry |= {"attempt": int(entry["attempt"]), "online": entry["online"] == "on"}
        if kind in ("revoke", "attached"):
            history.take(entry)
        else:
            history.events.setdefault(host, []).append(event_of(entry))
    return judge(history)


SUBSCRIBED = """
A start
B start
B asking road in
B change road subscribed
B changed road
"""
"""B is subscribed to road; A only sends."""

TALK = """
A sent x
B given x
B acked x
A given x
A acked x
A sent m road
B given m road 10
B acked m
"""
"""A's m on road follows x, which B was given behind its subscription: B is owed m."""

END = "B asking road out\nB change road unsubscribed\nB changed road\n"
VALUE = "A sent w road retain\n" + SUBSCRIBED + "B value w road 10\n"


def without(script: str, *lines: str) -> str:
    """The script without these lines."""
    assert all(line in script.splitlines() for line in lines)
    return "\n".join(line for line in script.splitlines() if line not in lines)


def test_a_good_history_on_topics_is_clean() -> None:
    verdict = run(SUBSCRIBED + TALK + END + "A sent n road\nB end\n")
    assert verdict.good and not verdict.witnesses
    assert (verdict.messages, verdict.deliveries, verdict.on_topics) == (3, 3, 1)


def test_a_subscriber_misses_what_certainly_follows_its_subscription() -> None:
    verdict = run(without(SUBSCRIBED + TALK, "B given m road 10", "B acked m"))
    assert verdict.lost == 1
    assert verdict.witnesses == ["B never got m of A (to topic road), nor anything that host sent later"]


def test_what_is_concurrent_with_the_subscription_may_come_or_not() -> None:
    assert run(SUBSCRIBED + "A sent m road\n").good
    assert run(SUBSCRIBED + "A sent m road\nB given m road 10\nB acked m\n").good


def test_what_follows_the_call_is_owed_before_the_change_is_told() -> None:
    """B sends y behind its subscribe(), and A answers it on the topic."""
    script = """
B start
A start
B asking road in
B sent y
A given y
A acked y
A sent m road
B change road subscribed
B changed road
B given y
B acked y
"""
    assert run(script).lost == 1
    assert run(script + "B given m road 10\nB acked m\n").good


def test_what_follows_is_owed_up_to_what_was_given_before_the_end() -> None:
    """z follows m: who was given z before the end was owed m, and of what came later nothing is certain."""
    script = without(SUBSCRIBED + TALK, "B given m road 10", "B acked m") + "\nA sent z\nA given z\nA acked z\n"
    seen, end = "B given z\nB acked z\n", END
    assert run(script + seen + end).lost == 1
    assert run(script + end + seen).good


def test_what_was_given_behind_a_change_is_no_proof_if_that_was_not_acknowledged_in_its_session() -> None:
    """At the next station x stands before the subscription, and so may m."""
    script = without("B attached 1" + SUBSCRIBED + TALK, "B given m road 10", "B acked m")
    assert run(script.replace("changed road", "changed road 1")).lost == 1
    assert run(script.replace("changed road", "changed road 0")).good
    assert run(script.replace("B changed road", "B attached 2\nB changed road 2")).good


def test_own_messages_come_back_to_subscribers() -> None:
    script = SUBSCRIBED + "B sent m road\n"
    assert run(script).lost == 1
    assert run(script + "B given m road 10\nB acked m\n").good


@pytest.mark.parametrize("change", ["unsubscribed", "refused", "ended"])
def test_what_is_given_outside_of_a_subscription_is_not_owed(change: str) -> None:
    early = "A start\nB start\nA sent m road\nB given m road 10\nB acked m\n"
    assert run(early).witnesses == ["B was given m on road while it was not subscribed"]
    late = SUBSCRIBED + f"A sent m road\nB change road {change}\nB changed road\nB given m road 10\nB acked m\n"
    verdict = run(late)
    assert (verdict.not_owed, verdict.lost, verdict.good) == (1, 0, False)
    assert run(late.replace("change road", "change *").replace("changed road", "changed *")).not_owed == 1


def test_given_on_another_topic_than_it_was_sent_on_is_not_owed() -> None:
    assert run(SUBSCRIBED + "A sent m map\nB given m road 10\nB acked m\n").not_owed == 1
    assert run(SUBSCRIBED + "A sent m road\nA receipt m stored\nA receipt m refused\nB given m road 10\n").not_owed == 1
    assert run(SUBSCRIBED + TALK.replace("B given m road 10\nB acked m\n", "A receipt m refused\n")).good


def test_doubled_on_a_topic() -> None:
    assert run(SUBSCRIBED + TALK + "B given m road 10\nB acked m\n").doubled == 1


def test_causal_order_holds_between_a_topic_and_everything_else() -> None:
    verdict = run(
        SUBSCRIBED + "A sent x\nA sent m road\nB given m road 10\nB given x\nB acked x\nA given x\nA acked x\n"
    )
    assert verdict.out_of_order == 1
    assert verdict.witnesses == ["B was given m before x, which happened before it: A sent x, then A sent m"]


# ---- rights ----


def test_after_a_right_is_taken_back_nothing_more_is_certain() -> None:
    script = without(SUBSCRIBED + TALK, "B given m road 10", "B acked m")
    told = "B change road ended\nB changed road\n"
    assert run(script + "\nA sent z\nB given z\nB acked z\nA given z\nA acked z\n" + told).lost == 1
    assert run(script + "\nB revoke road\nA sent z\nB given z\nB acked z\nA given z\nA acked z\n" + told).good


def test_a_right_is_taken_back_and_the_host_is_not_told() -> None:
    verdict = run(SUBSCRIBED + "B revoke road\nB end\n")
    assert (verdict.untold, verdict.good) == (1, False)
    assert verdict.witnesses == ["B was never told that it is not subscribed to road"]
    assert verdict.line() == "lost 0, doubled 0, out of order 0, ended and not told 1"
    assert run(SUBSCRIBED + "B revoke road\nB change road ended\nB changed road\nB end\n").good
    assert run("A start\nB start\nB revoke road\nB end\n").good


def test_who_subscribes_again_after_the_right_is_given_back_is_owed_again() -> None:
    script = SUBSCRIBED + "B revoke road\nB change road ended\nB changed road\n"
    script += SUBSCRIBED.removeprefix("\nA start\nB start\n") + TALK
    assert run(script).good
    assert run(without(script, "B given m road 10", "B acked m")).lost == 1


# ---- kills ----


def test_a_kill_leaves_open_whether_an_unacknowledged_change_counts() -> None:
    begun = without(SUBSCRIBED, "B changed road") + "\nA sent m road\n"
    assert run(begun + "B start\nB given m road 10\nB acked m\n").good
    assert run(begun + "B start\nB change road subscribed\nB changed road\n").good
    over = SUBSCRIBED + without(END, "B changed road") + "\nA sent m road\nB start\nB given m road 10\nB acked m\n"
    assert run(over).good
    assert run(over.replace("B start\nB given", "B changed road\nB start\nB given")).not_owed == 1


def test_a_message_that_was_not_acknowledged_need_not_come_again_behind_the_end() -> None:
    """At the next station the end of the subscription stands before it; nothing is out of order for that."""
    script = SUBSCRIBED + "A sent m road\nA sent x\nB given m road 10\nB start\n" + END
    assert run(script + "B given x\nB acked x\nA given x\nA acked x\n").good


def test_a_lost_state_ends_all_subscriptions() -> None:
    assert run(
        without(SUBSCRIBED + TALK, "B given m road 10", "B acked m", "B given x", "B acked x") + "\nB lost\n"
    ).good


# ---- last values ----


def test_a_last_value_is_no_delivery_and_no_double() -> None:
    verdict = run(SUBSCRIBED + TALK.replace("m road\n", "m road retain\n") + END + VALUE.split("\n", 4)[4] + "\n")
    assert (verdict.doubled, verdict.deliveries) == (0, 3)


def test_a_value_must_have_been_retained_on_this_topic() -> None:
    assert run(VALUE).good
    assert run(VALUE.replace("w road retain", "w road")).not_owed == 1
    assert run(VALUE.replace("sent w road", "sent w map")).not_owed == 1
    assert run(VALUE.replace("value w", "value q")).not_owed == 1
    assert run("A sent w road retain\nA receipt w refused\n" + VALUE.split("\n", 1)[1]).not_owed == 1
    assert run("A sent w road retain\nB start\nB value w road 10\n").not_owed == 1


def test_what_happened_before_a_value_comes_before_it() -> None:
    script = "A sent x\n" + VALUE + "B given x\nB acked x\nA given x\nA acked x\n"
    verdict = run(script)
    assert verdict.out_of_order == 1
    assert verdict.witnesses[0] == "B was given w before x, which happened before it: A sent x, then A sent w"


def test_a_value_is_known_to_who_was_given_it() -> None:
    """B answers the value; C has the answer before something that the value follows."""
    script = "C start\nA sent x\n" + VALUE.replace("B value", "B given x\nB acked x\nA given x\nA acked x\nB value")
    script = script.replace("B given x\nB acked x\n", "") + "B sent v\nC given v\nC given x\nC acked x\n"
    assert "A sent x, then A sent w, then B was given w, then B sent v" in run(script).witnesses[0]


def test_nothing_that_a_value_follows_is_given_after_it_in_the_same_session() -> None:
    script = VALUE.replace("A sent w", "A sent m road\nA sent w")
    assert run(script + "B given m road 9\nB acked m\n").out_of_order == 1
    assert run(script + "B given w road 10\nB acked w\n").out_of_order == 1
    assert run(script + "B attached\nB given m road 9\nB given w road 10\nB acked w\n").good


def test_all_subscribers_end_with_the_newest_value() -> None:
    newer = "A sent v road retain\nC asking road in\nC change road subscribed\nC changed road\nC value v road 20\n"
    verdict = run(VALUE + newer)
    assert (verdict.diverged, verdict.good) == (1, False)
    assert verdict.witnesses == ["B ends with w as the last value of road, others with v"]
    assert run(VALUE + newer + "B given v road 20\nB acked v\n").good
    assert run(VALUE + END + newer).good


def test_stamps_are_the_same_everywhere_and_follow_the_order() -> None:
    both = VALUE + "C asking road in\nC change road subscribed\nC changed road\n"
    assert run(both + "C value w road 11\n").diverged >= 1
    script = SUBSCRIBED + "A sent m road\nA sent n road\nB given m road 10\nB given n road {}\nB acked n\n"
    assert run(script.format(11)).good
    assert run(script.format(9)).witnesses == [
        "m has a larger stamp than a message on its topic that happened after it"
    ]


# ---- presence ----


def test_nobody_is_heard_who_is_said_to_be_away() -> None:
    script = "A start\nB start\nB change $presence/A subscribed\nB changed $presence/A\nB presence A 1 {}\nA sent x\n"
    script += "B given x\nB acked x\nA given x\nA acked x\n"
    assert run(script.format("on")).good
    assert run(script.format("off")).witnesses == ["B was given x of A, which it had been told is away"]
    assert run(script.format("off").replace("A sent x", "A sent x\nB presence A 2 on")).good
    ended = "B change $presence/A ended\nB changed $presence/A"
    assert run(script.format("off").replace("A sent x", f"A sent x\n{ended}")).good


def test_no_word_of_presence_is_older_than_the_one_before() -> None:
    script = "B start\nB presence A 2 on\nB presence A 2 off\n"
    assert run(script).good
    assert run(script + "B presence A 2 on\n").out_of_order == 1
    assert run(script + "B presence A 1 off\n").witnesses == ["B was told something old of A: attempt 1"]
    assert run(script + "B presence A 3 on\nB start\nB presence A 2 off\n").good
