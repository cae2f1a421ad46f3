from __future__ import annotations

import json
import math
from datetime import datetime, timedelta
from typing import Any

import pytest
import sqlalchemy as sa

from tests.ledgers import DAY, Desk, day, result, table
from waterclock.batches.ledger_snapshot import BEGINNING
from waterclock.batches.records import NO_VERSION
from waterclock.errors import WaterclockError
from waterclock.flow.enums import Mode
from waterclock.ledger.read.clock import ClockBack
from waterclock.timelabel.label import label_of


@pytest.fixture(autouse=True)
def _tables(at_desk: Desk) -> None:
    at_desk.apply(
        table("raw.a", partitioned=True),
        table("raw.b"),
        table("core.m", mode=Mode.MERGE, keys=("id",), reads=["raw.b"]),
        table("core.r", mode=Mode.REPLACE, reads=["raw.b"]),
    )


def test_done_labels_are_covered_in_merged_intervals(at_desk: Desk) -> None:
    for number in (3, 0, 1, 5):
        at_desk.done("raw.a", number)
    assert list(at_desk.ledger.reads.snapshot(at_desk.flow).of("raw.a").covered) == [
        (day(0), day(2)),
        (day(3), day(4)),
        (day(5), day(6)),
    ]
    at_desk.done("raw.a", 2, 4)
    assert list(at_desk.ledger.reads.snapshot(at_desk.flow).of("raw.a").covered) == [(day(0), day(6))]


def test_a_snapshot_covers_the_days_before_it_that_have_none_of_their_own(at_desk: Desk) -> None:
    held = at_desk.claim("core.r", 3)
    at_desk.ledger.claims.record_done(held, [result(3, stands_from=BEGINNING)])
    at_desk.done("core.r", 7, stands_from=4)
    assert list(at_desk.ledger.reads.snapshot(at_desk.flow).of("core.r").covered) == [(BEGINNING, day(8))]
    assert [at_desk.ledger.reads.state("core.r", day(n)).label for n in (-50, 4, 5, 8)] == [  # type: ignore[union-attr]
        day(3),
        day(3),
        day(7),
        day(7),
    ]
    assert at_desk.ledger.reads.state("core.r", day(9)) is None


@pytest.mark.parametrize("kind", ["reverted", "promoted"])
def test_an_adoption_is_in_the_audit_trail_with_the_completion(at_desk: Desk, kind: str) -> None:
    """Both are written in one transaction, so a kill afterwards loses neither."""
    held = at_desk.claim("raw.a", 0, 1)
    measures = {kind: {"revision": 7, "by": "ann"}}
    at_desk.ledger.claims.record_done(held, [result(0, measures=measures), result(1)])
    found = [row for row in at_desk.ledger.past.rows("events") if row["kind"] == kind]
    assert [(row["table"], row["timelabel"], row["who"], json.loads(row["data"])) for row in found] == [
        ("raw.a", label_of(day(0)), "ann", {"revision": 7, "claim": held.number})
    ]


def test_a_result_contains_the_changed_labels(at_desk: Desk) -> None:
    assert at_desk.done("raw.a", 0, 1).changed == (day(0), day(1))
    held = at_desk.claim("raw.a", 0, 1, restates="late rows")
    recorded = at_desk.ledger.claims.record_done(held, [result(0), result(1, digest="9:9:9")])
    assert recorded.changed == (day(1),)


def test_labels_without_a_result_return_to_their_earlier_status(at_desk: Desk) -> None:
    at_desk.done("raw.a", 0)
    held = at_desk.claim("raw.a", 0, 1, 2, restates="late rows")
    at_desk.ledger.claims.record_done(held, [result(1)])
    assert [cell.status for cell in at_desk.ledger.past.grid(["raw.a"])] == ["done", "done", None]
    assert len(at_desk.ledger.reads.slices("raw.a", day(0), day(3))) == 2
    at_desk.done("raw.a", 2)


def test_a_result_that_was_not_claimed_records_nothing(at_desk: Desk) -> None:
    held = at_desk.claim("raw.a", 0)
    with pytest.raises(WaterclockError, match="cannot be recorded") as refused:
        at_desk.ledger.claims.record_done(held, [result(0), result(1)])
    assert refused.value.code == "E413"
    assert at_desk.ledger.past.grid(["raw.a"])[0].status == "running"
    at_desk.ledger.claims.record_done(held, [result(0)])


