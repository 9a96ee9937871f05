"""docs/faults.md against the code: what it names exists, and no mutant is left out of it."""

from __future__ import annotations

import ast
import re
import runpy
from functools import cache
from pathlib import Path

import pytest

from roamcast.middleware.mobile_host.core import MUTANTS

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2]
TOKEN = re.compile(r"`([^`]+)`")
SWITCH = re.compile(r'"([a-z_]+)"\s+(?:not\s+)?in\s+[a-z_.]*mutants')
SAVED = re.compile(r'\.save\([a-z_]+, "([a-z_]+)"')
DISK = re.compile(r"(agent-)?(disk|late|split):\w+(:\w+=\w+)?")


@pytest.fixture(scope="module")
def rows() -> list[tuple[str, list[str]]]:
    """(first cell, names in the last cell) of every row of the tables in docs/faults.md."""
    found = []
    for line in (ROOT / "docs/faults.md").read_text("utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if line.startswith("|") and len(cells) == 3 and not set(line) <= set("|- ") and cells[2] != "caught by":
            found.append((cells[0], TOKEN.findall(cells[2])))
    return found


@pytest.fixture(scope="module")
def switches() -> set[str]:
    """Every mutant that the cores know. The folder of this checkout is read; a wheel has the same."""
    texts = [
        path.read_text("utf-8") for path in sorted((ROOT / "middleware").rglob("*.py")) if "simulator" not in path.parts
    ]
    names = {name for text in texts for name in SWITCH.findall(text)}
    saved = {f"save:{why}" for text in texts for why in SAVED.findall(text)}
    return names | saved | set(MUTANTS)


@pytest.fixture(scope="module")
def searched() -> dict[str, dict]:
    """The tables of test_mutants.py and test_lan_mutants.py, each as one."""
    modules = [runpy.run_path(str(path)) for path in sorted(HERE.glob("test_*mutants.py"))]
    return {name: {key: module[name][key] for module in modules for key in module[name]} for name in ("FALLS", "HOLDS")}


@cache
def functions(path: Path) -> frozenset[str]:
    tree = ast.parse(path.read_text("utf-8"))
    return frozenset(node.name for node in tree.body if isinstance(node, ast.FunctionDef))


def test_every_row_is_caught_by_something(rows):
    assert len(rows) > 80
    assert not [what for what, names in rows if not names]


def test_named_tests_exist(rows):
    wrong = []
    for _, names in rows:
        for name in names:
            if "::" in name:
                file, _, function = name.partition("::")
                path = HERE.parent / file
                if not path.is_file() or function not in functions(path):
                    wrong.append(name)
    assert not wrong


def test_named_mutants_exist(rows, switches):
    names = {name for _, found in rows for name in found if "::" not in name}
    assert not [name for name in sorted(names) if name not in switches and not DISK.fullmatch(name)]


def test_every_mutant_is_in_the_table(rows, switches, searched):
    names = {name for _, found in rows for name in found if "::" not in name}
    wanted = switches | searched["FALLS"].keys() | searched["HOLDS"].keys()
    assert not sorted(wanted - names)


def test_every_mutant_is_played_somewhere(rows, switches, searched):
    """In the simulator, or by a directed test that names it."""
    texts = [path.read_text("utf-8") for path in sorted(HERE.parent.rglob("test_*.py")) if path.parent != HERE]
    played = searched["FALLS"].keys() | searched["HOLDS"].keys() | set(MUTANTS)
    named = {name for _, found in rows for name in found if "::" not in name}
    left = [name for name in sorted(named | switches) if name not in played]
    assert not [name for name in left if not any(f'"{name}"' in text for text in texts)]
