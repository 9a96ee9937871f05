"""Small modules, small functions, telling names."""

from __future__ import annotations

import ast
import re
import sys
from pathlib import PurePosixPath

LINES_PER_MODULE = 400
LINES_PER_FUNCTION = 70
EMPTY_WORDS = re.compile(r"(?i)(^|_)(utils?|helpers?|managers?|base|common|misc)(_|$)")


def test_no_module_is_long(sources):
    long = {s.path: n for s in sources if (n := len(s.text.splitlines())) > LINES_PER_MODULE}
    assert not long, f"more than {LINES_PER_MODULE} lines: {long}"


def test_no_function_is_long(sources):
    long = {
        f"{source.path}: {node.name}": lines
        for source in sources
        for node in ast.walk(source.tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (lines := (node.end_lineno or 0) - node.lineno + 1) > LINES_PER_FUNCTION
    }
    assert not long, f"more than {LINES_PER_FUNCTION} lines: {long}"


def test_names_say_something(sources):
    modules = [
        s.path for s in sources if any(EMPTY_WORDS.search(p) for p in PurePosixPath(s.path).with_suffix("").parts)
    ]
    classes = [
        f"{source.path}: {node.name}"
        for source in sources
        for node in ast.walk(source.tree)
        if isinstance(node, ast.ClassDef) and EMPTY_WORDS.search(re.sub(r"(?<=[a-z])(?=[A-Z])", "_", node.name))
    ]
    assert not modules + classes


def test_no_module_hides_one_of_the_standard_library(package_sources):
    parts = {part: s.path for s in package_sources for part in PurePosixPath(s.path).with_suffix("").parts[1:]}
    taken = {part: path for part, path in parts.items() if part in sys.stdlib_module_names and part != "__init__"}
    assert not taken
