"""Requests to release are refused if no runner can ever carry them out."""

from __future__ import annotations

from tests.model.flows import at, collect, flow, snapshot, transform
from waterclock.batches.ledger_snapshot import BEGINNING, RELEASE, LedgerSnapshot, TableFacts
from waterclock.planner.planning import Planner
from waterclock.timelabel.intervals import IntervalSet


def test_a_snapshot_covered_by_a_later_one_cannot_be_released() -> None:
    planner = Planner(flow(snapshot("raw.s")))
    asked = {at("2013-01-03"): RELEASE}
    facts = TableFacts(
        covered=IntervalSet.from_intervals([(BEGINNING, at("2013-01-03"))]),
        requested=asked,
        wanted=frozenset(asked),
    )
    past = LedgerSnapshot({"raw.s": facts})
    assert planner.find_unreleasable(past, at("2013-01-03 12:00")) == {}  # not due yet by this clock
    assert planner.find_unreleasable(past, at("2013-01-04")) == {}
    assert planner.find_unreleasable(past, at("2013-01-05")) == {"raw.s": (at("2013-01-03"),)}


def test_a_batch_whose_inputs_were_dropped_by_retain_cannot_be_released() -> None:
    planner = Planner(flow(collect("raw.a"), transform("core.b", ["raw.a"])))
    labels = {at("2013-01-02"): RELEASE, at("2013-01-05"): RELEASE}
    done = IntervalSet.from_intervals([(at("2013-01-01"), at("2013-01-02")), (at("2013-01-03"), at("2013-01-05"))])
    asked = TableFacts(covered=done, requested=labels, wanted=frozenset(labels))
    whole = IntervalSet.from_intervals([(at("2013-01-01"), at("2013-01-06"))])
    source = TableFacts(covered=whole, dropped_before=at("2013-01-04"))
    past = LedgerSnapshot({"raw.a": source, "core.b": asked})
    assert planner.find_unreleasable(past, at("2013-01-06")) == {"core.b": (at("2013-01-02"),)}
    assert planner.find_unreleasable(LedgerSnapshot({"raw.a": source}), at("2013-01-06")) == {}
