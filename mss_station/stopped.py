"""A stopped station, for a command that changes something there: under the directory's lock, in one transaction.

What would be sent is asked for by the peers when the station runs again.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from roamcast.middleware.effects import Persist
from roamcast.middleware.lan_update.effects import LanPersist
from roamcast.middleware.lan_update.records import PutAlive
from roamcast.mss_station import went_back
from roamcast.mss_station.clock import Clock
from roamcast.mss_station.lan_port import make_node
from roamcast.mss_station.lock import DirectoryLock
from roamcast.mss_station.opening import Opened, greet, make_core, make_log, open_store
from roamcast.mss_station.own_record import check_membership
from roamcast.mss_station.schema import HostCard
from roamcast.mss_station.signing import Signer
from roamcast.mss_station.store import StoreWrite
from roamcast.mss_station.tally import Tally
from roamcast.mss_station.topic_updates import past_topics
from roamcast.mss_station.updates import Updates, check_serving
from roamcast.transport.station_files import StationConfig, read_signing_key, read_station


class StoppedStation:
    """What a command may change. `updates` may be used once or more; nothing is durable before the block ends."""

    def __init__(self, path: Path, config: StationConfig, opened: Opened) -> None:
        self._config = config
        self._opened = opened
        self._clock = Clock()
        self._writes: list[StoreWrite] = []
        signer = Signer(read_signing_key(path), config.card.group)
        self._log = make_log(path, config.card, signer, opened, self._clock, Tally())
        self._node = make_node(config.card, opened.image.lan, signer)
        self._node.begin(self._clock.now(), self._clock.wall())
        self._node.start()
        self.updates = Updates(opened.directory, lambda: self._node.entries, self._node.put, lambda: past_topics(path))

    def enrol(self, name: str, key: str) -> HostCard:
        """Enrol a host here: its card, custody record and row. Raises SchemaError, LanRefused."""
        opened, slot = self._opened, self._config.card.slot
        core = make_core(opened.directory, slot, opened.image)
        check_serving(core.ledger.view)
        core.begin(self._clock.now(), self._clock.wall())
        greet(opened.directory, core)
        core.set_linked()
        numbers = [*core.ledger.hosts, *core.ledger.names, *(number for number, _ in core.ledger.records)]
        card = self.updates.new_host(slot, name, key, numbers)
        self.updates.publish(card)
        core.enrol(card.number, card.name)
        effects = core.flush()
        self._log.name_of = core.ledger.names.get
        self._writes += [write for effect in effects if isinstance(effect, Persist) for write in effect.writes]
        self._writes += self._log.take(effects, commits=True)
        return card

    def commit(self) -> None:
        """Make all of it durable. When this station was last fresh is left as it was: it has heard of nobody here."""
        for effect in self._node.flush():
            if isinstance(effect, LanPersist):
                self._writes += [write for write in effect.writes if not isinstance(write, PutAlive)]
        self._opened.store.commit(self._writes)


@contextmanager
def stopped_station(path: Path) -> Iterator[StoppedStation]:
    """The station in `path`, if no process works on it; what the block has changed is durable when it ends.

    Raises:
        KeyFileError, StoreError, StationRetired: it cannot be opened.
        StoreWentBack: a start has shown that it is an old copy.
    """
    with DirectoryLock(path):
        went_back.check(path)
        config = read_station(path)
        with open_store(path, config) as opened:
            check_membership(config.card, opened.directory.own_record(), opened.image.view)
            station = StoppedStation(path, config, opened)
            yield station
            station.commit()
