"""The agent as a library: one background thread owns context and sockets; one lock guards the core.

A call of the application is a tick of its own, and what it changed is on disk before it returns (`broadcast` and `send`
sync; acknowledgements are written, and synced before a frame says them). Frames leave only from the thread.
"""

from __future__ import annotations

import contextlib
import logging
import os
import random
import threading
import time
import weakref
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final, Literal, TypeVar

import cbor2

from roamcast.mh_agent.events import AgentClosed, Receipt
from roamcast.mh_agent.link import Link
from roamcast.mh_agent.state_file import StateFile, encode
from roamcast.middleware.mobile_host import effects as do
from roamcast.middleware.mobile_host.core import AgentCore
from roamcast.middleware.mobile_host.errors import AgentEnded, StateError
from roamcast.middleware.mobile_host.events import Event, event_of
from roamcast.middleware.mobile_host.settings import AgentSettings, deadline_of
from roamcast.middleware.mobile_host.state_log import StateLog
from roamcast.middleware.rows import Kind
from roamcast.transport.credential import read_credential

T = TypeVar("T")

BESIDE: Final = "beside the credential"
SLEEP_MS_MAX: Final = 10_000  # a machine that slept may have slept through its timers: look at the clock
NEVER: Final = 1 << 62
LIVE_TODO_MAX: Final = 64  # live frames that may wait for the thread
_log = logging.getLogger(__name__)


def _now() -> int:
    return time.clock_gettime_ns(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)) // 1_000  # also while it sleeps


