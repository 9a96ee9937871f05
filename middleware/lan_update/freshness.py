"""May this node speak with authority? The stale rule of lan-update.md C.b.

A node that was away for longer than A may hold entries of keys whose tombstones were purged meanwhile. It is *stale*:
it takes no local updates, passes nothing on, and tells no entry to anybody who lacks its key. It is fresh again when it
is equal to a fresh peer; an entry of its own disk that a fresh peer lacks goes to lost+found. (A tombstone as well: an
old one, told again, would invite what another stale node has of the key, older than the one that was purged.)

If every member is stale, nobody has purged, and all tell each other everything: but as *formers*, whose word that a
key is gone counts for nothing, as does that of a newcomer. A former goes on saying that it is stale, takes no local
updates (a newcomer does), and purges nothing, until it was equal to a fresh peer, or, one after the other, to every
member. Until then it is not noted as `alive` either, and is stale again at its next start.
"""

from __future__ import annotations

from roamcast.middleware.lan_update.records import Entry
from roamcast.middleware.lan_update.replica import Replica
from roamcast.middleware.lan_update.settings import LanSettings
from roamcast.middleware.lan_update.talk import Talk
from roamcast.middleware.lan_update.talks import Talks
from roamcast.middleware.settings import SECOND


class Freshness:
    """The stale rule at one node, from its start on."""

    def __init__(self, replica: Replica, talks: Talks, settings: LanSettings, mutants: frozenset[str]) -> None:
        self.stale = False
        self.former = False
        self._exempt = False
        """A former that takes local updates all the same."""
        self._proven: dict[str, None] = {}
        """While stale: keys that a fresh peer told, in this life."""
        self._replica = replica
        self._talks = talks
        self._settings = settings
        self._mutants = mutants

    @property
    def has_authority(self) -> bool:
        """Neither stale nor a former."""
        return not (self.stale or self.former)

    @property
    def takes_updates(self) -> bool:
        """Whether local updates are taken: what a former wrote would be in doubt after a restart."""
        return self.has_authority or (self.former and self._exempt)

    def says_stale(self) -> bool:
        """What packets say of this node."""
        return self.stale or (self.former and "former_speaks" not in self._mutants)

    def start(self) -> None:
        """First of all."""
        replica = self._replica
        away = replica.wall - replica.image.alive
        if not replica.image.alive:
            self.former = self._exempt = True
            self.judge()
        elif away > self._settings.stale_after and "never_stale" not in self._mutants:
            self.stale = True
            replica.notice("warning", "lan-stale", away_s=away // SECOND)
            self.judge()
        else:
            replica.note_alive()

    def prove(self, key: str, talk: Talk) -> None:
        """A peer has told the entry of the key."""
        if self.stale and not talk.says_stale:
            self._proven[key] = None

    def lacks_proof(self, entry: Entry) -> bool:
        """Whether the entry is of the own disk alone, as far as is known."""
        return entry.key not in self._proven

    def judge(self) -> None:
        """Stale with stale peers only: nobody can have purged meanwhile. Equal to all: no authority is missing."""
        talks = self._talks.members()
        if self.stale and all(talk.says_stale for talk in talks):
            self._end(former=True)
        if self.former and all(talk.equal for talk in talks):
            self._end(former=False)

    def judge_equal(self, talk: Talk) -> None:
        """The peer's sums are those of this node."""
        talk.equal = True
        if (self.stale or self.former) and not talk.says_stale:
            self._end(former=False)

    def declare(self) -> None:
        """The operator says that no fresh member is left: local updates are taken, also to remove who does not come."""
        self._exempt = True
        if self.stale:
            self._end(former=True)

    def end_early(self) -> None:
        """Fresh after the first list of versions (what lan-update.md C.b warns of)."""
        if self.stale:
            self._end(former=False)

    def _end(self, former: bool) -> None:
        was_stale, self.stale, self.former = self.stale, False, former
        if not former:
            self._replica.note_alive()
        if was_stale:
            self._proven = {}
            for talk in self._talks.members():
                talk.equal = False
            self._talks.sync_all()
            self._replica.notice("info", "lan-fresh", former=former)