def test_the_head_only_moves_forward_in_labels(at_desk: Desk) -> None:
    at_desk.done("raw.a", 4)  # version 1
    at_desk.done("raw.a", 2)  # version 2
    record = at_desk.ledger.reads.table("raw.a")
    assert (record.head_label, record.head_version) == (day(4), 2)


def test_an_older_replace_state_is_added_to_the_history_without_moving_the_head(at_desk: Desk) -> None:
    at_desk.done("core.r", 4)  # version 1
    at_desk.done("core.r", 2)  # recomputed in the history, with any version there
    record = at_desk.ledger.reads.table("core.r")
    assert (record.head_label, record.head_version) == (day(4), 1)
    assert at_desk.ledger.reads.versions("core.r") == {day(4): 1}
    older, newest = at_desk.ledger.reads.state("core.r", day(3)), at_desk.ledger.reads.state("core.r", day(5))
    assert older is not None
    assert newest is not None
    assert (older.label, older.version, newest.version) == (day(2), NO_VERSION, 1)


def test_a_restated_newest_replace_state_is_at_its_new_version(at_desk: Desk) -> None:
    at_desk.done("core.r", 1)
    at_desk.done("core.r", 2)
    at_desk.done("core.r", 2, digest="9:9:9", restates="late rows")
    assert at_desk.ledger.reads.versions("core.r") == {day(1): 1, day(2): 3}


def test_a_restated_older_replace_state_is_held_by_no_version(at_desk: Desk) -> None:
    for number in (1, 2):
        at_desk.done("core.r", number)
    at_desk.done("core.r", 1, digest="9:9:9", restates="late rows")
    assert at_desk.ledger.reads.versions("core.r") == {day(2): 2}
    committed = at_desk.ledger.reads.committed_slices("core.r")
    assert [(found.label, found.version) for found in committed] == [(day(1), 1), (day(2), 2), (day(1), 3)]


def test_slices_replaced_after_a_version_are_found_together_with_their_replacements(at_desk: Desk) -> None:
    for label in (0, 1, 2):
        at_desk.done("core.m", label)  # versions 1 to 3
    for digest in ("8:8:8", "9:9:9"):
        at_desk.done("core.m", 1, digest=digest, restates="late rows")
    found = at_desk.ledger.reads.changed_slices("core.m", 2)
    assert [(each.label, each.version) for each in found] == [(day(1), 2), (day(2), 3), (day(1), 4), (day(1), 5)]
    assert at_desk.ledger.reads.changed_slices("core.m", 5) == []


def test_a_late_merge_label_drops_the_states_it_makes_wrong(at_desk: Desk) -> None:
    for number in (0, 1, 2, 4):
        at_desk.done("core.m", number)  # versions 1 to 4
    assert at_desk.ledger.reads.versions("core.m") == {day(0): 1, day(1): 2, day(2): 3, day(4): 4}
    at_desk.done("core.m", 1, digest="9:9:9", restates="late rows")  # version 5 leaves the table at label 4
    assert at_desk.ledger.reads.versions("core.m") == {day(0): 1, day(4): 5}
    assert at_desk.ledger.reads.version_at("core.m", day(1)) is None
    state = at_desk.ledger.reads.state("core.m", day(2))
    assert state is not None
    assert (state.label, state.version) == (day(1), NO_VERSION)


def test_merge_labels_of_one_commit_share_the_newest_state(at_desk: Desk) -> None:
    at_desk.done("core.m", 0, 1, 2)
    assert at_desk.ledger.reads.versions("core.m") == {day(2): 1}


def test_an_append_table_has_no_version_map(at_desk: Desk) -> None:
    at_desk.done("raw.b", 0)
    at_desk.done("raw.b", 1)
    assert at_desk.ledger.reads.versions("raw.b") == {}
    state = at_desk.ledger.reads.state("raw.b", day(1))
    assert state is not None
    assert (state.label, state.version) == (day(0), 2)


def test_the_state_of_a_table_without_batches_is_none(at_desk: Desk) -> None:
    at_desk.done("core.m", 3)
    assert at_desk.ledger.reads.state("core.m", day(3)) is None
    assert at_desk.ledger.reads.state("core.r", day(3)) is None
    assert at_desk.ledger.reads.state("no.such", day(3)) is None
    assert at_desk.ledger.reads.newest("core.r") is None


