"""What may leave a station: once it knows that a right is gone, nothing that the right had allowed (O8)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from roamcast.middleware.errors import ensure
from roamcast.middleware.host_frames import Msg
from roamcast.middleware.rows import PRESENCE, SUBSCRIPTION_KINDS
from roamcast.middleware.station.core import StationCore
from roamcast.middleware.topics import PRESENCE_PREFIX


class Named(Protocol):
    """A host."""

    name: str
    number: int


def check_rights(core: StationCore | None, hosts: Sequence[Named], frame: Msg) -> None:
    """Raise InvariantError if a message on a topic goes to a host that may not receive it, as the station knows."""
    named = {item.topic for _, item in frame.entries if item.topic and item.kind not in SUBSCRIPTION_KINDS}
    if core is None or not named:
        return
    topics, numbers = core.ledger.topics, core.ledger.numbers
    for host in hosts:
        for name in named:
            presence = name.startswith(PRESENCE_PREFIX)  # of a host that the station may not know yet
            number = PRESENCE if presence else topics.number(name, numbers)
            allowed = topics.may_receive(number, host.number)
            ensure(allowed, f"a message on {name} goes to {host.name}, which may not receive it")
