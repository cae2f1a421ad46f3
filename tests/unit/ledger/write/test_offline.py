"""Offline measures: one job at a time, values of the visible rows, and states while they are needed."""

from __future__ import annotations

from datetime import timedelta

from tests.ledgers import Desk, day, table
from waterclock.batches.offline import NEVER, KeptLabel, LabelMeasures, OfflineRun, SpanMeasures
from waterclock.flow.measures import OFFLINE, MeasuredValue

LEASE = timedelta(minutes=30)
SUM = {"total": MeasuredValue("3", "bigint"), "nothing": MeasuredValue(None, "double")}


def test_only_one_offline_measurement_runs_at_a_time_and_records_its_outcome(at_desk: Desk) -> None:
    offline = at_desk.ledger.offline
    assert offline.newest_runs() == {}
    assert offline.reserve_measurement("raw.a", seen=None, lease=LEASE)
    assert not offline.reserve_measurement("raw.a", seen=None, lease=LEASE)
    at_desk.clock.pass_by(minutes=31)
    assert offline.reserve_measurement("raw.a", seen=NEVER, lease=LEASE)  # the runner that reserved it has ended
    offline.finish_measurement("raw.a", "c", looked_at=day(1), labels=2, seconds=0.5)
    assert offline.newest_runs() == {"raw.a": OfflineRun("c", day(1), at_desk.clock.at, 2, 0.5)}
    assert not offline.reserve_measurement("raw.a", seen=NEVER, lease=LEASE)  # another runner has checked since
    assert offline.reserve_measurement("raw.a", seen=day(1), lease=LEASE)
    offline.finish_measurement("raw.a", "c", looked_at=day(2), labels=0, seconds=0.1, error="E390 no")
    assert offline.newest_runs()["raw.a"].error == "E390 no"


def test_offline_measures_are_returned_only_for_the_visible_revision(at_desk: Desk) -> None:
    at_desk.apply(table("raw.a", partitioned=True))
    held = at_desk.claim("raw.a", 0)
    at_desk.done("raw.a", 0, claim=held)
    claim = held.number
    offline, past = at_desk.ledger.offline, at_desk.ledger.past
    offline.record_measurements("raw.a", "c", [LabelMeasures(day(0), claim, SUM, {"total": ["sum bigint", "3"]})])
    assert offline.list_measured_labels("raw.a") == {day(0): KeptLabel(claim, "c", True)}
    assert offline.states("raw.a", day(0), day(1)) == {day(0): (claim, {"total": ["sum bigint", "3"]})}
    told = [(row["timelabel"], row["name"], row["value"], row["claim"]) for row in past.rows("measures")]
    assert told == [("20130101000000", "nothing", None, claim), ("20130101000000", "total", "3", claim)]
    [counted] = past.newest_counted("raw.a", 3)
    assert counted.measures[OFFLINE]["total"] == {"value": "3", "type": "bigint"}
    audit = past.audit("raw.a", day(0))
    assert audit.current is not None
    assert audit.current.revision is not None
    assert audit.current.revision.measures[OFFLINE] == counted.measures[OFFLINE]
    [before] = at_desk.ledger.reads.measures_before("raw.a", day(1), low=day(0), most=3).values()
    assert before.measured == SUM
    at_desk.done("raw.a", 0, restates="again")
    assert [*past.rows("measures")] == []
    assert OFFLINE not in past.newest_counted("raw.a", 3)[0].measures


def test_measured_spans_are_returned_and_states_are_deleted_once_unneeded(at_desk: Desk) -> None:
    at_desk.apply(table("raw.a", partitioned=True))
    offline = at_desk.ledger.offline
    found = [LabelMeasures(day(number), number, SUM, {"total": ["sum bigint", "3"]}) for number in range(3)]
    offline.record_measurements("raw.a", "c", found)
    spans = [SpanMeasures(day(0), day(2), 2, SUM), SpanMeasures(day(2), day(4), 1, SUM)]
    offline.finish_measurement("raw.a", "c", looked_at=day(3), labels=3, seconds=1.0, spans=spans, forget_before=day(2))
    assert offline.newest_spans("raw.a", 1) == (spans[1],)
    assert [it.has_states for it in offline.list_measured_labels("raw.a").values()] == [False, False, True]
    assert [*offline.states("raw.a", day(0), day(9))] == [day(2)]
    rows = [(it["first"], it["until"], it["labels"], it["name"]) for it in at_desk.ledger.past.rows("measured_spans")]
    of = ("20130101000000", "20130103000000", 2)
    assert rows[:2] == [(*of, "nothing"), (*of, "total")]
    offline.finish_measurement("raw.a", "d", looked_at=day(4), labels=0, seconds=1.0)
    assert offline.newest_spans("raw.a", 9) == ()  # of another declaration
