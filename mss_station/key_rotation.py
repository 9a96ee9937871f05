"""A rotation of keys in the running station: begins it, waits for the peers, and lets the new keys take over.

What is durable at which step, and why a process may end at any of them, is told in `rotation`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from roamcast.middleware.effects import Notice
from roamcast.mss_station import rotation
from roamcast.mss_station.directory import LanDirectory
from roamcast.mss_station.errors import WrongUse
from roamcast.mss_station.key_probes import KeyProbes, PeerAddress
from roamcast.mss_station.tally import Tally
from roamcast.transport.curve import CurveKeys
from roamcast.transport.errors import KeyFileError


class KeyRotation:
    """The rotation that is under way here, if any.

    Args:
        path: the station's directory.
        probe: makes the probes of a new pair.
        addresses: every active peer by id, as it is reached now.
        announce: the station's record may have to say something else.
        take_over: the new keys are in the directory: use them.
    """

    def __init__(
        self,
        path: Path,
        directory: LanDirectory,
        probe: Callable[[CurveKeys], KeyProbes],
        addresses: Callable[[], Mapping[str, PeerAddress]],
        announce: Callable[[], None],
        take_over: Callable[[], None],
        tally: Tally,
    ) -> None:
        self._path = path
        self._directory = directory
        self._probe = probe
        self._addresses = addresses
        self._announce = announce
        self._take_over = take_over
        self._tally = tally
        self._coming: str | None = None
        """The next CURVE key."""
        self._probes: KeyProbes | None = None
        self._waits_for: list[str] = []
        coming = rotation.pending(path)
        if coming is not None:
            self._wait(coming)

    def begin(self) -> None:
        """`keys rotate`. Raises KeyFileError, WrongUse."""
        record = self._directory.own_record()
        if record is None:
            raise WrongUse("the group does not know this station yet; try again")
        self._wait(rotation.begin(self._path, record))
        self._announce()

    def _wait(self, coming: rotation.NextKeys) -> None:
        self._coming = coming.curve.public
        self._probes = self._probe(coming.curve)
        self._waits_for = sorted(self._addresses())

    def look(self, now: int) -> None:
        """Once a second. now: monotonic microseconds."""
        if self._probes is None:
            return
        record = self._directory.own_record()
        if record is None or record.keys[0] != self._coming:
            return  # nobody can know the new key yet
        self._waits_for = self._probes.look(self._addresses(), now)
        if self._waits_for:
            return
        try:
            rotation.switch(self._path)
        except KeyFileError as error:  # a full disk: the next look finishes it
            self._tally.notice(Notice("warning", "keys_not_switched", {"reason": str(error)}))
            return
        self.close()
        self._take_over()
        self._announce()

    def close(self) -> None:
        """Ask the peers no more."""
        if self._probes is not None:
            self._probes.close()
        self._probes = self._coming = None

    def waits_for(self) -> list[str] | None:
        """Ids of the peers that have still to let the new key in; None: no rotation is under way."""
        return None if self._probes is None else self._waits_for
