"""One agent process: several hosts, a thread each, led by JSON lines on stdin; writes an application log (history.py).

``python worker.py LOG``: commands are {"id": 1, "do": NAME, "host": HOST, ...}; each is answered by a line on stdout.

| do | fields | effect |
| --- | --- | --- |
| open | file, seed, ack_every, journal | open the host's agent; acknowledge after at most `ack_every` messages |
| close | | acknowledge what was given and close it |
| send | count, to, size | send so many as fast as the agent takes them; `to` null: broadcasts |
| load | rate, mail, to, roam_s, stations, until | for `until` seconds at random: `rate` a second, the share `mail` of |
| | | them to hosts of `to`; a move to one of `stations` (null: those that the agent knows at the time) every |
| | | `roam_s` seconds (0: never) |
| | topics, topical, tunes, tune_s | may be absent: the share `topical` goes to one of `topics`; one of `tunes` is |
| | | subscribed to, or left again, every `tune_s` seconds |
| subscribe, unsubscribe | topic | as the agent's calls |
| quiet | | end `send` and `load` |
| move | stations | move to these stations, one call right after the other |
| suspend, resume, network_changed | | as the agent's calls |
| deaf | deaf | take nothing any more (true), or again |
| status | | the agent's status |

A host is one thread, so its log lines stand in program order. End of stdin: all hosts are closed and the process ends.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import random
import sys
import threading
import time
import zlib
from collections import deque
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from demo.load import PATIENCE_S, Load

from roamcast.mh_agent import Agent, AgentEnded, Discontinuity, Message, OutboxFull, Presence, StateLost, Subscription
from roamcast.middleware.errors import LocalProtocolError

BURST = 20
"""Messages of a backlog sent between two looks at what came."""

STORED_KEPT = 2_000
"""Receipts of stored messages that are kept, to note if they are lost, looked at every ..."""

LOOK_S = 0.25

RETAIN = 0.3
"""Share of what is sent on topics at random that is retained."""

Json = dict[str, Any]


def now_us() -> int:
    """The machine's monotonic clock: the same in all processes."""
    return time.monotonic_ns() // 1_000


class Log:
    """Appends lines; each in one write, so that a kill tears none in the middle of the file."""

    def __init__(self, path: str) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self._name = os.path.basename(path)

    def write(self, event: str, host: str, **fields: Any) -> None:
        """One line."""
        line = {"event": event, "host": host, **fields, "t": now_us()}
        os.write(self._file, json.dumps(line, separators=(",", ":")).encode() + b"\n")


def pack(uid: str, size: int) -> bytes:
    """A body that names its message and shows damage: checksum, uid, padding up to `size` bytes."""
    text = uid.encode() + b"\n"
    text += b"." * (size - len(text) - 4)
    return zlib.crc32(text).to_bytes(4, "big") + text


def unpack(message: Message) -> str:
    """The uid in a body of `pack`; "damaged" if it is none; with a remark if another host has sent it."""
    body = message.body
    if zlib.crc32(body[4:]).to_bytes(4, "big") != body[:4]:
        return "damaged"
    uid = body[4:].partition(b"\n")[0].decode()
    return uid if uid.partition(".")[0] == message.sender else f"{uid}, said to be of {message.sender}"


class RoutedAgent(Agent):
    """Goes by the relay's gates, which stand beside its credential, also where a station has told its own endpoint."""

    def __init__(self, file: str, **options: Any) -> None:
        beside = Path(file).with_suffix(".routes")
        self._routes: dict[str, str] = json.loads(beside.read_text()) if beside.exists() else {}
        super().__init__(file, **options)

    def _run(self) -> None:
        connect = self._link.connect
        self._link.connect = lambda endpoint, key: connect(self._routes.get(endpoint, endpoint), key)
        super()._run()


