"""The tables of a run, as text."""

from __future__ import annotations

from bench.child import Json
from bench.fan_out import FLOOR, FLOOR_PLAIN, PACED, SATURATED
from bench.latency import BARE, FULL, NORMAL


def table(title: str, head: list[str], rows: list[list[str]], notes: list[str] | None = None) -> str:
    """Rows under a head, the first column to the left, the others to the right."""
    widths = [max(len(row[i]) for row in [head, *rows]) for i in range(len(head))]
    lines = [
        "  ".join(
            cell.ljust(width) if i == 0 else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in [head, *rows]
    ]
    return "\n".join([title, "-" * len(title), *lines, *(f"  {note}" for note in notes or []), ""])


def fan_out(found: list[Json]) -> str:
    """CPU per delivery: station and bare relay."""
    rows = []
    for one in found:
        for mode in (SATURATED, PACED):
            ours, bare = one["best"][f"station {mode}"], one["best"][f"bare {mode}"]
            rows.append(
                [
                    f"{one['hosts']} hosts, {mode}",
                    f"{ours['messages'] / ours['seconds']:,.0f}",
                    f"{ours['messages_per_tick'] or 0:.1f}",
                    f"{ours['us_per_delivery']:.2f}",
                    f"{bare['us_per_delivery']:.2f}",
                    f"{ours['us_per_delivery'] / bare['us_per_delivery']:.2f} x",
                    f"{ours['deliveries_per_second'] / 1e6:.2f}",
                    f"{bare['deliveries_per_second'] / 1e6:.2f}",
                    f"{ours['acks'] / ours['deliveries']:.3f}",
                ]
            )
    head = ["", "messages/s", "a tick", "station", "bare", "ratio", "station M/s", "bare M/s", "acks"]
    notes = [
        "station, bare: CPU per delivery to one host, us, user and system, I/O thread included; best round of each.",
        "bare: pyzmq ROUTER with CURVE, two sends a peer, one shared frame; no order, no store, no acknowledgements.",
        "a tick: messages per commit. M/s: million deliveries per second. acks: acknowledgements per delivery.",
    ]
    return table("CPU of the station per delivery, durability FULL", head, rows, notes)


def split(found: list[Json]) -> str:
    """Where the station's CPU goes."""
    columns = [(one, mode) for one in found for mode in (SATURATED, PACED)]
    parts = list(found[0]["split"][SATURATED]["main"])
    rows = [
        [f"main thread: {part}", *(f"{one['split'][mode]['main'][part]:.3f}" for one, mode in columns)]
        for part in parts
    ]
    for name, key in (("cipher, libzmq (user)", "other user"), ("kernel TCP (system)", "other system")):
        rows.append([f"I/O thread: {name}", *(f"{one['split'][mode][key]:.3f}" for one, mode in columns)])
    rows.append(["all, timers included", *(f"{one['split'][mode]['us_per_delivery']:.3f}" for one, mode in columns)])
    notes = [
        "us per delivery, from rounds of their own with timers (thread_time) around the parts: these cost some too.",
    ]
    for one in found:
        best = one["best"]
        per_frame = best[f"station {SATURATED}"]["deliveries"] / best[f"station {SATURATED}"]["frames"]
        floor, plain = (best[name]["us_per_delivery"] / per_frame for name in (FLOOR, FLOOR_PLAIN))
        notes.append(
            f"{one['hosts']} hosts: a bare relay of the station's frames ({best[FLOOR]['frame_bytes']:,} bytes, "
            f"{per_frame:.0f} messages): {floor:.3f} us per delivery, without CURVE {plain:.3f}; "
            f"so the cipher is {max(0.0, floor - plain):.3f}."
        )
    return table(
        "Where the station's CPU goes", ["", *(f"{one['hosts']} {mode}" for one, mode in columns)], rows, notes
    )


def memory(found: list[Json]) -> str:
    """Memory of the station per attached host."""
    rows = [
        [
            f"{one['hosts']} hosts",
            *(
                f"{one['memory_kib_per_host'][name][when]:.0f}"
                for when in ("attached", "after_rounds")
                for name in ("station", "bare")
            ),
            f"{one['messages']:,}",
            *(f"{one['attach_cpu_us'][name]:,.0f}" for name in ("station", "bare")),
        ]
        for one in found
    ]
    head = ["", "attached", "bare", "after rounds", "bare", "messages so far", "an attach, us CPU", "bare"]
    notes = [
        "KiB resident over the idle process, by host; after the rounds the log of all messages so far is in it too.",
        "an attach: handshake, key, HELLO, the custody record and its row, WELCOME; bare: handshake and first frame.",
    ]
    return table("Memory of the station per attached host, and CPU per attach", head, rows, notes)


def latency(paths: Json, agents: Json) -> str:
    """Latency host to host."""
    bare = paths[BARE]
    rows = [
        ["bare relay", *_four(bare), "", "", ""],
        *(
            [
                f"station, {name}",
                *_four(paths[name]),
                f"{paths[name]['one']['p50'] / bare['one']['p50']:.2f} x",
                f"{paths[name]['two']['p50'] / bare['two']['p50']:.2f} x",
                " + ".join(f"{commit['p50_ms']:.2f}" for commit in paths[name]["commits"]),
            ]
            for name in (NORMAL, FULL)
        ),
        *([f"agents, {name}", *_four(agents[name]), "", "", ""] for name in (NORMAL, FULL)),
    ]
    commits = sum(commit["p50_ms"] for commit in paths[FULL]["commits"])
    left = (paths[FULL]["two"]["p50"] - commits) / bare["two"]["p50"]
    notes = [
        "ms, 100 messages/s, 10 hosts at each station; least p50 and p99 of the rounds. x: p50 against the bare relay.",
        f"FULL over two stations without its two commits, in sequence: {left:.2f} x the bare relay.",
        "agents: real ones, from the call to the application, state files on disk; of it the call itself: "
        + ", ".join(f"{name} {agents[name]['call']['p50']:.2f}" for name in (NORMAL, FULL))
        + " (p50).",
    ]
    head = ["", "one p50", "p99", "two p50", "p99", "one x", "two x", "commits p50"]
    return table("Latency host to host over one station and over two", head, rows, notes)


def _four(told: Json) -> list[str]:
    return [f"{told[way][share]:.2f}" for way in ("one", "two") for share in ("p50", "p99")]


def handoff(told: Json) -> str:
    """Handoff times."""
    row = [f"{told['moves']} moves", *(f"{told[key]:.1f}" for key in ("p50_ms", "p99_ms"))]
    row += [f"{told[key]:,}" for key in ("messages", "lost", "doubled", "disordered")]
    notes = ["ms from the call `move` to the open session at the other station; real agents, durability FULL."]
    head = ["", "p50", "p99", "messages meanwhile", "lost", "doubled", "out of order"]
    return table("Handoff on loopback under 100 messages/s", head, [row], notes)


def headers(found: list[Json], fans: list[Json]) -> str:
    """Bytes of header."""
    rows = [
        [f"{one['hosts']} hosts", *(f"{one[key]:.2f}" for key in ("host_link", "between_stations", "claims_frame"))]
        for one in found
    ]
    verdict = "equal" if headers_are_equal(found) else "NOT EQUAL: the header depends on the number of hosts"
    notes = [
        "Over body and sender name, one message per frame (the head of a frame is shared by all messages of a tick).",
        f"A CLAIMS frame goes once in 20 ms of traffic. Host link and DATA between stations: {verdict}.",
    ]
    for one in fans:
        best = one["best"][f"station {SATURATED}"]
        notes.append(
            f"Host link in the saturated rounds with {one['hosts']} hosts: {best['deliveries'] / best['frames']:.0f} "
            f"messages a frame, {best['header_bytes'] / best['deliveries']:.1f} bytes of header each."
        )
    head = ["", "host link", "between stations: DATA", "a CLAIMS frame"]
    return table("Bytes of header per message", head, rows, notes)


CLOCK_BYTES = 2
"""By so many the step of the hybrid clock may be longer where messages are farther apart."""


def headers_are_equal(found: list[Json]) -> bool:
    """Whether every number of hosts has the same bytes of header, but for the steps of the stations' clocks."""
    between = [one["between_stations"] for one in found]
    return len({one["host_link"] for one in found}) == 1 and max(between) - min(between) <= CLOCK_BYTES
