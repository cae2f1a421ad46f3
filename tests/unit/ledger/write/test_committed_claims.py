from __future__ import annotations

from dataclasses import replace

from tests.ledgers import Desk, day, result, table
from waterclock.flow.enums import Mode
from waterclock.ledger.write.committed_claims import CommittedClaim
from waterclock.ledger.write.emptying import RECUT


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


def test_files_of_dropped_windows_stay_taken_in_a_ledger_that_is_made_again(at_desk: Desk) -> None:
    """The slices of a `rebuild --all` in other windows lack these files: the oldest open window would collect them."""
    at_desk.apply(table("a.rows", partitioned=True))
    for number, name in ((0, "dropped"), (1, "kept"), (2, "failed")):
        found = replace(result(number), source={"items": [{"name": name}]})
        at_desk.ledger.claims.record_done(at_desk.claim("a.rows", number), [found])
    cut = replace(result(1, version=9), source={"items": [{"name": "kept"}]})
    claim = at_desk.ledger.maintenance.take_claim_number()
    request = at_desk.request("a.rows", 1, restates=RECUT)
    assert at_desk.ledger.maintenance.adopt(CommittedClaim(claim + 1, request, (cut,), at_desk.clock.at))
    assert at_desk.ledger.reads.list_collected_items("a.rows") == {"dropped", "kept"}
