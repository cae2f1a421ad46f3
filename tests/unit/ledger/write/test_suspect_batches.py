from __future__ import annotations

import pytest

from tests.ledgers import Desk, day, table
from waterclock.flow.enums import Mode


@pytest.fixture(autouse=True)
def _tables(at_desk: Desk) -> None:
    at_desk.apply(
        table("raw.a", partitioned=True),
        table("core.b", partitioned=True, reads=["raw.a"]),
        table("core.s", reads=["core.b", "core.s"]),
        table("mart.c", mode=Mode.REPLACE, reads=["core.b"]),
    )


def chain(at_desk: Desk, labels: int) -> None:
    for n in range(labels):
        at_desk.done("raw.a", n)
        at_desk.done("core.b", n, reads={n: [at_desk.read("raw.a", n, n + 1)]})
        at_desk.done("mart.c", n, reads={n: [at_desk.read("core.b", 0, n + 1)]})


def facts(at_desk: Desk, name: str) -> set[int]:
    return {(label - day(0)).days for label in at_desk.ledger.reads.snapshot(at_desk.flow).of(name).suspects}


def test_a_change_makes_its_readers_suspect_and_those_that_rest_on_them(at_desk: Desk) -> None:
    chain(at_desk, 4)
    recorded = at_desk.done("raw.a", 1, digest="9:9:9", restates="late rows")
    assert recorded.suspects == 1
    assert at_desk.suspects() == {("core.b", day(1))}
    assert facts(at_desk, "core.b") == {1}
    assert facts(at_desk, "mart.c") == {1, 2, 3}


def test_scattered_changes_make_only_their_own_readers_suspect(at_desk: Desk) -> None:
    at_desk.done("raw.a", *range(60))
    for n in range(60):
        at_desk.done("core.b", n, reads={n: [at_desk.read("raw.a", n, n + 1)]})
        at_desk.done("mart.c", n, reads={n: [at_desk.read("core.b", n, n + 1)]})
    for n in range(0, 60, 3):
        at_desk.done("raw.a", n, digest="9:9:9", restates="late rows")
    assert facts(at_desk, "core.b") == facts(at_desk, "mart.c") == set(range(0, 60, 3))


def test_readers_of_an_old_day_are_found_whether_they_read_one_day_or_a_hundred(at_desk: Desk) -> None:
    at_desk.done("raw.a", *range(100))
    at_desk.done("core.b", 1, reads={1: [at_desk.read("raw.a", 1, 2)]})
    at_desk.done("core.b", 33, reads={33: [at_desk.read("raw.a", 1, 33)]})  # 32 days: just short
    at_desk.done("core.b", 34, reads={34: [at_desk.read("raw.a", 1, 34)]})
    at_desk.done("core.b", 99, reads={99: [at_desk.read("raw.a", 0, 100)]})
    at_desk.done("core.b", 98, reads={98: [at_desk.read("raw.a", 2, 98)]})
    assert at_desk.done("raw.a", 1, digest="9:9:9", restates="late rows").suspects == 4
    assert facts(at_desk, "core.b") == {1, 33, 34, 99}


def test_a_restatement_that_changes_nothing_makes_nothing_suspect(at_desk: Desk) -> None:
    chain(at_desk, 3)
    assert at_desk.done("raw.a", 1, restates="again").suspects == 0
    assert facts(at_desk, "core.b") == facts(at_desk, "mart.c") == set()


def test_a_second_change_may_undo_the_first(at_desk: Desk) -> None:
    chain(at_desk, 3)
    at_desk.done("raw.a", 1, digest="9:9:9", restates="again")
    at_desk.done("raw.a", 1, restates="again")
    assert facts(at_desk, "core.b") == facts(at_desk, "mart.c") == set()
    assert not any(cell.is_suspect for cell in at_desk.ledger.past.grid(["core.b"]))


def test_a_suspect_stays_suspect_where_only_one_of_its_inputs_is_undone(at_desk: Desk) -> None:
    at_desk.done("raw.a", 0, 1)
    at_desk.done("core.b", 1, reads={1: [at_desk.read("raw.a", 0, 1), at_desk.read("raw.a", 1, 2)]})
    at_desk.done("raw.a", 0, digest="9:9:9", restates="again")
    at_desk.done("raw.a", 1, digest="9:9:9", restates="again")
    at_desk.done("raw.a", 0, restates="again")
    assert at_desk.suspects() == {("core.b", day(1))}
    at_desk.done("raw.a", 1, restates="again")
    assert at_desk.suspects() == set()


def test_suspects_spread_batch_by_batch_until_the_content_is_equal(at_desk: Desk) -> None:
    chain(at_desk, 3)
    at_desk.done("raw.a", 0, digest="9:9:9", restates="again")
    at_desk.done("core.b", 0, reads={0: [at_desk.read("raw.a", 0, 1)]}, digest="8:8:8")
    assert at_desk.suspects() == {("mart.c", day(n)) for n in range(3)}
    for n in range(3):
        at_desk.done("mart.c", n, reads={n: [at_desk.read("core.b", 0, n + 1)]})
    assert at_desk.suspects() == set()
    assert facts(at_desk, "mart.c") == set()


