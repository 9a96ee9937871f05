"""Station mail that the next night still needs, as events. Source: audit.md, Nights."""

from __future__ import annotations

from collections.abc import Iterator

from roamcast.analytics.carried import Row
from roamcast.analytics.judgement import Case
from roamcast.middleware.delivery_log import ARRIVED, POSTED


def mails(case: Case) -> Iterator[tuple[int, str, Row]]:
    """(Station, event, row): mail that is under way, with all of its header; and the last row of each kind.

    The last ones say up to which number and position this night is done.
    """
    check = case.mail_check()
    posts, arrivals = check.unsettled()
    for i, row in zip(posts.tolist(), case.made["posts"].take(posts).to_pylist(), strict=True):
        yield row["slot"], POSTED, (row["wall"], (row["n"], row["to"], row["after"], row["size"], check.header(i)))
    for row in case.made["arrivals"].take(arrivals).to_pylist():
        yield row["station"], ARRIVED, (row["wall"], (row["position"], row["slot"], row["n"]))
