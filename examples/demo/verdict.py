"""What the judge works with and what it finds: messages, and the verdict."""

from __future__ import annotations

from dataclasses import dataclass, field

WITNESSES_MAX = 8


@dataclass(slots=True)
class Message:
    """One message as its sender's log tells it."""

    uid: str
    sender: int
    """Index of the sending host."""
    index: int
    """Its number among the sender's messages, from 1."""
    to: str | None
    t: int
    topic: str = ""
    retain: bool = False
    fate: str = "doubt"
    """'sent', 'doubt' (killed inside the call, or receipt unknown), 'failed', 'refused', or 'lost'."""
    clock: list[int] = field(default_factory=list)
    """Per host: how many of its messages happened before this one, this one included. Empty = not known."""

    @property
    def audience(self) -> str:
        """For whom it is, in words."""
        return self.to or (f"topic {self.topic}" if self.topic else "all")

    def follows(self, first: dict[int, int]) -> bool:
        """Whether one of these, index by sender, or a later one of that sender, happened before this or is this."""
        return any(self.clock[sender] >= index for sender, index in first.items())


@dataclass(slots=True)
class Verdict:
    """What the judge found. Counts are (message, host) pairs; `latencies_us` has one entry per counted delivery."""

    messages: int = 0
    deliveries: int = 0
    lost: int = 0
    doubled: int = 0
    out_of_order: int = 0
    not_owed: int = 0
    diverged: int = 0
    """Topics of a host that ended with another last value than others, and messages whose stamps cannot be."""
    untold: int = 0
    """Rights that were taken back, and the host was never told that its subscription has ended."""
    missed: int = 0
    repeated: int = 0
    gaps: int = 0
    gone: int = 0
    """A station that was lost for good had taken it along, and its sender was told so."""
    on_topics: int = 0
    """Those of the deliveries that were on topics."""
    witnesses: list[str] = field(default_factory=list)
    latencies_us: dict[str, list[int]] = field(default_factory=dict)
    """Per receiving host: sent to given, microseconds."""

    @property
    def good(self) -> bool:
        """Nothing lost, doubled, out of order or delivered to the wrong host. What the host was told of is no fault."""
        bad = self.lost + self.doubled + self.out_of_order + self.not_owed + self.diverged + self.untold
        return not bad

    def line(self) -> str:
        """The verdict in one line."""
        text = f"lost {self.lost}, doubled {self.doubled}, out of order {self.out_of_order}"
        more = {"not owed": self.not_owed, "diverged": self.diverged, "ended and not told": self.untold}
        more |= {"missed and told": self.missed, "repeated and told": self.repeated}
        more |= {"gone with a station and told": self.gone}
        for word, count in more.items():
            text += f", {word} {count}" if count else ""
        return text

    def witness(self, text: str) -> None:
        """Keep the first few stories."""
        if len(self.witnesses) < WITNESSES_MAX:
            self.witnesses.append(text)


@dataclass(slots=True)
class Case:
    """What all parts of the judge look things up in, and where they put what they find."""

    hosts: list[str]
    messages: dict[str, Message] = field(default_factory=dict)
    sent_by: list[list[Message]] = field(default_factory=list)
    on_topic: dict[str, list[Message]] = field(default_factory=dict)
    verdict: Verdict = field(default_factory=Verdict)
