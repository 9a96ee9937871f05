"""The `mh-agent` command. Exit codes: 0 fine, 2 wrong use, 3 not run or refused, 4 undecided (queued), not attached."""

from __future__ import annotations

import argparse
import logging
import signal
import sys
from collections.abc import Sequence

from roamcast.mh_agent.agent import Agent
from roamcast.middleware.errors import Error
from roamcast.middleware.mobile_host.events import Event, Live, Message, Presence, StateLost, Subscription
from roamcast.transport.plain_text import plain

POLL_S, REFUSAL_S = 0.25, 0.5  # a refusal comes in its place in the order, after the receipt that it is stored
AsItIs = argparse.RawDescriptionHelpFormatter
LISTEN = """Print what comes, one a line, until a signal. Columns are parted by tabs; the first one tells what it is:
  sender   text               a broadcast, or mail for this host
  #topic   sender   text      a message on a topic
  =topic   sender   text      the topic's last value as this host subscribed
  ~        sender   text      a live broadcast, or live mail for this host
  ~topic   sender   text      a live message on a topic
  !topic   subscribed         or unsubscribed: messages come from here, or up to here
  @host    online             or offline
Refused and ended subscriptions, and gaps, are told on stderr. Subscriptions outlive the command."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit code."""
    parser = argparse.ArgumentParser(prog="mh-agent", description="A mobile host on the command line.")
    parser.add_argument("--verbose", action="store_true", help="log what the agent does, on stderr")
    commands = parser.add_subparsers(dest="command", required=True)
    listen = commands.add_parser(
        "listen", help="print what comes, one a line, until a signal", description=LISTEN, formatter_class=AsItIs
    )
    send = commands.add_parser("send", help="broadcast a text, mail it to one host, or send it on a topic")
    for command in (listen, send):
        command.add_argument("file", metavar="FILE", help="credential that `mss-station hosts enrol` wrote")
    listen.add_argument("--topic", metavar="T", action="append", default=[], help="subscribe to this topic")
    listen.add_argument("--presence", metavar="HOST", action="append", default=[], help="tell when HOST comes and goes")
    listen.add_argument("--journal", metavar="FOLDER", help="write down there what was given, for the nightly audit")
    where = send.add_mutually_exclusive_group()
    where.add_argument("--to", metavar="HOST", help="addressee; without --to and --topic all hosts get the text")
    where.add_argument("--topic", metavar="T", help="the subscribers of this topic get the text")
    send.add_argument("--retain", action="store_true", help="later subscribers get it first; an empty TEXT ends that")
    send.add_argument("--deadline", type=float, metavar="S", help="live: now and within S seconds, or not at all")
    send.add_argument("--timeout", type=float, default=30.0, metavar="S", help="seconds to wait for a station")
    send.add_argument("text", metavar="TEXT", type=str.encode)
    options = parser.parse_args(arguments)
    if options.command == "send" and options.retain and (not options.topic or options.deadline is not None):
        parser.error("--retain needs --topic, and has no --deadline")
    if options.command == "send" and options.deadline is not None and not 0 < options.deadline <= 86_400:
        parser.error("--deadline is more than 0, a day at most")
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
    topics = options.topic + [Presence.topic(host) for host in options.presence]
    with Agent(options.file, journal=options.journal) as agent:
        wanted = bool(topics)
        while not stopped:
            for topic in topics if wanted else ():
                agent.subscribe(topic)
            event = agent.receive(POLL_S)
            wanted = isinstance(event, StateLost) or (isinstance(event, Subscription) and event.topic == "")
            if event is not None:
                text, error = _line(event)
                print(text, file=sys.stderr if error else sys.stdout, flush=True)
    return 0


def _line(event: Event) -> tuple[str, bool]:
    """What is printed, and whether on stderr."""
    if isinstance(event, (Message, Live)):
        sign = "~" if isinstance(event, Live) else "=" if event.retained else "#"
        topic = "" if event.topic is None and sign != "~" else f"{sign}{event.topic or ''}\t"
        return f"{topic}{event.sender}\t{plain(event.body)}", False
    if isinstance(event, Presence):
        return f"@{event.host}\t{'online' if event.online else 'offline'}", False
    if not isinstance(event, Subscription):
        return f"mh-agent: {type(event).__name__}", True
    if event.state in ("subscribed", "unsubscribed"):
        return f"!{event.topic}\t{event.state}", False
    return f"mh-agent: {event.topic or 'all topics'}: {event.state}: {event.reason}".rstrip(": "), True


def _send(options: argparse.Namespace) -> int:
    with Agent(options.file, acknowledge="manual") as agent:
        aimed = options.to or options.topic
        if options.deadline is not None:
            agent.wait_for(lambda: agent.status["state"] in ("open", "ended"), options.timeout)
        if options.to is None:
            receipt = agent.broadcast(options.text, options.topic, options.retain, options.deadline)
        else:
            receipt = agent.send(options.to, options.text, options.deadline)
        agent.wait_for(lambda: receipt.state != "pending" or agent.status["state"] == "ended", options.timeout)
        agent.wait_for(lambda: receipt.state != "sent" and not (aimed and receipt.state == "stored"), REFUSAL_S)
        ended, problem = agent.status["state"] == "ended", agent.status["problem"]
    state = "never to be sent" if ended and receipt.state == "pending" else receipt.state
    state = receipt.reason if receipt.reason == "not-attached" else state
    if state not in ("stored", "sent"):
        print(f"mh-agent: {state}: {problem or receipt.reason or aimed}", file=sys.stderr)
    return {"stored": 0, "sent": 0, "refused": 3, "dropped": 3, "never to be sent": 3}.get(state, 4)
