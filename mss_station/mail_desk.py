"""What programs and commands want of station mail, in the thread of the station: sends that wait, and who reads.

A mail is answered for when the tick that took it is committed. Until numbers may be given it waits; a program may give
it up meanwhile. Commands speak through the control socket; the one that reads keeps its connection, and stops being
the reader when that ends.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, Final

from roamcast.middleware.causal_unicast.errors import MailRefused
from roamcast.middleware.errors import Error
from roamcast.middleware.settings import MIB, SECOND
from roamcast.mss_station.control import Client, Json
from roamcast.mss_station.mail_door import MailDoor, Offer, Sending, Taking
from roamcast.mss_station.mail_service import MailService
from roamcast.mss_station.server import Server

BATCH_MAILS: Final = 256
BATCH_BYTES: Final = MIB
"""Of one answer to a command that reads."""

WRONG_USE: Final = ("unknown-station", "too-large")


@dataclass(slots=True)
class _Pending:
    request: Sending | Taking
    until: int | None
    """When it is given up; None: its program decides."""


@dataclass(slots=True)
class _Session:
    """A command that reads."""

    keep: bool
    """It acknowledges nothing."""
    after: int = 0
    waits: bool = False
    """It is answered as soon as there is something."""
    told: set[int] = field(default_factory=set)
    """Losses that it knows."""


class MailDesk:
    """All of it in one place, between the door, the commands and the service."""

    def __init__(self, mail: MailService, server: Server, door: MailDoor) -> None:
        self._mail = mail
        self._server = server
        self._door = door
        self._pending: list[_Pending] = []
        self._sessions: dict[Client, _Session] = {}
        self.commands: Mapping[str, Callable[[Client, Json], None]] = {
            "message": self._message,
            "messages": self._messages,
            "messages taken": self._taken,
        }
        mail.on_news = self._news

    # ---- requests ----

    def serve(self, now: int) -> None:
        """Between ticks or within one: do what can be done now. now: monotonic, microseconds."""
        requests = self._door.requests
        while requests:
            self._pending.append(_Pending(requests.popleft(), None))
        if self._pending:
            pending, self._pending = self._pending, []
            self._door.hindrance = None
            self._pending += [each for each in pending if not self._is_done(each, now)]

    def waits_until(self) -> int | None:
        """When a request is given up."""
        return min((each.until for each in self._pending if each.until is not None), default=None)

    def _is_done(self, each: _Pending, now: int) -> bool:
        request = each.request
        if isinstance(request, Taking):
            if self._server.guard.state == "closed":
                return False
            self._take(request)
            return True
        try:
            why = self._mail.hindrance()
            if why is not None and each.until is not None and now >= each.until:
                raise MailRefused("not-now", f"no mail is taken yet: {why}")
        except MailRefused as refused:
            _fail(request.result, refused)
            return True
        if why is None:
            self._send(request)
            return True
        self._door.hindrance = why
        return request.result.cancelled()

    def _send(self, request: Sending) -> None:
        result = request.result
        if not result.set_running_or_notify_cancel():
            return
        self._server.open_tick()
        try:
            number = self._mail.send(request.to, request.body)
        except MailRefused as refused:
            result.set_exception(refused)
            return

        def committed(done: bool) -> None:
            if done:
                result.set_result(number)
            else:
                result.set_exception(MailRefused("store", f"the store did not take it: {self._server.guard.reason}"))

        self._server.then(committed)

    def _take(self, request: Taking) -> None:
        if not request.result.running():
            request.result.set_running_or_notify_cancel()
        self._server.open_tick()
        self._mail.take(request)

        def committed(done: bool) -> None:
            if done:
                request.result.set_result(None)
            else:  # it was said that it has been taken: so it is, as soon as the store works
                self._pending.append(_Pending(request, None))

        self._server.then(committed)

    # ---- commands ----

    def _message(self, client: Client, request: Json) -> None:
        for name in ("to", "body"):
            if not isinstance(request[name], str):
                raise Error(f"the request is not as it must be: {name!r} must be text")
        body = base64.b64decode(request["body"], validate=True)
        sending = Sending(request["to"], body, Future())
        sending.result.add_done_callback(lambda result: client.answer(_answer_of(result)))
        now = self._server.clock.now()
        self._pending.append(_Pending(sending, now + round(float(request["wait"]) * SECOND)))
        self.serve(now)

    def _messages(self, client: Client, request: Json) -> None:
        session = self._sessions.get(client)
        if session is None:
            session = _Session(bool(request["keep"]))
            if not session.keep:
                self._door.become_reader(client, f"mss-station messages (process {int(request['process'])})")
            self._sessions[client] = session
            client.stays = True
            client.on_end = lambda: self._end(client)
        session.after = int(request["after"])
        session.waits = bool(request["follow"])
        self._answer(client, session)

    def _end(self, client: Client) -> None:
        del self._sessions[client]
        self._door.end_reading(client)

    def _news(self) -> None:
        for client, session in self._sessions.items():
            if session.waits:
                self._answer(client, session)

    def _answer(self, client: Client, session: _Session) -> None:
        """Answer with what there is; without anything only one that does not wait."""
        mails: list[Offer] = []
        size = 0
        for offer in self._mail.waiting(session.after):
            if mails and (len(mails) >= BATCH_MAILS or size + len(offer.body) > BATCH_BYTES):
                break
            mails.append(offer)
            size += len(offer.body)
        losses = {slot: numbers for slot, numbers in self._mail.losses.items() if slot not in session.told}
        if session.waits and not mails and not losses:
            return
        session.waits = False
        session.told |= losses.keys()
        told = [
            {"sender": one.station, "number": one.number, "position": one.position, "body": _text(one.body)}
            for one in mails
        ]
        lost = [
            {"to": self._mail.name_of(slot), "slot": slot, "numbers": list(numbers)} for slot, numbers in losses.items()
        ]
        client.answer({"ok": True, "mails": told, "lost": lost})

    def _taken(self, client: Client, request: Json) -> None:
        session = self._sessions.get(client)
        if session is None or session.keep:
            raise Error("this command does not read the mail")
        server = self._server
        if server.guard.state == "closed":
            raise Error(f"nothing can be changed now: {server.guard.reason}")
        takings = [Taking(int(request["upto"]), 0, Future())] if request["upto"] else []
        takings += [Taking(0, int(slot), Future()) for slot in request["lost"]]
        server.open_tick()
        for taking in takings:
            self._mail.take(taking)

        def committed(done: bool) -> None:
            text = f"the store did not take it: {server.guard.reason}"
            client.answer({"ok": True} if done else {"ok": False, "error": text})

        server.then(committed)


def _fail(result: Future[int], error: Error) -> None:
    if result.set_running_or_notify_cancel():
        result.set_exception(error)


def _text(body: bytes) -> str:
    return base64.b64encode(body).decode()


def _answer_of(result: Future[int]) -> Json:
    """The answer to `message`."""
    error: Any = result.exception()
    if error is None:
        return {"ok": True, "number": result.result()}
    return {"ok": False, "error": str(error), "code": error.code, "wrong_use": error.code in WRONG_USE}
