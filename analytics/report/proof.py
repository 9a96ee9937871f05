"""Findings as HTML: by kind, what each one means and what to do, its witnesses, and where in the logs they stand."""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from roamcast.analytics.report.kinds import kind_of
from roamcast.analytics.report.words import NAME_MAX, counted, instant, shown

OPENED = 2
"""Findings of a kind whose places in the logs are shown at once."""

WHAT_MAX, FILE_MAX = 140, 90
"""Characters."""

FINDINGS_FILE = "tables/findings.parquet"


def name(text: str) -> str:
    """A host's or station's name: foreign text that must not change what stands around it."""
    return f"<bdi>{escape(shown(text, NAME_MAX))}</bdi>"


def groups(found: Sequence[Mapping[str, Any]], examples: int) -> str:
    """One box per kind. found: of `findings` of the summary; examples: how many of a kind are shown."""
    return "".join(_group(group, examples) for group in found)


def _group(group: Mapping[str, Any], examples: int) -> str:
    kind = kind_of(group["kind"])
    hosts = f" at {counted(group['hosts'], 'host')}" if group["hosts"] else ""
    told = group["examples"][:examples]
    items = "".join(f"<li>{_example(each, i < OPENED)}</li>" for i, each in enumerate(told))
    rest = group["rows"] - len(told)
    more = f'<li class="soft">{counted(rest, "more")} in {FINDINGS_FILE}</li>'.replace("mores", "more") if rest else ""
    note = " ".join(part for part in (kind.means, kind.do) if part)
    return (
        f'<section class="sheet kind {escape(group["severity"])}"><header><h3>{escape(kind.title)}</h3>'
        f'<span class="tag">{group["count"]:,}{hosts} · <code>{escape(group["kind"])}</code></span></header>'
        f'<p class="soft">{escape(note)}</p><ol>{items}{more}</ol></section>'
    )


def _example(example: Mapping[str, Any], opened: bool) -> str:
    stands_for = f' <span class="tag">stands for {example["count"]:,}</span>' if example["count"] > 1 else ""
    return f"<div>{_isolated(example['witness'], example['host'])}{stands_for}</div>{_places(example['log'], opened)}"


def _isolated(witness: str, host: str) -> str:
    """The witness; a host name that is written from right to left does not turn the words around it."""
    if host and any(unicodedata.bidirectional(sign) in ("R", "AL") for sign in host):
        return name(host).join(escape(part) for part in witness.split(host))
    return escape(witness)


def _places(log: Sequence[Mapping[str, Any]], opened: bool) -> str:
    if not log:
        return ""
    rows = "".join(_place(spot) for spot in log)
    return (
        f"<details{' open' if opened else ''}><summary>Where to look: {counted(len(log), 'row')} of the logs</summary>"
        '<div class="scroll"><table class="places"><thead><tr><th class="left">what</th><th>station</th>'
        '<th>segment</th><th>row</th><th class="left">UTC</th><th class="left">file</th></tr></thead>'
        f"<tbody>{rows}</tbody></table></div></details>"
    )


def _place(spot: Mapping[str, Any]) -> str:
    kept = not spot["segment"]
    file = spot["file"] if len(spot["file"]) <= FILE_MAX else "…" + spot["file"][1 - FILE_MAX :]
    return (
        f'<tr><td class="left">{escape(shown(spot["what"], WHAT_MAX))}</td><td>{spot["station"] or "journal"}</td>'
        f"<td>{'–' if kept else spot['segment']}</td><td>{'–' if kept else spot['row']}</td>"
        f'<td class="left">{instant(spot["wall"])}</td>'
        f'<td class="left">{"of a settled day" if kept else escape(file)}</td></tr>'
    )
