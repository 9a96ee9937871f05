"""DIR/peers-seen.json: the newest life of each peer that has linked here, kept over restarts (overview section 8).

Its loss weakens one check (a peer's store that went back by a start alone, while this station was down) and nothing
else; so a damaged file is replaced, with a warning, and a file that cannot be written is only told.
"""

from __future__ import annotations

import json
import logging
import os
from pathlib import Path
from typing import Final

from roamcast.middleware.link_effects import Seen

FILE_NAME: Final = "peers-seen.json"

_log = logging.getLogger("roamcast.station")


class PeersSeen:
    """Seen lives by slot, read at once, written whole at each change."""

    def __init__(self, directory: Path) -> None:
        self._path = directory / FILE_NAME
        self.seen = self._read()

    def _read(self) -> dict[int, Seen]:
        try:
            content = json.loads(self._path.read_text("utf-8"))
            return {int(slot): Seen(int(entry["starts"]), int(entry["boot"])) for slot, entry in content.items()}
        except FileNotFoundError:
            return {}
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            _log.warning("%s is not readable (%s); it is made anew", self._path, error)
            return {}

    def remember(self, slot: int, seen: Seen) -> None:
        """Keep `seen` of `slot`, in memory and on the disk."""
        self.seen[slot] = seen
        content = {str(at): {"starts": life.starts, "boot": life.boot} for at, life in sorted(self.seen.items())}
        written = self._path.with_suffix(".new")
        try:
            with open(written, "w", encoding="utf-8") as file:
                json.dump(content, file)
                file.flush()
                os.fsync(file.fileno())
            os.replace(written, self._path)
        except OSError as error:
            _log.warning("%s cannot be written: %s", self._path, error.strerror)
