from __future__ import annotations

from tests.ledgers import Desk, day, table
from waterclock.flow.enums import Mode


def test_windows_dropped_beside_a_batch_leave_the_batch_in_the_newest_version(at_desk: Desk) -> None:
    at_desk.apply(table("a.rows", partitioned=True))
    at_desk.done("a.rows", 1)
    at_desk.version = 10  # the drop is committed as version 10, and the next batch as version 11
    at_desk.done("a.rows", 2)
    at_desk.ledger.maintenance.drop_windows("a.rows", day(1), 10, who="ann")
    assert at_desk.ledger.reads.table("a.rows").head_version == 11


def test_a_state_rewritten_after_an_unrecorded_commit_keeps_its_version(at_desk: Desk) -> None:
    at_desk.apply(table("a.state", mode=Mode.MERGE, keys=("id",)))
    at_desk.done("a.state", 1)
    held = at_desk.claim("a.state", 2)  # committed as version 2; then OPTIMIZE as version 3
    at_desk.ledger.maintenance.move_head("a.state", 3)
    assert at_desk.ledger.reads.versions("a.state") == {day(1): 1}
    at_desk.done("a.state", 2, claim=held)
    assert at_desk.ledger.reads.versions("a.state") == {day(1): 1, day(2): 2}
    assert at_desk.ledger.reads.table("a.state").head_version == 3
