"""Stations that come and go: the list that a host follows, and MOVE."""

from __future__ import annotations

import pytest

from roamcast.middleware.errors import LocalProtocolError
from roamcast.middleware.host_frames import Data, Move, Uack
from roamcast.middleware.mobile_host.core import AgentCore
from roamcast.middleware.mobile_host.effects import Connect, Disconnect, Report
from roamcast.middleware.settings import SECOND


def fail(rig) -> None:
    rig.tick(lambda core: core.link_lost("unreachable"))


def calls_of_a_round(rig) -> list[int]:
    """The present attempt and the rest of its round all fail: the slots called."""
    called = []
    while rig.core.status()["state"] == "attaching":
        fail(rig)
        called += rig.connects
    return called


# ---- the list ----


def test_a_new_list_is_used_kept_and_reported(rig, make_station):
    rig.attach(stations=(make_station(4), make_station(1)))
    assert [report.fields for report in rig.of(Report) if report.event == "stations"] == [{"stations": ["s4", "s1"]}]
    assert rig.core.status()["stations"] == ["s4", "s1"]
    rig.crash()
    assert rig.core.status()["stations"] == ["s4", "s1"]
    rig.tick(lambda core: core.move("s4"))
    assert rig.of(Connect) == [Connect(4, "tcp://s4:7001", b"k" * 40)]
    assert rig.core.status()["station"] == "s4"


def test_no_news_and_old_news_change_nothing(rig):
    rig.attach(stations=rig.credential)
    assert rig.disk.stations == ()
    rig.reattach()
    assert rig.core.status()["stations"] == ["s1", "s2", "s3"]


def test_a_station_that_is_not_in_the_list_any_more_is_not_called(rig, make_station):
    rig.attach(stations=(make_station(2), make_station(3)))
    rig.tick(lambda core: core.link_lost("cut"), after=10 * SECOND)
    called = [*rig.connects, *calls_of_a_round(rig)]
    assert sorted(called) == [2, 3]
    assert rig.disk.last == 1
    with pytest.raises(LocalProtocolError, match="s1"):
        rig.core.move("s1")


def test_hello_names_the_last_station_also_where_it_is_gone(rig, make_station):
    rig.attach(stations=(make_station(2),))
    rig.tick(lambda core: core.link_lost("cut"), after=10 * SECOND)
    assert (rig.connects, rig.hello.last) == ([2], 1)


def test_a_station_is_called_with_the_key_and_address_of_the_list(rig, make_station):
    rig.attach(stations=(make_station(1, "hill", b"n" * 40),))
    rig.tick(lambda core: core.link_lost("cut"), after=10 * SECOND)
    assert rig.of(Connect) == [Connect(1, "tcp://hill:7001", b"n" * 40)]


def test_a_list_that_leads_nowhere_is_not_the_end(rig, make_station):
    """A list with addresses that it cannot reach: after a whole round the credential's stations are tried too."""
    rig.attach(stations=(make_station(1, "inside"), make_station(2)))
    rig.tick(lambda core: core.link_lost("cut"), after=10 * SECOND)
    assert [*rig.connects, *calls_of_a_round(rig)] == [1, 2]
    rig.tick(after=SECOND)
    endpoints = [effect.endpoint for effect in rig.of(Connect)]
    while rig.core.status()["state"] == "attaching":
        fail(rig)
        endpoints += [effect.endpoint for effect in rig.of(Connect)]
    assert endpoints == ["tcp://inside:7001", "tcp://s2:7001", "tcp://s1:7001", "tcp://s3:7001"]


def test_slots_and_ids_name_a_station(rig):
    rig.attach()
    rig.tick(lambda core: core.move("s3"))
    assert rig.connects == [3]
    rig.tick(lambda core: core.move(2))
    assert rig.connects == [2]


# ---- MOVE ----


def test_move_attaches_elsewhere_at_once_and_loses_nothing(rig, make_item):
    rig.attach()
    rig.submit(b"queued")
    rig.msg(0, 1, (1, make_item(2, 1)))
    rig.hear(Move(()), after=10 * SECOND)
    assert rig.connects in ([2], [3])
    assert (rig.hello.last, rig.hello.le, rig.hello.c) == (1, 1, 0)
    assert "other" in rig.core.status()["problem"]
    rig.submit(b"meanwhile")
    rig.attach()
    assert rig.core.status()["problem"] is None
    assert [frame.body for frame in rig.sent(Data)] == [b"queued", b"meanwhile"]


def test_move_answers_a_hello_as_well(rig):
    rig.tick(AgentCore.start)
    rig.hear(Move(()))
    assert rig.connects in ([2], [3])


def test_the_station_that_said_move_comes_last(rig):
    rig.attach()
    rig.hear(Move(()), after=10 * SECOND)
    called = [*rig.connects, *calls_of_a_round(rig)]
    assert sorted(called[:2]) == [2, 3]
    assert called[2:] == [1]


def test_the_only_station_is_called_again_and_not_without_end(rig, make_station):
    rig.attach(stations=(make_station(1),))
    rig.hear(Move(()), after=10 * SECOND)
    assert rig.connects == [1]
    rig.hear(Move(()))
    assert rig.core.status()["state"] == "paused"


def test_stations_that_all_send_their_hosts_away_are_called_at_the_pace_of_failed_ones(rig):
    rig.tick(AgentCore.start)
    calls = len(rig.connects)
    for _ in range(50):
        rig.hear(Move(()))
        calls += len(rig.connects)
        if rig.core.status()["state"] == "paused":
            break
    assert calls <= 6


def test_stations_that_send_their_hosts_away_after_the_welcome_are_no_loop_either(rig):
    rig.tick(AgentCore.start)
    for _ in range(50):
        if rig.core.status()["state"] == "paused":
            break
        rig.attach()
        rig.hear(Move(()))
    assert rig.core.status()["state"] == "paused"


def test_move_brings_news_of_the_stations(rig, make_station):
    rig.tick(AgentCore.start)
    rig.hear(Move((make_station(1), make_station(7))))
    assert rig.connects == [7]
    assert rig.disk.stations == (make_station(1), make_station(7))


def test_the_application_may_go_back_to_it(rig):
    rig.attach()
    rig.hear(Move(()), after=10 * SECOND)
    rig.tick(lambda core: core.move(1))
    assert rig.connects == [1]


def test_a_settled_session_forgives(rig):
    rig.attach()
    rig.hear(Move(()), after=10 * SECOND)
    rig.attach()
    rig.tick(lambda core: core.link_lost("cut"), after=10 * SECOND)
    here = rig.connects
    rig.tick(lambda core: core.move(1))
    rig.attach()
    rig.tick(lambda core: core.link_lost("cut"), after=10 * SECOND)
    assert here != [1]
    assert rig.connects == [1]


def test_move_means_nothing_where_there_is_no_connection(rig):
    rig.attach()
    rig.tick(AgentCore.suspend)
    assert rig.hear(Move(())) == []


def test_what_comes_behind_move_is_of_the_old_connection(rig):
    rig.attach()
    rig.submit()
    rig.hear(Move(()), Uack(1, 1, 1, 1), after=10 * SECOND)
    assert rig.receipts == []
    assert not rig.of(Disconnect)
