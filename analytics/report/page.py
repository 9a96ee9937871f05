"""The summary as one HTML page: no script, nothing from outside, light or dark, for a wide screen or a phone.

Whatever a host is called and however much was found, it stays whole and below BYTES_MAX: less is shown of each kind.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from importlib.resources import files
from typing import Any

from roamcast.analytics.days import WHOLE
from roamcast.analytics.report import plots
from roamcast.analytics.report.kinds import EVIDENCE
from roamcast.analytics.report.proof import Proofs, name
from roamcast.analytics.report.words import count, counted, duration, instant, listed, share, shown
from roamcast.analytics.tables import INFO, UNDECIDED, VIOLATION

BYTES_MAX = 300_000
STEPS = ((20, 60), (8, 40), (3, 25), (1, 15), (0, 10))
"""Findings of a kind, and rows of a table; the first step that fits is taken."""

BARS = 12
NOTHING = "Nothing was delivered."

ICONS = {
    "clean": '<circle cx="24" cy="24" r="20"/><path d="M15 25l6.5 6.5L34 18"/>',
    "violated": '<path d="M16 4h16l12 12v16L32 44H16L4 32V16z"/><path d="M17 17l14 14M31 17L17 31"/>',
    "undecided": '<path d="M24 5L45 42H3z"/><path d="M24 19v11M24 36v.5"/>',
}
"""Each has a shape of its own, not only a colour."""

WORDS = (
    ("Message 2:17", "The 17th message that station 2 brought into the group. Its own station is the one that it was "
     "sent at."),
    ("Delivery", "A message that a host has acknowledged. It counts in the hour of the acknowledgement."),
    ("Latency", "From the message's row at its own station to the acknowledgement at the host's: two stations' clocks. "
     "p50: half of all are faster; p99: all but one in a hundred. Exact to 4 %."),
    ("Over", "Live messages that missed their deadline at a station, of all that were under way to its hosts."),
    ("Relay", "From the message's row at its own station to its row at this one."),
    ("Handoff", "A host goes on at another station. Its gap: from the last acknowledgement before to the first one "
     "behind, so also the time in which nothing was sent."),
    ("Session 3, position 20", "A place at a host: in its third session, what its station had at position 20 of its "
     "order. Below 0: kept for the host before the session."),
    ("Segment, row", "A file of a station's log, by number, and the event's place in it, from 0."),
    ("Pending", "Sent, owed to a host, and not acknowledged by the end of the day: nothing is wrong with that."),
    ("Undecided", "Something that would prove it is missing, or cannot be trusted. Never counted as clean."),
    ("Provisional", "Logs were missing: the day is judged again when they have come."),
)  # fmt: skip


def page(summary: Mapping[str, Any]) -> str:
    """The page of a summary (see summary.py)."""
    made = ""
    for examples, rows in STEPS:
        made = _page(summary, examples, rows)
        if len(made.encode()) < BYTES_MAX:
            break
    return made


def _page(summary: Mapping[str, Any], examples: int, rows: int) -> str:
    run = summary["run"]
    day = _day(summary)
    css = (files(__package__) / "page.css").read_text("utf-8")
    policy = "default-src 'none'; style-src 'unsafe-inline'"
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{day}: {summary['verdict']} – Roamcast audit</title>\n<style>\n{css}</style>\n</head>\n"
        f'<body>\n<main>\n<div class="top"><span>Roamcast delivery audit · group {name(run["group"])}</span>'
        f"<span>{day}, UTC</span></div>\n"
        f"{_verdict(summary)}{_facts(summary)}{_findings(summary, examples)}{_day_in_plots(summary)}"
        f"{_stations(summary, rows)}{_live(summary, rows)}{_hosts(summary, rows)}{_run(summary)}"
        f"{_words()}</main>\n</body>\n</html>\n"
    )


def _day(summary: Mapping[str, Any]) -> str:
    return "all days" if summary["day"] == WHOLE else escape(summary["day"])


# ---- verdict ----


def _verdict(summary: Mapping[str, Any]) -> str:
    verdict = summary["verdict"]
    notes = ""
    if summary["provisional"]:
        notes += '<p class="note">Provisional: the day is judged again when the missing logs have come.</p>'
    if summary["run"]["reopened"]:
        days = escape(listed(summary["run"]["reopened"]))
        notes += f'<p class="note">Judged again before this day, since more logs may have come: {days}.</p>'
    return (
        f'<section class="verdict {verdict}"><svg viewBox="0 0 48 48" aria-hidden="true" '
        f'xmlns="http://www.w3.org/2000/svg">{ICONS[verdict]}</svg><h1>{verdict.capitalize()}</h1>'
        f"<p>{escape(summary['sentence'])}</p></section>{notes}\n"
    )


def _facts(summary: Mapping[str, Any]) -> str:
    counts, latency = summary["counts"], summary["latency"]
    shown_facts = [
        ("violations", count(sum(counts["findings"][VIOLATION].values()))),
        ("deliveries", count(counts["deliveries"])),
        ("new messages", count(sum(counts["messages"].values()))),
        ("hosts active", f"{count(counts['hosts_active'])} of {count(counts['hosts'])}"),
        ("stations", count(counts["stations"])),
        ("latency p50", duration(latency["p50_us"])),
        ("latency p99", duration(latency["p99_us"])),
        ("handoffs", count(counts["handoffs"])),
    ]
    return (
        '<dl class="facts">' + "".join(f"<div><dd>{dd}</dd><dt>{dt}</dt></div>" for dt, dd in shown_facts) + "</dl>\n"
    )


# ---- findings ----


def _findings(summary: Mapping[str, Any], examples: int) -> str:
    found = summary["findings"]
    proofs = Proofs(examples, summary["run"]["logs"], summary["day"])
    parts = {
        "": ("Violations", [each for each in found if each["severity"] == VIOLATION]),
        "None of this is a broken promise; but what is missing could show one.": (
            "What is missing",
            [each for each in found if _is_evidence(each)],
        ),
        "Something is missing that would decide these.": (
            "What cannot be told",
            [each for each in found if each["severity"] == UNDECIDED and not _is_evidence(each)],
        ),
        "No promise was broken.": ("Worth knowing", [each for each in found if each["severity"] == INFO]),
    }
    return "".join(
        f"<h2>{title}</h2>" + (f'<p class="soft">{note}</p>' if note else "") + proofs(some)
        for note, (title, some) in parts.items()
        if some
    )


def _is_evidence(group: Mapping[str, Any]) -> bool:
    return group["severity"] == UNDECIDED and group["kind"] in EVIDENCE


# ---- plots ----


def _day_in_plots(summary: Mapping[str, Any]) -> str:
    hours, latency, gaps = summary["hours"], summary["latency"], summary["gaps"]
    column = {key: [hour[key] for hour in hours] for key in hours[0]}
    p50, p99, longest = _key("p50", "p50"), _key("p99", "p99"), _key("p99", "longest")
    busy, moved = latency["deliveries"] > 0, gaps["count"] > 0
    if not busy and not summary["counts"]["handoffs"]:
        return f'<h2>The day</h2>\n<div class="sheet"><p class="none">{NOTHING}</p></div>\n'
    negative = f"; {counted(latency['negative'], 'delivery', 'deliveries')} below zero by their clocks, not shown"
    figures = [
        _figure("Deliveries", "per hour", plots.hourly(column["deliveries"], _short, "deliveries") if busy else ""),
        _figure("Latency over the day", f"{p50} &nbsp; {p99}", plots.lines(
            [("p50", "p50", column["p50_us"]), ("p99", "p99", column["p99_us"])], duration,
        ) if any(column["p50_us"]) else ""),
        _figure("Latency of all deliveries", "how many took how long" + (negative if latency["negative"] else ""),
                plots.histogram(latency["histogram"], _short, "deliveries") if latency["histogram"] else ""),
        _figure("Handoffs", "per hour", plots.hourly(column["handoffs"], _short, "handoffs")
                if summary["counts"]["handoffs"] else "", "No host has changed its station."),
        _figure("Gaps of handoffs over the day", f"{p50} &nbsp; {longest}", plots.lines(
            [("p50", "p50", column["gap_p50_us"]), ("longest", "p99", column["gap_max_us"])], duration,
        ) if moved else "", "No gap was measured."),
        _figure("Gaps of all handoffs", "from the last acknowledgement before to the first one behind",
                plots.histogram(gaps["histogram"], _short, "handoffs") if moved else "", "No gap was measured."),
        _figure("Deliveries by station", _first_of(len(_busy(summary)), "the busiest", "stations"),
                _station_bars(summary) if busy else ""),
        _figure("Slowest hosts", "p99 of the latency of its deliveries; dashed: the host in the middle",
                _host_bars(summary) if summary["hosts"]["slowest"] else ""),
    ]  # fmt: skip
    return f'<h2>The day</h2>\n<div class="plots">{"".join(figures)}</div>\n'


def _key(style: str, text: str) -> str:
    return f'<span class="key"><i class="{style}"></i>{text}</span>'


def _figure(title: str, note: str, svg: str, nothing: str = NOTHING) -> str:
    inside = svg or f'<p class="none">{nothing}</p>'
    return f'<figure class="sheet"><figcaption>{title} <span>{note}</span></figcaption>{inside}</figure>\n'


def _first_of(number: int, which: str, things: str) -> str:
    return f"{which} {BARS} of {number:,} {things}" if number > BARS else "and the p99 of their latency"


def _busy(summary: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return sorted(summary["stations"], key=lambda row: (-row["deliveries"], row["station"]))


def _station_bars(summary: Mapping[str, Any]) -> str:
    return plots.named([
        (_station(row), row["deliveries"], f"{_short(row['deliveries'])} · {duration(row['p99_us'])}")
        for row in _busy(summary)[:BARS]
    ])  # fmt: skip


def _host_bars(summary: Mapping[str, Any]) -> str:
    hosts = summary["hosts"]
    middle = hosts["p99_us"]["median"]
    rows = [(row["host"], row["p99_us"], duration(row["p99_us"])) for row in hosts["slowest"][:BARS]]
    return plots.named(rows, (middle, duration(middle)) if middle is not None else None)


def _short(value: float) -> str:
    """1.2 k, 3.4 M."""
    for unit, letter in ((1_000_000_000, "G"), (1_000_000, "M"), (10_000, "k")):
        if value >= unit:
            unit = min(unit, 1_000) if letter == "k" else unit
            return f"{value / unit:.3g} {letter}"
    return f"{value:,.0f}"


# ---- tables ----


def _table(head: Sequence[str], rows: Sequence[Sequence[str]], left: int = 1) -> str:
    """Cells are HTML; the first `left` columns and what has the sign ¶ are text, the others numbers."""

    def cell(i: int, text: str, tag: str) -> str:
        style = ' class="left wrap"' if text.startswith("¶") else ' class="left"' if i < left else ""
        return f"<{tag}{style}>{text.removeprefix('¶')}</{tag}>"

    top = "".join(cell(i, text, "th") for i, text in enumerate(head))
    body = "".join("<tr>" + "".join(cell(i, text, "td") for i, text in enumerate(row)) + "</tr>" for row in rows)
    return f'<div class="sheet scroll"><table><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table></div>'


def _station(row: Mapping[str, Any]) -> str:
    return f"{row['station']} {row['id']}".strip()


def _live(summary: Mapping[str, Any], limit: int) -> str:
    """What became of live messages; nothing, if there were none."""
    rows = summary["live"][:limit]
    if not rows:
        return ""
    head = ("station", "taken", "handed<br>down", "deliveries", "over", "missed, by cause")
    cells = [
        (
            f"{row['station']} {name(row['id'])}", count(row["taken"]), count(row["handed"]),
            count(row["deliveries"]), share(row["over_share"]),
            ", ".join(f"{cause} {count(missed)}" for cause, missed in row["missed"].items()),
        )
        for row in rows
    ]  # fmt: skip
    return f"<h2>Live messages</h2>\n{_table(head, cells)}\n"


def _stations(summary: Mapping[str, Any], limit: int) -> str:
    rows = summary["stations"]
    if not rows:
        return "<h2>Stations</h2>\n<p>No station is known.</p>\n"
    head = (
        "station", "deliveries", "latency<br>p50", "<br>p99", "relay<br>p50", "<br>p99", "handoffs<br>in", "<br>out",
        "longest<br>gap", "segments<br>closed", "<br>open", "<br>bad", "events",
    )  # fmt: skip
    bad = sorted(rows, key=lambda row: (-(row["segments_bad"] + row["segments_open"]), -row["deliveries"]))
    chosen = rows if len(rows) <= limit else bad[:limit]
    cells = [
        (
            f"{row['station']} {name(row['id'])}", count(row["deliveries"]), duration(row["p50_us"]),
            duration(row["p99_us"]), duration(row["relay_p50_us"]), duration(row["relay_p99_us"]),
            count(row["handoffs_in"]), count(row["handoffs_out"]), duration(row["gap_max_us"]),
            count(row["segments_closed"]), count(row["segments_open"]), count(row["segments_bad"]),
            count(row["events"]),
        )
        for row in chosen
    ]  # fmt: skip
    more = (
        f'<p class="soft">{len(rows) - len(chosen):,} others are in report.json.</p>' if len(chosen) < len(rows) else ""
    )
    return f"<h2>Stations</h2>\n{_table(head, cells)}{more}\n"


def _hosts(summary: Mapping[str, Any], limit: int) -> str:
    hosts, total = summary["hosts"], summary["counts"]["hosts"]
    if not total:
        return "<h2>Hosts</h2>\n<p>No host is known.</p>\n"
    all_clean = hosts["clean"] == total
    head = ["host", "verdict", "violations", "undecided", "deliveries", "p50", "p99", "handoffs", "longest<br>gap",
            "pending", "¶why"]  # fmt: skip
    chosen = hosts["worst"][: min(limit, 10 if all_clean else 25)]
    cells: list[Sequence[str]] = [
        (
            name(row["host"]), f'<b class="{row["verdict"]}">{row["verdict"]}</b>', count(row["violations"]),
            count(row["undecided"]), count(row["deliveries"]), duration(row["p50_us"]), duration(row["p99_us"]),
            count(row["handoffs"]), duration(row["gap_max_us"]), count(row["pending"]),
            f"¶{escape(shown(row['why'], 200))}",
        )
        for row in chosen
    ]  # fmt: skip
    text = f"{count(hosts['clean'])} clean, {count(hosts['violated'])} violated, {count(hosts['undecided'])} undecided."
    if total > len(chosen):
        which = "slowest" if all_clean else "worst"
        text += f" The {which} {len(chosen)} are shown, all are in tables/hosts.parquet."
    if all_clean:
        head, cells = head[:-1], [row[:-1] for row in cells]
    return f"<h2>Hosts</h2>\n<p>{text}</p>{_table(head, cells, 2)}\n"


def _run(summary: Mapping[str, Any]) -> str:
    run = summary["run"]
    took = duration(max(0, run["ended"] - run["begun"]))
    rows = [
        ("logs", run["logs"]), ("segments", count(summary["counts"]["segments"])), ("signatures", run["keys"]),
        ("engine", run["engine"]), ("software", run["software"]), ("run", run["run"]),
        ("begun, UTC", instant(run["begun"])), ("took", took),
    ]  # fmt: skip
    cells = "".join(f"<dt>{dt}</dt><dd>{escape(shown(dd))}</dd>" for dt, dd in rows)
    return f'<h2>How it was run</h2>\n<dl class="sheet run">{cells}</dl>\n'


def _words() -> str:
    cells = "".join(f"<dt>{escape(dt)}</dt><dd>{escape(dd)}</dd>" for dt, dd in WORDS)
    return f'<h2>Words</h2>\n<dl class="sheet words">{cells}</dl>\n'
