from __future__ import annotations

from dataclasses import replace

import pytest

from tests.ledgers import ZERO, Desk, day, flow, table
from waterclock.errors import WaterclockError
from waterclock.flow.declarations import Columns
from waterclock.flow.enums import Kind, Mode


def test_a_flow_is_applied_once_and_numbered(at_desk: Desk) -> None:
    first = at_desk.ledger.declared.apply(flow(table("a.x")), who="ann", now=ZERO, runner="here")
    before = at_desk.ledger.sequence()
    again = at_desk.ledger.declared.apply(flow(table("a.x")), who="bob", now=ZERO, runner="there")
    assert again == first == at_desk.ledger.declared.applied_flow()
    assert at_desk.ledger.sequence() == before
    second = at_desk.ledger.declared.apply(
        flow(table("a.x"), fingerprint="flow 2"), who="bob", now=ZERO, runner="there"
    )
    assert (first.number, second.number) == (1, 2)


def test_nothing_is_applied_in_a_new_ledger(at_desk: Desk) -> None:
    assert at_desk.ledger.declared.applied_flow() is None
    assert at_desk.ledger.reads.snapshot(flow(table("a.x"))).flow is None


def test_returning_to_an_older_flow_applies_it_again(at_desk: Desk) -> None:
    for name in ("one", "two", "one"):
        applied = at_desk.ledger.declared.apply(flow(fingerprint=name), who="ann", now=ZERO, runner="here")
    assert (applied.number, applied.fingerprint) == (3, "one")


def test_a_table_record_contains_its_declaration(at_desk: Desk) -> None:
    kept = table("shop.orders", mode=Mode.MERGE, keys=("id", "line"), every="HOUR", zone="Asia/Tokyo", start=day(1))
    at_desk.apply(kept)
    record = at_desk.ledger.reads.table("shop.orders")
    assert (record.kind, record.type, record.mode) == ("transform", "regular", "merge")
    assert (record.cadence, record.zone, record.keys) == ("HOUR", "Asia/Tokyo", "id, line")
    assert (record.start, record.head_version, record.head_label) == (day(1), -1, None)


def test_a_publish_is_kept_apart_from_tables(at_desk: Desk) -> None:
    at_desk.apply(table("ops.delays", kind=Kind.PUBLISH), table("ops.flights"))
    places = {record.name: record.location for record in at_desk.ledger.reads.tables()}
    assert places == {"ops.delays": "publish/ops/delays", "ops.flights": "tables/ops/flights"}


def test_another_projects_flow_is_refused(at_desk: Desk) -> None:
    at_desk.apply(table("a.x"))
    for fingerprint in ("flow 1", "flow 2"):
        with pytest.raises(WaterclockError, match="belongs to project demo, not other") as refused:
            at_desk.ledger.declared.apply(
                flow(project="other", fingerprint=fingerprint), who="ann", now=ZERO, runner="here"
            )
        assert refused.value.code == "E404"


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        (table("a.x", every="HOUR"), "cadence was DAY, is now HOUR"),
        (table("a.x", zone="Asia/Tokyo"), "zone was UTC, is now Asia/Tokyo"),
        (table("a.x", partitioned=True), "type was regular, is now partitioned"),
        (table("a.x", mode=Mode.REPLACE), "mode was append, is now replace"),
        (table("a.x", mode=Mode.MERGE, keys=("id",)), "keys was none, is now id"),
        (table("a.x", kind=Kind.COLLECT), "kind was transform, is now collect"),
    ],
)
def test_changes_to_the_meaning_of_labels_are_refused_once_there_are_batches(
    at_desk: Desk, changed: object, told: str
) -> None:
    assert isinstance(changed, type(table("a.x")))
    at_desk.apply(table("a.x"))
    at_desk.done("a.x", 0)
    before, of = at_desk.ledger.reads.table("a.x"), flow(changed, fingerprint="flow 2")
    for _ in ("before it is applied", "after it"):
        [refused] = at_desk.ledger.declared.refused_tables(of).values()
        assert refused.code == "E405"
        assert told in str(refused.why)
        assert refused.where == "flow.dpl:1:1"
        assert "waterclock reset a.x" in str(refused.fix)
        assert ("waterclock rebuild" in str(refused.fix)) is not told.startswith("kind")
        found = at_desk.ledger.reads.snapshot(of).of("a.x").refused
        assert str(found) == str(refused)
        at_desk.ledger.declared.apply(of, who="ann", now=ZERO, runner="here")
        assert at_desk.ledger.reads.table("a.x") == before
    at_desk.apply(table("a.x"), fingerprint="flow 3")
    assert at_desk.ledger.declared.refused_tables(at_desk.flow) == {}


