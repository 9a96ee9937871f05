"""What a peer may say: a mail that breaks the protocol is refused whole, before anything of it is used."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from roamcast.middleware.causal_unicast.records import COUNT_MAX, Mail
from roamcast.middleware.causal_unicast.settings import MailSettings

Fault = tuple[str, str]
"""(code, text)."""


def fault_of(
    mail: Mail, sender: int, own: int, counts: Mapping[int, int], known: Collection[int], settings: MailSettings
) -> Fault | None:
    """Why `mail` of `sender` is refused; None: it is sound. `known`: every slot that there is or was.

    A slot may be unknown here for a while only, when a station has joined: the mail comes again.
    """
    if mail.src != sender:
        return "mail-foreign", f"mail of station {mail.src} from station {sender}"
    if mail.dst != own:
        return "mail-misdirected", f"mail to station {mail.dst}"
    if len(mail.body) > settings.body_bytes_max:
        return "mail-too-large", f"a body of {len(mail.body)} bytes"
    if len(mail.records) > settings.records_max:
        return "mail-header", f"{len(mail.records)} records"
    return _vector_fault(mail, own, counts, known, settings) or _records_fault(mail, known)


def _vector_fault(
    mail: Mail, own: int, counts: Mapping[int, int], known: Collection[int], settings: MailSettings
) -> Fault | None:
    before = -1
    for slot, count in mail.vector:
        if slot <= before:
            return "mail-header", "the vector is not ascending"
        if slot not in known:
            return "mail-unknown-slot", f"slot {slot} is not known here"
        has = counts.get(slot, 0)
        if slot == own and count > has:
            return "mail-ahead", f"it counts {count} mails sent by this station, which has sent {has}"
        if not 1 <= count <= COUNT_MAX or count - has > settings.gap_max:
            return "mail-header", f"count {count} of slot {slot}"
        before = slot
    if not mail.number:
        return "mail-header", "it has no number"
    return None


def _records_fault(mail: Mail, known: Collection[int]) -> Fault | None:
    if len(mail.records) > (len(known) - 1) ** 2:
        return "mail-header", f"{len(mail.records)} records among {len(known)} stations"
    vector = dict(mail.vector)
    before = (-1, -1)
    for sender, receiver, number in mail.records:
        if (sender, receiver) <= before:
            return "mail-header", "the records are not ascending"
        if sender not in known or receiver not in known:
            return "mail-unknown-slot", f"a record from {sender} to {receiver}"
        if sender == receiver or receiver == mail.src:
            return "mail-header", f"a record from {sender} to {receiver} in mail of {mail.src}"
        if not 1 <= number <= vector.get(sender, 0) - (sender == mail.src):
            return "mail-header", f"a record of mail {number} of {sender}"
        before = (sender, receiver)
    return None
