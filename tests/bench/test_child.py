"""The channel to a process of the benchmark."""

from __future__ import annotations

from pathlib import Path

from bench.child import Child

COMMANDS = 400


def test_commands_that_come_while_one_is_carried_out_are_answered_in_turn(tmp_path: Path) -> None:
    child = Child("relay", tmp_path, "live_bare")
    try:
        for _ in range(COMMANDS):
            child.tell("hello")
        assert [child.answer() for _ in range(COMMANDS)] == [child.hello] * COMMANDS
    finally:
        child.close()
