"""Delays of tables."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st

from tests.ledgers import flow, table
from tests.unit.operations.test_deadlines import DAY, HOUR, day, facts, timed
from tests.unit.operations.test_watermark_deadlines import marked
from waterclock.batches.ledger_snapshot import LedgerSnapshot
from waterclock.batches.progress_records import MadeLabel
from waterclock.flow.enums import Mode
from waterclock.operations.formatting import span_words
from waterclock.operations.lag import MOST, delays_of, inputs_of, lag_of, percentile, rows_ahead
from waterclock.operations.watermarks import WatermarkPosition


def made(number: float, after: timedelta, rows: int = 10) -> MadeLabel:
    return MadeLabel(day(number), day(number + 1), rows, day(number + 1) + after, timedelta(seconds=5))


def test_a_table_is_behind_in_time_in_labels_and_in_rows_of_its_inputs() -> None:
    of = flow(table("raw.a", partitioned=True), table("mart.c", partitioned=True, reads=["raw.a"]))
    snapshot = LedgerSnapshot({"raw.a": facts(21), "mart.c": facts(18)})
    known = {"raw.a": [made(number, HOUR, rows=number) for number in range(10, 21)]}
    lag = lag_of(of, "mart.c", snapshot, day(21) + 2 * HOUR, known, missing=3)
    assert (lag.fresh_to, lag.behind, lag.labels) == (day(18), 3 * DAY + 2 * HOUR, 3)
    assert (lag.inputs_to, lag.ahead, lag.rows, lag.is_more) == (day(21), 3 * DAY, 18 + 19 + 20, False)
    collected = lag_of(of, "raw.a", snapshot, day(21) + 2 * HOUR, known, missing=0)
    assert (collected.behind, collected.inputs_to, collected.ahead, collected.rows) == (2 * HOUR, None, None, None)
    assert lag_of(of, "mart.c", LedgerSnapshot(), day(2), {}, missing=1).to_json() == {
        "table": "mart.c", "labels": 1, "fresh_to": None, "behind": None, "inputs_to": None, "behind_inputs": None,
        "rows": 0, "rows_are_more": False, "done_after": None, "by_watermark": None,
    }  # fmt: skip


def test_only_the_newest_replace_state_counts_and_a_full_history_may_have_more_rows() -> None:
    whole = table("raw.s", mode=Mode.REPLACE)
    slices = table("raw.a", partitioned=True)
    of_states = {"raw.s": [made(number, HOUR, rows=50 + number) for number in range(5)]}
    assert rows_ahead([whole], of_states, day(2)) == (54, False)
    assert rows_ahead([whole], of_states, day(9)) == (0, False)
    many = {"raw.a": [made(number, HOUR, rows=1) for number in range(MOST)]}
    assert rows_ahead([slices], many, None) == (MOST, True)
    assert rows_ahead([slices], many, day(1)) == (MOST - 1, False)
    assert inputs_of(table("a.b", reads=["a.b", "a.c", "a.c"])) == ["a.c"]


def test_a_late_backfill_does_not_affect_the_measured_delays() -> None:
    mart = timed("mart.c", "4 HOURS")
    backfilled = [replace(made(number, HOUR), done=day(10) + HOUR) for number in range(1, 10)]
    assert delays_of(mart, backfilled) is None
    live = [made(number, hours * HOUR) for number, hours in ((10, 1), (11, 2), (12, 5))]
    found = delays_of(mart, [*backfilled, *live])
    assert found is not None
    assert (found.labels, found.p50, found.p95, found.most, found.late) == (3, 2 * HOUR, 5 * HOUR, 5 * HOUR, 1)
    plain = delays_of(table("mart.d"), [*backfilled, *live])
    assert plain is not None
    assert plain.late is None


@given(st.lists(st.integers(0, 10_000), min_size=1).map(sorted), st.integers(1, 100))
def test_a_percentile_is_one_of_the_spans_and_so_many_are_no_longer(seconds: list[int], percent: int) -> None:
    spans = [timedelta(seconds=each) for each in seconds]
    found = percentile(spans, percent)
    assert found in spans
    assert sum(span <= found for span in spans) * 100 >= percent * len(spans)
    assert sum(span < found for span in spans) * 100 < percent * len(spans)


def test_spans_are_formatted_in_their_two_largest_units() -> None:
    spans = [timedelta(minutes=minutes) for minutes in (0, 12, 300, 2830, 2880, 4590)]
    assert [span_words(span) for span in spans] == ["0 s", "12 min", "5 h", "47 h 10 min", "2 d", "3 d 4 h"]


def test_late_by_watermark_are_labels_whose_end_no_mark_had_come_to_in_time() -> None:
    """The mark of a label is done an hour after its end; that of the 13th was the first with rows of the 12th's end."""
    clicks, mark = marked("web.clicks", "30 HOURS", every="DAY")
    of, numbers = flow(clicks, mark), range(10, 16)
    both: dict[str, list[MadeLabel]] = {name: [made(number, HOUR) for number in numbers] for name in of.tables}
    came = {10: 10.9, 11: 11.9, 12: 11.9, 13: 13.5, 14: 13.5, 15: 13.5}
    reached = [
        WatermarkPosition(day(number + 1), day(at), '{"device":7}', day(at) + HOUR) for number, at in came.items()
    ]
    lag = lag_of(of, "web.clicks", LedgerSnapshot(), day(16) + 2 * HOUR, both, 0, reached)
    assert lag.delays is not None
    # the ends of the 11th and the 13th are late; that of the 14th has two hours left
    assert (lag.delays.labels, lag.delays.late) == (5, 2)
    assert lag.reached_words == "has reached 2026-11-13 12:00Z, 2 d 11 h behind"
    unknown = lag_of(of, "web.clicks", LedgerSnapshot(), day(16) + 2 * HOUR, both, 0)
    assert unknown.delays is not None
    assert (unknown.delays.late, unknown.reached_words) == (None, "")
