"""Rows and claims by PUB/SUB between station processes: used, blocked, killed, rekeyed, asked by outsiders."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import zmq
from demo.cluster import Station, must
from demo.relay import free_port
from harness import Bench, until

from roamcast.middleware.publication import EVERYBODY
from roamcast.transport.credential import read_credential
from roamcast.transport.curve import CurveKeys, generate
from roamcast.transport.publish_sockets import connect_subscriber
from roamcast.transport.sockets import new_context
from roamcast.transport.station_files import read_station

PLACES = {"a": "s1", "b": "s2", "c": "s3"}
ELSEWHERE = "127.0.0.2"


def configure(station: Station, line: str) -> None:
    """One more line at the head of station.toml."""
    file = station.directory / "station.toml"
    file.write_text(f"{line}\n{file.read_text()}")


def ways(station: Station) -> dict[str, tuple[bool, bool]]:
    """By id of each peer: whether it hears what the station publishes, and whether it is heard."""
    status: dict[str, Any] = station.status() or {"links": []}
    return {link["id"]: (link["published_to"], link["published_from"]) for link in status["links"]}


def linked(station: Station) -> bool:
    """Whether the station is linked with all others."""
    return all(link["linked"] for link in (station.status() or {"links": [{"linked": False}]})["links"])


def counter(station: Station, name: str) -> int:
    status = station.status()
    assert status is not None
    return int(status["counters"].get(name, 0))


def test_rows_and_claims_are_published(make_bench: Callable[..., Bench]) -> None:
    """What s2 publishes cannot be reached: it hears the others, and nobody hears it."""
    bench = make_bench()
    one, two, three = bench.cluster.stations
    configure(two, f'bind-stations = "{two.stations.replace("127.0.0.1", ELSEWHERE)}"')
    for other in (one, three):
        gate = bench.station_gate(other.id, two.id)
        gate._target = ELSEWHERE, gate._target[1]
    fixed = free_port()
    configure(three, f"publish-port = {fixed}")
    bench.hosts(PLACES)
    bench.load(list(PLACES), rate=15)
    assert ways(one) == {"s2": (False, False), "s3": (False, False)}
    must("mss-station", "config", "set", one.directory, "settings/publish-peers", "1")
    expected = {"s2": (True, False), "s3": (True, True)}
    until(lambda: ways(one) == expected, "s1 publishes and hears s3")
    until(lambda: ways(three) == {"s1": (True, True), "s2": (True, False)}, "s3 too")
    until(lambda: ways(two) == {"s1": (False, True), "s3": (False, True)}, "s2 hears them")
    assert f"publishes at port {fixed}" in must("mss-station", "status", three.directory)
    before = counter(two, "heard_published")
    until(lambda: counter(two, "heard_published") > before + 10, "s2 gets its frames that way")
    assert counter(one, "published") and not counter(two, "published")

    three.kill()
    three.start()
    until(lambda: linked(three), "s3 is back")
    old = read_station(one.directory).keys
    must("mss-station", "keys", "rotate", one.directory)
    until(lambda: read_station(one.directory).keys != old, "s1 has other keys", 30)
    until(lambda: ways(one) == expected and ways(three)["s1"] == (True, True), "all is as it was, under the new key")
    ask_as_outsiders(bench, one)
    bench.settle()


def ask_as_outsiders(bench: Bench, station: Station) -> None:
    """A host, and a stranger."""
    status = station.status()
    assert status is not None
    endpoint = f"tcp://127.0.0.1:{status['station']['publishes_at']}"
    context, key = new_context(), read_station(station.directory).keys.public
    spies = []
    outsiders: list[CurveKeys] = [read_credential(bench.cluster.credentials["a"]).keys, generate()]
    for keys in outsiders:
        spies.append(connect_subscriber(context, endpoint, keys, key, 0, [EVERYBODY]))
        spies[-1].setsockopt(zmq.SUBSCRIBE, b"")
    refused = lambda: ((station.status() or {}).get("refused_keys") or {}).get("publish", 0)  # noqa: E731
    until(lambda: refused() >= len(outsiders), "they are refused")
    before = counter(station, "published")
    until(lambda: counter(station, "published") > before + 5, "others get something")
    assert [spy.poll(0) for spy in spies] == [0, 0]
    context.destroy(0)