class Host(threading.Thread):
    """One host: its agent, its commands, what it sends and takes."""

    def __init__(self, command: Json, log: Log, answer: Any, tag: str) -> None:
        super().__init__(name=command["host"], daemon=True)
        self.host: str = command["host"]
        self.commands: queue.SimpleQueue[Json] = queue.SimpleQueue()
        self.commands.put(command)
        self._log = log
        self._answer = answer
        self._tag = tag
        self._rng = random.Random(f"{command.get('seed', 0)} {self.host}")
        self._ack_every: int = command.get("ack_every", 16)
        self._sent = 0
        self._deaf = False
        self._load: Load | None = None
        self._wanted: set[str] = set()
        """Topics, as far as this life knows."""
        self._backlog: deque[tuple[str | None, int]] = deque()
        self._given: list[tuple[str, Message]] = []
        self._receipts: list[tuple[str, Any]] = []
        self._stored: deque[tuple[str, Any]] = deque(maxlen=STORED_KEPT)
        self._look_at = 0.0
        self._open = True
        self._ended: str | None = None

    def run(self) -> None:
        """Open the agent and work until `close`."""
        command = self.commands.get()
        try:
            journal = command.get("journal")
            agent = RoutedAgent(command["file"], acknowledge="manual", on_status=self._on_status, journal=journal)
        except Exception as error:
            self._answer(command, error=f"{type(error).__name__}: {error}")
            return
        with agent:
            self._log.write("start", self.host)
            self._answer(command)
            while self._open:
                self._step(agent)
        self._note_receipts()
        self._note_losses()
        self._log.write("end", self.host)
        self._answer(self._last)

    def _on_status(self, status: Json) -> None:
        """Called by the agent's thread."""
        if status["state"] == "open":
            self._log.write("attached", self.host, station=status["station"], epoch=status["epoch"])
        elif status["problem"]:
            self._log.write("problem", self.host, text=status["problem"])

    def _step(self, agent: Agent) -> None:
        while not self.commands.empty():
            command = self.commands.get()
            try:
                self._do(agent, command)
            except Exception as error:
                self._answer(command, error=f"{type(error).__name__}: {error}")
        now = time.monotonic()
        patience = PATIENCE_S
        if self._load is not None:
            due = self._load.due(now)
            if due is not None:
                self._do_at_random(agent, self._load, *due)
                patience = 0.0
            else:
                patience = self._load.patience(now)
        for _ in range(min(BURST, len(self._backlog))):
            if not self._send(agent, *self._backlog[0]):
                break
            self._backlog.popleft()
            patience = 0.0
        self._take(agent, patience)
        self._note_receipts()

    def _do_at_random(self, agent: Agent, load: Load, kind: str, to: str | None) -> None:
        match kind:
            case "move":
                self._roam(agent, load.stations)
            case "tune" if to is not None:
                self._tune(agent, to, to not in self._wanted)
            case "publish":
                self._send(agent, None, 64, to or "", self._rng.random() < RETAIN)
            case _:
                self._send(agent, to, 64)

    def _do(self, agent: Agent, command: Json) -> None:
        match command["do"]:
            case "close":
                self._acknowledge()
                self._open, self._last = False, command
                return
            case "send":
                self._backlog += [(command["to"], command["size"])] * command["count"]
            case "load":
                self._load = Load(command, self._rng)
            case "quiet":
                self._load = None
                self._backlog.clear()
            case "move":
                self._move(agent, command["stations"])
            case "subscribe" | "unsubscribe" as call:
                self._tune(agent, command["topic"], call == "subscribe")
            case "suspend" | "resume" | "network_changed" as name:
                self._log.write(name, self.host)
                getattr(agent, name)()
            case "deaf":
                self._deaf = command["deaf"]
            case "status":
                self._answer(command, status={**agent.status, "ended": self._ended})
                return
            case other:
                raise ValueError(f"no command {other!r}")
        self._answer(command)

    def _send(self, agent: Agent, to: str | None, size: int, topic: str = "", retain: bool = False) -> bool:
        self._sent += 1
        uid = f"{self.host}.{self._tag}.{self._sent}"
        body = pack(uid, size)
        where = {"to": to, "topic": topic, "retain": retain} if topic else {"to": to}
        self._log.write("call", self.host, uid=uid, **where)
        try:
            receipt = agent.broadcast(body, topic or None, retain) if to is None else agent.send(to, body)
        except OutboxFull:
            self._log.write("failed", self.host, uid=uid)
            return False
        self._log.write("sent", self.host, uid=uid, **where)
        self._receipts.append((uid, receipt))
        return True

    def _tune(self, agent: Agent, topic: str, to_it: bool) -> None:
        self._log.write("asking", self.host, topic=topic, state="in" if to_it else "out")
        with contextlib.suppress(OutboxFull):
            (agent.subscribe if to_it else agent.unsubscribe)(topic)
            (self._wanted.add if to_it else self._wanted.discard)(topic)

    def _move(self, agent: Agent, stations: list[Any]) -> None:
        for station in stations:
            self._log.write("move", self.host, station=station)
            agent.move(station)

    def _roam(self, agent: Agent, stations: list[str] | None) -> None:
        station = self._rng.choice(stations or agent.status["stations"])
        with contextlib.suppress(LocalProtocolError):  # the agent has just learnt that this one is no more
            self._move(agent, [station])

    def _take(self, agent: Agent, patience: float) -> None:
        if self._deaf:
            time.sleep(patience)
            return
        try:
            got = agent.receive(timeout=patience)
        except AgentEnded as error:
            self._log.write("ended", self.host, text=str(error))
            self._ended, self._deaf = str(error), True
            return
        if got is None:
            self._acknowledge()
        elif isinstance(got, Message) and not got.retained:
            uid = unpack(got)
            on = {"topic": got.topic, "stamp": got.stamp} if got.topic else {}
            self._log.write("given", self.host, uid=uid, **on)
            self._given.append((uid, got))
            if len(self._given) >= self._rng.randint(1, self._ack_every):
                self._acknowledge()
        else:
            self._acknowledge()
            self._note(agent, got)

    def _note(self, agent: Agent, got: Message | Subscription | Presence | Discontinuity | StateLost) -> None:
        """What is no news of others, or none that counts: it is acknowledged at once."""
        if isinstance(got, Message):
            self._log.write("value", self.host, uid=unpack(got), topic=got.topic, stamp=got.stamp)
        elif isinstance(got, Presence):
            self._log.write("presence", self.host, of=got.host, attempt=got.attempt, online=got.online)
        elif isinstance(got, Subscription):
            self._log.write("change", self.host, topic=got.topic, state=got.state, reason=got.reason)
            if got.state != "subscribed":
                self._wanted -= {got.topic} if got.topic else self._wanted
        else:
            self._log.write("gap" if isinstance(got, Discontinuity) else "lost", self.host)
        got.ack()
        if isinstance(got, Subscription):
            status = agent.status
            epoch = status["epoch"] if status["state"] == "open" else 0
            self._log.write("changed", self.host, topic=got.topic, epoch=epoch)

    def _acknowledge(self) -> None:
        if self._given:
            uid, message = self._given[-1]
            self._log.write("acking", self.host, uid=uid)
            message.ack()
            self._log.write("acked", self.host, uid=uid)
            self._given.clear()

    def _note_receipts(self) -> None:
        rest = []
        for uid, receipt in self._receipts:
            if receipt.state == "pending":
                rest.append((uid, receipt))
            else:
                self._log.write("receipt", self.host, uid=uid, outcome=receipt.state)
                self._stored.append((uid, receipt))
        self._receipts = rest
        if time.monotonic() >= self._look_at:
            self._look_at = time.monotonic() + LOOK_S
            self._note_losses()

    def _note_losses(self) -> None:
        """What was stored may still be lost, with its station, or refused, in its place in the order."""
        for uid, receipt in [kept for kept in self._stored if kept[1].state in ("lost", "refused")]:
            self._log.write("receipt", self.host, uid=uid, outcome=receipt.state)
            self._stored.remove((uid, receipt))


def main(arguments: list[str]) -> int:
    """Serve commands until stdin ends."""
    log = Log(arguments[0])
    tag = os.path.basename(arguments[0]).partition(".")[0]
    hosts: dict[str, Host] = {}
    lock = threading.Lock()

    def answer(command: Json, **fields: Any) -> None:
        with lock:
            print(json.dumps({"id": command.get("id"), **fields}), flush=True)

    for line in sys.stdin:
        command = json.loads(line)
        host = hosts.get(command["host"])
        if command["do"] == "open":
            hosts[command["host"]] = host = Host(command, log, answer, tag)
            host.start()
        elif host is None or not host.is_alive():
            answer(command, error=f"{command['host']} is not open here")
        else:
            host.commands.put(command)
    for host in hosts.values():
        host.commands.put({"do": "close"})
    for host in hosts.values():
        host.join()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
