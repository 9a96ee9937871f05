"""Large mail that only some stations store: to hosts that move, sleep and come again, while stations are killed."""

from __future__ import annotations

import json
from collections.abc import Callable

from demo.cluster import must
from harness import Bench, until

LARGE = 40_000


def lean(bench: Bench) -> None:
    """Mail from 1,000 bytes on, at every running station."""
    must("mss-station", "config", "set", bench.station("s1").directory, "settings/lean-bodies", "1000")

    def known() -> bool:
        listed = [must("mss-station", "config", "list", s.directory, "--json") for s in bench.cluster.stations]
        return all("settings/lean-bodies" in text for text in listed)

    until(known, "every station knows")


def counted(bench: Bench, what: str) -> dict[str, int]:
    """A number of the status of every station."""
    status = {s.id: json.loads(must("mss-station", "status", s.directory, "--json")) for s in bench.cluster.stations}
    return {name: one[what] for name, one in status.items()}


def test_a_host_that_moves_without_a_word_gets_its_large_mail(make_bench: Callable[..., Bench]) -> None:
    bench = make_bench()
    bench.hosts({"a": "s1", "b": "s2"})
    lean(bench)
    bench.send("b", 2)
    bench.wait_delivered()
    bench.send("a", 5, to="b", size=LARGE)
    bench.wait_delivered()
    bench.move("b", "s3")
    bench.wait_attached("b", "s3")
    bench.send("a", 5, to="b", size=LARGE)
    bench.settle()
    assert counted(bench, "bodies_awaited") == {"s1": 0, "s2": 0, "s3": 0}


def test_headers_wait_for_their_bodies_over_kills_and_cut_links(make_bench: Callable[..., Bench]) -> None:
    """b hears nothing of its mail while its station cannot reach the others; the store keeps headers as headers."""
    bench = make_bench()
    bench.hosts({"a": "s1", "b": "s2", "c": "s3"})
    lean(bench)
    bench.send("b", 2)
    bench.wait_delivered()
    gates = [bench.station_gate("s3", other) for other in ("s1", "s2")]
    gates[0].swallow()  # the first must not hear that b has moved: it would send the bodies too
    bench.move("b", "s3")
    bench.wait_attached("b", "s3")
    gates[1].swallow()
    bench.send("a", 6, to="b", size=LARGE)
    until(lambda: counted(bench, "lean_rows")["s3"], "the third has headers")
    bench.station("s3").kill()
    bench.station("s3").start()
    until(lambda: counted(bench, "lean_rows")["s3"], "it has them after a start")
    bench.station("s1").kill()
    for gate in gates:
        gate.heal()
    bench.station("s1").start()
    bench.load(["a", "b", "c"], rate=20, mail=0.8, roam_s=0.5)
    bench.run_for(2)
    bench.settle()
