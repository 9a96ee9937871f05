#!/usr/bin/env python3
"""One door to everything that is run in this repository: demo, tests, benchmark, checks.

``python3 dev.py COMMAND [OPTIONS]`` makes a virtual environment ``.venv`` beside this file when there is none (or when
setup.cfg or the Python changed), installs the project into it, and becomes the command: signals and the exit code are
the command's own. The standard library is enough to run this file. Options behind COMMAND belong to the command;
``python3 dev.py COMMAND --help`` tells them.
"""

from __future__ import annotations

import configparser
import hashlib
import importlib.util
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent
VENV = ROOT / ".venv"
PYTHON = VENV / "bin" / "python"
STAMP = VENV / "roamcast-stamp"
TYPING_ROOT = ROOT / ".typing-root"
PYTHON_MIN = (3, 11)

COMMANDS = {
    "demo": ("stations, roaming hosts, cut links and a crash, live, with a verdict", [["python", "examples/demo"]]),
    "chat": ("rooms, presence and roaming in one terminal; --join: from one more", [["python", "examples/chat"]]),
    "positions": ("live positions of moving hosts, on a page in your browser", [["python", "examples/positions"]]),
    "test": ("all that CI runs, through tox (one part: -e lint|types|agent59|tests|integration)", [["tox", "run"]]),
    "bench": (
        "costs, beside bare pyzmq; instead: --lan, --log, --audit, --topics, --live, --clusters",
        [["python", "tests/bench"]],
    ),
    "fuzz": ("random and mutated frames against the decoders", [["python", "tests/fuzz"]]),
    "soak": ("the simulator on fresh seeds for --minutes", [["python", "tests/soak"]]),
    "simulate": (
        "the simulator: --scenario mixed|few|long|group|lan --seed N --count M; study NAME",
        [["roamcast-simulate"]],
    ),
    "lint": ("ruff: rules and format", [["ruff", "check", "."], ["ruff", "format", "--check", "."]]),
    "types": ("mypy --strict", [["mypy"]]),
    "vectors": ("what a change does to the golden vectors; --rewrite", [["python", "tests/vectors/examples.py"]]),
}
"""Name -> (one line of help, steps). A step is a program of the environment and its arguments."""


class SetUpError(Exception):
    """The environment could not be made; the text says what to do."""


def say(text: str) -> None:
    """Print one progress line, on stderr so that a command's own output stays clean."""
    print("dev: " + text, file=sys.stderr, flush=True)


def wanted_stamp() -> str:
    """Return what the environment depends on, as a digest: place of the checkout, packages, requirements."""
    digest = hashlib.sha256(str(ROOT).encode())
    for name in ("setup.cfg", "pyproject.toml", "constraints.txt"):
        digest.update((ROOT / name).read_bytes())
    return digest.hexdigest()


def version(parts: Sequence[object]) -> str:
    """Return major.minor of a version tuple."""
    return f"{parts[0]}.{parts[1]}"


def check_python() -> None:
    """Raise SetUpError unless this Python can make the environment."""
    if sys.version_info < PYTHON_MIN:
        raise SetUpError(
            f"Python {version(PYTHON_MIN)} or newer is needed, this is {version(sys.version_info)} ({sys.executable}). "
            "Run this file with a newer one, for example: python3.12 dev.py ..."
        )
    if os.name != "posix":
        raise SetUpError("Linux, macOS or another POSIX system is needed (on Windows: inside WSL).")
    for name in ("venv", "ensurepip"):
        if importlib.util.find_spec(name) is None:
            raise SetUpError(f"This Python has no module {name!r}. On Debian and Ubuntu: apt install python3-venv")


