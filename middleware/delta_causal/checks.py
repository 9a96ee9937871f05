"""What a peer may say: a message that breaks the protocol is refused whole, before anything of it is used."""

from __future__ import annotations

from collections.abc import Collection

from roamcast.middleware.delta_causal.messages import STAMP_MAX, LiveMessage
from roamcast.middleware.delta_causal.past import Past
from roamcast.middleware.delta_causal.settings import LiveSettings, Rule

Fault = tuple[str, str]
"""(code, text)."""


def fault_of(
    message: LiveMessage, sender: int, own: int, known: Collection[int], settings: LiveSettings
) -> Fault | None:
    """Why `message` of `sender` is refused; None: it is sound. `known`: every slot that there is or was."""
    if message.src != sender:
        return "live-foreign", f"a message of station {message.src} from station {sender}"
    if not message.is_to(own):
        return "live-misdirected", f"a message to {message.destinations}"
    if not 1 <= message.stamp <= STAMP_MAX or message.delta < 1:
        return "live-stamp", f"stamp {message.stamp}, delta {message.delta}"
    if len(message.body) > settings.body_bytes_max:
        return "live-too-large", f"a body of {len(message.body)} bytes"
    if message.past.size > settings.tag_entries_max or len(message.past.each) > len(known):
        return "live-tag", f"{message.past.size} entries in {len(message.past.each)} lists"
    named = (*message.past.each, *(message.destinations or ()))
    if strangers := [slot for slot in named if slot not in known]:
        return "live-unknown-slot", f"slot {strangers[0]} is not known here"
    for past in (message.past.rest, *message.past.each.values()):
        if fault := _list_fault(past, message, known, settings.rule is Rule.HORIZON):
            return fault
    return None


def _list_fault(past: Past, message: LiveMessage, known: Collection[int], is_keyed: bool) -> Fault | None:
    """Entries ascend, are newer than the horizon, and were not over when the message was sent."""
    before = past.horizon
    if before and not message.stamp - message.delta <= before < message.stamp:
        return "live-tag", f"horizon {before} in message {message.stamp}"
    oldest = max(before + 1, message.stamp - message.delta)
    senders = set()
    previous = (0, 0)
    for entry in past.entries:
        stamp, sender = entry
        if not oldest <= stamp < message.stamp or entry <= previous:
            return "live-tag", f"entry {entry} after {previous} in message {message.stamp}"
        if sender not in known:
            return "live-unknown-slot", f"slot {sender} is not known here"
        senders.add(sender)
        previous = entry
    if is_keyed and len(senders) < len(past.entries):
        return "live-tag", "two entries of one sender"
    return None
