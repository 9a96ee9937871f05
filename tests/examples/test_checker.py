"""The demo's judge against hand-made histories: a good one, and one for each thing it must find."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest
from demo.checker import judge
from demo.history import Event, History, load
from demo.verdict import Verdict


def run(script: str, members: list[str] | None = None) -> Verdict:
    """A history from lines ``HOST EVENT [UID [TO or OUTCOME]]``, in program order; `members` as in judge."""
    history = History()
    for t, line in enumerate(filter(None, script.splitlines())):
        host, kind, *rest = line.split()
        uid = rest[0] if rest else ""
        more = rest[1] if len(rest) > 1 else None
        outcome = more or "" if kind == "receipt" else ""
        history.events.setdefault(host, []).append(Event(kind, uid, more, t * 1000, outcome))
    return judge(history, members)


CHAIN = """
A start
B start
C start
A call x
A sent x
B given x
B acked x
B call m
B sent m
A given x
A given m
A acked m
B given m
B acked m
"""


def test_good_history_with_a_resumed_host_is_clean() -> None:
    verdict = run(
        CHAIN
        + """
C given x
C start
C given x
C acked x
C given m
C acking m
C start
C given m
C acking m
C acked m
C end
"""
    )
    assert verdict.good and not verdict.witnesses
    assert (verdict.messages, verdict.deliveries) == (2, 6)
    assert verdict.line() == "lost 0, doubled 0, out of order 0"
    assert verdict.latencies_us["B"] == [2000, 5000]


def test_lost_broadcast_is_found_and_does_not_count_as_disorder() -> None:
    verdict = run(CHAIN + "C given m\nC acked m\n")
    assert (verdict.lost, verdict.doubled, verdict.out_of_order) == (1, 0, 0)
    assert verdict.witnesses == ["C never got x of A (to all), nor anything that host sent later"]


def test_given_but_never_acknowledged_is_lost() -> None:
    verdict = run("A start\nB start\nA sent m B\nB given m\n")
    assert verdict.lost == 1


def test_doubled_within_a_life_and_across_lives() -> None:
    once = run("A start\nA sent m B\nB given m\nB given m\nB acked m\n")
    assert (once.lost, once.doubled) == (0, 1)
    again = run("A start\nA sent m B\nB start\nB given m\nB acked m\nB start\nB given m\nB acked m\n")
    assert (again.lost, again.doubled) == (0, 1)
    assert again.witnesses == ["B was given m twice: the second time 0.003 s after the first"]


def test_acknowledgement_is_cumulative() -> None:
    sent = "A sent m\nA sent n\nA sent o\n"
    verdict = run(sent + "A given m\nA given n\nA given o\nA acked n\nA start\nA given n\nA acked n\n")
    assert (verdict.lost, verdict.doubled) == (1, 1)


def test_kill_inside_the_acknowledgement_leaves_both_ways_open() -> None:
    life = "A sent m\nA sent n\nA given m\nA given n\n"
    held = run(life + "A acking n\nA start\n")
    assert held.good and held.deliveries == 2
    fell = run(life + "A acking n\nA start\nA given m\nA given n\nA acked n\nA end\n")
    assert fell.good and fell.deliveries == 2
    half = run(life + "A acking n\nA start\nA given n\nA acked n\nA end\n")
    assert half.good and half.deliveries == 2
    lost = run(life + "A acking m\nA start\nA end\n")
    assert (lost.lost, lost.deliveries) == (1, 1)


def test_order_broken_through_a_third_host_is_told_as_a_chain() -> None:
    verdict = run(CHAIN + "C given m\nC given x\nC acked x\n")
    assert (verdict.lost, verdict.doubled, verdict.out_of_order) == (0, 0, 1)
    assert verdict.witnesses == [
        "C was given m before x, which happened before it: A sent x, then B was given x, then B sent m"
    ]


def test_order_broken_within_one_sender() -> None:
    verdict = run("A sent m B\nA sent n B\nB given n\nB given m\nB acked m\n")
    assert verdict.out_of_order == 1
    assert verdict.witnesses == ["B was given n before m, which happened before it: A sent m, then A sent n"]


def test_mail_and_broadcast_are_one_order() -> None:
    """u by mail to C; then b to all; B answers b with mail v to C, which comes first."""
    verdict = run(
        """
A sent u C
A sent b
B given b
B sent v C
C given v
C given u
C given b
C acked b
B acked b
A given b
A acked b
"""
    )
    assert verdict.out_of_order == 1
    assert "A sent u, then A sent b, then B was given b, then B sent v" in verdict.witnesses[0]


def test_a_message_seen_in_a_life_that_ended_still_happened_before() -> None:
    """B saw x, was killed before acknowledging it, and had sent m: x comes before m for everybody."""
    verdict = run(
        """
