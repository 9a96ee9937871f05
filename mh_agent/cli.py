"""The `mh-agent` command. Exit codes: 0 fine, 2 wrong use, 3 could not run or refused, 4 undecided (stays queued)."""

from __future__ import annotations

import argparse
import logging
import signal
import sys
from collections.abc import Sequence

from roamcast.mh_agent.agent import Agent
from roamcast.mh_agent.events import Message
from roamcast.middleware.errors import Error

POLL_S, REFUSAL_S = 0.25, 0.5  # a refusal comes in its place in the order, after the receipt that the mail is stored


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit code."""
    parser = argparse.ArgumentParser(prog="mh-agent", description="A mobile host on the command line.")
    parser.add_argument("--verbose", action="store_true", help="log what the agent does, on stderr")
    commands = parser.add_subparsers(dest="command", required=True)
    listen = commands.add_parser("listen", help="print messages, one a line: sender, tab, text; until a signal")
    send = commands.add_parser("send", help="broadcast a text, or mail it to one host")
    for command in (listen, send):
        command.add_argument("file", metavar="FILE", help="credential that `mss-station hosts enrol` wrote")
    listen.add_argument("--journal", metavar="FOLDER", help="write down there what was given, for the nightly audit")
    send.add_argument("--to", metavar="HOST", help="addressee; without it all hosts get the text")
    send.add_argument("--timeout", type=float, default=30.0, metavar="S", help="seconds to wait for a station")
    send.add_argument("text", metavar="TEXT", type=str.encode)
    options = parser.parse_args(arguments)
    logging.basicConfig(level=logging.INFO if options.verbose else logging.ERROR, format="mh-agent: %(message)s")
    try:
        return _listen(options) if options.command == "listen" else _send(options)
    except (Error, OSError) as error:
        print(f"mh-agent: {error}", file=sys.stderr)
        return 3


def _listen(options: argparse.Namespace) -> int:
    stopped: list[int] = []
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda received, _: stopped.append(received))
    with Agent(options.file, journal=options.journal) as agent:
        while not stopped:
            event = agent.receive(POLL_S)
            if isinstance(event, Message):
                print(f"{event.sender}\t{event.body.decode(errors='backslashreplace')}", flush=True)
            elif event is not None:
                print(f"mh-agent: {type(event).__name__}", file=sys.stderr)
    return 0


def _send(options: argparse.Namespace) -> int:
    with Agent(options.file, acknowledge="manual") as agent:
        receipt = agent.broadcast(options.text) if options.to is None else agent.send(options.to, options.text)
        agent.wait_for(lambda: receipt.state != "pending" or agent.status["state"] == "ended", options.timeout)
        agent.wait_for(lambda: options.to is None or receipt.state != "stored", REFUSAL_S)
        ended, problem = agent.status["state"] == "ended", agent.status["problem"]
    state = "never to be sent" if ended and receipt.state == "pending" else receipt.state
    if state != "stored":
        print(f"mh-agent: {state}: {problem or options.to}", file=sys.stderr)
    return {"stored": 0, "refused": 3, "never to be sent": 3}.get(state, 4)
