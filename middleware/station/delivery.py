"""Delivery at a station: rows take their places in the log, and what each changes there changes in the same write."""

from __future__ import annotations

from roamcast.middleware.custody.downlink import Downlink
from roamcast.middleware.custody.expiry import Expiry
from roamcast.middleware.custody.last_values import SETTING_KINDS
from roamcast.middleware.custody.ledger import Ledger
from roamcast.middleware.custody.live import Live
from roamcast.middleware.custody.log_events import log_order
from roamcast.middleware.custody.subscriptions import Subscriptions
from roamcast.middleware.rows import CONTROL_KINDS, SUBSCRIPTION_KINDS, Kind
from roamcast.middleware.writes import PlaceRow


class Delivery:
    """From the head of a stream as far as it goes."""

    def __init__(
        self, ledger: Ledger, expiry: Expiry, downlink: Downlink, subscriptions: Subscriptions, live: Live
    ) -> None:
        self.ledger = ledger
        self._expiry = expiry
        self._downlink = downlink
        self._subscriptions = subscriptions
        self._live = live

    def run(self, origin: int) -> None:
        """Place what can be placed from the head of `origin` on."""
        ledger = self.ledger
        if ledger.table.origins[origin].delivered == ledger.table.origins[origin].stored:
            return
        for row in ledger.causal.deliver(origin, ledger.fifo.copied):
            ledger.merge_clock(row.hlc)
            log_order(ledger, row)
            place = PlaceRow(row.slot, row.n, row.position or 0, row.hlc)
            if row.kind is Kind.BROADCAST:
                ledger.persist(place)
            elif row.kind in CONTROL_KINDS:
                ledger.persist(place, *self._expiry.membership(row))
                self._expiry.after(row)
            else:
                is_setting = row.kind in SETTING_KINDS and not ledger.topics.was_removed(row.addressee)
                ledger.persist(place, *(ledger.last.placed(row) if is_setting else ()))
                self._downlink.placed(row)
                if row.kind in SUBSCRIPTION_KINDS:
                    self._subscriptions.placed(row)
            self._live.placed()