A sent x
B given x
B call m
B start
B given x
B given m
B acked m
C given m
C given x
C acked x
A given x
A given m
A acked m
"""
    )
    assert (verdict.lost, verdict.doubled, verdict.out_of_order) == (0, 0, 1)


def test_disorder_in_a_life_that_was_taken_back_is_found_too() -> None:
    verdict = run("A sent m B\nA sent n B\nB given n\nB given m\nB start\nB given m\nB given n\nB acked n\n")
    assert (verdict.lost, verdict.doubled, verdict.out_of_order) == (0, 0, 1)


def test_message_in_doubt_is_owed_by_all_or_by_none() -> None:
    assert run("A call m\nA start\nB start\n").good
    assert run("A call m\nA sent m\nA receipt m unknown\nB start\n").good
    seen = run("A call m\nA start\nA end\nB given m\nB acked m\n")
    assert seen.lost == 1


def test_what_a_lost_station_took_along_is_owed_to_nobody_once_the_sender_was_told() -> None:
    """Hosts of that station may have got it."""
    script = "A start\nB start\nC start\nA call x\nA sent x\nA receipt x stored\nA given x\nA acked x\n"
    verdict = run(script)
    assert (verdict.lost, verdict.gone) == (2, 0)
    verdict = run(script + "A receipt x lost\n")
    assert (verdict.lost, verdict.gone, verdict.not_owed, verdict.good) == (0, 2, 0, True)
    assert "gone with a station and told 2" in verdict.line()


def test_not_owed_is_found() -> None:
    wrong = run("A sent m B\nB given m\nB acked m\nC given m\nC acked m\n")
    assert wrong.not_owed == 1 and not wrong.good
    assert wrong.line() == "lost 0, doubled 0, out of order 0, not owed 1"
    assert run("A start\nB given m\nB acked m\n").not_owed == 1
    assert run("A call m B\nA failed m\nB given m\nB acked m\n").not_owed == 1
    assert run("A call m X\nA sent m X\nA receipt m refused\n").good


def test_missing_after_a_discontinuity_was_told() -> None:
    verdict = run("A sent m B\nA sent n B\nB gap\nB given n\nB acked n\n")
    assert verdict.good and (verdict.lost, verdict.missed, verdict.gaps) == (0, 1, 1)


def test_repeat_after_a_lost_state_was_told() -> None:
    verdict = run("A sent m B\nB given m\nB acked m\nB start\nB lost\nB given m\nB acked m\n")
    assert verdict.good and verdict.repeated == 1


def test_only_members_are_owed_broadcasts() -> None:
    assert run("A sent m\nA given m\nA acked m\nB start\n", members=["A"]).good
    assert run("A sent m\nA given m\nA acked m\n", members=["A", "B"]).lost == 1


def test_logs_that_run_in_a_circle_are_an_order_fault() -> None:
    verdict = run("A given m\nA sent n\nB given n\nB sent m\nA acked m\n")
    assert verdict.out_of_order >= 1 and not verdict.good


def test_load_joins_lives_in_order_and_bears_a_torn_last_line(tmp_path: Path) -> None:
    first = [
        {"event": "start", "host": "A", "t": 5},
        {"event": "call", "host": "A", "uid": "m", "to": None, "t": 6},
        {"event": "move", "host": "A", "t": 6},
        {"event": "given", "host": "A", "uid": "m", "t": 7},
    ]
    second = [{"event": "start", "host": "A", "t": 9}, {"event": "given", "host": "A", "uid": "m", "t": 10}]
    text = "\n".join(json.dumps(line) for line in first)
    (tmp_path / "z.jsonl").write_text(text + '\n{"event":"giv')
    (tmp_path / "a.jsonl").write_text("\n".join(json.dumps(line) for line in second) + "\n")
    history = load(tmp_path.iterdir())
    assert [event.kind for event in history.events["A"]] == ["start", "call", "given", "start", "given"]
    assert history.others == [first[2]]
    (tmp_path / "bad.jsonl").write_text('{"event"\n{"event":"start","host":"A","t":1}\n')
    with pytest.raises(ValueError, match=r"bad\.jsonl, line 1"):
        load(tmp_path.iterdir())


def test_command_line_exit_codes(tmp_path: Path) -> None:
    log = tmp_path / "one.jsonl"
    command = [sys.executable, str(Path(__file__).resolve().parents[2] / "examples" / "demo" / "checker.py")]
    assert subprocess.run(command, capture_output=True).returncode == 2
    lines = [{"event": "sent", "host": "A", "uid": "m", "to": "A", "t": 1}]
    log.write_text("".join(json.dumps(line) + "\n" for line in lines))
    bad = subprocess.run([*command, str(log)], capture_output=True, text=True)
    assert bad.returncode == 1 and "lost 1" in bad.stdout
    lines += [{"event": kind, "host": "A", "uid": "m", "t": 2} for kind in ("given", "acked")]
    log.write_text("".join(json.dumps(line) + "\n" for line in lines))
    good = subprocess.run([*command, str(log)], capture_output=True, text=True)
    assert good.returncode == 0 and "messages 1, deliveries 1: lost 0, doubled 0, out of order 0" in good.stdout


def test_a_large_history_is_judged_quickly() -> None:
    history = History()
    hosts = [f"h{i:02}" for i in range(12)]
    uids = [f"{hosts[i % 12]}:{i}" for i in range(6000)]
    for host in hosts:
        events = history.events.setdefault(host, [Event("start")])
        for uid in uids:
            if uid.startswith(host):
                events.append(Event("sent", uid))
            events.append(Event("given", uid))
        events.append(Event("acked", uids[-1]))
    begun = time.process_time()
    verdict = judge(history)
    assert verdict.good and verdict.deliveries == 72_000
    assert time.process_time() - begun < 10
