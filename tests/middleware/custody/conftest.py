"""Scenarios of custody: each names the rules that it needs, and is played without each of them too."""

from __future__ import annotations

import sys
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from roamcast.middleware.errors import Error
from roamcast.middleware.settings import SECOND

HERE = str(Path(__file__).parent)
if HERE not in sys.path:
    sys.path.insert(0, HERE)

from on_topics import configure  # noqa: E402


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers",
        "rules(*falls, holds=(), slots=(1, 2, 3), **settings): the test must fail under each mutant of `falls`, "
        "and pass under those of `holds`, whose rule only saves time or is implied by others.",
    )


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    marker = metafunc.definition.get_closest_marker("rules")
    if marker is not None:
        mutants = [None, *marker.args, *marker.kwargs.get("holds", ())]
        metafunc.parametrize("mutant", mutants, indirect=True, ids=lambda name: name or "as-it-is")


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> Generator[None, Any, Any]:
    """Without a rule that it needs a scenario must fail."""
    marker = pyfuncitem.get_closest_marker("rules")
    if marker is None or pyfuncitem.callspec.params["mutant"] not in marker.args:
        return (yield)
    with pytest.raises((AssertionError, Error)):
        yield
    return True


@pytest.fixture
def mutant(request: pytest.FixtureRequest) -> str | None:
    """The rule that is switched off, if any."""
    return getattr(request, "param", None)


@pytest.fixture
def net(request: pytest.FixtureRequest, make_net: Any, mutant: str | None) -> Any:
    """Three stations, or what the mark `rules` says."""
    marker = request.node.get_closest_marker("rules")
    settings = dict(marker.kwargs) if marker is not None else {}
    settings.pop("holds", None)
    return make_net(*settings.pop("slots", (1, 2, 3)), mutants=() if mutant is None else (mutant,), **settings)


@pytest.fixture
def pair(net: Any) -> Any:
    """Hosts a and b attached at station 1; their enrolment has been collected."""
    hosts = net.enrol("a"), net.enrol("b")
    for host in hosts:
        host.arrive(1)
    net.run(12 * SECOND)
    return hosts


@pytest.fixture
def trio(make_net: Any) -> Any:
    """Three stations; host a at 1 where it was enrolled, writer w at 1."""

    def build(**options: Any) -> Any:
        net = make_net(1, 2, 3, **options)
        a, w = net.enrol("a"), net.enrol("w")
        a.arrive(1)
        w.arrive(1)
        net.run(2 * SECOND)
        return net, a, w

    return build


@pytest.fixture
def crowd(net):
    """Hosts a, b, c attached at station 1, and p, a publisher, at 2; nobody is subscribed."""
    configure(net)
    hosts = [net.enrol(name) for name in "abc"]
    for host in hosts:
        host.arrive(1)
    p = net.enrol("p", 2)
    p.arrive(2)
    net.run(12 * SECOND)
    return (*hosts, p)


@pytest.fixture
def live_trio(net: Any) -> Any:
    """Hosts a, b, c attached at stations 1, 2, 3, long enough ago for live service."""
    hosts = [net.enrol(name, slot) for slot, name in enumerate("abc", start=1)]
    for slot, host in enumerate(hosts, start=1):
        host.arrive(slot)
    net.run(2 * SECOND)
    net.sent.clear()
    return hosts
