"""What the judge remembers: messages as their senders know them, and what every identity lived through."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(slots=True)
class Sent:
    """One message as its sender's application knows it."""

    label: str
    host: str
    to: str | None
    """For a change of a subscription its host itself."""
    known: bool | None
    """Is the addressee a member that every station knows, or does everybody know that the host may send on the topic?
    False: nobody of that name, or it may not; None: may be refused or not."""
    time: int
    sender: int
    """Index of the sender's identity."""
    index: int
    """1-based place among the messages of that identity."""
    past: dict[int, int]
    """Identity -> how many of its messages happened before this one."""
    stored: bool = False
    given_to_any: bool = False
    refused: bool = False
    refused_by: object = None
    unknown: bool = False
    lost: bool = False
    """Its sender was told that no station has it."""
    forgotten: bool = False
    """Its sender's process has ended since: nobody holds its receipt any more."""
    topic: str | None = None
    kind: str = "send"
    """On a topic: send, retain; sub, unsub."""


@dataclass(slots=True)
class Life:
    """One identity (incarnation) of a host: what its application lived through."""

    host: str
    number: int
    excused_before: int
    """Messages sent before this time may be missing (not yet a member, or an announced gap)."""
    past: dict[int, int] = field(default_factory=dict)
    given: dict[str, bool] = field(default_factory=dict)
    """Label -> durably acknowledged."""
    given_at: dict[str, int] = field(default_factory=dict)
    passed: dict[int, int] = field(default_factory=dict)
    """Identity -> how many of its messages are known to be given or excused here."""
    skipped: dict[str, str] = field(default_factory=dict)
    """Excused message -> the given one that follows it."""
    log: list[tuple[str, str]] = field(default_factory=list)
    """Program order: ('sent' | 'given', label)."""
    inherited: frozenset[str] = frozenset()
    """Acknowledged by older identities: need not come again."""
    first: bool = True
    """The identity that was enrolled."""
    gap_told: int = 0
    """When it was last told of one."""
    joining: bool = False
    """Told of a gap as a new identity: a member from some moment before the next sign of it."""
