"""The soak runs the real simulator, counts its seeds, and stops with its exit code."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest


@pytest.fixture(scope="module")
def soak() -> ModuleType:
    spec = importlib.util.spec_from_file_location("roamcast_soak", Path(__file__).with_name("__main__.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_one_batch_when_there_is_no_time(soak, capfd):
    assert soak.soak(seed=11, seconds=0, batches={"few": 2, "mixed": 1}, jobs=1) == (0, 2)
    assert "few: 2 seeds from 11, 0 failed" in capfd.readouterr().out


def test_stops_at_the_first_failure(soak):
    assert soak.soak(seed=1, seconds=3600, batches={"no such scenario": 1}, jobs=1) == (2, 1)
