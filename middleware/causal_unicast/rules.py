"""The rules of paper 002, section 3.3, on keyed s-records: what a mail waits for, and which records outlive a delivery.

R has at most one record for each (sender k, receiver l), the newest: l delivers the mail of k in k's order, so the
newest stands for all before it. The promise behind every rule (I1): whatever was sent in the past of this station and
is not delivered yet has a record in R, or a later mail to the same receiver has one, which was sent after it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from roamcast.middleware.causal_unicast.records import Key, Mail


class Rules:
    """The rules as they are used. The simulator plays the paper's own text in this place."""

    looks_at_held = True
    """A mail also waits for every mail held here that its vector counts, with a record or without."""

    def awaited(self, mail: Mail) -> list[tuple[int, int]]:
        """(sender, number) of every record to the receiver of `mail`, whoever the sender is."""
        return [(sender, number) for sender, receiver, number in mail.records if receiver == mail.dst]

    def scans(self, mail: Mail) -> bool:
        """Whether held mail is looked at once `mail` is delivered: always, or what waits for it alone is stuck."""
        return True

    def merge(
        self, counts: Mapping[int, int], records: Mapping[Key, int], mail: Mail, attached: Mapping[Key, int]
    ) -> dict[Key, int]:
        """Changes of R when `mail` is delivered; 0 = the record goes.

        counts, records: V and R before that. attached: R(m), without what speaks of stations that have ended.
        """
        changes, vector = {}, dict(mail.vector)
        for key in {**records, **attached}:
            own, its, sender = records.get(key, 0), attached.get(key, 0), key[0]
            if own > its:
                if own <= vector.get(sender, 0):  # the sender of the mail knew of it and had no record: delivered
                    changes[key] = 0
            elif its > own:
                if its > counts.get(sender, 0):  # news
                    changes[key] = its
                elif own:  # this station knew of it and had no record: delivered, and the older one before it
                    changes[key] = 0
        return changes


def superseded(records: Mapping[Key, int], attached: Iterable[tuple[int, int, int]], receiver: int) -> list[Key]:
    """Records that a mail to `receiver` which carries `attached` stands for (the second propagation constraint).

    The receiver delivers it after all of them, and whatever follows it carries its own record.
    """
    return [
        (sender, to) for sender, to, number in attached if to == receiver and 0 < records.get((sender, to), 0) <= number
    ]