def test_a_table_that_needs_a_rebuild_stops_no_other(at_desk: Desk) -> None:
    at_desk.apply(table("a.x"), table("a.y"), table("a.z"))
    at_desk.done("a.x", 0)
    at_desk.done("a.y", 0)
    at_desk.apply(table("a.x", every="HOUR"), table("a.y", every="WEEK"), table("a.z", every="HOUR"), fingerprint="f 2")
    assert list(at_desk.ledger.declared.refused_tables(at_desk.flow)) == ["a.x", "a.y"]
    assert at_desk.ledger.reads.table("a.z").cadence == "HOUR"
    facts = at_desk.ledger.reads.snapshot(at_desk.flow)
    assert [name for name in ("a.x", "a.y", "a.z") if facts.of(name).refused] == ["a.x", "a.y"]


def test_a_table_without_batches_may_change(at_desk: Desk) -> None:
    at_desk.apply(table("a.x"))
    at_desk.ledger.declared.require_valid_renames(flow(table("a.x", every="HOUR"), fingerprint="flow 2"))
    at_desk.apply(table("a.x", every="HOUR"), fingerprint="flow 2")
    assert at_desk.ledger.reads.table("a.x").cadence == "HOUR"


def test_a_delay_or_comments_on_columns_change_no_label(at_desk: Desk) -> None:
    at_desk.apply(table("a.x"))
    at_desk.done("a.x", 0)
    later = replace(table("a.x"), pool="small", columns=Columns(is_open=False))
    at_desk.ledger.declared.apply(flow(later, fingerprint="flow 2"), who="ann", now=ZERO, runner="here")


def test_start_is_written_down_once(at_desk: Desk) -> None:
    at_desk.apply(table("a.x"))
    at_desk.ledger.declared.set_starts({"a.x": day(3)}, who="ann")
    at_desk.ledger.declared.set_starts({"a.x": day(5)}, who="bob")
    assert at_desk.ledger.reads.table("a.x").start == day(3)
    at_desk.apply(table("a.x"), fingerprint="flow 2")
    assert at_desk.ledger.reads.table("a.x").start == day(3)


def test_a_declared_start_is_followed(at_desk: Desk) -> None:
    at_desk.apply(table("a.x", start=day(3)))
    at_desk.apply(table("a.x", start=day(1)), fingerprint="flow 2")
    assert at_desk.ledger.reads.table("a.x").start == day(1)


def test_start_of_an_unknown_table_is_refused_with_the_nearest(at_desk: Desk) -> None:
    at_desk.apply(table("shop.orders"))
    with pytest.raises(WaterclockError) as refused:
        at_desk.ledger.declared.set_starts({"shop.order": day(0)}, who="ann")
    assert refused.value.code == "E412"
    assert "shop.orders" in str(refused.value.fix)


def test_a_table_with_only_requests_may_change_and_loses_the_requests_of_its_old_labels(
    at_desk: Desk,
) -> None:
    at_desk.apply(table("a.x"))
    at_desk.ledger.decisions.request_backfill("a.x", [day(0), day(1)], who="ann")
    at_desk.ledger.decisions.withdraw("a.x", [day(0)], who="ann")
    at_desk.apply(table("a.x", every="HOUR"), fingerprint="flow 2")
    found = at_desk.ledger.reads.snapshot(flow(table("a.x", every="HOUR"), fingerprint="flow 2"))
    assert found.of("a.x").wanted == frozenset()
    assert at_desk.ledger.past.grid(["a.x"]) == []
