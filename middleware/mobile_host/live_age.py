"""How long a live message was on its way to this host: on the air, in buffers, while the machine or the process slept.

The clocks of station and host have nothing to do with each other, so only differences count. The delay of a frame is
the own reading when it is read, less the station's when it was handed down. Its age is its delay less the least one of
late, which stands for the way when nothing holds frames up.

The least is that of two buckets, the one that is filling and the one before: of 30 to 60 s in which frames come. Frames
end a bucket, time alone does not: after a long sleep what has waited in buffers is compared with what came before it.
When a bucket is closed its least is raised by as much as two clocks may have run apart since it was begun, or all would
be old after a quiet night. That is the tolerance: 3 ms as a rule, 60 ms after ten minutes of silence.

The WELCOME of a session is taken as fresh: there is nothing to compare it with.

When the station's clock is set forward, delays are less from then on, and that is the least at once. When it is set
back (or stands still until it has caught up, as the reading of `delta_causal` does) all that comes later seems older by
as much, and what has less time left than that is not given; but only until both buckets are of later frames, which
takes 60 s at most where frames come.
"""

from __future__ import annotations

from typing import Final

from roamcast.middleware.settings import SECOND

BUCKET: Final = 30 * SECOND
DRIFT: Final = 10_000
"""Two clocks run apart by one part in so many at most."""
FAR: Final = 1 << 63


class LiveAge:
    """Of one session at a time. All times are microseconds."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """A session begins: another way, perhaps another clock."""
        self._began = 0
        self._filling = self._before = FAR

    def came(self, now: int, at: int) -> int:
        """A frame that was handed down at `at` is read at `now`. Returns its age."""
        delay = now - at
        if self._filling == FAR:
            self._began = now
        elif now - self._began >= BUCKET:
            self._before = self._filling + (now - self._began) // DRIFT
            self._began, self._filling = now, FAR
        self._filling = min(self._filling, delay)
        return delay - self.least

    @property
    def least(self) -> int:
        """The delay of a frame that nothing has held up."""
        return min(self._filling, self._before)
