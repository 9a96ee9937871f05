"""DuckDB as a peer: sorting the deliveries, and those checks of the audit that can be said in a query.

The query looks at less than the audit does: that nobody was given a message twice, that each sender's messages came in
the order of its own numbers, and how many rows came behind one with a later clock, without asking whether the two are
in happened-before.
"""

from __future__ import annotations

from pathlib import Path

THREADS = 2

CHECKS = """
with given as (
    select d.client, d.place, d.slot, d.n, m.client as sender, m.number, m.hlc
    from read_parquet('{deliveries}') d join read_parquet('{messages}') m using (slot, n)
), told as (
    select
        number - lag(number) over (partition by client, sender order by place) as step,
        hlc < max(hlc) over before as late
    from given
    window before as (partition by client order by place rows between unbounded preceding and 1 preceding)
)
select count(*), count(*) filter (step <= 0), count(*) filter (late),
    (select count(*) from (select 1 from given group by client, slot, n having count(*) > 1))
from told
"""


def sort(deliveries: Path) -> None:
    """Sort by (host, place) into a table."""
    import duckdb  # type: ignore[import-not-found]

    with duckdb.connect(config={"threads": THREADS}) as database:
        database.execute(f"create table t as select * from read_parquet('{deliveries}') order by client, place")


def checks(deliveries: Path, messages: Path) -> tuple[int, int, int, int]:
    """(rows, out of order by sender, behind a later clock, given more than once)."""
    import duckdb

    with duckdb.connect(config={"threads": THREADS}) as database:
        row = database.execute(CHECKS.format(deliveries=deliveries, messages=messages)).fetchone()
    assert row is not None and row[1] == row[3] == 0
    return row  # type: ignore[no-any-return]
