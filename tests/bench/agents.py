"""Real agents in one process: ``python -m bench.agents``; they measure latency from call to call, and handoffs."""

from __future__ import annotations

import itertools
import threading
import time
from typing import Any

from bench.child import Json, serve
from bench.light_host import STAMP

from roamcast.mh_agent import Agent, Message

ATTACH_S_MAX = 20.0
PATIENCE_S = 0.05


class Member(threading.Thread):
    """One host: its agent, what it was given and when."""

    def __init__(self, file: str) -> None:
        super().__init__(daemon=True)
        self._reached = threading.Condition()
        self._where: tuple[str | None, float] = (None, 0.0)
        self._running = True
        self.given: list[tuple[int, int]] = []
        """(time of sending as the body says it, time of receipt), ns."""
        self.agent = Agent(file, on_status=self._note)

    def _note(self, status: dict[str, Any]) -> None:
        with self._reached:
            self._where = (status["station"] if status["state"] == "open" else None, time.monotonic())
            self._reached.notify_all()

    def run(self) -> None:
        """Take everything that comes."""
        while self._running:
            event = self.agent.receive(PATIENCE_S)
            if isinstance(event, Message):
                self.given.append((STAMP.unpack_from(event.body)[0], time.monotonic_ns()))

    def await_station(self, station: str | None) -> tuple[str, float]:
        """Wait for an open session, at `station` if one is named. Returns (station, when it was told)."""
        with self._reached:
            arrived = self._reached.wait_for(
                lambda: self._where[0] is not None and station in (None, self._where[0]), ATTACH_S_MAX
            )
            if not arrived:
                raise TimeoutError(f"{self.agent.name} did not reach {station}: {self.agent.status}")
            return str(self._where[0]), self._where[1]

    def go(self, station: str) -> float:
        """Move there; returns the seconds from the call to the open session."""
        began = time.monotonic()
        self.agent.move(station)
        return self.await_station(station)[1] - began

    def close(self) -> None:
        """End the agent."""
        self._running = False
        self.join()
        self.agent.close()


class Members:
    """All agents of the process."""

    def __init__(self) -> None:
        self._members: list[Member] = []

    def open(self, files: list[str], at: list[str]) -> Json:
        """Open agents and bring each to its station."""
        self._members = [Member(file) for file in files]
        for member, station in zip(self._members, at, strict=True):
            member.start()
            if member.await_station(None)[0] != station:
                member.go(station)
        return {}

    def latency(self, seconds: float, rate: float, body_bytes: int) -> Json:
        """The first agent broadcasts; latencies of all, from before the call to after the receipt, us, by station."""
        for member in self._members:
            member.given.clear()
        padding = b"." * (body_bytes - STAMP.size)
        began, count, calls = time.monotonic(), int(seconds * rate), []
        for i in range(count):
            time.sleep(max(0.0, began + i / rate - time.monotonic()))
            called = time.monotonic_ns()
            self._members[0].agent.broadcast(STAMP.pack(called) + padding)
            calls.append((time.monotonic_ns() - called) / 1_000)
        self._settle(count)
        found: dict[str, list[float]] = {}
        for member in self._members[1:]:
            station = member.await_station(None)[0]
            found.setdefault(station, []).extend((got - sent) / 1_000 for sent, got in member.given)
        return {"messages": count, "latencies_us": found, "call_us": calls}

    def _settle(self, count: int) -> None:
        end = time.monotonic() + ATTACH_S_MAX
        while any(len(member.given) < count for member in self._members) and time.monotonic() < end:
            time.sleep(PATIENCE_S)

    def moves(self, count: int, stations: list[str], pause_s: float) -> Json:
        """Move one agent after the other to its next station; milliseconds each."""
        for member in self._members:
            member.given.clear()
        taken = []
        for i in range(count):
            member = self._members[i % len(self._members)]
            here = member.await_station(None)[0]
            taken.append(1_000 * member.go(stations[(stations.index(here) + 1) % len(stations)]))
            time.sleep(pause_s)
        return {"ms": taken}

    def verdict(self, count: int) -> Json:
        """How the agents were given `count` messages of one sender: how many were lost, doubled, out of order."""
        self._settle(count)
        sent = [[stamp for stamp, _ in member.given] for member in self._members]
        return {
            "lost": sum(max(0, count - len(set(stamps))) for stamps in sent),
            "doubled": sum(len(stamps) - len(set(stamps)) for stamps in sent),
            "disordered": sum(a > b for stamps in sent for a, b in itertools.pairwise(stamps)),
        }

    def close(self) -> None:
        """End all agents."""
        for member in self._members:
            member.close()


def main() -> None:
    """Serve until stdin ends."""
    members = Members()
    serve(
        {
            "hello": dict,
            "open": members.open,
            "latency": members.latency,
            "moves": members.moves,
            "verdict": members.verdict,
        }
    )
    members.close()


if __name__ == "__main__":
    main()
