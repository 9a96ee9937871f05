"""Section 3.3 of paper 002 as it is printed, in the place of the rules that are used; each of its faults can be mended.

Of two records for one (sender, receiver) the newer is kept, also where the paper's sets would hold both.
"""

from __future__ import annotations

from collections.abc import Mapping

from roamcast.middleware.causal_unicast.records import Key, Mail
from roamcast.middleware.causal_unicast.rules import Rules

FAULTS: dict[str, str] = {
    "F1": "V is merged before rules 1 to 3, so rule 3 holds for every record that is new here",
    "F2": "rules 2 and 3 look at what rule 1 has left: a record that both sides have goes from both",
    "F3": "only records of the mail's own sender are waited for",
    "F4": "held mail is looked at only after a delivery that had a record to look at",
    "F5": "rules 1 to 3 are not applied to mail without such a record",
}
"""Name -> the fault (causal-unicast.md A.a)."""

LITERAL = frozenset(FAULTS)
"""The text as printed."""


class PaperText(Rules):
    """The text with `faults`; without any it is the corrected form on sets."""

    looks_at_held = False

    def __init__(self, faults: frozenset[str]) -> None:
        self._faults = faults

    def awaited(self, mail: Mail) -> list[tuple[int, int]]:
        """The records that decide between (i) and (ii)."""
        found = super().awaited(mail)
        return [record for record in found if record[0] == mail.src] if "F3" in self._faults else found

    def scans(self, mail: Mail) -> bool:
        """The end of (i)."""
        return "F4" not in self._faults or bool(self.awaited(mail))

    def merge(
        self, counts: Mapping[int, int], records: Mapping[Key, int], mail: Mail, attached: Mapping[Key, int]
    ) -> dict[Key, int]:
        """Rules 1, 2, 3, then what is left of R(m) is added to R."""
        own, its = set(records.items()), set(attached.items())
        if "F5" not in self._faults or self.awaited(mail):
            own, its = self._ruled(counts, records, mail, attached)
        after: dict[Key, int] = {}
        for key, number in [*own, *its]:
            after[key] = max(number, after.get(key, 0))
        keys = {**records, **attached}
        return {key: after.get(key, 0) for key in keys if after.get(key, 0) != records.get(key, 0)}

    def _ruled(
        self, counts: Mapping[int, int], records: Mapping[Key, int], mail: Mail, attached: Mapping[Key, int]
    ) -> tuple[set[tuple[Key, int]], set[tuple[Key, int]]]:
        """R and R(m) after the three rules."""
        vector = dict(mail.vector)
        known = dict(counts)
        if "F1" in self._faults:
            known.update((slot, count) for slot, count in mail.vector if count > counts.get(slot, 0))
        both = records.keys() & attached.keys()
        first_own = {key for key in both if records[key] < attached[key]}
        own = {(key, number) for key, number in records.items() if key not in first_own}
        its = {(key, number) for key, number in attached.items() if key not in both - first_own}
        seen_own, seen_its = set(records.items()), set(attached.items())
        if "F2" in self._faults:
            seen_own, seen_its = own, its
        second = {one for one in own - seen_its if one[1] <= vector.get(one[0][0], 0)}
        if "F2" in self._faults:
            seen_own = own - second
        third = {one for one in its - seen_own if one[1] <= known.get(one[0][0], 0)}
        return own - second, its - third
