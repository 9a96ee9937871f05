"""The endpoints that a station tells others: not every one that can be bound can be reached."""

from __future__ import annotations

import ipaddress
import re
from typing import Final

REACHED_WANTED: Final = (
    "an address at which others reach this station, no wildcard; what it binds is bind-hosts and bind-stations in "
    "station.toml"
)
ZERO: Final = re.compile(r"0(?:x0|0)*(?:\.0(?:x0|0)*){0,3}", re.IGNORECASE)
"""0.0.0.0 in all the forms in which resolvers take it."""


def is_wildcard(endpoint: str) -> bool:
    """Whether an endpoint tcp://ADDRESS:PORT can be bound but not be reached: `*`, 0.0.0.0, [::]."""
    host = endpoint.removeprefix("tcp://").rpartition(":")[0].removeprefix("[").removesuffix("]")
    if host == "*" or ZERO.fullmatch(host):
        return True
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return False
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return (mapped or address).is_unspecified
