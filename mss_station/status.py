"""`mss-station status`: one dict of plain data, and the table that a person reads. No key and no body is in it."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from roamcast.middleware.settings import SECOND
from roamcast.mss_station import cluster_port
from roamcast.mss_station.control import Json
from roamcast.mss_station.errors import StoreError
from roamcast.mss_station.server import Server
from roamcast.mss_station.store import Store
from roamcast.mss_station.tables import columns
from roamcast.mss_station.tally import Tally
from roamcast.mss_station.topic_status import totals
from roamcast.transport.station_files import StationCard
from roamcast.transport.station_sockets import HandshakeMonitor
from roamcast.transport.zap import ZapResponder

ROWS_SHOWN: Final = 40


def build(
    card: StationCard,
    starts: int,
    server: Server,
    store: Store,
    tally: Tally,
    zap: ZapResponder,
    handshakes: Sequence[tuple[str, HandshakeMonitor]],
) -> Json:
    """Everything that a running station tells of itself."""
    now = server.clock.now()
    links = server.peers.links.status(now)
    port, to, heard = server.peers.published.status()
    for link in links:
        slot = int(str(link["slot"]))
        link["reason"] = server.peers.reasons.get(slot, "")
        link["published_to"], link["published_from"] = slot in to, slot in heard
    return {
        "station": {
            "id": card.id,
            "slot": card.slot,
            "group": card.group,
            "starts": starts,
            "process": os.getpid(),
            "hosts": card.hosts,
            "stations": card.stations,
            "publishes_at": port,
        },
        **server.core.status(),
        "topics": totals(server.core),
        "links": links,
        "configuration": {**server.lan.status(), "found": _read(store.found_count)},
        "store": _store(server, store, tally),
        "refused_keys": dict(zap.refused),
        "handshakes_failed": {domain: dict(monitor.failed) for domain, monitor in handshakes},
        "channels_dropped": len(server.hosts.dropped),
        "counters": dict(sorted(tally.counters.items())),
    }


def _store(server: Server, store: Store, tally: Tally) -> Json:
    sizes: dict[str, Callable[[], Any]] = {
        "log_bytes": store.log_bytes,
        "wal_bytes": store.wal_bytes,
        "unused_bytes": store.unused_bytes,
        "free_bytes": store.free_space,
        "reserve_held": store.has_reserve,
    }
    told: Json = {
        "state": server.guard.state,
        "reason": server.guard.reason,
        "since": server.guard.since,
        "commit_p99_ms": tally.commit_p99_ms(),
    }
    return told | {name: _read(read) for name, read in sizes.items()}


def _read(read: Callable[[], Any]) -> Any:
    """What `read` returns; None if the disk does not give it now."""
    try:
        return read()
    except (OSError, StoreError):
        return None


# ---- the table ----


def table(status: Json) -> str:
    """The status as a person reads it."""
    station, store = status["station"], status["store"]
    names = {one["slot"]: one["id"] for one in (*status["group"]["ended"], *status["links"], station)}
    failed = {f"{domain}: {why}": n for domain, whys in status["handshakes_failed"].items() for why, n in whys.items()}
    publishes = f", publishes at port {station['publishes_at']}" if station["publishes_at"] else ""
    lines = [
        f"station {station['id']} (slot {station['slot']}) of group {station['group']}, start {station['starts']}, "
        f"process {station['process']}",
        f"hosts at {station['hosts']}, stations at {station['stations']}{publishes}",
        f"messages of hosts: {'taken' if status['uplinks'] == 'open' else 'not taken: ' + status['uplinks']}",
        f"position {status['position']}, {status['rows']} rows of {_bytes(status['row_bytes'])} in the log"
        + _held(status, names),
        *_lean(status),
        f"store {store['state']}: {_bytes(store['log_bytes'])}, log {_bytes(store['wal_bytes'])}, "
        f"{_bytes(store['free_bytes'])} free, commit p99 {store['commit_p99_ms']} ms",
        *_delivery_log(status["log"]),
        _oldest(status["oldest_undelivered"], names),
        *_configuration(status["configuration"]),
        _topics(status["topics"]),
        *_live(status),
        *_mail(status["mail"]),
        *_group(status["group"]),
        *cluster_port.lines(status["clusters"]),
        *_joins(status),
        "",
        *_table(
            ["link", "state", "heard", "starts", "by PUB/SUB", "remark"],
            [
                [
                    f"{link['id']} ({link['slot']})",
                    "linked" if link["linked"] else "not linked",
                    "never" if link["heard_s"] is None else f"{link['heard_s']:.1f} s ago",
                    link["starts"],
                    _WAYS[link["published_to"], link["published_from"]],
                    link["refusal"] or link["reason"],
                ]
                for link in status["links"]
            ],
        ),
        *_table(
            ["origin", "stored", "delivered", "waiting", "stable", "known", "dropped to"],
            [[names.get(s["origin"], s["origin"]), *(s[key] for key in _STREAM_KEYS)] for s in status["streams"]],
        ),
        *_table(
            ["host", "state", "attached", "acknowledged", "sent", "spooled", "away since"],
            [
                [
                    r["host"],
                    r["state"],
                    "yes" if r["attached"] else "",
                    r["acknowledged"],
                    r["sent"],
                    f"{r['spooled']} ({_bytes(r['spool_bytes'])})" if r["spooled"] else "",
                    _time(r["away_since"]),
                ]
                for r in status["records"]
            ],
        ),
        *_table(["refused or failed", "count"], [[*pair] for pair in (status["refused_keys"] | failed).items()]),
        *_table(["counter", "count"], [[*pair] for pair in status["counters"].items()]),
    ]
    return "\n".join(lines)


def _table(head: list[str], rows: list[list[object]]) -> list[str]:
    return columns(head, rows, ROWS_SHOWN)


_WAYS: Final = {(True, True): "to and from", (True, False): "to", (False, True): "from", (False, False): ""}
_STREAM_KEYS: Final = ("stored", "delivered", "waiting", "stable", "known", "floor")


def _delivery_log(told: Json) -> list[str]:
    """Lines on the delivery log and its uploads."""
    state = f"delivery log: segment {told['segment']}, {told['events']} events, {told['waiting']} wait for the disk"
    lines = [state + (f"; it cannot be written: {told['problem']}" if told["problem"] else "")]
    if (upload := told["upload"]) is not None:
        last = f"last upload {upload['last'][:19]}" if upload["last"] else "no upload yet"
        problem = f"; failed: {upload['problem']}" if upload["problem"] else ""
        lines.append(f"{last}, {upload['waiting']} segments are only here{problem}")
    return lines


def _configuration(told: Json) -> list[str]:
    """Lines on the configuration that the stations share."""
    state = [f"configuration: {told['entries'] - told['tombstones']} entries"]
    state += [f"{sum(told['unsent'].values())} to be told to {', '.join(told['unsent'])}"] if told["unsent"] else []
    state += (
        ["no updates are taken: this station was away too long and has met no other since"] if told["stale"] else []
    )
    state += [f"{told['found']} set aside (config list DIR --found)"] if told["found"] else []
    state += [f"{count} refused ({code})" for code, count in told["dropped"].items()]
    return ["; ".join(state), *(f"fault: {text}" for text in told["faults"][:ROWS_SHOWN])]


def _topics(told: Json) -> str:
    return (
        f"topics: {told['topics']}, {told['last_values']} last values, {told['subscriptions']} subscriptions of hosts "
        f"attached here, presence {'on' if told['presence'] else 'off'}"
    )


def _live(status: Json) -> list[str]:
    """Lines on live messages, once there were any or none are taken."""
    counts = {**status["live"], **_named(status["counters"], "live_")}
    taken, given = counts.pop("taken", 0), counts.pop("given", 0)
    missed = ", ".join(f"{count} {cause}" for cause, count in counts.items())
    lines = [f"live messages: {taken} taken, {given} given" + (f"; not: {missed}" if missed else "")]
    refused = status["live_refused"]
    return [*(lines if taken or given or missed else []), *([f"none are taken: {refused}"] if refused else [])]


def _named(counters: Mapping[str, int], prefix: str) -> dict[str, int]:
    return {name.removeprefix(prefix): count for name, count in counters.items() if name.startswith(prefix)}


def _mail(told: Json) -> list[str]:
    """Lines on station mail."""
    inbox, held, limits = told["inbox"], told["held"], told["limits"]
    read = f"read by {told['reader']}" if told["reader"] else "nobody reads"
    lines = [
        f"station mail: {told['sent']} sent, {inbox['delivered']} delivered, {inbox['mails']} "
        f"({_bytes(inbox['bytes'])} of {_bytes(limits['inbox_bytes'])}) not taken yet, {read}"
    ]
    if held["mails"]:
        lines.append(f"{held['mails']} mails ({_bytes(held['bytes'])}) wait here for others that come before them")
    if told["postponed"]:
        lines.append(f"{told['postponed']} times a mail was left with its sender for want of room")
    for one in told["waiting"]:
        size = f"{_bytes(one['bytes'])} of {_bytes(limits['mail_bytes'])}"
        lines.append(f"{one['mails']} mails ({size}) wait for {one['station']}, the oldest since {_time(one['since'])}")
    lines += [f"{count} mails to {station} are lost, for it has ended" for station, count in told["lost"].items()]
    return lines


def _group(told: Json) -> list[str]:
    """Lines on stations that come and go."""
    lines = []
    if told["joining"]:
        lines.append(f"joining from {told['joining']['sponsor']}: {told['joining']['rows']} rows so far; no hosts yet")
    elif told["retiring"]:
        what = "all is with the heir" if told["retiring"]["handing"] else "its hosts move"
        lines.append(f"retiring, heir {told['retiring']['heir']}: {what}")
        lines += [f"it waits: {text}" for text in told["retiring"]["obstacles"][:ROWS_SHOWN]]
    elif not told["serving"]:
        lines.append("no hosts are taken yet: not every station has said that it counts this one")
    lines += [f"{count} hosts are held for {id}, whose heir this station is" for id, count in told["held"].items()]
    return [*lines, *map(_end, told["ended"])]


def _joins(status: Json) -> list[str]:
    """Lines on invitations, on newcomers that are not counted yet, and on new keys that are not in use yet."""
    invitations, waited_for = status["invitations"], status["rotation_waits_for"]
    lines = [f"invitation {'used' if one['used'] else 'open'}, until {one['until']}" for one in invitations]
    lines += [
        f"{one['id']} asks to be counted in, waits for {', '.join(one['waits_for'])}" for one in status["newcomers"]
    ]
    return lines if waited_for is None else [*lines, f"new keys wait for {', '.join(waited_for) or 'nobody'}"]


def _end(ended: Json) -> str:
    how = f"retired, heir {ended['heir']}" if ended["heir"] else "lost"
    if ended["cut"] is None:
        return f"{ended['id']} (slot {ended['slot']}): {how}, not final yet, waits for {', '.join(ended['waits_for'])}"
    guard = "; what its hosts may need is kept" + (", and is about to go" if ended["released"] else "")
    kept = guard if ended["guarded"] else ""
    return f"{ended['id']} (slot {ended['slot']}): {how}, final: its messages end with {ended['cut']}{kept}"


def _lean(status: Json) -> list[str]:
    lean, awaited = status["lean_rows"], status["bodies_awaited"]
    return [f"{lean} of them without their body, which is elsewhere; {awaited} bodies are waited for"] if lean else []


def _held(status: Json, names: dict[int, str]) -> str:
    held_by = status["collection_held_by"]
    return f"; collection is held back by {names.get(held_by, held_by)}" if status["rows"] and held_by else ""


def _oldest(oldest: Json | None, names: dict[int, str]) -> str:
    if oldest is None:
        return "no message waits for another"
    slot, n = oldest["message"]
    waits = oldest["waits_for"]
    what = f"message {waits[1]} of {names.get(waits[0], waits[0])}" if isinstance(waits, (list, tuple)) else str(waits)
    return f"the oldest undelivered message is {n} of {names.get(slot, slot)}; it waits for {what}"


def _bytes(count: int | None) -> str:
    if count is None:
        return "?"
    for unit in ("B", "KiB", "MiB"):
        if count < 1_024:
            return f"{count} {unit}"
        count //= 1_024
    return f"{count} GiB"


def _time(wall: int) -> str:
    return datetime.fromtimestamp(wall / SECOND, UTC).strftime("%Y-%m-%d %H:%M:%S") if wall else ""
