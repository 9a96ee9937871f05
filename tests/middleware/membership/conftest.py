"""A net whose group changes: stations join, are retired, are lost."""

from __future__ import annotations

from typing import Any

import pytest

from roamcast.middleware import effects as fx
from roamcast.middleware.host_frames import Ask, Seen, Welcome
from roamcast.middleware.membership.view import View
from roamcast.middleware.settings import SECOND
from roamcast.middleware.writes import DurableState


class Membership:
    """What a `Net` is told of its group, and what operators do to it."""

    def __init__(self, *slots: int, **options: Any) -> None:
        self.groups: list[tuple[int, fx.GroupEffect]] = []
        """(station, what it told of the group)."""
        super().__init__(*slots, **options)

    def _perform(self, slot: int, effect: fx.Effect) -> None:
        if not isinstance(effect, fx.GroupEffect):
            super()._perform(slot, effect)
            return
        self.groups.append((slot, effect))
        if isinstance(effect, fx.Renew):
            self.start(slot)
        elif isinstance(effect, fx.Halt):
            self.crash(slot)

    def told(self, kind: type) -> list[tuple[int, Any]]:
        """What stations have told of the group, of that kind."""
        return [(slot, effect) for slot, effect in self.groups if isinstance(effect, kind)]

    def view(self, slot: int) -> View:
        """The view of the group that a station has stored."""
        return self.disks[slot].view

    # ---- stations ----

    def join(self, sponsor: int, slot: int) -> None:
        """A newcomer whose slot is settled: a member at its sponsor, and started for the first time."""
        self.tick(sponsor, lambda core: core.add_station(slot))
        self.slots = (*self.slots, slot)
        self.skews[slot] = 0
        members = tuple(sorted((sponsor, slot)))
        self.disks[slot] = DurableState(view=View(members, serving=False, sponsor=sponsor))
        self.start(slot)

    def renewed(self, slot: int) -> None:
        """A newcomer has its snapshot; its driver has made it anew."""
        assert [other for other, _ in self.told(fx.Renew)] == [slot]

    def hand_over(self, slot: int, heir: int) -> None:
        """`stations retire`, until nothing more is in the way."""
        self.tick(slot, lambda core: core.retire(heir))
        self.run(10 * SECOND)
        assert [(other, effect.heir) for other, effect in self.told(fx.HandedOver)] == [(slot, heir)]

    def end(self, slot: int, heir: int) -> None:
        """The configuration says at every other station that this one has ended."""
        for other in [other for other in self.cores if other != slot]:
            self.tick(other, lambda core: core.close_station(slot, heir))
        self.run(10 * SECOND)

    def lose_station(self, slot: int) -> None:
        """It burns down, and the configuration of every other one says so."""
        self.crash(slot)
        for other in list(self.cores):
            self.tick(other, lambda core: core.close_station(slot, 0))
        self.deliver()
        self.run(2 * SECOND)

    # ---- hosts of a lost station ----

    @staticmethod
    def seen(host: Any, stands: tuple = (), tx: int = 0, stored: tuple[int, ...] = ()) -> Seen:
        """What a host with these books says of itself; `stands`: what stations have told it of where it stands."""
        highest: dict[int, int] = dict(stands)
        for (slot, n), acked in host.given.items():
            if acked:
                highest[slot] = max(n, highest.get(slot, 0))
        return Seen(host.e, tuple(sorted(highest.items())), max(stored, default=0), tx or host.own, tuple(stored))

    def admit(self, host: Any, slot: int, **said: Any) -> Welcome:
        """Attach at a station that has to ask."""
        host.hello(slot)
        self.deliver()
        assert host.words(Ask)
        host.say(self.seen(host, **said))
        self.deliver()
        return host.word(Welcome)


@pytest.fixture
def make_net(make_net: type) -> Any:
    return type("GroupNet", (Membership, make_net), {})


@pytest.fixture
def three(make_net: Any) -> Any:
    """Three stations; host a at the first, w and its messages at the second."""
    net = make_net(1, 2, 3)
    a, w = net.enrol("a"), net.enrol("w", home=2)
    a.arrive(1)
    w.arrive(2)
    net.run(12 * SECOND)
    return net, a, w