class Agent:
    """One mobile host. A context manager, and an iterator of its events, which ends when it has left or is closed.

    Args:
        file: the credential that `mss-station hosts enrol` wrote.
        state: a path, or a store as StateLog takes it; None: an ephemeral member, gone a minute after its link.
        acknowledge: "auto": asking for the next event acknowledges the one before, and so do `close` and the end of the
            `with` block without an error; "manual": `Message.ack`.
        on_status: called by the agent's thread with `status` when that has changed.
        journal: a folder for the witness journal, see docs/protocols/delivery-log.md; None: none is kept.

    Raises: KeyFileError, StateError, OSError: the credential or the state cannot be used.
    """

    def __init__(
        self,
        file: str | os.PathLike[str],
        *,
        state: Any = BESIDE,
        acknowledge: Literal["auto", "manual"] = "auto",
        on_status: Callable[[dict[str, Any]], None] | None = None,
        settings: AgentSettings | None = None,
        journal: str | os.PathLike[str] | None = None,
    ) -> None:
        credential = read_credential(Path(file))
        self.name = credential.name
        stations = tuple((known.id, known.slot, known.endpoint, known.key.encode()) for known in credential.stations)
        state = Path(file).with_suffix(".state") if state == BESIDE else state
        store = StateFile(Path(state)) if isinstance(state, (str, os.PathLike)) else state
        self._state = StateLog(store, encode, cbor2.loads, zlib.crc32)
        if self._state.cut:
            _log.warning("%s: %d bytes of an unfinished record of the state were cut off", self.name, self._state.cut)
        self.watchers: list[Callable[[], None]] = []  # called under the lock when there may be news: must be quick
        self._auto = acknowledge == "auto"
        self._taken: int | None = None
        self._ended = ""  # code of the end of the membership
        self._on_status = on_status
        self._told: dict[str, Any] = {}
        self._receipts: weakref.WeakValueDictionary[int, Receipt] = weakref.WeakValueDictionary()
        self._mutex = threading.RLock()
        self._changed = threading.Condition(self._mutex)  # never in a `with`: an interrupt in its code leaves it locked
        self._pid = os.getpid()
        self._closed = self._woken = False
        self._failure: Exception | None = None
        self._todo: list[do.Connect | do.Disconnect | do.SendUp] = []
        self._asked = self._reached = 0  # connections asked for or given up; how many of these the thread has come to
        self._sleep_until = NEVER
        with contextlib.ExitStack() as undo:
            self._held = undo.enter_context(contextlib.ExitStack())  # what is let go of at the very end
            self._held.callback(self._state.close)
            make: Callable[..., AgentCore] = AgentCore
            if journal is not None:
                from roamcast.transport.witness import witnessed  # when it is asked for: most do without

                make = witnessed(Path(journal), credential.group, self._held)
            self._core = make(
                name=self.name, stations=stations, enrolled_at=credential.last, image=self._state.image,
                settings=settings or AgentSettings(), rng=random.SystemRandom(), ephemeral=state is None,
            )  # fmt: skip
            self._link = Link(credential.keys)
            undo.callback(self._link.close)
            self._tick(AgentCore.start)
            self._thread = threading.Thread(target=self._run, name=f"roamcast {self.name}", daemon=True)
            self._thread.start()
            undo.pop_all()

    def __enter__(self) -> Agent:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._taken = self._taken if kind is None else None
        second = [KeyboardInterrupt] if kind is KeyboardInterrupt else []  # it ends the waiting, the first one goes on
        with contextlib.suppress(*second):
            self.close()

    def __iter__(self) -> Iterator[Event]:
        return self

    def __next__(self) -> Event:
        try:
            return self.receive()  # type: ignore[return-value]
        except (AgentClosed, AgentEnded):
            if self.ended_well:
                raise StopIteration from None
            raise

    def broadcast(
        self, body: bytes, topic: str | None = None, retain: bool = False, deadline: float | None = None
    ) -> Receipt:
        """Send to every host, or to the subscribers of a topic; kept when this returns.

        retain: it is the topic's last value, which is given to those who subscribe later; an empty body clears that.
        deadline: int or float, to 86,400: it is live, in the same order: sent now or not at all, given within so many
            seconds from when its station takes it (a wait before does not count; `live-delta` at most) or never.
        Raises OutboxFull, MessageTooLarge, BadAddressee, AgentEnded, AgentClosed, TypeError, ValueError (the deadline).
        """
        kind = Kind.RETAINED if retain else Kind.BROADCAST if topic is None else Kind.TOPIC
        return self._submit(body, topic, kind, deadline)

    def send(self, host: str, body: bytes, deadline: float | None = None) -> Receipt:
        """Send to one host, in one order with all broadcasts. As `broadcast`; BadAddressee also if `host` is None."""
        return self._submit(body, host, Kind.MAIL, deadline)

    def subscribe(self, topic: str) -> Receipt:
        """Ask for a topic, for good: a Subscription event tells from where on its messages come, first its last value.

        Asked again, the last value comes again. Raises as `broadcast`; kept and in order as what is sent.
        """
        return self._submit(b"", topic, Kind.SUB)

    def unsubscribe(self, topic: str) -> Receipt:
        """The contrary of `subscribe`."""
        return self._submit(b"", topic, Kind.UNSUB)

    def receive(self, timeout: float | None = None) -> Event | None:
        """The next event; waits at most `timeout` seconds, then None. Raises AgentEnded, AgentClosed."""
        end = None if timeout is None else time.monotonic() + timeout
        with self._lock:
            while True:
                given = self._tick(self._take_next)
                if isinstance(given, do.Ended):
                    self._ended = given.code
                    raise AgentEnded(f"{given.code}: {given.text}")
                if given is not None:
                    self._taken = given.token if self._auto else None
                    return event_of(given, self._acknowledge)
                left = None if end is None else end - time.monotonic()
                if left is not None and left <= 0:
                    return None
                self._changed.wait(left)

    def move(self, station: str) -> None:
        """Attach at this station first, one of `status["stations"]`. Raises LocalProtocolError for another one."""
        self._tick(lambda core: core.move(station))

    def suspend(self) -> None:
        """Close sockets and context before this returns, until `resume`; what is sent meanwhile is kept."""
        self._rest(AgentCore.suspend)

    def resume(self) -> None:
        """Attach again after `suspend` or `drain`."""
        self._tick(AgentCore.resume)

    def network_changed(self) -> None:
        """Reconnect at once: the old connection is worth nothing."""
        self._tick(AgentCore.network_changed)

    def drain(self, timeout: float = 30.0) -> Iterator[Event]:
        """Attach, give all that waits, send all that waits, say goodbye; for a wake-up by push. Then as suspended."""
        self.resume()
        end = time.monotonic() + timeout
        while time.monotonic() < end and not self._tick(lambda core: core.drained):
            if (event := self.receive(0.05)) is not None:
                yield event
            else:
                self._tick(AgentCore.probe)
        self._rest(AgentCore.detach)

    def leave(self, timeout: float = 30.0) -> None:
        """End the membership for good. Raises TimeoutError if no station has confirmed it yet; it is asked on."""
        self._tick(AgentCore.leave)
        self.resume()
        if not self.wait_for(lambda: self._core.status()["state"] == "ended", timeout):
            raise TimeoutError("no station has confirmed yet that this host leaves")

    def close(self) -> None:
        """Say the acknowledgements and goodbye, end the thread, let go of the state. Membership and messages stay."""
        if self._pid != os.getpid():
            return
        with contextlib.ExitStack() as ending, self._mutex:
            if self._closed:
                return
            ending.push(self._held)
            ending.callback(self._thread.join)  # first, and both of them whatever happens
            try:
                if self._failure is None:
                    if self._taken is not None:
                        self._acknowledge(self._taken)
                    self._tick(AgentCore.detach)
            finally:
                self._closed = True
                self._wake()

    @property
    def ended_well(self) -> bool:
        """Whether the stream of events ends because the host has left or the agent was closed."""
        return self._failure is None and self._ended in ("", "left")

    @property
    def status(self) -> dict[str, Any]:
        """state (off, paused, attaching, open, ended), station, stations, waiting, problem, outbox, and more."""
        return self._tick(lambda core: core.status()) | {"name": self.name}

    def wait_for(self, condition: Callable[[], bool], timeout: float | None = None) -> bool:
        """Wait until `condition` holds, or nothing can change any more. Returns whether it holds."""
        with self._lock:
            self._changed.wait_for(lambda: condition() or self._closed or self._failure is not None, timeout)
            return condition()

    @property
    def _lock(self) -> threading.RLock:
        if self._pid != os.getpid():  # there the lock may be held for ever
            raise AgentClosed("forked: this agent belongs to the parent process; a child needs one of its own")
        return self._mutex

    def _tick(self, call: Callable[[AgentCore], T], sync: bool = False) -> T:
        """One call of the application, kept when it returns."""
        with self._lock:
            if self._closed or self._failure is not None:
                raise AgentClosed(str(self._failure or "the agent is closed")) from self._failure
            try:
                self._core.begin(_now())
                result = call(self._core)
                self._perform(self._core.flush(), sync)
            except (KeyboardInterrupt, SystemExit):  # the core may be ahead of the state: only a new agent can tell
                self._fail(AgentClosed("a call was interrupted"))
                raise
            if self._todo or (self._core.next_deadline() or NEVER) < self._sleep_until:
                self._wake()
            return result

    def _perform(self, effects: list[do.AgentEffect], sync: bool = False) -> None:
        try:
            for effect in effects:
                if isinstance(effect, do.Save):
                    self._state.save(effect.facts)
                elif isinstance(effect, do.Receipt):
                    self._settle(effect)
                elif isinstance(effect, do.Report):
                    self._report(effect)
                else:
                    self._todo.append(effect)
                    self._asked += not isinstance(effect, do.SendUp)
                    sync = sync or not isinstance(effect, do.SendLive)
            if sync:
                self._state.sync()
        except (StateError, OSError) as error:  # without its state an agent may not go on: nothing of this tick leaves
            self._fail(error)
            raise AgentClosed(f"the state cannot be kept: {error}") from error

    def _fail(self, error: Exception) -> None:
        self._failure = self._failure or error
        self._todo.clear()
        self._wake()
        self._tell()

    def _submit(self, body: bytes, to: str | None, kind: Kind, within: float | None = None) -> Receipt:
        data = body if isinstance(body, bytes) else bytes(memoryview(body))
        with self._lock:
            if within is None:
                receipt = Receipt(self, self._tick(lambda core: core.submit(data, to, kind), sync=True))
            else:
                room = sum(isinstance(one, do.SendLive) for one in self._todo) < LIVE_TODO_MAX
                live = self._tick(lambda core: core.send_live(data, deadline_of(within), to, kind, room))
                receipt = Receipt(self, live.number, live.state, live.reason)
            self._receipts[receipt.number] = receipt
        return receipt

    def _acknowledge(self, token: int) -> None:
        self._tick(lambda core: core.ack(token))

    def _take_next(self, core: AgentCore) -> do.Given | None:
        taken, self._taken = self._taken, None
        if taken is not None:
            core.ack(taken)
        return core.take()

    def _settle(self, effect: do.Receipt) -> None:
        if (receipt := self._receipts.pop(effect.number, None)) is not None:
            if effect.state != "renumbered":
                receipt.state, receipt.id, receipt.reason = effect.state, effect.id or receipt.id, effect.reason
            receipt.number = effect.became or receipt.number
            self._receipts[receipt.number] = receipt

    def _report(self, report: do.Report) -> None:
        level = logging.WARNING if report.event in ("bad-frame", "replaced", "state-lost", "ended") else logging.INFO
        _log.log(level, "%s: %s %s", self.name, report.event, report.fields)

    def _rest(self, call: Callable[[AgentCore], None]) -> None:
        self._tick(call)
        self.wait_for(lambda: self._reached == self._asked)

    def _wake(self) -> None:
        if not self._woken:
            self._woken = True
            self._link.wake()

    def _tell(self) -> None:
        self._changed.notify_all()
        for watcher in self.watchers:
            watcher()

    def _run(self) -> None:
        try:
            while self._turn():
                pass
        except Exception as error:
            _log.exception("%s: the agent has stopped", self.name)
            with self._mutex:
                self._fail(error)
        finally:
            with self._mutex:
                self._woken = True  # nobody is there to be woken any more
            self._link.close()

    def _turn(self) -> bool:
        """A turn of the thread: wait, read, one tick of the core, then do what it wants. Returns whether to go on."""
        self._link.wait(min(SLEEP_MS_MAX, max(0, (self._sleep_until - _now() + 999) // 1_000)))
        frames, lost = self._link.read()
        with self._mutex:
            self._woken = False
            if go_on := not self._closed and self._failure is None:
                self._core.begin(_now())
                if self._reached == self._asked:  # else these are of a connection that the core has given up
                    for frame in frames:
                        self._core.receive(frame)
                    if lost is not None:
                        self._core.link_lost(lost)
                self._core.expire()
                self._perform(self._core.flush())
            todo, self._todo = self._todo, []
            self._sleep_until = self._core.next_deadline() or NEVER
            status = self._core.status() | {"name": self.name}
            self._tell()
        dropped = self._link.perform(todo)
        if status["state"] in ("off", "ended"):
            self._link.rest()
        if todo:
            with self._mutex:
                self._reached += sum(not isinstance(effect, do.SendUp) for effect in todo)
                for number, reason in dropped:
                    self._settle(self._core.drop_live(number, reason))
                self._tell()
        told = {key: status[key] for key in ("state", "station", "waiting", "problem", "epoch", "incarnation")}
        if self._on_status is not None and told != self._told:
            self._told = told
            try:
                self._on_status(status)
            except Exception:
                _log.exception("%s: on_status failed", self.name)
        return go_on
