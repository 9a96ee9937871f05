"""Frames between a newcomer and its sponsor, the member station that has invited it (composition.md section 7).

They travel on a connection under the one-time key of an invitation, on which no other frame counts.
"""

from __future__ import annotations

from dataclasses import dataclass

from roamcast.middleware.lan_update.records import Entry


@dataclass(slots=True, frozen=True)
class Join:
    """Count me in. Repeated until Joined comes; every answer to the same newcomer is the same."""

    version: tuple[int, int]
    id: str
    generation: int
    """Of the newcomer's directory: with `key` it tells a repetition from another newcomer."""
    hosts: str
    """Endpoint at which hosts reach it."""
    stations: str
    """Endpoint at which stations reach it."""
    key: str
    """CURVE public key for the links between stations, Z85."""
    host_key: str
    """CURVE public key for hosts, Z85."""
    signing_key: str
    """Ed25519 public key, hexadecimal."""


@dataclass(slots=True, frozen=True)
class Joined:
    """You are counted in: the membership, and that the invitation is used, are durable."""

    slot: int
    """Given to this generation for ever; it may differ from the one that the token proposes."""
    group: str
    entries: tuple[Entry, ...]
    """Of every station that is or was a member, the newcomer and the sponsor among them."""


@dataclass(slots=True, frozen=True)
class JoinRefused:
    """Not counted in: for good, or (`wait`) not yet, and the newcomer asks again in a few seconds."""

    code: str
    text: str
    """For a person; of `wait` it names the station that has still to confirm the slot."""
    wait: bool


JoinFrame = Join | Joined | JoinRefused
