"""One person at one terminal: commands in, lines out. What the chat itself is stands in client.py."""

from __future__ import annotations

import queue
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from chat.client import ChatClient, News
from chat.group import change_rights
from chat.terminal import Terminal
from demo import interrupts

from roamcast.mh_agent import Agent, Error

POLL_S: Final = 0.05
SETTLED_S: Final = 0.3
"""A script's next line is taken once nothing has come for so long and nothing is under way."""
SETTLED_S_MAX: Final = 10.0

HELP: Final = """\
/join ROOM             go into a room; of one that you are in: talk there from now on
/leave [ROOM]          go out
/topic TEXT            set the subject of the room; who comes later is given it first
/who                   who is in your rooms, and who of them is away
/tell NAME TEXT        tell one person; it waits for who is away
/move [STATION]        roam to another station, in the middle of the talk
/grant ROOM [NAME]     as an operator: let somebody in, yourself if you name nobody
/revoke ROOM [NAME]    as an operator: put somebody out
/quit                  end; so does the end of the input
Anything else is said in the room."""


class Session:
    """Runs until the person quits, the input ends, a signal comes, or the group is gone."""

    def __init__(self, home: Path, name: str, file: Path, terminal: Terminal) -> None:
        self.home, self.name, self.file, self.terminal = home, name, file, terminal
        self.room = ""
        self._over = False
        self._news_at = 0.0
        self._states: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
        self._told: tuple[str, str] = ("", "")
        self._commands: dict[str, Callable[[str], None]] = {
            "join": self._join, "leave": self._leave, "topic": self._topic, "who": self._who, "tell": self._tell,
            "move": self._move, "grant": self._grant, "revoke": self._revoke, "help": self._help, "quit": self._quit,
        }  # fmt: skip

    def run(self) -> None:
        """Talk. Raises Error, also when the membership has ended."""
        with interrupts.shielded(), Agent(self.file, on_status=self._states.put) as agent:
            self.agent, self.client = agent, ChatClient(agent)
            self.client.join("lobby")
            self._await(lambda: "lobby" in self.client.rooms)
            while not self._over and not interrupts.caught():
                self._step()
                self._take_line()
                if not self.home.exists():
                    self.show("* the group has ended")
                    return

    def show(self, text: str) -> None:
        """One line for the person; what others have written may not command the terminal."""
        self._news_at = time.monotonic()
        self.terminal.show("".join(sign if sign.isprintable() else "\N{REPLACEMENT CHARACTER}" for sign in text))

    # ---- what comes ----

    def _step(self) -> None:
        event = self.agent.receive(timeout=POLL_S)  # acknowledges the one before: that one was shown
        news = [] if event is None else [self.client.take(event)]
        for one in (*news, *self.client.troubles()):
            if one is not None:
                self._follow(one)
                self.show(line(one))
        while not self._states.empty():
            self._show_state(self._states.get())

    def _follow(self, news: News) -> None:
        """Talk in the room that one has come into, and not in one that one has left."""
        if news.what == "in":
            self.room = news.room
        elif news.what in ("out", "refused") and news.room == self.room:
            self.room = next(iter(self.client.rooms), "")

    def _show_state(self, status: dict[str, Any]) -> None:
        told = ("open", status["station"]) if status["state"] == "open" else ("problem", status["problem"])
        if told[1] and told != self._told:
            self._told = told
            self.show(f"* you are at {told[1]}" if told[0] == "open" else f"* {told[1]}")

    def _await(self, condition: Callable[[], bool]) -> None:
        while not condition() and not interrupts.caught():
            self._step()

    # ---- what is typed ----

    def _take_line(self) -> None:
        if not self.terminal.interactive and not self._settled():
            return
        text = self.terminal.line()
        if text is None:
            self._quit("")
        elif text.startswith("/"):
            word, _, rest = text[1:].partition(" ")
            self._commands.get(word, self._help)(rest.strip())
        elif text and not self.room:
            self.show("* you are in no room: /join lobby")
        elif text:
            self._try(lambda: self.client.say(self.room, text))
        if text:
            self._news_at = time.monotonic()

    def _settled(self) -> bool:
        still = time.monotonic() - self._news_at
        return still > SETTLED_S_MAX or (still > SETTLED_S and not self.agent.status["outbox"])

    def _try(self, call: Callable[[], object]) -> None:
        """Do what a person may have asked for wrongly: a name that cannot be, a station that is not there."""
        try:
            call()
        except Error as error:
            self.show(f"* {error}")

    def _join(self, room: str) -> None:
        if room in self.client.rooms:
            self.room = room
            self.show(f"* you talk in {room} now")
        else:
            self._try(lambda: self.client.join(room))

    def _leave(self, room: str) -> None:
        room = room or self.room
        if room in self.client.rooms:
            self.client.leave(room)
        else:
            self.show(f"* you are not in {room}" if room else "* you are in no room")

    def _topic(self, text: str) -> None:
        if self.room:
            self._try(lambda: self.client.set_subject(self.room, text))

    def _who(self, _: str) -> None:
        for name, room in self.client.rooms.items():
            people = [person for person in sorted(room.people) if person != self.name]
            away = {person: "" if self.client.online.get(person, True) else " (away)" for person in people}
            subject = f" about {room.subject!r}" if room.subject else ""
            self.show(f"* in {name}{subject}: you" + "".join(f", {person}{away[person]}" for person in people))

    def _tell(self, words: str) -> None:
        person, _, text = words.partition(" ")
        self._try(lambda: self.client.tell(person, text))

    def _move(self, station: str) -> None:
        if station:
            self._try(lambda: self.agent.move(station))
        else:
            self.show(f"* stations: {', '.join(self.agent.status['stations'])}")

    def _grant(self, words: str) -> None:
        self._operate("grant", words)

    def _revoke(self, words: str) -> None:
        self._operate("revoke", words)

    def _operate(self, verb: str, words: str) -> None:
        room, _, name = words.partition(" ")
        for text in change_rights(self.home, verb, room, name.strip() or self.name):
            self.show(text)

    def _help(self, _: str) -> None:
        for text in HELP.splitlines():
            self.show(text)

    def _quit(self, _: str) -> None:
        self._over = True


def line(news: News) -> str:
    """News as a line."""
    says = {
        "says": f"[{news.room}] {news.who}: {news.text}",
        "sets": f"[{news.room}] * {news.who} sets the subject: {news.text}",
        "subject": f"[{news.room}] * the subject is: {news.text} ({news.who})",
        "joins": f"[{news.room}] * {news.who} comes in",
        "leaves": f"[{news.room}] * {news.who} goes out",
        "tells": f"{news.who} tells you: {news.text}",
        "in": f"* you are in {news.room}",
        "out": f"* you are out of {news.room}" + (f": {news.text}" if news.text else ""),
        "refused": f"* you may not go into {news.room}: {news.text}",
        "unsaid": f"* not said to {news.room}: {news.text}",
        "comes": f"* {news.who} is back",
        "goes": f"* {news.who} is away",
        "missed": "* something was missed here",
    }
    return says[news.what]
