"""Findings as HTML: by kind, what each one means and what to do, its witnesses, and where in the logs they stand."""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

from roamcast.analytics.report.kinds import kind_of
from roamcast.analytics.report.words import NAME_MAX, counted, instant, listed, shown

OPENED = 2
"""Findings of a kind whose places in the logs are shown at once."""

WHAT_MAX, FILE_MAX = 140, 90
"""Characters."""

ALSO_MAX = 12
"""Hosts."""

STARTS = ("host ", "station ", "stations ", "session ", "segment", "the ", "there ", "of ", "own ", "logs ")
"""Of witnesses; others begin with a name."""

FINDINGS_FILE = "tables/findings.parquet"


def name(text: str) -> str:
    """A host's or station's name: foreign text that must not change what stands around it."""
    return f"<bdi>{escape(shown(text, NAME_MAX))}</bdi>"


@dataclass(frozen=True, slots=True)
class Proofs:
    """How findings are shown."""

    examples: int
    """Of a kind."""
    logs: str
    """The folder of the logs: files in it are shown by their path below it."""
    day: str
    """Times in it are shown without the date."""

    def __call__(self, found: Sequence[Mapping[str, Any]]) -> str:
        """One box per kind. found: of `findings` of the summary."""
        return "".join(self._group(group) for group in found)

    def _group(self, group: Mapping[str, Any]) -> str:
        kind = kind_of(group["kind"])
        hosts = f" at {counted(group['hosts'], 'host')}" if group["hosts"] else ""
        pairs = _by_pair(group["examples"])[: self.examples]
        items = "".join(f"<li>{self._pair(pair, i < OPENED)}</li>" for i, pair in enumerate(pairs))
        rest = group["rows"] - sum(map(len, pairs))
        more = f'<li class="soft">{rest:,} more in {FINDINGS_FILE}</li>' if rest else ""
        note = " ".join(part for part in (kind.means, kind.do) if part)
        return (
            f'<section class="sheet kind {escape(group["severity"])}"><header><h3>{escape(kind.title)}</h3>'
            f'<span class="tag">{group["count"]:,}{hosts} · <code>{escape(group["kind"])}</code></span></header>'
            f'<p class="soft">{escape(note)}</p><ol>{items}{more}</ol></section>'
        )

    def _pair(self, pair: Sequence[Mapping[str, Any]], opened: bool) -> str:
        first = pair[0]
        told = _isolated(first["witness"], first["host"])
        if first["count"] > 1:
            told += f' <span class="tag">counts as {first["count"]:,}</span>'
        also = [name(each["host"]) if each["host"] else f"station {each['station']}" for each in pair[1:]]
        if also:
            rest = [f"{len(also) - ALSO_MAX:,} more"] if len(also) > ALSO_MAX else []
            told += f'<br><span class="soft">The same two at {listed(also[:ALSO_MAX] + rest)}</span>'
        return f"<div>{told}</div>{self._places(first['log'], opened)}"

    def _places(self, log: Sequence[Mapping[str, Any]], opened: bool) -> str:
        if not log:
            return ""
        rows = "".join(self._place(spot) for spot in log)
        return (
            f"<details{' open' if opened else ''}><summary>Where to look: {counted(len(log), 'row')} of the logs"
            '</summary><div class="scroll"><table class="places"><thead><tr><th class="left">what</th><th>station</th>'
            '<th>segment</th><th>row</th><th class="left">UTC</th><th class="left">file</th></tr></thead>'
            f"<tbody>{rows}</tbody></table></div></details>"
        )

    def _place(self, spot: Mapping[str, Any]) -> str:
        kept = not spot["segment"]
        file = spot["file"].removeprefix(self.logs.rstrip("/") + "/")
        file = file if len(file) <= FILE_MAX else "…" + file[1 - FILE_MAX :]
        return (
            f'<tr><td class="left">{escape(shown(spot["what"], WHAT_MAX))}</td>'
            f'<td data-of="station ">{spot["station"] or "journal"}</td>'
            f'<td data-of="segment ">{"–" if kept else spot["segment"]}</td>'
            f'<td data-of="row ">{"–" if kept else spot["row"]}</td>'
            f'<td class="left">{instant(spot["wall"]).removeprefix(self.day).strip()}</td>'
            f'<td class="left">{"of a settled day" if kept else escape(file)}</td></tr>'
        )


def _by_pair(examples: Sequence[Mapping[str, Any]]) -> list[list[Mapping[str, Any]]]:
    """Findings about the same two messages stand together."""
    pairs: dict[tuple[Any, ...], list[Mapping[str, Any]]] = {}
    for i, each in enumerate(examples):
        key = (each["message"], each["other"]) if each["other"] else (i,)
        pairs.setdefault(key, []).append(each)
    return list(pairs.values())


def _isolated(witness: str, host: str) -> str:
    """The witness; a host name that is written from right to left does not turn the words around it."""
    told = witness[:1].upper() + witness[1:] if witness.startswith(STARTS) else witness
    if host and any(unicodedata.bidirectional(sign) in ("R", "AL") for sign in host):
        return name(host).join(escape(part) for part in told.split(host))
    return escape(told)
