"""The wheel as a user gets it: complete, free of what does not belong, and a good guest in other people's projects."""

from __future__ import annotations

import configparser
import os
import re
import subprocess
import sys
import venv
import zipfile
from pathlib import Path, PurePosixPath

import pytest

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("analytics", "mh_agent", "middleware", "mss_station", "transport")
DATA = (".cddl", ".css", ".sql", "py.typed")

IMPORT_ALL = """
import importlib, importlib.util, sys
for name in sys.argv[1:]:
    module = importlib.import_module(name)
    assert module.__file__.startswith(sys.prefix), module.__file__
"""

EMBEDDING_APPLICATION = """
import middleware, transport.bus
import roamcast.mh_agent, roamcast.middleware.rows, roamcast.transport
assert middleware.OWNER == transport.bus.OWNER == "the application"
assert roamcast.middleware.rows.__name__ == "roamcast.middleware.rows"
"""


def environment() -> dict[str, str]:
    """Return this process's environment without what could lend it our checkout or another environment's packages."""
    return {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL_ENV"))}


def check(*argv: str | Path, cwd: Path) -> str:
    done = subprocess.run(argv, cwd=cwd, env=environment(), capture_output=True, text=True)
    assert done.returncode == 0, f"{argv}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    """The wheel that tox installed, or else one built here from a copy of the files."""
    given = [Path(name) for name in os.environ.get("TOX_PACKAGE", "").split(os.pathsep) if name.endswith(".whl")]
    if given:
        return given[0]
    copy = tmp_path_factory.mktemp("source")
    wanted = [*FOLDERS, "setup.cfg", "pyproject.toml", "README.md", "LICENSE"]
    check("cp", "-R", *(ROOT / name for name in wanted), copy, cwd=ROOT)
    out = tmp_path_factory.mktemp("wheel")
    check(sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "-w", out, copy, cwd=out)
    return next(out.glob("*.whl"))


@pytest.fixture(scope="module")
def contents(wheel) -> set[str]:
    return set(zipfile.ZipFile(wheel).namelist())


@pytest.fixture(scope="module")
def bare_python(wheel, tmp_path_factory) -> Path:
    """A clean environment with the base install, what an agent needs."""
    folder = tmp_path_factory.mktemp("bare")
    venv.create(folder, with_pip=True)
    check(folder / "bin/python", "-m", "pip", "install", "--quiet", wheel, cwd=folder)
    return folder / "bin/python"


@pytest.fixture(scope="module")
def station_python(wheel, bare_python) -> Path:
    """The same environment once more was installed into it: the extra `station`."""
    check(
        bare_python, "-m", "pip", "install", "--quiet", f"roamcast[station] @ {wheel.as_uri()}", cwd=bare_python.parent
    )
    return bare_python


@pytest.fixture(scope="module")
def audit_python(wheel, station_python) -> Path:
    """And once more the extra `audit`."""
    what = f"roamcast[station,audit] @ {wheel.as_uri()}"
    check(station_python, "-m", "pip", "install", "--quiet", what, cwd=station_python.parent)
    return station_python


def our_files() -> set[str]:
    """Return what the folders hold and the wheel must: modules and data."""
    return {
        path.relative_to(ROOT).as_posix()
        for folder in FOLDERS
        for path in (ROOT / folder).rglob("*")
        if path.suffix == ".py" or path.name.endswith(DATA)
    }


def test_holds_every_file_of_the_folders_and_no_other(contents):
    packed = {name for name in contents if not name.split("/")[0].endswith(".dist-info")}
    assert packed == {f"roamcast/{name}" for name in our_files()}


def test_holds_no_tests_and_no_keys(wheel, contents):
    assert not [name for name in contents if "test" in name.lower() or name.endswith((".key", ".pem", ".toml"))]
    with zipfile.ZipFile(wheel) as archive:
        texts = {name: archive.read(name) for name in contents}
    assert not [name for name, text in texts.items() if b"PRIVATE KEY-----" in text]


def test_says_its_licence_and_what_it_needs(wheel, contents):
    with zipfile.ZipFile(wheel) as archive:
        name = next(name for name in contents if name.endswith(".dist-info/METADATA"))
        metadata = archive.read(name).decode()
    assert re.search(r"^License(-Expression)?: Apache-2\.0$", metadata, re.MULTILINE)
    needed = [line for line in metadata.splitlines() if line.startswith("Requires-Dist:") and "extra ==" not in line]
    assert sorted(line.split()[1].partition(">")[0].partition("<")[0] for line in needed) == ["cbor2", "pyzmq"]
    assert any(name.endswith("/LICENSE") for name in contents)


def test_agent_works_with_the_base_install(bare_python):
    check(bare_python, "-c", "from roamcast.mh_agent import Agent", cwd=bare_python.parent)


def test_embedding_application_keeps_its_own_folders(bare_python, tmp_path):
    for name in ("middleware/__init__.py", "transport/__init__.py", "transport/bus.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text('OWNER = "the application"\n')
    (tmp_path / "application.py").write_text(EMBEDDING_APPLICATION)
    check(bare_python, "application.py", cwd=tmp_path)


def modules(*folders: str) -> list[str]:
    return sorted(
        "roamcast." + PurePosixPath(name).with_suffix("").as_posix().removesuffix("/__init__").replace("/", ".")
        for name in our_files()
        if name.startswith(folders) and name.endswith(".py") and not name.endswith("__main__.py")
    )


def test_every_module_imports(station_python):
    names = modules(*(folder for folder in FOLDERS if folder != "analytics"))
    check(station_python, "-c", IMPORT_ALL, *names, cwd=station_python.parent)


def test_console_scripts_answer_help(station_python):
    config = configparser.ConfigParser(interpolation=None)
    config.read(ROOT / "setup.cfg")
    for line in config["options.entry_points"]["console_scripts"].strip().splitlines():
        name = line.split("=")[0].strip()
        assert "usage" in check(station_python.parent / name, "--help", cwd=station_python.parent).lower()


def test_every_module_of_the_audit_imports(audit_python):
    check(audit_python, "-c", IMPORT_ALL, *modules("analytics"), cwd=audit_python.parent)
