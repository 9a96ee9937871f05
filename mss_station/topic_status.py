"""What a running station knows of topics beyond the configuration: last values, and who is subscribed here."""

from __future__ import annotations

from roamcast.middleware.station.core import StationCore
from roamcast.mss_station.config_text import utc_text
from roamcast.mss_station.control import Json
from roamcast.mss_station.topic_book import TopicBook


def totals(core: StationCore) -> Json:
    """For `mss-station status`. `topics`: those that this station goes by now."""
    ledger = core.ledger
    return {
        "topics": len(ledger.topics),
        "last_values": len(ledger.last.topics()),
        "subscriptions": sum(map(core.subscriptions.count, ledger.channels)),
        "presence": ledger.topics.presence,
    }


def seen(book: TopicBook, core: StationCore) -> Json:
    """By topic, for `mss-station topics list`."""
    return {name: _one(core, card.number) for name in book.names() if (card := book.card(name)) is not None}


def _one(core: StationCore, number: int) -> Json:
    value = core.ledger.last.get(number)
    held = None if value is None or value.cleared else utc_text(value.order[0])
    return {"last_value": held, "subscribers": len(core.subscriptions.subscribers(number))}
