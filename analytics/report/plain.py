"""The summary as plain text, for a terminal or a mail: verdict, violations, what is missing, stations, worst hosts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from roamcast.analytics.report.kinds import kind_of
from roamcast.analytics.report.words import counted, duration, share, shown
from roamcast.analytics.tables import VIOLATION

HOSTS = 10
NAME_MAX = 24
LINES = 20
"""Of the list of what is missing, and stations."""


def text(summary: Mapping[str, Any], written: Sequence[str] = ()) -> str:
    """Lines, ended by a line end. written: paths of what was written."""
    parts = [f"{summary['verdict'].upper()}: {summary['sentence']}"]
    if summary["provisional"]:
        parts.append("Provisional: the day is judged again when the missing logs have come.")
    parts += _violations(summary)
    parts += _missing(summary)
    parts += _stations(summary["stations"])
    parts += _live(summary["live"])
    parts += _hosts(summary["hosts"]["worst"])
    if written:
        parts += ["", "written:", *(f"  {path}" for path in written)]
    return "\n".join(parts) + "\n"


def missing(summary: Mapping[str, Any]) -> list[str]:
    """What evidence is missing, a line each."""
    return [each["witness"] for each in summary["missing"]["list"]]


def _violations(summary: Mapping[str, Any]) -> list[str]:
    made = []
    for group in summary["findings"]:
        if group["severity"] == VIOLATION:
            made += ["", f"{kind_of(group['kind']).title} ({group['kind']}, {group['count']:,}):"]
            made += [f"  {each['witness']}" for each in group["examples"][:3]]
            made += [f"  and {group['rows'] - 3:,} more"] if group["rows"] > 3 else []
    return made


def _missing(summary: Mapping[str, Any]) -> list[str]:
    told = missing(summary)
    if not told:
        return []
    rest = summary["missing"]["count"] - min(len(told), LINES)
    return ["", "missing:", *(f"  {each}" for each in told[:LINES]), *([f"  and {rest:,} more"] if rest else [])]


def _stations(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    if not rows:
        return []
    head = ("station", "deliveries", "p50", "p99", "in", "out", "longest gap", "closed", "open", "bad")
    cells = [
        (
            f"{row['station']} {shown(row['id'], NAME_MAX)}".strip(), f"{row['deliveries']:,}",
            duration(row["p50_us"]), duration(row["p99_us"]), f"{row['handoffs_in']:,}", f"{row['handoffs_out']:,}",
            duration(row["gap_max_us"]), f"{row['segments_closed']:,}", f"{row['segments_open']:,}",
            f"{row['segments_bad']:,}",
        )
        for row in rows[:LINES]
    ]  # fmt: skip
    more = [f"and {counted(len(rows) - LINES, 'other')}"] if len(rows) > LINES else []
    return ["", *_columns([head, *cells]), *more]


def _live(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """What became of live messages, if there were any."""
    if not rows:
        return []
    head = ("live at station", "taken", "handed down", "deliveries", "over", "missed, by cause")
    cells = [
        (
            f"{row['station']} {shown(row['id'], NAME_MAX)}".strip(), f"{row['taken']:,}", f"{row['handed']:,}",
            f"{row['deliveries']:,}", share(row["over_share"]),
            ", ".join(f"{cause} {count:,}" for cause, count in row["missed"].items()),
        )
        for row in rows[:LINES]
    ]  # fmt: skip
    more = [f"and {counted(len(rows) - LINES, 'other')}"] if len(rows) > LINES else []
    return ["", *_columns([head, *cells]), *more]


def _hosts(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    if not rows:
        return []
    head = ("worst hosts", "verdict", "violations", "undecided", "deliveries", "p99", "longest gap")
    cells = [
        (
            shown(row["host"], NAME_MAX), row["verdict"], f"{row['violations']:,}", f"{row['undecided']:,}",
            f"{row['deliveries']:,}", duration(row["p99_us"]), duration(row["gap_max_us"]),
        )
        for row in rows[:HOSTS]
    ]  # fmt: skip
    return ["", *_columns([head, *cells], 2)]


def _columns(rows: Sequence[Sequence[str]], left: int = 1) -> list[str]:
    """Aligned: the first `left` columns to the left, numbers to the right."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return [
        "  ".join(
            cell.ljust(width) if i < left else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
