"""What a station knows of the keys with which the stations of its group sign their logs, itself among them."""

from __future__ import annotations

from roamcast.mss_station.directory import LanDirectory
from roamcast.transport.segment_keys import KeysFile, StationKeys, keys_text
from roamcast.transport.station_files import StationCard


def known_keys(card: StationCard, directory: LanDirectory, wall: int) -> str:
    """The text of keys.json: all stations that there are or were, with all keys that they have had. wall: now, us."""
    told = [StationKeys(record.id, record.slot, record.signing) for record in directory.members()]
    own = next((each for each in told if each.id == card.id), StationKeys(card.id, card.slot, ()))
    mine = StationKeys(own.id, own.slot, tuple(dict.fromkeys((card.signing_key, *own.keys))))
    stations = sorted([mine, *(each for each in told if each.id != card.id)], key=lambda each: (each.slot, each.id))
    return keys_text(KeysFile(card.group, card.id, wall, tuple(stations)))
