"""``python3 dev.py positions``: live positions of moving hosts on a page, over a group that it starts for itself."""

from __future__ import annotations

import argparse
import errno
import queue
import random
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Final

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from demo import interrupts
from demo.cluster import CommandFailed
from positions.board import Board
from positions.group import VIEWER, Group, Refused
from positions.page_server import PageServer
from positions.streets import HEIGHT, LOOKOUT, WIDTH, Drive, Town
from positions.vehicle import Vehicle

from roamcast.mh_agent import Error

NAMES: Final = (
    "avocet", "bittern", "curlew", "dipper", "egret", "finch", "grebe", "heron", "ibis", "jay", "kestrel", "lark",
    "merlin", "nuthatch", "osprey", "plover", "quail", "raven", "siskin", "tern", "umbrette", "wagtail", "wren",
    "yaffle",
)  # fmt: skip
STATIONS: Final = (3, 5)
RATES: Final = (1.0, 20.0)
STEP_S: Final = 0.1
ACTION_S_MAX: Final = 20.0
READY_S_MAX: Final = 30.0

ABOUT = """\
Vehicles drive through a town and tell their positions live: each is worth something for less than a second, so it has a
deadline, is kept nowhere and never repeated. Arrivals at depots are told for good. Both are in one causal order. Each
vehicle attaches at the nearest of a few stations, real processes on this machine, and roams as it drives. One more host
watches, and shows in your browser what it is given; there you can pull the plug of a station.

Exit code 0: --seconds are over; 2: wrong use; 3: it could not run; 130, 143: a signal has ended it."""


