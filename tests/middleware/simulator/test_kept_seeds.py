"""Seeds that once fell, each for a fault of its own. They say so only as long as the simulator draws as it did then."""

from __future__ import annotations

import pytest

from roamcast.middleware.simulator.run import run

FELL = {
    7154: "a message that was passed before a SUB came behind one that follows it, after a move",
    104730: "a join that nobody confirmed kept a host of a lost station attached",
    202424: "custody came after its host had left, and two stations asked each other for ever",
    509857: "a session that its former station cancelled ended the membership of its host",
    601869: "the same as 7154, sent in an earlier session of the same stay",
    800531: "the end of a former subscription was told to a host that had subscribed anew",
    807557: "the guard of a host of a lost station went before the host was past its arrival elsewhere",
    811499: "the end of the present subscription was taken for that of a former one",
    811706: "an heir kept an older record of a host that a lost station had claimed since",
    1204822: "a device that had lost its state was ended for good: its former incarnation was taken for the newer",
    1607080: "a host of a lost station that had joined anew elsewhere, and was gone, stayed attached",
    1703751: "the checker took the presence of a host that a station did not know yet for denied",
    1714906: "a host was owed nothing any more, by a right that went, and the station before guarded on for it",
    2003300: "a join whose host had joined elsewhere was kept, by a crash behind the row that says so",
    3018079: "a host of a lost station stayed attached beside a stay from before, which nobody had confirmed",
}
"""Seed of `topics` -> what was wrong."""


@pytest.mark.parametrize("seed", FELL)
def test_it_holds_now(seed: int) -> None:
    result = run("topics", seed)
    assert not result.rule, "\n".join([FELL[seed], result.rule, *result.witness])
