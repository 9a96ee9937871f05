"""Documents and comments: links resolve, nothing is left unfinished, nothing speaks of one person's machine."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import unquote

import pytest

LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
CODE = re.compile(r"```.*?```|`[^`\n]*`", re.DOTALL)
UNFINISHED = re.compile(r"\b(TODO|FIXME|XXX|TBD)\b")
FOREIGN = re.compile(r"(?i)\b(chatbots?|llms?|language models?|copilot|ai[- ](assistants?|generated|written))\b")
MACHINE = re.compile(r"(?<![\w.])/(home|work|Users)/\w+|\.\./shared/")
LINE_NUMBER = re.compile(r"\b\w+\.py:\d+|\bline \d+ of\b")


def anchor(heading: str) -> str:
    """Return the anchor that a repository page gives a heading."""
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")


@pytest.fixture(scope="module")
def texts(root: Path, project_files: list[str]) -> dict[str, str]:
    """Every text file of the project but this one, which has to name what it looks for."""
    found = {}
    for name in project_files:
        try:
            found[name] = (root / name).read_text("utf-8")
        except UnicodeDecodeError:
            continue
    found.pop(Path(__file__).resolve().relative_to(root).as_posix(), None)
    return found


@pytest.fixture(scope="module")
def documents(texts: dict[str, str]) -> dict[str, str]:
    return {name: CODE.sub("", text) for name, text in texts.items() if name.endswith(".md")}


def test_links_resolve(root, texts, documents):
    broken = []
    for name, text in documents.items():
        for target in LINK.findall(text):
            if re.match(r"[a-z]+:", target):
                continue
            path, _, fragment = unquote(target).partition("#")
            file = (root / name).parent / path if path else root / name
            if not file.exists():
                broken.append(f"{name}: {target}")
            elif fragment and file.suffix == ".md":
                headings = re.findall(r"(?m)^#+ (.*)$", file.read_text("utf-8"))
                if fragment not in map(anchor, headings):
                    broken.append(f"{name}: {target} (no such heading)")
    assert not broken


def hits(texts: dict[str, str], pattern: re.Pattern[str]) -> list[str]:
    return [
        f"{name}:{number} {match.group()}"
        for name, text in texts.items()
        for number, line in enumerate(text.splitlines(), 1)
        if (match := pattern.search(line))
    ]


@pytest.mark.parametrize("pattern", [UNFINISHED, FOREIGN, MACHINE], ids=["unfinished", "foreign", "machine"])
def test_texts_speak_of_the_project(texts, pattern):
    assert not hits(texts, pattern)


def test_documents_cite_names_not_line_numbers(documents):
    assert not hits(documents, LINE_NUMBER)


def test_documents_are_complete(root):
    for name in ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md", "LICENSE"):
        assert (root / name).is_file(), name
    for name in ("fifo-broadcast", "causal-broadcast", "custody", "host-link", "station-link"):
        assert (root / "docs/protocols" / f"{name}.md").is_file(), name
