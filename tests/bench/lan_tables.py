"""The tables of the LAN update layer and of the setting `copies`, as text."""

from __future__ import annotations

from bench.child import Json
from bench.tables import table

from roamcast.middleware.settings import MS, Settings


def report(found: Json) -> str:
    """All tables."""
    return "\n".join([recovery(found["lan"]), spread(found["lan"]), copies(found["copies"])])


def recovery(found: Json) -> str:
    """Bytes and time of one recovery, beside pushing everything."""
    rows = []
    for one in found["recovery"]:
        push, peers = one["push"]["bytes"], one["stations"] - 1
        rows.append(
            [
                f"{one['stations']} stations, {one['keys']:,} keys, {one['changes']} changed",
                f"{one['bytes']:,}",
                f"{one['frames']}",
                f"{one['equal_ms']:.0f}",
                f"{one['quiet_ms']:.0f}",
                f"{push:,}",
                f"{one['bytes'] / push:.3f} x",
                f"{peers * push:,}",
                f"{one['bytes'] / (peers * push):.4f} x",
            ]
        )
    head = ["SIMULATED", "bytes", "frames", "equal, ms", "quiet, ms", "push by one", "ratio", "by all", "ratio"]
    notes = [
        "SIMULATED: real cores, all frames of all stations encoded as on the wire, acknowledgements too;",
        f"{found['delay_ms']:g} ms for each frame, none for computing.",
        "One station was away while the others, in turn, changed keys. equal, quiet: from its start, until all hold",
        "the same, and until the last frame came.",
        "push: all entries from one peer, or from every peer, to the one that recovers, 100 a frame, same codec.",
    ]
    return table("One recovery of the LAN update layer", head, rows, notes)


def spread(found: Json) -> str:
    """How long one change takes to reach all stations."""
    rows = [
        [
            f"{one['stations']} stations",
            *(f"{one[key]:.1f}" for key in ("first_p50_ms", "last_p50_ms", "last_max_ms")),
            f"{one['frames']:,.0f}",
            f"{one['bytes']:,.0f}",
            f"{one['simulated']['equal_ms']:.0f}",
            f"{one['simulated']['frames']:,}",
            f"{one['simulated']['bytes']:,}",
        ]
        for one in found["spread"]
    ]
    head = ["", "REAL: first, p50", "last, p50", "last, max", "frames", "bytes", "SIMULATED: last", "frames", "bytes"]
    notes = [
        f"REAL: processes that share this machine, durability FULL; {found['spread'][0]['changes']} changes.",
        "ms from `config set` (without the process of the command) until it is durable and in effect at the first",
        "station, where it was made, and at the last one; frames, bytes: of all stations, for one change.",
        f"SIMULATED: {found['delay_ms']:g} ms for each frame, none for computing.",
    ]
    return table("One change of the configuration until every station has it", head, rows, notes)


def copies(found: Json) -> str:
    """What the setting `copies` costs in latency."""
    rows = []
    for rate, told in found.items():
        single = next(iter(told.values()))
        for name, one in told.items():
            cells = [f"{one[way][share]:.2f}" for way in ("one", "two") for share in ("p50", "p99")]
            ratios = [f"{one[way]['p50'] / single[way]['p50']:.2f} x" for way in ("one", "two")]
            commits = " + ".join(f"{commit['p50_ms']:.2f}" for commit in one["commits"])
            rows.append([f"{name}, {rate} messages/s", *cells, *ratios, commits])
    notes = [
        "ms, 10 light hosts at each of two stations, durability FULL; least p50 and p99 of the rounds, in turn.",
        "one: hosts of the sender's own station, two: those of the other one, which is the second copy itself.",
        "x: p50 against copies = 1. With copies = 2 the sender's station waits for the other's word that it has the",
        f"message, and that is said at most once in {Settings().claims_tick // MS} ms.",
    ]
    head = ["REAL", "one p50", "p99", "two p50", "p99", "one x", "two x", "commits p50"]
    return table("Latency with the setting copies", head, rows, notes)
