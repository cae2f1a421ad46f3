"""After a second set replaced the tables: who may claim batches."""

from __future__ import annotations

from datetime import datetime

import pytest

from tests.ledgers import ZERO, Desk, day, flow, table
from waterclock.batches.ledger_snapshot import FOREVER
from waterclock.errors import WaterclockError
from waterclock.ledger.read.signatures import signature_of
from waterclock.ledger.write.rebuilt_tables import MovedTable
from waterclock.timelabel.window import Window


def test_a_runner_with_the_old_flow_cannot_claim_tables_rebuilt_with_new_windows(at_desk: Desk) -> None:
    old, new = table("a.x"), table("a.x", every="HOUR")
    at_desk.apply(old)
    at_desk.done("a.x", 0)
    maintenance = at_desk.ledger.maintenance
    maintenance.begin_rebuilding("t", runner="r", who="ann", lease_seconds=60)
    maintenance.begin_moving("t")
    moved = MovedTable(
        "a.x", signature_of(new), "tables/a/x", None, maintenance.take_claim_number(), 1, None, is_recut=True
    )
    maintenance.record_set("t", [moved], who="ann", flow="flow 2")
    # killed before it could apply its flow: earlier runners continue with their flow
    with pytest.raises(WaterclockError) as refused:
        at_desk.claim("a.x", 1)
    assert refused.value.code == "E406"
    moved_in = at_desk.ledger.reads.table("a.x")
    at_desk.apply(old)
    assert list(at_desk.ledger.declared.refused_tables(at_desk.flow)) == ["a.x"]
    assert at_desk.ledger.reads.table("a.x") == moved_in
    at_desk.apply(new, fingerprint="flow 2")
    at_desk.claim("a.x", 1)


def test_a_runner_with_the_same_flow_can_continue_after_a_rebuild(at_desk: Desk) -> None:
    at_desk.apply(table("a.x"))
    maintenance = at_desk.ledger.maintenance
    maintenance.begin_rebuilding("t", runner="r", who="ann", lease_seconds=60)
    maintenance.begin_moving("t")
    maintenance.record_set("t", [], who="ann", flow=at_desk.flow.fingerprint)
    at_desk.claim("a.x", 1)
    applied = at_desk.ledger.declared.apply(flow(table("a.x")), who="bob", now=ZERO, runner="there")
    assert applied.number == 1


def test_windows_that_stay_dropped_are_known_after_the_move(at_desk: Desk) -> None:
    old, new = table("a.x"), table("a.x", every="HOUR")
    at_desk.apply(old)
    at_desk.done("a.x", 0)
    maintenance = at_desk.ledger.maintenance
    maintenance.drop_windows("a.x", day(3), 1, who="ann", why="the licence ended")
    maintenance.begin_rebuilding("t", runner="r", who="ann", lease_seconds=60)
    maintenance.begin_moving("t")
    claim, place = maintenance.take_claim_number(), "tables/a/x"
    moved = MovedTable("a.x", signature_of(new), place, None, claim, 2, None, is_recut=True, dropped_before=day(3))
    maintenance.record_set("t", [moved], who="ann", flow="flow 2")
    at_desk.apply(new, fingerprint="flow 2")
    assert at_desk.ledger.reads.snapshot(at_desk.flow).of("a.x").dropped_before == day(3)
    assert maintenance.drop_boundary("a.x", by=FOREVER) == day(3)


@pytest.mark.parametrize(
    ("has_same_windows", "items_before", "taken"),
    [(True, FOREVER, {"a", "b"}), (False, day(1), {"a"}), (False, None, set())],
)
def test_a_rebuilt_table_with_new_windows_keeps_items_of_skipped_and_dropped_labels(
    at_desk: Desk, items_before: datetime | None, taken: set[str], *, has_same_windows: bool
) -> None:
    """Otherwise files of dropped windows, and records of skipped ones, would be collected again by later labels."""
    old, new = table("a.x"), table("a.x", every="DAY" if has_same_windows else "HOUR", keys=("id",))
    at_desk.apply(old)
    for number, name in enumerate("ab"):
        item = {"name": name, "positions": {}}
        at_desk.ledger.claims.close_lost(at_desk.claim("a.x", number, owned={day(number): (item,)}), why="a test")
    at_desk.ledger.decisions.skip("a.x", [Window(day(1), day(2))], who="ann", why="broken")
    maintenance = at_desk.ledger.maintenance
    maintenance.begin_rebuilding("t", runner="r", who="ann", lease_seconds=60)
    maintenance.begin_moving("t")
    moved = MovedTable(
        "a.x",
        signature_of(new),
        "tables/a/x",
        None,
        maintenance.take_claim_number(),
        2,
        None,
        is_recut=True,
        keeps_skipped=has_same_windows,
        items_before=items_before,
    )
    maintenance.record_set("t", [moved], who="ann", flow="flow 2")
    at_desk.apply(new, fingerprint="flow 2")
    assert at_desk.ledger.reads.list_collected_items("a.x") == taken
    covered = [(day(1), day(2))] if has_same_windows else []
    assert list(at_desk.ledger.reads.covered_windows("a.x")) == maintenance.skipped_windows("a.x") == covered


def test_the_lock_of_a_rebuild_ends_once_the_clock_was_set_back_unless_it_is_extended_since(at_desk: Desk) -> None:
    at_desk.apply(table("a.x"))
    maintenance = at_desk.ledger.maintenance
    maintenance.begin_rebuilding("t", runner="r", who="ann", lease_seconds=60)
    at_desk.clock.pass_by(days=-1)
    maintenance.renew_rebuilding("t", lease_seconds=60)
    with pytest.raises(WaterclockError) as refused:
        at_desk.claim("a.x", 0)
    assert refused.value.code == "E644"
    at_desk.clock.pass_by(minutes=-2)
    at_desk.claim("a.x", 0)
    with pytest.raises(WaterclockError) as refused:
        maintenance.renew_rebuilding("t", lease_seconds=60)
    assert refused.value.code == "E644"
