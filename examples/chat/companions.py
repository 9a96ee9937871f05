"""Bob and eve: hosts like any other, who answer what is said, so that the first person is not alone."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Final

from chat.client import ChatClient, News

from roamcast.mh_agent import Agent

NAMES: Final = ("bob", "eve")
POLL_S: Final = 0.05
SLEEP_S: Final = 3.0


class Companion(threading.Thread):
    """A host with rooms to be in and things to say. `ready` is set once it is in all of them."""

    rooms: tuple[str, ...] = ()

    def __init__(self, file: Path) -> None:
        super().__init__(name=file.stem, daemon=True)
        self.ready = threading.Event()
        self._file = file
        self._over = threading.Event()

    def run(self) -> None:
        """Join, then answer until `close`."""
        with Agent(self._file) as agent:
            client = ChatClient(agent)
            for room in self.rooms:
                client.join(room)
            while not self._over.is_set():
                event = agent.receive(timeout=POLL_S)
                news = None if event is None else client.take(event)
                if news is not None and news.who not in NAMES:
                    self.react(client, news)
                if all(room in client.rooms for room in self.rooms):
                    self.ready.set()
                self.idle(client)

    def react(self, client: ChatClient, news: News) -> None:
        """Something has happened that is not of another companion."""

    def idle(self, client: ChatClient) -> None:
        """A moment has passed."""

    def close(self) -> None:
        """End it."""
        self._over.set()
        self.join()


class Bob(Companion):
    """Says what the garden is about, greets, and answers questions."""

    rooms = ("lobby", "garden")

    def react(self, client: ChatClient, news: News) -> None:
        """See the class."""
        if news.what == "in" and news.room == "garden":
            client.set_subject("garden", "tomatoes, mostly")
        elif news.what == "joins":
            client.say(news.room, f"hello, {news.who}")
        elif news.what == "says" and news.text.endswith("?") and "eve" not in news.text.lower():
            client.say(news.room, f"a good question, {news.who}. I would ask eve")


class Eve(Companion):
    """Never stays: who names her is answered from the next station. On `good night` she sleeps for a while."""

    rooms = ("lobby", "vault")

    def __init__(self, file: Path) -> None:
        super().__init__(file)
        self._wakes_at = 0.0

    def react(self, client: ChatClient, news: News) -> None:
        """See the class."""
        agent, text = client.agent, news.text.lower()
        if news.what == "in" and news.room == "vault":
            client.set_subject("vault", "where the gold is")
        elif news.what == "joins" and news.room == "vault":
            client.say("vault", f"who has let you in, {news.who}?")
        elif news.what == "says" and "good night" in text:
            client.say(news.room, f"good night, {news.who}; I sleep for {SLEEP_S:g} s")
            self._drain(client)  # it says goodbye: no sockets any more, what is said meanwhile waits at her station
            self._wakes_at = time.monotonic() + SLEEP_S
        elif news.what == "says" and "eve" in text:
            here, stations = agent.status["station"], agent.status["stations"]
            there = stations[(stations.index(here) + 1) % len(stations)] if here in stations else stations[0]
            agent.move(there)  # what is owed to her follows, each message once and in order
            client.say(news.room, f"I was given that at {here}, {news.who}, and answer from {there}")

    def idle(self, client: ChatClient) -> None:
        """Wake up in time, and read what has waited."""
        if 0 < self._wakes_at <= time.monotonic():
            self._wakes_at = 0.0
            lines = self._drain(client)
            client.agent.resume()
            client.say("lobby", f"good morning; lines that have waited for me: {lines}")

    def _drain(self, client: ChatClient) -> int:
        """Attach if need be, read all that waits, send all that waits, and go; returns how much was said meanwhile."""
        read = [client.take(event) for event in client.agent.drain(timeout=10)]
        return sum(news is not None and news.what == "says" and news.who not in NAMES for news in read)