def test_the_slice_that_was_made_last_is_that_of_any_label(at_desk: Desk) -> None:
    assert at_desk.ledger.reads.last_recorded("raw.a") is None
    at_desk.done("raw.a", 0, 1, 2)
    at_desk.done("raw.a", 1, restates="changed")
    last = at_desk.ledger.reads.last_recorded("raw.a")
    assert last is not None
    assert last.label == day(1)


def test_codes_are_counted_as_labels_are_done_and_made_again(at_desk: Desk) -> None:
    at_desk.done("raw.a", 0, 1, 2, code="one")
    at_desk.done("raw.a", 3, code="two")
    assert at_desk.ledger.reads.snapshot(at_desk.flow).of("raw.a").codes == {"one": 3, "two": 1}
    at_desk.done("raw.a", 0, 1, code="two", restates="changed")
    assert at_desk.ledger.reads.snapshot(at_desk.flow).of("raw.a").codes == {"one": 1, "two": 3}
    at_desk.done("raw.a", 2, code="two", restates="changed")
    assert at_desk.ledger.reads.snapshot(at_desk.flow).of("raw.a").codes == {"two": 4}


def test_seconds_per_batch_follow_the_newest(at_desk: Desk) -> None:
    for seconds, mean in ((10, 10.0), (20, 12.0)):
        held = at_desk.claim("raw.b", seconds)
        at_desk.clock.pass_by(seconds=seconds)
        at_desk.done("raw.b", seconds, claim=held)
        assert at_desk.ledger.reads.snapshot(at_desk.flow).of("raw.b").seconds_per_batch == pytest.approx(mean)


def test_seconds_are_shared_by_the_labels_of_a_claim_and_not_taken_from_a_takeover(at_desk: Desk) -> None:
    held = at_desk.claim("raw.a", 0, 1, 2, 3)
    at_desk.clock.pass_by(seconds=8)
    at_desk.done("raw.a", 0, 1, 2, 3, claim=held)
    late = at_desk.claim("raw.a", 4)
    at_desk.clock.pass_by(hours=8)
    at_desk.done("raw.a", 4, claim=late)
    assert at_desk.ledger.reads.snapshot(at_desk.flow).of("raw.a").seconds_per_batch == pytest.approx(2.0)


def test_seconds_of_a_batch_count_that_lasted_longer_than_one_lease(at_desk: Desk) -> None:
    held = at_desk.claim("raw.a", 0)
    for _ in range(3):
        at_desk.clock.pass_by(seconds=40)
        at_desk.ledger.claims.renew(held)
    at_desk.done("raw.a", 0, claim=held)
    assert at_desk.ledger.reads.snapshot(at_desk.flow).of("raw.a").seconds_per_batch == pytest.approx(120.0)


def test_all_that_was_measured_is_kept(at_desk: Desk) -> None:
    held = at_desk.claim("raw.a", 0)
    measures, timings, source = {"expect": {"positive": 3}}, {"make": 0.5}, {"low": day(0)}
    at_desk.ledger.claims.record_done(held, [result(0, measures=measures, timings=timings, source=source)])
    revision = at_desk.ledger.past.audit("raw.a", day(0)).attempts[0].revision
    assert revision is not None
    assert (revision.measures, revision.timings) == ({"expect": {"positive": 3}}, {"make": 0.5})
    assert revision.source == {"low": str(day(0))}


def items(*names: str) -> dict[str, object]:
    return {"items": [{"name": name, "size": 10} for name in names]}


def test_items_are_taken_with_the_record(at_desk: Desk) -> None:
    held = at_desk.claim("raw.a", 0)
    assert at_desk.ledger.reads.list_collected_items("raw.a") == set()
    at_desk.ledger.claims.record_done(held, [result(0, source=items("f1", "f2"))])
    assert at_desk.ledger.reads.list_collected_items("raw.a") == {"f1", "f2"}
    assert at_desk.ledger.reads.find_collected_items("raw.a", ["f2", "f3"]).keys() == {"f2"}
    assert at_desk.ledger.reads.list_collected_items("raw.b") == set()
    assert at_desk.ledger.reads.find_collected_items("raw.a", (f"f{n}" for n in range(2000))).keys() == {"f1", "f2"}


