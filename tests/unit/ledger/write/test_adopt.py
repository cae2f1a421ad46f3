from __future__ import annotations

from tests.ledgers import Desk, day, table


def test_windows_dropped_beside_a_batch_leave_the_batch_in_the_newest_version(at_desk: Desk) -> None:
    at_desk.apply(table("a.rows", partitioned=True))
    at_desk.done("a.rows", 1)
    at_desk.version = 10  # the drop is committed as version 10, and the next batch as version 11
    at_desk.done("a.rows", 2)
    at_desk.ledger.keeping.drop_windows("a.rows", day(1), 10, who="ann")
    assert at_desk.ledger.reads.table("a.rows").head_version == 11