def test_an_input_that_changed_between_claim_and_record_makes_the_batch_suspect(at_desk: Desk) -> None:
    at_desk.done("raw.a", 0)
    held = at_desk.claim("core.b", 0, reads={0: [at_desk.read("raw.a", 0, 1)]})
    at_desk.done("raw.a", 0, digest="9:9:9", restates="late rows")
    assert at_desk.suspects() == set()
    assert at_desk.done("core.b", 0, claim=held).suspects == 1
    assert at_desk.suspects() == {("core.b", day(0))}


def test_an_input_changed_back_between_claim_and_record_makes_no_batch_suspect(at_desk: Desk) -> None:
    at_desk.done("raw.a", 0)
    held = at_desk.claim("core.b", 0, reads={0: [at_desk.read("raw.a", 0, 1)]})
    at_desk.done("raw.a", 0, digest="9:9:9", restates="late rows")
    at_desk.done("raw.a", 0, restates="late rows")
    assert at_desk.done("core.b", 0, claim=held).suspects == 0


def test_a_gap_that_is_filled_makes_those_suspect_that_read_around_it(at_desk: Desk) -> None:
    window = at_desk.flow.tables["raw.a"].cadence.window_of(day(1))
    at_desk.done("raw.a", 0)
    at_desk.ledger.decisions.skip("raw.a", [window], who="ann", why="no data")
    at_desk.done("mart.c", 1, reads={1: [at_desk.read("raw.a", 0, 2)]})
    at_desk.ledger.decisions.retry("raw.a", [day(1)], who="ann")
    at_desk.done("raw.a", 1, digest="0:0:0")
    assert at_desk.suspects() == set()
    at_desk.done("raw.a", 1, digest="1:1:1", restates="late rows")
    assert at_desk.suspects() == {("mart.c", day(1))}


def test_a_batch_made_again_is_independent_of_inputs_that_only_its_older_revision_read(at_desk: Desk) -> None:
    at_desk.done("raw.a", 0, 1)
    at_desk.done("core.b", 0, reads={0: [at_desk.read("raw.a", 0, 2)]})
    at_desk.done("core.b", 0, reads={0: [at_desk.read("raw.a", 0, 1)]}, restates="code changed")
    at_desk.done("raw.a", 1, digest="9:9:9", restates="late rows")
    assert at_desk.suspects() == set()


def test_requested_and_running_batches_bring_those_that_rest_on_them(at_desk: Desk) -> None:
    chain(at_desk, 3)
    at_desk.ledger.decisions.request_restate("raw.a", [day(1)], "recompute", who="ann")
    assert (facts(at_desk, "core.b"), facts(at_desk, "mart.c")) == ({1}, {1, 2})
    held = at_desk.claim("raw.a", 1)
    assert (facts(at_desk, "core.b"), facts(at_desk, "mart.c")) == ({1}, {1, 2})
    at_desk.done("raw.a", 1, claim=held)
    assert (facts(at_desk, "core.b"), facts(at_desk, "mart.c")) == (set(), set())
    held = at_desk.claim("raw.a", 2, restates="late rows")
    assert (facts(at_desk, "core.b"), facts(at_desk, "mart.c")) == ({2}, {2})
    at_desk.ledger.claims.close_lost(held, "gone")
    assert (facts(at_desk, "core.b"), facts(at_desk, "mart.c")) == (set(), set())


def test_a_table_that_reads_itself_rests_on_its_own_past(at_desk: Desk) -> None:
    at_desk.done("core.b", *range(6))
    for n in range(6):
        reads = [at_desk.read("core.b", n, n + 1), at_desk.read("core.s", n - 1, n, read="PREVIOUS(core.s)")]
        at_desk.done("core.s", n, reads={n: reads})
    at_desk.done("core.b", 2, digest="9:9:9", restates="late rows")
    assert at_desk.suspects() == {("core.s", day(2))}
    assert facts(at_desk, "core.s") == {2, 3, 4, 5}


def test_a_changed_snapshot_makes_readers_of_every_covered_window_suspect(at_desk: Desk) -> None:
    at_desk.apply(
        table("dim.x", mode=Mode.REPLACE), table("core.b", partitioned=True, reads=["dim.x"]), fingerprint="2"
    )
    at_desk.done("dim.x", 3, stands_from=0)
    for n in range(4):
        at_desk.done("core.b", n, reads={n: [at_desk.read("dim.x", n, n + 1)]})
    at_desk.done("dim.x", 3, stands_from=0, digest="9:9:9", restates="recollect")
    assert at_desk.suspects() == {("core.b", day(n)) for n in range(4)}


def test_a_suspect_has_the_recorded_and_the_current_content_of_its_input(at_desk: Desk) -> None:
    chain(at_desk, 1)
    before = at_desk.ledger.reads.content("raw.a", day(0), day(1))
    at_desk.done("raw.a", 0, digest="9:9:9", restates="late rows")
    [fact] = at_desk.ledger.reads.snapshot(at_desk.flow).of("core.b").suspects[day(0)]
    assert (fact.table, fact.low, fact.high) == ("raw.a", day(0), day(1))
    assert (fact.recorded, fact.current) == (before, at_desk.ledger.reads.content("raw.a", day(0), day(1)))