def test_an_item_belongs_to_one_batch(at_desk: Desk) -> None:
    at_desk.ledger.claims.record_done(at_desk.claim("raw.a", 0), [result(0, source=items("f1"))])
    held = at_desk.claim("raw.a", 1)
    with pytest.raises(WaterclockError, match=r"f1 already belongs to raw\.a@20130101000000") as refused:
        at_desk.ledger.claims.record_done(held, [result(1, source=items("f1", "f2"))])
    assert refused.value.code == "E414"
    assert at_desk.ledger.reads.list_collected_items("raw.a") == {"f1"}


def test_an_item_belongs_to_one_label_of_a_claim(at_desk: Desk) -> None:
    held = at_desk.claim("raw.a", 0, 1)
    found = [result(0, source=items("f1")), result(1, source=items("f2", "f1"))]
    with pytest.raises(WaterclockError, match=r"f1 already belongs to raw\.a@20130101000000") as refused:
        at_desk.ledger.claims.record_done(held, found)
    assert refused.value.code == "E414"
    assert at_desk.ledger.reads.list_collected_items("raw.a") == set()


def test_items_of_many_labels_are_read_by_a_single_statement(at_desk: Desk) -> None:
    asked: list[str] = []
    held = at_desk.claim("raw.a", *range(30))
    found = [result(at, source=items(f"f{at}", f"g{at}")) for at in range(30)]

    def heard(*given: Any) -> None:
        asked.append(given[2])

    sa.event.listen(sa.Engine, "before_cursor_execute", heard)
    try:
        at_desk.ledger.claims.record_done(held, found)
    finally:
        sa.event.remove(sa.Engine, "before_cursor_execute", heard)
    assert len([sql for sql in asked if sql.startswith("SELECT items")]) == 1
    assert len([sql for sql in asked if sql.startswith("DELETE FROM items")]) <= 1
    assert len(at_desk.ledger.reads.list_collected_items("raw.a")) == 60


def test_a_restated_batch_frees_the_items_it_no_longer_has(at_desk: Desk) -> None:
    at_desk.ledger.claims.record_done(at_desk.claim("raw.a", 0), [result(0, source=items("f1", "f2"))])
    held = at_desk.claim("raw.a", 0, restates="recollect")
    at_desk.ledger.claims.record_done(held, [result(0, source=items("f2", "f3"))])
    assert at_desk.ledger.reads.list_collected_items("raw.a") == {"f2", "f3"}
    held = at_desk.claim("raw.a", 0, restates="recompute")
    at_desk.ledger.claims.record_done(held, [result(0)])  # it does not mention the items, so they stay taken
    assert at_desk.ledger.reads.list_collected_items("raw.a") == {"f2", "f3"}


def test_a_request_made_while_the_claim_was_open_is_still_to_be_done(at_desk: Desk) -> None:
    at_desk.done("raw.a", 0)
    at_desk.ledger.decisions.request_restate("raw.a", [day(0)], "recollect", who="ann")
    held = at_desk.claim("raw.a", 0)
    assert at_desk.ledger.decisions.request_restate("raw.a", [day(0)], "recollect", who="bob") == (day(0),)
    at_desk.done("raw.a", 0, claim=held)
    assert at_desk.ledger.reads.snapshot(at_desk.flow).of("raw.a").requested == {day(0): "recollect"}
    at_desk.done("raw.a", 0)
    assert at_desk.ledger.reads.snapshot(at_desk.flow).of("raw.a").requested == {}


def test_nothing_of_the_past_is_ever_removed(at_desk: Desk) -> None:
    for number in range(3):
        at_desk.done("raw.a", 0, digest=f"{number + 1}:0:0", restates="again")
    at_desk.ledger.claims.record_failed(
        at_desk.claim("raw.a", 0, restates="again"), error="E999 boom", is_transient=False
    )
    audit = at_desk.ledger.past.audit("raw.a", day(0))
    assert [attempt.status for attempt in audit.attempts] == ["done", "done", "done", "failed"]
    assert [attempt.revision.rows for attempt in audit.attempts if attempt.revision] == [1, 2, 3]
    assert audit.attempts[-1].error == "E999 boom"
    assert [event.kind for event in audit.events] == ["claimed", "done"] * 3 + ["claimed", "failed"]


