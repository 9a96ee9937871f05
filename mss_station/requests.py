"""What the commands may ask of a running station: status, hosts, topics, the configuration, stations, other keys."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict

from roamcast.middleware.errors import Error
from roamcast.middleware.lan_update.records import Version
from roamcast.mss_station.control import Client, Json
from roamcast.mss_station.directory import LanDirectory
from roamcast.mss_station.errors import WrongUse
from roamcast.mss_station.key_rotation import KeyRotation
from roamcast.mss_station.retirement import Retirement
from roamcast.mss_station.server import Server
from roamcast.mss_station.sponsor import Sponsor
from roamcast.mss_station.topic_status import seen
from roamcast.mss_station.updates import Updates, check_serving
from roamcast.transport.errors import KeyFileError
from roamcast.transport.join_token import utc


class Requests:
    """Answers requests: at once, or when the tick that they change is committed.

    Args:
        status: everything that `mss-station status` shows.
        rotate_hosts: gives this station another key for hosts.
        past_numbers: topic numbers in the history of the configuration.
        more: commands of other parts.
    """

    def __init__(
        self,
        slot: int,
        directory: LanDirectory,
        server: Server,
        sponsor: Sponsor,
        rotation: KeyRotation,
        rotate_hosts: Callable[[], None],
        past_numbers: Callable[[], Iterable[int]],
        status: Callable[[], Json],
        more: Mapping[str, Callable[[Client, Json], None]],
    ) -> None:
        self._slot = slot
        self._server = server
        self._sponsor = sponsor
        self._rotation = rotation
        self._rotate_hosts = rotate_hosts
        self._updates = Updates(directory, lambda: server.lan.entries, self._put, past_numbers)
        self._retirement = Retirement(slot, directory, server, self._put)
        self._commands: dict[str, Callable[[Client, Json], None]] = {
            "status": lambda client, _: client.answer({"ok": True, "status": status()}),
            "hosts enrol": self._enrol,
            "hosts revoke": self._revoke,
            "config set": self._set,
            "config delete": self._delete,
            **dict.fromkeys(self._updates.topics.commands, self._change_topics),
            "topics": lambda client, _: client.answer({"ok": True, "topics": seen(directory.book, server.core)}),
            "stations retire": self._retire,
            "invite": self._invite,
            "keys rotate": self._rotate,
            **more,
        }

    def handle(self, client: Client, request: Json) -> None:
        """Answer one request, now or when its tick is committed."""
        command = self._commands.get(str(request.get("command")))
        try:
            if command is None:
                raise Error(f"this station does not know the command {request.get('command')!r}")
            command(client, request)
        except Error as error:
            wrong_use = isinstance(error, KeyFileError | WrongUse)
            client.answer({"ok": False, "error": str(error), "wrong_use": wrong_use})
        except (ArithmeticError, LookupError, RecursionError, TypeError, ValueError) as error:
            client.answer({"ok": False, "error": f"the request is not as it must be ({type(error).__name__})"})

    def _put(self, key: str, value: bytes | None) -> Version:
        if self._server.guard.state == "closed":
            raise Error(f"nothing can be changed now: {self._server.guard.reason}")
        self._server.open_tick()
        return self._server.lan.put(key, value)

    def _enrol(self, client: Client, request: Json) -> None:
        server = self._server
        reason = server.core.gate.closed() or server.guard.reason
        if reason is not None:
            raise Error(f"no host can be enrolled now: {reason}")
        books = server.core.ledger
        check_serving(books.view)
        numbers = [*books.hosts, *books.names, *(number for number, _ in books.records)]
        card = self._updates.new_host(self._slot, str(request["name"]), str(request["key"]), numbers)
        self._updates.publish(card)
        server.core.enrol(card.number, card.name)
        self._answer_when_durable(client, {"host": asdict(card)})

    def _revoke(self, client: Client, request: Json) -> None:
        self._updates.revoke(str(request["name"]))
        self._answer_when_durable(client, {})

    def _set(self, client: Client, request: Json) -> None:
        version = self._updates.set(str(request["key"]), str(request["text"]))
        self._answer_when_durable(client, {"version": list(version)})

    def _delete(self, client: Client, request: Json) -> None:
        version = self._updates.delete(str(request["key"]))
        self._answer_when_durable(client, {"version": list(version)})

    def _change_topics(self, client: Client, request: Json) -> None:
        self._answer_when_durable(client, self._updates.topics.perform(request))

    def _retire(self, client: Client, request: Json) -> None:
        if request["lost"]:
            done = self._retirement.give_up(str(request["id"]), bool(request["release"]), bool(request["force"]))
        else:
            heir = request["heir"]
            done = self._retirement.retire(str(request["id"]), None if heir is None else str(heir))
        self._answer_when_durable(client, {"done": done})

    def _invite(self, client: Client, request: Json) -> None:
        token = self._sponsor.invite(int(request["valid"]))
        self._answer_when_durable(client, {"token": token.secret_text(), "until": utc(token.expires_s)})

    def _rotate(self, client: Client, request: Json) -> None:
        if request["hosts"]:
            self._rotate_hosts()
        else:
            self._rotation.begin()
        client.answer({"ok": True, "waits_for": self._rotation.waits_for() or []})

    def _answer_when_durable(self, client: Client, answer: Json) -> None:
        server = self._server

        def committed(done: bool) -> None:
            if done:
                client.answer({"ok": True, **answer})
            else:
                client.answer({"ok": False, "error": f"the store did not take it: {server.guard.reason}"})

        server.then(committed)
