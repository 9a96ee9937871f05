"""What an agent's core asks of its driver, and what it gives to the application.

Effects are an ordered list and order is meaning: a `Save` is durable before anything behind it leaves the process or is
told to the application. `flush` puts at most one `Save`, in front.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from roamcast.middleware.host_frames import LiveData, UpFrame
from roamcast.middleware.mobile_host.state import Fact
from roamcast.middleware.rows import Kind, MessageId

# ---- effects ----


@dataclass(slots=True)
class Save:
    """Append all facts to the agent's state in one atomic, durable step."""

    facts: tuple[Fact, ...]


@dataclass(slots=True)
class Connect:
    """Close the present connection, if any, and open a fresh one to the station `slot`.

    From here on only what comes from the new connection is fed in.
    """

    slot: int
    endpoint: str
    key: bytes
    """CURVE public key, Z85."""


@dataclass(slots=True)
class Disconnect:
    """Close the present connection. `polite`: let what was sent before leave first (a DETACH)."""

    polite: bool = False


@dataclass(slots=True)
class SendUp:
    """Send on the present connection; a driver queues it until the connection stands, or reports `link_lost`."""

    frame: UpFrame


@dataclass(slots=True)
class SendLive(SendUp):
    """Send it now, or tell `AgentCore.drop_live`: it waits for nothing."""

    frame: LiveData


@dataclass(slots=True)
class Receipt:
    """The fate of the application's message `number`; below 0: of a live one."""

    number: int
    state: str
    """One of
    stored: durable at a station;
    refused: there is no such addressee or topic, or no right (may follow `stored`);
    lost: it was stored at a station that is lost for good, and no other one has it (follows `stored`);
    unknown: cannot be known;
    renumbered: goes on as number `became` of a new incarnation (these come in ascending order, after the unknown ones);
    dropped: live, and not sent, or the station has said that it dropped it.
    """
    id: MessageId | None = None
    """The message's id, where it was learned."""
    became: int = 0
    reason: str = ""
    """Why it was refused; the code of why it was dropped."""


@dataclass(slots=True)
class Report:
    """Something to log or to show: see `AgentCore` for the events."""

    event: str
    fields: dict[str, Any]


AgentEffect = Save | Connect | Disconnect | SendUp | Receipt | Report


# ---- what the application is given ----


@dataclass(slots=True)
class Delivered:
    """A message, a change of an own subscription (SUB, UNSUB, NOSUB), or the presence of a host (ONLINE, OFFLINE).

    From its SUB on, up to the UNSUB or NOSUB, the host is subscribed to the topic.
    """

    token: int
    """For `AgentCore.ack`; cumulative."""
    id: MessageId
    sender: str
    incarnation32: int
    number: int
    """The sender's own number; of presence the attempt."""
    kind: Kind
    own: bool
    """Sent by this host in its present incarnation."""
    body: bytes
    topic: str = ""
    """Name of the topic; '': on none."""
    hlc: int = 0
    """On a topic: the largest (hlc, slot) is the newest."""
    retained: bool = False
    """The last value of the topic, given with the SUB: it may be older than what came before."""
    place: tuple[int, int] = (0, 0)
    """(session, position) at which it is given."""


@dataclass(slots=True)
class Discontinuity:
    """Messages were missed here: this host was away for too long. Acknowledged like a message, told again till then."""

    token: int


@dataclass(slots=True)
class StateLost:
    """The stations know nothing of this host's last session, or its state went back in time.

    It goes on under a new incarnation: messages may be missing or come twice here, it is subscribed to nothing, and
    messages of its own that had been on a link have the receipt 'unknown'. Acknowledged like a message, told till then.
    """

    token: int


@dataclass(slots=True)
class SubscriptionEnded:
    """A right was taken back, or a station was lost with what it knew. Acknowledged like a message, told till then."""

    token: int
    sub: MessageId
    """Id of the SUB that has ended; (0, 0): all of them."""
    topic: str
    """'': all topics."""


@dataclass(slots=True)
class LiveDelivered:
    """A live message. It never comes again, and needs no acknowledgement."""

    token: int
    """Of what was given before it."""
    id: MessageId
    """(stamp, slot of the station that took it)."""
    sender: str
    incarnation32: int
    kind: Kind
    """BROADCAST, MAIL or TOPIC."""
    topic: str
    body: bytes


@dataclass(slots=True)
class Ended:
    """The end of the stream, given again at every call: 'left', 'replaced', or the code of a final refusal."""

    code: str
    text: str


Notice = Discontinuity | StateLost | SubscriptionEnded
Given = Delivered | LiveDelivered | Notice | Ended
