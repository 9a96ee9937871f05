"""What a command or a station tells its operator to do, done: it helps."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from newcomers import MINUTE_US, Newcomer, invite

from roamcast.mss_station import Station
from roamcast.mss_station.cli import main
from roamcast.mss_station.clock import Clock
from roamcast.mss_station.errors import StoreError
from roamcast.mss_station.store import STORE_NAME

MakeGroup = Callable[[int], Any]
Until = Callable[..., Any]


def said(capsys: pytest.CaptureFixture[str], command: list[str]) -> tuple[int, str]:
    """Exit code and all that it said."""
    capsys.readouterr()
    code = main(command)
    told = capsys.readouterr()
    return code, told.out + told.err


def lose(store: Path) -> None:
    store.unlink()


def fill_with_garbage(store: Path) -> None:
    store.write_bytes(b"garbage" * 2_000)


def damage(store: Path) -> None:
    with store.open("r+b") as file:
        file.seek(store.stat().st_size // 2)
        file.write(bytes(range(256)) * 64)


@pytest.mark.parametrize("spoil", [lose, fill_with_garbage, damage])
def test_a_station_without_its_store_joins_again_as_its_error_says(
    make_group: MakeGroup, until: Until, capsys: pytest.CaptureFixture[str], spoil: Callable[[Path], None]
) -> None:
    group = make_group(2)
    for name in group.names:
        group.start(name)
    until(lambda: all(link["linked"] for link in group.running["s1"].status()["links"]))
    group.running["s2"].stop()
    spoil(group.path("s2") / STORE_NAME)
    with Station(group.path("s2")) as station, pytest.raises(StoreError) as caught:
        station.run()
    first = "mss-station stations retire DIR ID --lost"
    then = "mss-station join DIR TOKEN --rejoin"
    assert str(caught.value).index(first) < str(caught.value).index(then)
    assert said(capsys, ["stations", "retire", str(group.path("s1")), "s2", "--lost"])[0] == 0
    code, told = said(capsys, ["join", str(group.path("s2")), invite(group), "--rejoin"])
    assert code == 0 and "station s2.2" in told
    again = group.start("s2")
    until(lambda: again.status()["group"]["serving"])


def test_a_join_that_is_done_is_told_so_when_it_is_given_again(
    make_group: MakeGroup, until: Until, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before it runs and while it runs, after the token's time too; the command changes nothing."""
    group = make_group(1)
    group.start("s1")
    newcomer = Newcomer(group, "s2")
    token = invite(group, valid_us=MINUTE_US)
    command = ["join", str(newcomer.path), token, *newcomer.options()]
    done = f"station s2 in {newcomer.path} is counted in: slot 2 of group g; start it: run\n"
    code, told = said(capsys, command)
    assert code == 0 and told.startswith(done)
    assert said(capsys, command) == (0, done)
    second = group.start("s2")
    until(lambda: second.status()["group"]["serving"])
    now = Clock.wall
    monkeypatch.setattr(Clock, "wall", lambda self: now(self) + 2 * MINUTE_US)
    assert said(capsys, command) == (0, done)
    other = [*command[:-1], "tcp://127.0.0.1:9"]
    assert said(capsys, other)[0] == 2
    monkeypatch.undo()
    code, told = said(capsys, ["join", str(newcomer.path), invite(group), *other[3:]])
    assert code == 3 and "in use" in told


def test_the_founder_of_another_group_of_that_name_is_not_taken_for_a_member(
    make_group: MakeGroup, capsys: pytest.CaptureFixture[str]
) -> None:
    group = make_group(1)
    group.start("s1")
    alone = Newcomer(group, "s2")
    assert main(["init", str(alone.path), "--group", "g", *alone.options()]) == 0
    code, told = said(capsys, ["join", str(alone.path), invite(group), *alone.options()])
    assert code == 2 and "holds a station already" in told