def test_windows_of_any_length_are_recorded(at_desk: Desk) -> None:
    at_desk.apply(table("h.x", every="15 MINUTES", partitioned=True), fingerprint="flow 2")
    quarter = timedelta(minutes=15) / DAY
    held = at_desk.claim("h.x", 0, quarter)
    late = result(quarter)
    at_desk.ledger.claims.record_done(
        held,
        [
            type(late)(day(0), day(quarter), 1, 1, 1, "1:1:1", "p"),
            type(late)(day(quarter), day(2 * quarter), 1, 1, 1, "1:1:2", "q"),
        ],
    )
    assert list(at_desk.ledger.reads.snapshot(at_desk.flow).of("h.x").covered) == [(day(0), day(2 * quarter))]


def test_nan_infinity_and_nul_are_stored_as_text(at_desk: Desk) -> None:
    """NaN is no JSON number, and PostgreSQL texts cannot contain NUL."""
    claim = at_desk.claim("raw.a", 0, who="a\x00nn \ud800")
    measures = {"mean": float("nan"), "most": [float("inf")], "least": -math.inf, "said": "a\x00b", "rows": 3}
    at_desk.ledger.claims.record_done(claim, [result(0, measures=measures)])
    [attempt] = at_desk.ledger.past.audit("raw.a", day(0)).attempts
    assert attempt.revision is not None
    assert attempt.revision.measures == {
        "mean": "NaN",
        "most": ["Infinity"],
        "least": "-Infinity",
        "said": "a\x00b",
        "rows": 3,
    }
    assert {row["who"] for row in at_desk.ledger.past.rows("events") if row["kind"] == "done"} == {r"a\x00nn \ud800"}


def test_no_batch_is_recorded_before_an_earlier_one_after_the_clock_was_set_back(at_desk: Desk) -> None:
    told: list[str] = []
    at_desk.ledger.report_to(told.append)
    at_desk.done("raw.a", 0)
    last = at_desk.clock.at
    at_desk.clock.pass_by(hours=-1)
    at_desk.done("raw.a", 1)
    at_desk.done("raw.a", 2)
    at_desk.clock.pass_by(hours=2)
    at_desk.done("raw.a", 3)
    micro = timedelta(microseconds=1)
    assert [row.recorded_at for row in at_desk.ledger.reads.committed_slices("raw.a")] == [
        last,
        last + micro,
        last + 2 * micro,
        last + timedelta(hours=1),
    ]
    [line] = told
    assert line.startswith("the clock was set back: it shows 2025-12-31 23:00:00Z, but the last batch was recorded at")


def test_a_clock_that_is_back_is_known_until_it_has_passed_the_last_record(at_desk: Desk) -> None:
    reads = at_desk.ledger.reads
    assert reads.measure_clock_lag() is None
    at_desk.done("raw.a", 0)
    last = at_desk.clock.at
    assert reads.measure_clock_lag() is None
    at_desk.clock.pass_by(hours=-1)
    assert reads.measure_clock_lag() == ClockBack(last - timedelta(hours=1), last, "this machine")
    at_desk.clock.pass_by(hours=1)
    assert reads.measure_clock_lag() is None


def test_batches_known_at_an_instant_stay_the_same_after_the_clock_was_set_back(at_desk: Desk) -> None:
    at_desk.done("core.r", 0)
    at_desk.clock.pass_by(minutes=10)
    at_desk.done("core.r", 1)
    asked = [at_desk.clock.at - timedelta(minutes=minutes) for minutes in range(12)]

    def known(at: datetime) -> list[int]:
        return [row.version for row in at_desk.ledger.reads.committed_slices("core.r") if row.recorded_at <= at]

    before = [known(at) for at in asked]
    at_desk.clock.pass_by(minutes=-9)
    at_desk.done("core.r", 2)
    at_desk.done("raw.b", 2)
    assert [known(at) for at in asked] == before


def test_a_clock_set_back_is_reported_once_until_it_has_caught_up(at_desk: Desk) -> None:
    told: list[str] = []
    at_desk.ledger.report_to(told.append)
    for hours in (0, -1, 0, 3, -1):
        at_desk.clock.pass_by(hours=hours)
        at_desk.done("raw.b", at_desk.version)
    assert len(told) == 2
