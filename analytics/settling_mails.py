"""Station mail that the next night still needs, as events. Source: audit.md, Nights."""

from __future__ import annotations

from collections.abc import Iterator

from roamcast.analytics.carried import Row
from roamcast.analytics.checks.mails import SETTLED
from roamcast.analytics.judgement import Case
from roamcast.middleware.delivery_log import ARRIVED, POSTED


def mails(case: Case) -> Iterator[tuple[int, str, Row]]:
    """(Station, event, row): mail that is under way, with all of its header; and the last row of each kind.

    The last ones say up to which number and position this night is done.
    """
    check = case.mail_check()
    posts, arrivals = check.unsettled()
    if not len(posts) and not len(arrivals):
        return
    under_way = check.under_way()
    for i, row in zip(posts.tolist(), case.made["posts"].take(posts).to_pylist(), strict=True):
        to = row["to"] if under_way[i] else SETTLED
        yield row["slot"], POSTED, (row["wall"], (row["n"], to, row["after"], row["size"], check.header(i)))
    for row in case.made["arrivals"].take(arrivals).to_pylist():
        yield row["station"], ARRIVED, (row["wall"], (row["position"], row["slot"], row["n"]))
