"""`mss-station message` and `mss-station messages`: station mail by hand and in scripts, at a running station."""

from __future__ import annotations

import argparse
import base64
import json
import math
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Final

from roamcast.middleware.errors import Error
from roamcast.mss_station import printing
from roamcast.mss_station.control import ANSWER_TIMEOUT_S, ControlError, Conversation, Json, NotRunning
from roamcast.mss_station.errors import WrongUse
from roamcast.transport.limits import BODY_BYTES_MAX
from roamcast.transport.plain_text import plain
from roamcast.transport.station_files import STATION_FILE

FINE, UNDECIDED = 0, 4
POLL_S: Final = 0.25
WAIT_S, WAIT_S_MAX = 10.0, 3_600.0
STDIN: Final = "-"

MESSAGE: Final = """\
Send a mail to the program at another station of the group, or at this one. It is given there once, in causal order with
all other mail between stations; while that station is down it waits here. What takes it there: a program that runs the
station as a library, or mss-station messages."""

MESSAGE_EPILOG: Final = """\
exit codes: 0 taken, and durable here; 2 there is no such station, or the text is too large; 3 not taken (the mailbox is
full, no peer has answered yet, the station does not run, ...); 4 it is not known whether it was taken
example: mss-station message /var/lib/s1 s2 'backup done'"""

MESSAGES: Final = """\
Print the mail that waits at this station, a line each: sender, tab, text (backslashes, and signs that would end a line
or move the cursor, are escaped; --json is exact). What is printed is acknowledged and does not come again. One reads at
a time: this command, or the program in which the station runs. News of own mail that was given up, since its addressee
has ended, goes to stderr."""

MESSAGES_EPILOG: Final = """\
exit codes: 0 fine, also when nothing waits; 2 wrong use; 3 the station does not run (any more), or somebody else reads,
or the output cannot be written
example: mss-station messages /var/lib/s1 --follow --json"""