def run(argv: list[str | Path], hint: str) -> None:
    """Run one step of the set-up quietly. Raise SetUpError with the end of its output and `hint` when it fails."""
    done = subprocess.run(argv, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")
    if done.returncode:
        tail = "\n".join("    " + line for line in done.stdout.splitlines()[-15:])
        raise SetUpError(f"{' '.join(map(str, argv))}\n{tail}\n{hint}")


def venv_works() -> bool:
    """Tell whether .venv has a Python that starts (it does not after its own Python was removed)."""
    return PYTHON.exists() and subprocess.run([PYTHON, "-c", ""], capture_output=True).returncode == 0


def set_up() -> None:
    """Make or renew .venv, unless its stamp says that nothing changed; then the links for type checkers."""
    stamp = wanted_stamp()
    if not (STAMP.exists() and STAMP.read_text() == stamp and venv_works()):
        check_python()
        begin = time.monotonic()
        STAMP.unlink(missing_ok=True)
        if not venv_works():
            say(f"making .venv with Python {version(sys.version_info)}")
            run([sys.executable, "-m", "venv", "--clear", VENV], "The virtual environment could not be made.")
        say("installing roamcast and its tools into .venv (once; some 20 seconds)")
        run(
            [PYTHON, "-m", "pip", "install", "--quiet", "-c", "constraints.txt", "-e", ".[dev]"],
            "The install failed. It needs a package registry (PyPI or a mirror set in pip's configuration).",
        )
        STAMP.write_text(stamp)
        say(f"ready after {time.monotonic() - begin:.0f} s")
    link_typing_root()


def package_folders() -> dict[str, str]:
    """Return the folders of the namespace from setup.cfg, as {import name: folder}."""
    config = configparser.ConfigParser(interpolation=None)
    config.read(ROOT / "setup.cfg")
    pairs = (line.split("=") for line in config["options"]["package_dir"].splitlines() if line.strip())
    return {name.strip(): folder.strip() for name, folder in pairs}


def link_typing_root() -> None:
    """Make .typing-root/roamcast/<folder> as links, so that type checkers find the namespace (see CONTRIBUTING.md)."""
    for name, folder in package_folders().items():
        link = TYPING_ROOT.joinpath(*name.split("."))
        if not link.exists():
            link.parent.mkdir(parents=True, exist_ok=True)
            link.unlink(missing_ok=True)
            link.symlink_to(os.path.relpath(ROOT / folder, link.parent))


BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")


def provide_browser() -> None:
    """Install the browser that one of the tests needs, where apt-get can; else that test is skipped."""
    if any(map(shutil.which, BROWSERS)) or os.geteuid() != 0 or shutil.which("apt-get") is None:
        return
    say("installing chromium with apt-get, for the test of a page")
    for words in (["update"], ["install", "-y", "--no-install-recommends", "chromium"]):
        environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        if subprocess.call(["apt-get", "-qq", *words], env=environment, stdout=subprocess.DEVNULL):
            say("chromium could not be installed")
            return


def program(name: str) -> str:
    """Return the path of a program of the environment."""
    return str(VENV / "bin" / name)


def become(steps: list[list[str]], options: list[str]) -> None:
    """Run all steps but the last, stop at the first that fails, and turn into the last one."""
    for step in steps[:-1]:
        code = subprocess.call([program(step[0]), *step[1:]], cwd=ROOT)
        if code:
            sys.exit(code)
    last = steps[-1]
    os.chdir(ROOT)
    sys.stdout.flush()
    os.execv(program(last[0]), [program(last[0]), *last[1:], *options])


def usage() -> str:
    """Return the help text."""
    rows = [f"  {name:<10}{help_line}" for name, (help_line, _) in COMMANDS.items()]
    return "\n".join(["usage: python3 dev.py COMMAND [OPTIONS of the command]", "", *rows])


def main(argv: list[str]) -> int:
    """Run one command. Return an exit code only when it was not started: 2 wrong use, 3 no environment."""
    if not argv or argv[0] in ("-h", "--help", "help"):
        print(usage())
        return 0 if argv else 2
    name, options = argv[0], argv[1:]
    if name not in COMMANDS:
        print(f"dev: no command {name!r}\n\n{usage()}", file=sys.stderr)
        return 2
    signal.signal(signal.SIGTERM, lambda signum, _frame: sys.exit(128 + signum))
    try:
        set_up()
    except SetUpError as error:
        say(f"cannot set up the environment.\n{error}")
        return 3
    except KeyboardInterrupt:
        say("interrupted during set-up; the next call starts it again")
        return 130
    if name == "test":
        shutil.rmtree(ROOT / "build", ignore_errors=True)  # setuptools would put its stale files into the wheel
        if "-e" not in options or any("integration" in option for option in options):
            provide_browser()
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    become(COMMANDS[name][1], options)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
