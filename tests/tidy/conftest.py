"""The project's files as the tidy tests see them: the checkout, tracked or about to be."""

from __future__ import annotations

import ast
import subprocess
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import pytest

FOLDERS = ("analytics", "mh_agent", "middleware", "mss_station", "transport")


@dataclass(frozen=True)
class SourceFile:
    """One Python file of the project."""

    path: str
    """Relative to the root, with slashes."""
    text: str

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.text, self.path)

    @property
    def module(self) -> str:
        """Import name, for files of the five folders: middleware/rows.py is roamcast.middleware.rows."""
        return "roamcast." + self.path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")

    @property
    def in_package(self) -> bool:
        return self.path.split("/")[0] in FOLDERS

    @cached_property
    def imports(self) -> list[tuple[int, str]]:
        """(line, full dotted name) of everything imported anywhere in the file, down to the name behind `from`."""
        found: list[tuple[int, str]] = []
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Import):
                found += [(node.lineno, alias.name) for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                found += [(node.lineno, f"{node.module}.{alias.name}") for alias in node.names]
        return found


@pytest.fixture(scope="session")
def root() -> Path:
    return Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def project_files(root: Path) -> list[str]:
    """Every file of the project that is not ignored, relative to the root, sorted."""
    listing = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], cwd=root, capture_output=True
    )
    if listing.returncode == 0:
        names = [name for name in listing.stdout.decode().split("\0") if name]
    else:  # not a git checkout: everything outside hidden and built folders
        found = (path.relative_to(root) for path in root.rglob("*") if path.is_file())
        built = {"build", "dist", "__pycache__"}
        names = [
            path.as_posix()
            for path in found
            if not any(part.startswith(".") or part in built or part.endswith(".egg-info") for part in path.parts[:-1])
        ]
    return sorted(name for name in names if (root / name).is_file())


@pytest.fixture(scope="session")
def sources(root: Path, project_files: list[str]) -> list[SourceFile]:
    """Every Python file of the project."""
    return [SourceFile(name, (root / name).read_text("utf-8")) for name in project_files if name.endswith(".py")]


@pytest.fixture(scope="session")
def package_sources(sources: list[SourceFile]) -> list[SourceFile]:
    """The Python files of the five folders."""
    return [source for source in sources if source.in_package]
