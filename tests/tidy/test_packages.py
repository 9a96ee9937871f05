"""setup.cfg and dev.py say what is there: under a mapped namespace a forgotten package is missing from the wheel."""

from __future__ import annotations

import configparser
import importlib.util
from pathlib import Path, PurePosixPath

import pytest


@pytest.fixture(scope="module")
def setup_cfg(root: Path) -> configparser.ConfigParser:
    config = configparser.ConfigParser(interpolation=None)
    config.read(root / "setup.cfg")
    return config


@pytest.fixture(scope="module")
def dev(root: Path):
    spec = importlib.util.spec_from_file_location("roamcast_dev", root / "dev.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_packages_are_the_folders(setup_cfg, package_sources):
    listed = setup_cfg["options"]["packages"].split()
    folders = {"roamcast." + PurePosixPath(s.path).parent.as_posix().replace("/", ".") for s in package_sources}
    assert sorted(listed) == sorted(folders)


def test_every_package_has_its_init(package_sources):
    paths = {s.path for s in package_sources}
    folders = {PurePosixPath(path).parent.as_posix() for path in paths}
    assert not [folder for folder in sorted(folders) if f"{folder}/__init__.py" not in paths]


def test_every_folder_is_typed(setup_cfg, root):
    for line in setup_cfg["options"]["package_dir"].split("\n")[1:]:
        assert (root / line.split("=")[1].strip() / "py.typed").exists(), line


def test_console_scripts_lead_somewhere(setup_cfg, package_sources):
    modules = {s.module: s for s in package_sources}
    for line in setup_cfg["options.entry_points"]["console_scripts"].split("\n")[1:]:
        module, function = line.split("=")[1].strip().split(":")
        assert module in modules, line
        assert f"def {function}(" in modules[module].text, line


def test_every_command_of_dev_has_its_target(dev, setup_cfg, project_files):
    tools = {"tox", "ruff", "mypy"}
    scripts = {line.split("=")[0].strip() for line in setup_cfg["options.entry_points"]["console_scripts"].split("\n")}
    for name, (_, steps) in dev.COMMANDS.items():
        for program, *arguments in steps:
            if program == "python":
                assert {arguments[0], f"{arguments[0]}/__main__.py"} & set(project_files), name
            else:
                assert program in tools | scripts, name


def test_dev_links_the_folders_for_type_checkers(dev, tmp_path, monkeypatch):
    monkeypatch.setattr(dev, "TYPING_ROOT", tmp_path / ".typing-root")
    dev.link_typing_root()
    dev.link_typing_root()
    assert (tmp_path / ".typing-root/roamcast/middleware/rows.py").read_bytes()


def test_dev_renews_the_environment_when_its_inputs_change(dev, root, tmp_path, monkeypatch):
    for name in ("setup.cfg", "pyproject.toml", "constraints.txt"):
        (tmp_path / name).write_bytes((root / name).read_bytes())
    monkeypatch.setattr(dev, "ROOT", tmp_path)
    stamps = {dev.wanted_stamp()}
    for name in ("setup.cfg", "pyproject.toml", "constraints.txt"):
        (tmp_path / name).write_text((tmp_path / name).read_text() + "\n# changed\n")
        stamps.add(dev.wanted_stamp())
    assert len(stamps) == 4


def test_dev_refuses_an_old_python_with_a_clear_text(dev, monkeypatch):
    monkeypatch.setattr(dev.sys, "version_info", (3, 10, 4))
    with pytest.raises(dev.SetUpError, match=r"Python 3\.11 or newer is needed, this is 3\.10"):
        dev.check_python()


def test_dev_names_a_missing_venv_module(dev, monkeypatch):
    monkeypatch.setattr(dev.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(dev.SetUpError, match="python3-venv"):
        dev.check_python()


def test_dev_help_and_wrong_use(dev, capsys):
    assert dev.main(["--help"]) == 0
    assert dev.main(["nonsense"]) == 2
    printed = capsys.readouterr()
    assert all(name in printed.out for name in dev.COMMANDS)
    assert "nonsense" in printed.err
