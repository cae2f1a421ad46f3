"""Requests that the reset of a table makes for its readers."""

from __future__ import annotations

from tests.ledgers import Desk, day, table
from waterclock.flow.enums import Mode
from waterclock.ledger.write.resetting import EmptyingCommit

STATE = table("state", mode=Mode.REPLACE)
MERGED = table("state", mode=Mode.MERGE, keys=("id",))
READER = table("reader", partitioned=True, reads=["state"])


def test_a_reader_that_is_being_made_is_made_again_where_equal_content_means_other_rows(at_desk: Desk) -> None:
    at_desk.apply(STATE, READER)
    at_desk.done("state", 0)
    held = at_desk.claim("reader", 0, reads={0: [at_desk.read("state", 0, 1)]})
    at_desk.apply(MERGED, READER, fingerprint="flow 2")
    claim, _ = at_desk.ledger.maintenance.begin_reset("state", who="ann")
    at_desk.ledger.maintenance.end_reset(
        MERGED, EmptyingCommit(1, claim), start=None, who="ann", asked_again=["reader"]
    )
    at_desk.done("reader", 0, claim=held)
    at_desk.done("state", 0)
    assert at_desk.ledger.reads.snapshot(at_desk.flow).of("reader").requested == {day(0): "recompute"}
    assert not at_desk.suspects("reader")