def add_parsers(commands: Any) -> None:
    """Add both to the commands."""

    def add(name: str, action: Callable[[argparse.Namespace], int], about: str, more: str, epilog: str) -> Any:
        one = commands.add_parser(
            name,
            help=about,
            description=more,
            epilog=epilog,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        one.add_argument("dir", type=Path, metavar="DIR")
        one.set_defaults(action=action)
        return one

    one = add("message", message, "send a mail to the program at another station", MESSAGE, MESSAGE_EPILOG)
    one.add_argument("to", metavar="TO", help="id of the station")
    one.add_argument("text", metavar="TEXT", help="the mail; - takes standard input as it is")
    one.add_argument(
        "--timeout", type=_seconds, default=WAIT_S, metavar="S", help="seconds to wait for a peer after a start (10)"
    )
    one.add_argument("--json", action="store_true", help="for a program")

    one = add("messages", messages, "print the mail that waits at this station", MESSAGES, MESSAGES_EPILOG)
    one.add_argument("--follow", action="store_true", help="and what comes, until a signal")
    one.add_argument("--keep", action="store_true", help="acknowledge nothing; somebody else may read at the same time")
    one.add_argument("--json", action="store_true", help="an object a line, with number and position, for a program")


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 <= value <= WAIT_S_MAX:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds from 0 to {WAIT_S_MAX:g}")
    return value


def _conversation(path: Path, then: str) -> Conversation:
    """With the station that runs in `path`. Raises WrongUse, Error."""
    if not (path / STATION_FILE).exists():
        raise WrongUse(f"{path} is not the directory of a station: there is no {STATION_FILE} in it")
    try:
        return Conversation(path)
    except NotRunning as error:
        raise Error(f"{error}; {then}: mss-station run {path}") from None


def message(options: argparse.Namespace) -> int:
    """Send a mail."""
    body = sys.stdin.buffer.read(BODY_BYTES_MAX + 1) if options.text == STDIN else options.text.encode()
    if len(body) > BODY_BYTES_MAX:
        raise WrongUse(f"a mail has at most {BODY_BYTES_MAX} bytes")
    request = {"command": "message", "to": options.to, "body": _encoded(body), "wait": options.timeout}
    with closing(_conversation(options.dir, "nothing is sent without it")) as station:
        try:
            station.say(request)
            answer, why = station.hear(options.timeout + ANSWER_TIMEOUT_S), "the station does not answer"
        except ControlError as error:
            answer, why = None, str(error)
        except KeyboardInterrupt:
            answer, why = None, "interrupted"
    if answer is None:
        _tell(f"{why}: it is not known whether the mail was taken")
        return UNDECIDED
    _check(answer)
    told = f"mail {answer['number']} of this station is on its way to {options.to}"
    try:
        printing.write(json.dumps({"number": answer["number"]}) if options.json else told)
        printing.flush()
    except (printing.OutputLost, BrokenPipeError):
        _tell(f"{told}; the output cannot be written")
    return FINE


def _tell(text: str) -> None:
    sys.stderr.write(f"mss-station: {text}\n")
    sys.stderr.flush()


def _encoded(body: bytes) -> str:
    return base64.b64encode(body).decode()


def _check(answer: Json) -> None:
    if not answer["ok"]:
        raise (WrongUse if answer.get("wrong_use") else Error)(answer["error"])


@contextmanager
def _signals() -> Iterator[list[int]]:
    """The signals that have asked for the end, as they come."""
    came: list[int] = []
    numbers = signal.SIGTERM, signal.SIGINT
    before = [signal.signal(number, lambda received, _: came.append(received)) for number in numbers]
    try:
        yield came
    finally:
        for number, handler in zip(numbers, before, strict=True):
            signal.signal(number, handler)


def messages(options: argparse.Namespace) -> int:
    """Print what waits."""
    with _signals() as came, closing(_conversation(options.dir, "what waits there is kept; start it")) as station:
        after = 0
        while not came:
            request = {"command": "messages", "after": after, "follow": options.follow, "keep": options.keep}
            answer = _asked(station, {**request, "process": os.getpid()}, came)
            if answer is None or not (answer["mails"] or answer["lost"]):
                return FINE
            lost = [_print_loss(loss, options.json) for loss in answer["lost"]]
            after = _print_mails(answer["mails"], options.json, came) or after
            if not options.keep:
                _asked(station, {"command": "messages taken", "upto": after, "lost": lost}, None)
    return FINE


def _asked(station: Conversation, request: Json, came: list[int] | None) -> Json | None:
    """The answer; None: a signal came first. Without signals it comes, or the station ends. Raises Error."""
    station.say(request)
    while not came:
        answer = station.hear(POLL_S)
        if answer is not None:
            _check(answer)
            return answer
    return None


def _print_mails(mails: list[Json], as_json: bool, came: list[int]) -> int:
    """Print them, up to a signal; returns the position of the last one, once all is written."""
    last = 0
    for mail in mails:
        body = base64.b64decode(mail["body"])
        told = {"sender": mail["sender"], "number": mail["number"], "position": mail["position"]}
        printing.write(json.dumps(told | _content(body)) if as_json else f"{mail['sender']}\t{plain(body)}")
        last = mail["position"]
        if came:
            break
    printing.flush()
    return last


def _content(body: bytes) -> Json:
    try:
        return {"text": body.decode()}
    except UnicodeDecodeError:
        return {"base64": _encoded(body)}


def _print_loss(loss: Json, as_json: bool) -> int:
    """Tell of mail that was given up; returns the slot of its addressee."""
    if as_json:
        printing.write(json.dumps({"lost": loss["numbers"], "to": loss["to"]}))
        printing.flush()
    else:
        numbers = ", ".join(map(str, loss["numbers"][:20])) + (", ..." if len(loss["numbers"]) > 20 else "")
        _tell(f"{len(loss['numbers'])} mails to {loss['to']} are lost, for it has ended: numbers {numbers}")
    return int(loss["slot"])
