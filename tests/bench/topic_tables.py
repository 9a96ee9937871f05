"""The tables of `bench --topics`, as text."""

from __future__ import annotations

import textwrap

from bench.child import Json
from bench.fan_out import PACED, SATURATED
from bench.mail_rate import BODY_BYTES, HOSTS_EACH, LEAN
from bench.tables import table
from bench.topic_fan import BARE, BROADCAST, TOPIC


def report(found: Json) -> str:
    """All tables."""
    return "\n".join(
        [
            fan(found["fan"]),
            headers(found["headers"]),
            subscribing(found["subscribing"]),
            attaching(found["attaching"]),
            revoking(found["revoking"]),
            presence(found["presence"]),
            mail(found["mail"]),
        ]
    )


def _wrapped(text: str) -> list[str]:
    return textwrap.wrap(text, 116)


def fan(found: list[Json]) -> str:
    """CPU per message and delivery."""
    rows = []
    for one in found:
        for mode in (SATURATED, PACED):
            topic, broadcast, bare = (one["best"][f"{name} {mode}"] for name in (TOPIC, BROADCAST, BARE))
            per = topic["us_per_delivery"]
            spread = ", the same" if one["same"] else ""
            rows.append(
                [
                    f"{one['topics']} x {one['subscribers']}{spread}, {mode}",
                    f"{one['per_host']:g}",
                    f"{topic['messages_per_tick'] or 0:.1f}",
                    f"{topic['messages_per_frame']:.1f}",
                    f"{topic['header_bytes']:.1f}",
                    f"{topic['us_per_message']:,.0f}",
                    f"{per:.2f}",
                    f"{broadcast['us_per_delivery']:.2f}",
                    f"{per / broadcast['us_per_delivery']:.2f} x",
                    f"{bare['us_per_delivery']:.2f}",
                    f"{per / bare['us_per_delivery']:.2f} x",
                ]
            )
    head = ["topics x subscribers", "a host", "a tick", "a frame", "header", "a message", "a delivery", "broadcast", ""]
    notes = _wrapped(
        "CPU of the station, us, user and system, less what it uses when nobody sends; 128 bytes; the "
        "best round of each. topics x subscribers: of each topic, of 1,000 attached hosts, drawn for each "
        "topic or the same for all; sent on in turn. a host: subscriptions of each. a tick, a frame: "
        "messages in it. header: bytes on the host link for a delivery, over body and names of sender and "
        "topic, frames included. broadcast: to all of as many hosts, by a station that has no others; "
        "bare: a bare ROUTER to as many. Each also per delivery, and what a topic is of it."
    )
    return table("A message on a topic, durability FULL", [*head, "bare", ""], rows, notes)


def headers(found: list[Json]) -> str:
    """Bytes, exactly."""
    keys = ("item", "frame_to_host", "broadcast_to_host", "row", "frame_to_station", "broadcast_to_station")
    rows = [[f"{one['topics']:,} topics", *(f"{one[key]}" for key in keys)] for one in found]
    head = ["", "item", "frame to host", "of a broadcast", "row", "frame to station", "of a broadcast"]
    notes = _wrapped(
        "Bytes over body and names, one message in a frame. The row is without the item, which is in it "
        "between stations. The number of a topic is drawn from 32 bits: 5 bytes, and 1 to 4 for one topic "
        "in 65,536."
    )
    return table("Bytes of header of a message on a topic", head, rows, notes)


def subscribing(found: list[Json]) -> str:
    """A subscription."""
    rows = [
        [
            f"{one['held']:,} before{', last value' if one['value'] else ''}",
            f"{one['here_us']:.0f}",
            f"{one['there_us']:.0f}",
            f"{one['bytes']:.0f}",
        ]
        for one in found
    ]
    notes = _wrapped(
        "us: decoding, core, commit, encoding, 20 hosts in a tick, without sockets; at the host's station "
        "from the SUB to the frame with its answer and the last value, at another one for the row. bytes: "
        "to each other station, CLAIMS apart."
    )
    return table("A subscription", ["subscriptions", "us here", "us there", "bytes"], rows, notes)


def attaching(found: list[Json]) -> str:
    """Attachments."""
    rows = [
        [
            f"{one['held']:,} subscriptions",
            f"{one['again']['here_us']:.0f}",
            f"{one['moved']['here_us']:.0f}",
            f"{one['moved']['there_us']:.0f}",
            f"{one['moved']['bytes']:,.0f}",
        ]
        for one in found
    ]
    head = ["", "us, at its station", "us, moved: former", "new", "bytes between stations"]
    notes = _wrapped(
        "From HELLO to the first acknowledgement, and of a handoff to RELEASED; 20 hosts in a tick, without sockets."
    )
    return table("An attachment", head, rows, notes)


def revoking(found: list[Json]) -> str:
    """Rights."""
    rows = [
        [f"{one['held']:,} subscriptions", *(f"{one[key]:.1f}" for key in ("added_ms", "one_ms", "all_ms"))]
        for one in found
    ]
    notes = _wrapped(
        f"ms of CPU in which the station does nothing else; {found[0]['hosts']:,} hosts attached, 10,000 "
        "topics. To all is one record, with all its subscriptions, written and one frame sent for each "
        "host."
    )
    head = ["each host has", "a topic is added", "one host loses a right", "all hosts lose it"]
    return table("A change of rights", head, rows, notes)


def presence(found: list[Json]) -> str:
    """Presence."""
    keys = ("first", "again", "moved", "away", "back")
    rows = [
        [
            f"presence {'on' if one['on'] else 'off'}",
            *(f"{one[key]['rows']:.0f} / {one[key]['bytes']:.0f}" for key in keys),
            *(f"{one[key]['here_us'] + one[key]['there_us']:.0f}" for key in keys),
        ]
        for one in found
    ]
    names = ["first", "again", "moved", "away", "back"]
    notes = _wrapped(
        "rows / bytes to each other station, custody included, then us at both of two stations. first: of "
        "a host that was enrolled; again: within the grace; moved: to the other station; away: the grace "
        "is over; back: after that."
    )
    return table("Presence: what a host makes two stations say", ["", *names, *(f"us {n}" for n in names)], rows, notes)


def mail(found: Json) -> str:
    """Mail."""
    rows = []
    for where in ("cores", "processes"):
        for one in found[where]:
            for name in LEAN:
                told = one[name]
                sent = told["bytes"] if "bytes" in told else told["encoded"]
                rows.append(
                    [
                        f"{one['stations']} stations, {name}{', processes' if where == 'processes' else ''}",
                        f"{told['us_per_mail']:.1f}",
                        f"{told['group_rate']:,.0f}",
                        f"{told['own_rate']:,.0f}",
                        f"{sent:,.0f}" + (" encoded" if where == "processes" else ""),
                    ]
                )
    notes = _wrapped(
        f"Mails of {BODY_BYTES:,} bytes, {HOSTS_EACH} hosts a station, at home; to hosts of all stations "
        "alike. us: CPU of one station for a mail of anybody in the group. group: mails that the whole "
        "group carries for a second of CPU of each station; station: of them those of its own hosts. "
        "bytes: of all frames between stations together, one mail. In one process, without sockets and "
        "delivery log, 8 mails of each station in a tick; as processes with them, and bytes as encoded: a "
        "frame that goes to all is encoded once."
    )
    head = ["", "us a mail", "group, mails / CPU s", "station", "bytes a mail"]
    return table("Mail by number of stations", head, rows, notes)
