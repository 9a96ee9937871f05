"""What a gateway withholds, relays and counts: the corrections B9 to B18, and flow with a station that stands still."""

from __future__ import annotations

from roamcast.middleware.clusters.frames import Claims, Data

TWO = [[1, 2, 11], [3, 4, 11]]


def test_a_row_reaches_the_other_cluster_at_once_and_under_its_own_name(group):
    world = group(TWO)
    world.enter(1, 3)
    world.deliver()
    assert [world.has(element, cluster) for element, cluster in ((2, 0), (3, 1), (4, 1), (11, 1))] == 4 * [{1: 3}]
    assert [item.n for item in world.stations[3].table.streams[11].items.values()] == [1, 2, 3]


def test_its_claim_of_a_home_row_waits_for_all_stations_beyond(group):
    world = group(TWO)
    world.tick(4)
    world.passes = lambda cluster, sender, target, frame: not (target == 4 and isinstance(frame, Data))
    world.enter(1)
    world.tick(1)
    home = world.part(11, 0)
    assert home.table.streams[1].stored == 1 and home.ack(1) == 0
    assert world.stations[2].levels.stable.get(1, 0) == 0
    world.passes = lambda *frame: True
    world.tick(12)
    assert home.ack(1) == 1 and world.stations[2].levels.known_stable == {1: 1}


def test_its_claim_of_its_own_relay_waits_for_all_at_home(group):
    world = group(TWO)
    world.tick(4)
    world.passes = lambda cluster, sender, target, frame: not (target == 2 and isinstance(frame, Data))
    world.enter(1)
    world.tick(3)
    assert world.has(3, 1) == world.has(4, 1) == {1: 1}
    assert world.part(11, 1).ack(11) == 0
    assert world.stations[3].levels.stable.get(1, 0) == 0


def test_what_is_withheld_does_not_stop_what_is_accepted(group):
    """B12: the next row of the same station is taken and relayed, though the one before is not claimed."""
    world = group(TWO)
    world.tick(4)
    world.passes = lambda cluster, sender, target, frame: not (target == 4 and isinstance(frame, Claims))
    world.enter(1, 5)
    world.enter(3, 5)
    world.deliver()
    assert world.has(3, 1) == world.has(2, 0) == {1: 5, 3: 5}


def test_levels_two_and_three_are_known_everywhere_in_the_end_and_nothing_is_kept(group):
    world = group([[1, 11, 12], [2, 3, 11, 13], [4, 12, 13]])
    for station in (1, 2, 3, 4):
        world.enter(station, station)
    world.tick(30)
    for core in world.stations.values():
        assert core.levels.stable == core.levels.known_stable == {1: 1, 2: 2, 3: 3, 4: 4}
    parts = [world.part(*place) for place in ((11, 0), (11, 1), (12, 0), (12, 2), (13, 1), (13, 2))]
    assert all(part.is_drained() for part in parts)
    assert all(tally.is_empty() for part in parts for tally in part.tallies) and not any(part.queue for part in parts)


def test_a_station_that_stands_still_stops_nobody_in_any_cluster(group):
    """Q3: the gateway's claims are withheld because of it, but what it says of flow is not."""
    world = group(TWO, send_window=4, relay_window=4, down_after=200_000)
    world.tick(4)
    world.passes = lambda cluster, sender, target, frame: 4 not in (sender, target)
    world.tick(12, without=(4,))
    world.enter(1, 40)
    world.enter(3, 40)
    world.tick(120, without=(4,))
    assert world.has(2) == world.has(3) == {1: 40, 3: 40}
    assert world.stations[2].levels.stable.get(1, 0) == 0
    world.passes = lambda *frame: True
    world.tick(900)
    assert world.has(4) == {1: 40, 3: 40} and world.stations[2].levels.known_stable == {1: 40, 3: 40}


def test_a_standby_withholds_what_the_active_gateway_withholds(group):
    world = group([[1, 2, 11, 12], [3, 4, 11, 12]], {12: 11})
    world.tick(4)
    world.passes = lambda cluster, sender, target, frame: not (target == 4 and isinstance(frame, Data))
    world.enter(1)
    world.tick(2)
    assert world.part(12, 0).ack(1) == 0 and world.part(12, 1).ack(11) == 0
    assert world.part(12, 1).table.streams[12].stored == 0


def test_a_standby_sends_what_the_active_gateway_has_not_relayed(group):
    """And nothing of what it has: the rows of station 1 stand in two streams, once and in order."""
    world = group([[1, 2, 11, 12], [3, 4, 11, 12]], {12: 11})
    world.tick(4)
    world.enter(1, 2)
    world.tick(1)
    world.passes = lambda cluster, sender, target, frame: 11 not in (sender, target)
    world.enter(1, 3)
    world.tick(2, without=(11,))
    assert world.has(3, 1) == {1: 2} and world.has(12, 0) == {1: 5}
    world.close(2, 11)
    world.tick(40, without=(11,))
    assert [item.n for item in world.stations[3].table.streams[12].items.values()] == []
    assert world.has(3, 1) == world.has(4, 1) == {1: 5}
    assert world.stations[3].table.streams[12].stored == 3
    assert world.stations[4].levels.known_stable == {1: 5}


def test_a_gateway_that_ends_in_one_cluster_ends_in_all_that_its_standby_knows(group):
    world = group([[1, 2, 11, 12], [3, 4, 11, 12]], {12: 11})
    world.tick(4)
    world.close(1, 11)
    world.tick(3)
    assert 11 in world.stations[3].roster.closed and 11 in world.stations[2].roster.closed
    assert {element for element, _ in world.ended} == {11}


def test_what_only_the_other_cluster_has_of_one_that_ended_comes_home(group):
    """Station 1 ends together with the gateway that had relayed its last rows; station 2 and the standby lack them."""
    world = group([[1, 2, 11, 12], [3, 4, 11, 12]], {12: 11})
    world.tick(4)
    world.passes = lambda cluster, sender, target, frame: sender != 1 or target == 11
    world.enter(1, 2)
    world.deliver()
    assert world.has(3, 1) == {1: 2} and world.has(2, 0) == {}
    world.passes = lambda cluster, sender, target, frame: not {1, 11} & {sender, target}
    for element in (1, 11):
        world.close(2, element)
    world.tick(60, without=(1, 11))
    assert [world.has(i) for i in (2, 3, 4)] == 3 * [{1: 2}]
    assert all(world.stations[i].levels.known_stable == {1: 2} for i in (2, 3, 4))
