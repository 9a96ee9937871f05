"""The station's durable store: one SQLite file that holds what `DurableState` says."""

from __future__ import annotations

from roamcast.mss_station.store.batch import StoreWrite
from roamcast.mss_station.store.mail import DropMailLost, MailStoreWrite, PutMailLost
from roamcast.mss_station.store.opening import STORE_NAME, Durability, StationIdentity
from roamcast.mss_station.store.reserve import RESERVE_BYTES, RESERVE_NAME
from roamcast.mss_station.store.store import Store, read_found, read_history, read_lan, read_past, read_tail
from roamcast.mss_station.store.tail import DropTail, PutTail, TailWrite

__all__ = [
    "DropMailLost",
    "DropTail",
    "Durability",
    "MailStoreWrite",
    "PutMailLost",
    "PutTail",
    "RESERVE_BYTES",
    "RESERVE_NAME",
    "STORE_NAME",
    "StationIdentity",
    "Store",
    "StoreWrite",
    "TailWrite",
    "read_found",
    "read_history",
    "read_lan",
    "read_past",
    "read_tail",
]
