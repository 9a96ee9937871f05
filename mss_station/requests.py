"""What the commands may ask of a running station: status, and hosts to enrol, import, revoke or list."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

from roamcast.middleware.effects import Notice
from roamcast.middleware.errors import Error
from roamcast.mss_station.access import Access
from roamcast.mss_station.control import Client, Json
from roamcast.mss_station.directory import (
    Directory,
    Fault,
    HostKnown,
    HostRevoked,
    PeersChanged,
    SettingsChanged,
)
from roamcast.mss_station.membership import check_card, new_host, put_card, revoke
from roamcast.mss_station.server import Server
from roamcast.mss_station.tally import Tally
from roamcast.transport.errors import KeyFileError
from roamcast.transport.station_files import HostCard


class Requests:
    """Answers requests and carries what the directory says into the running station.

    Args:
        path: the station's directory.
        status: everything that `mss-station status` shows.
    """

    def __init__(
        self,
        path: Path,
        slot: int,
        directory: Directory,
        server: Server,
        access: Access,
        tally: Tally,
        status: Callable[[], Json],
    ) -> None:
        self._path = path
        self._slot = slot
        self._directory = directory
        self._server = server
        self._access = access
        self._tally = tally
        self._commands: dict[str, Callable[[Client, Json], None]] = {
            "status": lambda client, _: client.answer({"ok": True, "status": status()}),
            "hosts enrol": self._enrol,
            "hosts import": self._import,
            "hosts revoke": self._revoke,
        }

    def handle(self, client: Client, request: Json) -> None:
        """Answer one request, now or when its tick is committed."""
        command = self._commands.get(str(request.get("command")))
        try:
            if command is None:
                raise Error(f"this station does not know the command {request.get('command')!r}")
            command(client, request)
        except Error as error:
            client.answer({"ok": False, "error": str(error), "wrong_use": isinstance(error, KeyFileError)})
        except (KeyError, TypeError, ValueError) as error:
            client.answer({"ok": False, "error": f"the request is not as it must be ({type(error).__name__})"})

    def _enrol(self, client: Client, request: Json) -> None:
        server = self._server
        reason = server.core.gate.closed() or server.guard.reason
        if reason is not None:
            raise Error(f"no host can be enrolled now: {reason}")
        card = new_host(self._directory, server.core, self._slot, str(request["name"]), str(request["key"]))
        server.open_tick()
        server.core.enrol(card.number, card.name)

        def committed(done: bool) -> None:
            if not done:
                client.answer({"ok": False, "error": f"the store did not take it: {server.guard.reason}"})
                return
            try:
                put_card(self._path, card)
            except Error as error:
                client.answer({"ok": False, "error": str(error)})
                return
            self.look()
            client.answer({"ok": True, "host": asdict(card)})

        server.then(committed)

    def _import(self, client: Client, request: Json) -> None:
        card = HostCard(**request["host"])
        check_card(self._directory, card)
        put_card(self._path, card)
        self.look()
        client.answer({"ok": True})

    def _revoke(self, client: Client, request: Json) -> None:
        revoke(self._path, self._directory, str(request["name"]))
        self.look()
        self._server.then(lambda done: client.answer({"ok": True}))

    def look(self) -> None:
        """Take over what has changed in the directory; costs four calls of stat if nothing has."""
        changes = self._directory.changes()
        if not changes:
            return
        self._access.refresh()
        server = self._server
        if server.guard.state != "closed":
            server.open_tick()
        for change in changes:
            match change:
                case HostKnown(card):
                    server.core.learn_host(card.number, card.name)
                case HostRevoked(card):
                    server.hosts.forget(card.number)
                    if server.guard.state != "closed":
                        server.core.revoke(card.number)
                case SettingsChanged(settings):
                    server.configure(settings)
                    self._tally.notice(Notice("info", "settings_changed", {}))
                case PeersChanged():
                    self._tally.notice(Notice("warning", "peers_changed", {"remedy": "restart to count them in"}))
                case Fault(text):
                    self._tally.notice(Notice("alarm", "directory_fault", {"text": text}))