def options(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Read the command line; wrong use ends the process with 2."""
    parser = argparse.ArgumentParser(
        prog="dev.py positions", description=ABOUT, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--hosts", type=int, default=8, help=f"vehicles, up to {len(NAMES)} (default %(default)s)")
    parser.add_argument("--stations", type=int, default=3, help="how many, 3 to 5 (default %(default)s)")
    parser.add_argument("--rate", type=float, default=10.0, help="positions a second, 1 to 20 (default %(default)s)")
    parser.add_argument("--port", type=int, default=0, help="of the page, on 127.0.0.1 (default: a free one)")
    parser.add_argument("--seed", type=int, help="for town and drives (default: drawn and printed)")
    parser.add_argument("--seconds", type=float, help="end after so long (default: on Ctrl-C)")
    given = parser.parse_args(arguments)
    if not 1 <= given.hosts <= len(NAMES):
        parser.error(f"--hosts: from 1 to {len(NAMES)}")
    if not STATIONS[0] <= given.stations <= STATIONS[1]:
        parser.error(f"--stations: from {STATIONS[0]} to {STATIONS[1]}")
    if not RATES[0] <= given.rate <= RATES[1]:
        parser.error(f"--rate: from {RATES[0]:g} to {RATES[1]:g}")
    if not 0 <= given.port <= 65_535:
        parser.error("--port: from 0 to 65535")
    if given.seconds is not None and not 0 < given.seconds <= 86_400:
        parser.error("--seconds: more than 0, up to 86400")
    if given.seed is None:
        given.seed = random.SystemRandom().randrange(1_000_000)
    return given


class Actions:
    """Carries what the page wants done from the server's threads to the main thread, which owns the processes."""

    def __init__(self) -> None:
        self._asked: queue.SimpleQueue[tuple[str, int, queue.SimpleQueue[str]]] = queue.SimpleQueue()

    def ask(self, action: str, mast: int) -> str:
        """Have it done; returns why it was not, or ''. For any thread."""
        answer: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._asked.put((action, mast, answer))
        try:
            return answer.get(timeout=ACTION_S_MAX)
        except queue.Empty:
            return "it takes long"

    def serve(self, group: Group, wait_s: float) -> None:
        """Do what is asked for within `wait_s`. In the main thread."""
        try:
            action, mast, answer = self._asked.get(timeout=wait_s)
        except queue.Empty:
            return
        try:
            group.act(action, mast)
        except Refused as refused:
            answer.put(str(refused))
        except CommandFailed as failed:
            answer.put(f"failed: {failed}")
        else:
            answer.put("")


class Show:
    """The whole example, while it runs. What it starts is ended by `ending`."""

    def __init__(self, given: argparse.Namespace, ending: ExitStack) -> None:
        self.given, self.ending = given, ending
        self.actions = Actions()
        self.board: Board | None = None
        self.town = Town(given.seed)
        self.home = Path(tempfile.mkdtemp(prefix="roamcast-positions-"))
        ending.callback(shutil.rmtree, self.home, ignore_errors=True)

    def run(self) -> None:
        """Set up, then serve the page and do what it asks for until the time is over. Raises what cannot be helped."""
        given = self.given
        server = PageServer(given.port, {}, self._frame, self.actions.ask)
        self.ending.callback(server.end)
        say(f"seed {given.seed}: {given.hosts} vehicles, {given.stations} stations; they are started ...")
        self.group = Group(self.home, given.stations, self._tell)
        self.ending.callback(self.group.close)
        files = self.group.start(NAMES[: given.hosts])
        vehicles = self._drive(files)
        server.first.update(self._first())
        serving = threading.Thread(target=server.run, name="page", daemon=True)
        serving.start()
        self.ending.callback(server.shutdown)
        end = time.monotonic() + (given.seconds or float("inf"))
        say(f"the page: http://{server.address}/   (Ctrl-C ends it)")
        while time.monotonic() < end:
            self.actions.serve(self.group, STEP_S)
            interrupts.check()
            self.group.look()
            for host in (*vehicles, self.board):
                if host is not None and host.failure is not None:
                    raise host.failure

    def _drive(self, files: dict[str, Path]) -> list[Vehicle]:
        """Have the hosts begin, and wait until the viewer has seen all of them."""
        town, begin = self.town, time.monotonic()
        vehicles = [
            Vehicle(files[name], Drive(town, self.given.seed, name), self.group.air, begin, self.given.rate)
            for name in NAMES[: self.given.hosts]
        ]
        self.board = Board(files[VIEWER], self.group.air, vehicles)
        for host in (self.board, *vehicles):
            host.start()
            self.ending.callback(host.join)
        for host in (self.board, *vehicles):
            self.ending.callback(host.close)  # all are told to end, then each is waited for
        ready_by = time.monotonic() + READY_S_MAX
        while not self.board.ready.wait(STEP_S):
            interrupts.check()
            if time.monotonic() > ready_by:
                raise CommandFailed("the viewer does not see all vehicles")
        return vehicles

    def _first(self) -> dict[str, object]:
        town = self.town
        return {
            "size": [WIDTH, HEIGHT],
            "roads": [[[round(x), round(y)] for x, y in road] for (a, b), road in town.roads.items() if a < b],
            "depots": [[round(value) for value in town.crossings[depot]] for depot in town.depots],
            "viewer": LOOKOUT,
            "seed": self.given.seed,
            "rate": self.given.rate,
        }

    def _frame(self, taped: int, fed: int) -> dict[str, object]:
        assert self.board is not None
        masts = [{"id": m.id, "x": m.x, "y": m.y, "state": m.state} for m in self.group.masts]
        return {**self.board.frame(taped, fed), "masts": masts}

    def _tell(self, text: str) -> None:
        say(text)
        if self.board is not None:
            self.board.tell(text)


def say(text: str) -> None:
    """One line for who has started it."""
    print(text, flush=True)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the example. Exit codes as in the help."""
    given = options(arguments)
    interrupts.catch()
    try:
        with ExitStack() as ending:
            Show(given, ending).run()
        return 0
    except OSError as error:
        taken = error.errno in (errno.EADDRINUSE, errno.EACCES)
        why = f"port {given.port} cannot be had ({error.strerror}); give another --port, or none" if taken else error
        print(f"positions: {why}", file=sys.stderr)
        return 3
    except (CommandFailed, Error) as error:
        print(f"positions: {error}", file=sys.stderr)
        return 3
    finally:
        interrupts.ignore()


if __name__ == "__main__":
    sys.exit(main())
