"""The page: whole whatever it is given, one file, small; what somebody else wrote is never taken for HTML."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from typing import Any
from xml.etree import ElementTree

import audit_world
import made_logs
import pytest
from audit_world import A, story
from reports import DAY, about, night, skipped, told

from roamcast.analytics.carried import Carried
from roamcast.analytics.days import WHOLE
from roamcast.analytics.engine_local import audit
from roamcast.analytics.nights import Night, run_night
from roamcast.analytics.report.kinds import KINDS
from roamcast.analytics.report.page import BYTES_MAX, page
from roamcast.analytics.report.plain import text
from roamcast.analytics.report.summary import summary

VOID = {"meta", "br", "link", "img"}
SVG = re.compile(r"<svg.*?</svg>", re.DOTALL)


class Whole(HTMLParser):
    """Fails if elements do not nest."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: set[str] = set()
        self.attributes: set[str] = set()
        self.words: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.add(tag)
        self.attributes |= {name for name, _ in attrs}
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.add(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open and self.open.pop() == tag, (tag, self.getpos())

    def handle_data(self, data: str) -> None:
        if not self.open or self.open[-1] != "style":
            self.words.append(data)


def checked(made: str) -> Whole:
    """The page, if it is sound."""
    assert len(made.encode()) < BYTES_MAX
    parser = Whole()
    parser.feed(made)
    parser.close()
    assert not parser.open
    assert not parser.seen & {"script", "link", "img", "iframe", "object", "base", "form"}
    assert not {name for name in parser.attributes if name.startswith("on")} | (parser.attributes & {"src", "href"})
    assert "url(" not in made and "@import" not in made
    for svg in SVG.findall(made):
        tree = ElementTree.fromstring(svg)
        for each in tree.iter():
            numbers = [each.get(name) for name in ("x", "y", "width", "height", "x1", "cx", "cy")]
            assert all(float(number) >= 0 for number in numbers if number is not None)
    shown = "".join(parser.words)
    assert "nan" not in made.lower().replace("tenance", "") and "None" not in re.sub(r"None of this", "", shown)
    return parser


def test_each_verdict_has_its_word_and_its_shape() -> None:
    pages = {
        "clean": page(told()),
        "violated": page(told(skipped(story()))),
        "undecided": page(told(whole=False)),
    }
    icons = set()
    for verdict, made in pages.items():
        checked(made)
        assert f"<h1>{verdict.capitalize()}</h1>" in made
        icons.add(SVG.findall(made)[0])
    assert len(icons) == 3


def test_a_violation_is_told_with_its_rows() -> None:
    words = "".join(checked(page(told(skipped(story())))).words)
    assert "Host ann never acknowledged 1:5, and session 2 at station 2 counts it as had" in words
    assert "A message that the host is owed was skipped" in words
    assert "session 2 of ann begins" in words and "station2-2.log" in words


def test_missing_logs_are_told_before_the_plots() -> None:
    made = page(told(whole=False))
    assert 0 < made.index("What is missing") < made.index("The day")
    assert "The log of station 1 ends before the end of the day" in made and "Provisional" in made


def test_an_empty_night_has_no_broken_plots() -> None:
    made = page(summary(run_night([], DAY, Carried()), about()))
    assert len(SVG.findall(made)) == 1
    checked(made)
    assert "Nothing was delivered." in made


def test_a_busy_night_has_all_plots() -> None:
    made = page(summary(Night(audit(made_logs.logs(300, 3, 10, 2, 1)), Carried(WHOLE)), about(WHOLE)))
    checked(made)
    assert len(SVG.findall(made)) == 9


HOSTILE = [
    "<script>alert(1)</script>", '"><img src=x onerror=alert(1)>', "</title></style><h1>Clean</h1>", "&lt;b&gt; &amp;",
    "שלום עולם", "\u202egnorw", "a\x1b[2Jb\nCLEAN: all is well", "x" * 5_000, "", "  ", "]]>", "{0}%s",
]  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
def test_names_are_only_names(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(audit_world.NAMES, A, name)
    made = summary(night(skipped(story())), about(group=name, logs=name))
    html = page(made)
    parser = checked(html)
    assert parser.seen == checked(page(told(skipped(story())))).seen
    assert "\u202e" not in html and "\x1b" not in html
    assert len(html) < 60_000
    lines = text(made)
    assert lines.startswith("VIOLATED: ") and "\nCLEAN" not in lines and "\x1b" not in lines and "\u202e" not in lines
    assert max(map(len, lines.splitlines())) < 1_000


def grown(made: dict[str, Any]) -> dict[str, Any]:
    """As bad as it can be: every kind, all examples, long and hostile texts, very many stations."""
    bad = "<&\"'>" * 120
    spot = {"what": bad, "station": 1, "segment": 1, "row": 1, "wall": 1_800_000_000_000_000, "file": bad}
    example = {
        "host": bad, "station": 1, "wall": 1, "count": 9, "witness": bad, "message": "1:1", "other": "",
        "place": None, "other_place": None, "log": [spot] * 10,
    }  # fmt: skip
    made["findings"] = [
        {"kind": kind, "severity": severity, "count": 10**9, "rows": 10**6, "hosts": 10**5,
         "examples": [example] * 100}
        for kind in KINDS for severity in ("violation", "undecided", "info")
    ]  # fmt: skip
    made["stations"] = [{**made["stations"][0], "station": i, "id": bad} for i in range(1, 1_024)]
    host = {**made["hosts"]["worst"][0], "host": bad, "why": bad}
    made["hosts"] |= {"worst": [host] * 100, "slowest": [{**host, "p99_us": 10**13}] * 12}
    made["counts"]["hosts"] = 10**6
    made["run"] = dict.fromkeys(made["run"], bad) | {"begun": 1, "ended": 2, "reopened": [DAY] * 7}
    return made


def test_the_page_is_small_whatever_happens() -> None:
    made = grown(told(skipped(story())))
    checked(page(made))
    assert "Lost" in page(made)
    text(made)
