"""What holds for every test run: the right copy is judged, and only under its own name."""

from __future__ import annotations

import importlib
import os
import signal
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path

import pytest

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A shell that puts us in the background has us ignore Ctrl-C, and what tests start would inherit that.
    signal.signal(signal.SIGINT, signal.default_int_handler)

FOLDERS = ("analytics", "mh_agent", "middleware", "mss_station", "transport")


def pytest_sessionstart(session: pytest.Session) -> None:
    """Where the wheel is to be judged, refuse to judge the folders of the checkout."""
    if os.environ.get("ROAMCAST_JUDGE") == "wheel":
        found = Path(importlib.import_module("roamcast.middleware").__file__ or "")
        if not found.is_relative_to(sysconfig.get_path("purelib")):
            raise pytest.UsageError(f"the installed wheel is to be tested, but roamcast comes from {found}")


@pytest.fixture(scope="session", autouse=True)
def only_the_namespace_is_imported() -> Iterator[None]:
    """Fail the last test of a run in which a folder was imported bare: there would be two copies of its classes."""
    yield
    bare = [name for name in FOLDERS if name in sys.modules]
    assert not bare, f"imported without the namespace: {bare}"
