from __future__ import annotations

import pytest
import sqlalchemy as sa

from tests.ledgers import Desk, day, desk, flow, table
from waterclock.batches.ledger_snapshot import LedgerSnapshot
from waterclock.batches.records import Input
from waterclock.flow.enums import Mode


def test_tables_without_a_past_have_empty_facts(at_desk: Desk) -> None:
    assert at_desk.ledger.reads.snapshot(flow(table("raw.a"))) == LedgerSnapshot(sequence=0)
    at_desk.apply(table("raw.a"))
    facts = at_desk.ledger.reads.snapshot(at_desk.flow).of("raw.a")
    assert (facts.start, list(facts.covered), facts.codes, facts.seconds_per_batch) == (None, [], {}, None)


def test_a_snapshot_contains_only_the_tables_of_the_flow_or_the_requested_ones(at_desk: Desk) -> None:
    at_desk.apply(table("raw.a"), table("raw.b"), table("raw.c"))
    at_desk.apply(table("raw.a"), table("raw.b"), fingerprint="flow 2")
    assert set(at_desk.ledger.reads.snapshot(at_desk.flow).tables) == {"raw.a", "raw.b"}
    assert set(at_desk.ledger.reads.snapshot(at_desk.flow, tables=["raw.b"]).tables) == {"raw.b"}


def test_a_snapshot_of_some_tables_has_the_same_facts_as_one_of_all_tables(at_desk: Desk) -> None:
    at_desk.apply(table("raw.a", partitioned=True), table("raw.b", reads=["raw.a"]), table("raw.c", reads=["raw.b"]))
    at_desk.done("raw.a", 0)
    at_desk.done("raw.b", 0, reads={0: [at_desk.read("raw.a", 0, 1)]})
    at_desk.done("raw.c", 0, reads={0: [at_desk.read("raw.b", 0, 1)]})
    at_desk.ledger.decisions.request_restate("raw.a", [day(0)], "recompute", who="ann")
    whole, part = (
        at_desk.ledger.reads.snapshot(at_desk.flow),
        at_desk.ledger.reads.snapshot(at_desk.flow, tables=["raw.c"]),
    )
    assert part.tables == {"raw.c": whole.of("raw.c")}
    assert set(part.of("raw.c").suspects) == {day(0)}


def test_snapshots_of_one_sequence_are_equal(at_desk: Desk) -> None:
    at_desk.apply(table("raw.a"))
    at_desk.done("raw.a", 0)
    first = at_desk.ledger.reads.snapshot(at_desk.flow)
    assert first == at_desk.ledger.reads.snapshot(at_desk.flow)
    assert (first.sequence, first.flow) == (at_desk.ledger.sequence(), "flow 1")
    at_desk.claim("raw.a", 1)
    assert at_desk.ledger.sequence() > first.sequence


def test_open_claims_are_returned_with_all_their_labels(at_desk: Desk) -> None:
    at_desk.apply(table("raw.a", partitioned=True))
    first, second = at_desk.claim("raw.a", 2, 0, 1), at_desk.claim("raw.a", 3, runner="there")
    claims = at_desk.ledger.reads.snapshot(at_desk.flow).of("raw.a").open_claims
    assert [(each.claim, each.labels, each.runner, each.lease_until) for each in claims] == [
        (first.number, (day(0), day(1), day(2)), "here", first.lease_until),
        (second.number, (day(3),), "there", second.lease_until),
    ]


def test_requested_and_running_snapshots_have_the_start_of_their_period(at_desk: Desk) -> None:
    at_desk.apply(table("dim.x", mode=Mode.REPLACE))
    at_desk.done("dim.x", 3, stands_from=1)
    assert at_desk.ledger.reads.snapshot(at_desk.flow).of("dim.x").period_starts == {}
    at_desk.ledger.decisions.request_restate("dim.x", [day(3)], "recollect", who="ann")
    assert at_desk.ledger.reads.snapshot(at_desk.flow).of("dim.x").period_starts == {day(3): day(1)}
    at_desk.claim("dim.x", 3)
    assert at_desk.ledger.reads.snapshot(at_desk.flow).of("dim.x").period_starts == {day(3): day(1)}


def test_latest_keeps_the_tick_it_picked(at_desk: Desk) -> None:
    at_desk.apply(table("dim.x", mode=Mode.REPLACE), table("core.b", partitioned=True, reads=["dim.x"]))
    at_desk.done("dim.x", 4)
    at_desk.done("core.b", 0, reads={0: [at_desk.read("dim.x", 4, 5, read="LATEST(dim.x)")]})
    assert at_desk.ledger.reads.snapshot(at_desk.flow).of("core.b").latest == {}
    at_desk.ledger.decisions.request_restate("core.b", [day(0)], "recompute", who="ann")
    assert at_desk.ledger.reads.snapshot(at_desk.flow).of("core.b").latest == {day(0): {"dim.x": day(5)}}


def test_a_snapshot_is_of_one_moment(tmp_path: object) -> None:
    from pathlib import Path

    opened = desk(Path(str(tmp_path)))
    opened.apply(table("raw.a", partitioned=True))
    with opened.ledger:
        opened.done("raw.a", 0)
        with opened.ledger._database.read() as connection:
            connection.exec_driver_sql("SELECT * FROM batches").all()
            opened.done("raw.a", 1)
            assert len(connection.exec_driver_sql("SELECT * FROM batches").all()) == 1
        assert len(opened.ledger.past.grid(["raw.a"])) == 2


@pytest.mark.parametrize("past", [0, 2])
def test_suspects_of_a_restated_label_are_found_without_a_statement_for_each_table(at_desk: Desk, past: int) -> None:
    """This holds even if each table reads more of its input than the label itself, so that the range grows."""
    names = [f"t{at}.x" for at in range(16)]
    above = dict(zip(names[1:], names, strict=False))
    at_desk.apply(*(table(name, partitioned=True, reads=[above[name]] if name in above else ()) for name in names))
    for name in names:
        reads: dict[float, list[Input]] = {
            at: [at_desk.read(above[name], at - past, at + 1)] for at in range(40) if name in above
        }
        at_desk.done(name, *range(40), reads=reads)
    at_desk.ledger.decisions.request_restate("t0.x", [day(5)], "recompute", who="ann")
    said: list[str] = []
    engine = at_desk.ledger._database._engine
    sa.event.listen(engine, "before_cursor_execute", lambda *told: said.append(told[2]))
    found = at_desk.ledger.reads.snapshot(at_desk.flow)
    resting = {name: sorted(found.tables[name].suspects) for name in names[1:]}
    assert resting == {name: [day(5 + at) for at in range(past * deep + 1)] for deep, name in enumerate(names[1:], 1)}
    assert len(said) < (16 if past == 0 else 60)
