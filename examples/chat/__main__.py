"""``python3 dev.py chat``: rooms, presence and roaming in one terminal, on a group that it starts for itself."""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from chat.companions import NAMES, Bob, Eve
from chat.group import Group, credential
from chat.session import HELP, Session
from chat.terminal import Terminal
from demo import interrupts
from demo.cluster import CommandFailed

from roamcast.mh_agent import Error

READY_S_MAX = 20.0
WELCOME = """\
You are {name}. Bob and eve are here, too, each a host at one of three stations. Rooms: lobby, garden, vault (private).
Try:  eve, where are you?    good night    /move s3    /join garden    /topic TEXT    /who    /join vault    /help
One more person, in another terminal:  python3 dev.py chat --as cleo --join {home}"""

ABOUT = """\
A chat with rooms, presence, and a subject that late comers are given. It starts a group of three stations on this
machine, and takes it down at the end. Lines may come from a pipe, too: each is taken when the one before has had its
effect.

Exit code 0: it was ended; 2: wrong use; 3: it could not run; 130, 143: a signal has ended it."""


def options(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Read the command line; wrong use ends the process with 2."""
    parser = argparse.ArgumentParser(
        prog="dev.py chat",
        description=ABOUT,
        epilog=HELP,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--as", dest="name", metavar="NAME", default="ada", help="who you are (default %(default)s)")
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--join", type=Path, metavar="DIR", help="join the group that a chat in another terminal runs")
    where.add_argument("--dir", type=Path, metavar="DIR", help="run in DIR, which must not exist, and keep it")
    given = parser.parse_args(arguments)
    if given.join is not None and not (given.join / "hosts").is_dir():
        parser.error(f"--join: no chat runs in {given.join}")
    if given.dir is not None and given.dir.exists():
        parser.error(f"--dir: {given.dir} exists already")
    if given.name in NAMES and given.join is None:
        parser.error(f"--as: {given.name} is one of those who are there already")
    return given


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the chat. Exit codes as in the help."""
    given = options(arguments)
    interrupts.catch()
    terminal = Terminal()
    try:
        if given.join is not None:
            home = given.join.resolve()
            Session(home, given.name, credential(home, given.name), terminal).run()
        else:
            _found(given, terminal)
        return 0
    except (CommandFailed, Error, OSError) as error:
        print(f"chat: {error}", file=sys.stderr)
        return 3
    finally:
        interrupts.ignore()
        terminal.close()


def _found(given: argparse.Namespace, terminal: Terminal) -> None:
    """Start a group and its companions, talk, and take all of it down."""
    with ExitStack() as ending:
        if given.dir is None:
            home = Path(tempfile.mkdtemp(prefix="roamcast-chat-"))
            ending.callback(shutil.rmtree, home, ignore_errors=True)
        else:
            given.dir.mkdir(parents=True)
            home = given.dir.resolve()
        terminal.show("three stations are started ...")
        group = Group(home)
        ending.callback(group.close)
        group.start([given.name, *NAMES])
        for kind, name in zip((Bob, Eve), NAMES, strict=True):
            companion = kind(credential(home, name))
            companion.start()
            ending.callback(companion.close)
            if not companion.ready.wait(READY_S_MAX):
                raise CommandFailed(f"{name} does not come into the rooms")
        terminal.show(WELCOME.format(name=given.name, home=home))
        Session(home, given.name, credential(home, given.name), terminal).run()


if __name__ == "__main__":
    sys.exit(main())
