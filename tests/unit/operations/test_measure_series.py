"""Measures over time: their bounds are those that rules use."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from tempfile import mkdtemp

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests import stocks
from waterclock.batches.audit_records import MeasuredBatch
from waterclock.engine.batch.measuring import MeasureHistory
from waterclock.flow.declarations import Table
from waterclock.flow.measures import GIVEN_UP, MEASURED, OFFLINE, ComparedSource, ComparedValue, read_measured_values
from waterclock.operations.measure_series import (
    MeasurePoint,
    MeasureSeries,
    count_labels_needed,
    profile_of,
    rules_on,
    series_of,
)

START = datetime(2024, 1, 1, tzinfo=UTC)


@cache
def declared(every: str = "DAY", rules: str = "", measures: str = "avg(v) AS mean") -> Table:
    """Declare a table by a statement."""
    said = "".join((f" EXPECT {rules}" if rules else "", f" MEASURE {measures}" if measures else ""))
    flow = f"""CREATE CONNECTION erp TYPE sqlite;
COLLECT raw.a PARTITIONED (v DOUBLE, at TIMESTAMP) FROM erp.a EVERY {every} BY DATA TIME at{said};
"""
    return stocks.make(Path(mkdtemp()) / "shop", flow).project.flow.tables["raw.a"]


def counted(label: datetime, rows: int, **values: tuple[str | None, str]) -> MeasuredBatch:
    measured = {name: {"value": value, "type": kind} for name, (value, kind) in values.items()}
    return MeasuredBatch(label, rows, {MEASURED: measured, "warnings": []})


def by_name(found: Sequence[MeasureSeries]) -> dict[str, MeasureSeries]:
    return {series.name: series for series in found}


def labels_of(table: Table, count: int) -> list[datetime]:
    labels = [table.cadence.floor(START)]
    while len(labels) < count:
        labels.append(table.cadence.next(labels[-1]))
    return labels


def test_offline_measures_form_a_series_and_their_bounds_are_those_of_the_rule() -> None:
    rules = "avg(v) BETWEEN usual(avg(v), -3) AND usual(avg(v), 3) AS as_usual ELSE WARN"
    table = declared("DAY", rules, "avg( v ) AS mean OFFLINE 1 WEEK")
    labels = labels_of(table, 40)
    values = {label: {"mean": {"value": str(100 + at % 3), "type": "double"}} for at, label in enumerate(labels[:-1])}
    kept = [MeasuredBatch(label, 1, {OFFLINE: values[label]}) for label in labels[:-1]]
    kept.append(counted(labels[-1], 1, **{"avg(v)": ("101.0", "double")}))
    found = by_name(series_of(table, kept, labels))
    assert [point.number for point in found["mean"].points[:4]] == [100, 101, 102, 100]
    assert found["mean"].newest == found["mean"].points[-2]
    history = MeasureHistory(table, {each.label: (1, read_measured_values(each.measures)) for each in kept})
    then = history.usual(labels[-1], ComparedValue(ComparedSource.USUAL, "avg(v)"))
    assert then is not None
    assert found["avg(v)"].points[-1].usual == float(str(then.value))


@pytest.mark.parametrize("every", ["DAY", "HOUR", "MONTH"])
@settings(max_examples=8, deadline=None)
@given(data=st.data())
def test_bounds_are_those_that_a_rule_is_judged_by(every: str, data: st.DataObject) -> None:
    table = declared(every, "avg(v) BETWEEN usual(avg(v), -3) AND usual(avg(v), 4.5) AS as_usual ELSE HOLD", "")
    labels = labels_of(table, {"DAY": 90, "HOUR": 420, "MONTH": 30}[every])
    some = st.one_of(st.none(), st.floats(-50, 200), st.just(math.nan))
    usually = st.floats(90, 110)
    values = [data.draw(some if index % 17 == 0 else usually) for index in range(len(labels))]
    kept = [
        counted(label, 10, **{"avg(v)": (None if value is None else repr(value), "double")})
        for label, value in zip(labels, values, strict=True)
    ]
    shown = [*labels[-4:], table.cadence.next(labels[-1])]  # the last was never done
    found = by_name(series_of(table, kept[-count_labels_needed(table, shown[-1], len(shown)) :], shown))["avg(v)"]
    judge = MeasureHistory(table, {each.label: (each.rows, read_measured_values(each.measures)) for each in kept})
    for point in found.points:
        told = [
            judge.usual(point.label, ComparedValue(ComparedSource.USUAL, "avg(v)", scales)) for scales in (-3, 0, 4.5)
        ]
        assert [point.low, point.usual, point.high] == [None if it is None else float(it.value or "") for it in told]


def test_a_side_without_a_bound_has_none_and_rows_are_known_of_every_batch() -> None:
    table = declared(rules="count(*) >= usual(count(*), -3) AS enough ELSE WARN")
    labels = labels_of(table, 40)
    kept = [MeasuredBatch(label, 100 + index % 3, {}) for index, label in enumerate(labels)]
    rows = by_name(series_of(table, kept, labels))["rows"]
    assert rows.rules == ("enough",)
    assert rows.points[0] == MeasurePoint(labels[0], "100", 100.0)
    last = rows.points[-1]
    assert last.low is not None
    assert last.usual is not None
    assert last.low < last.usual
    assert last.high is None
    assert rows.newest == last


def test_partial_batches_are_shown_and_do_not_count_as_usual() -> None:
    table = declared(rules="count(*) >= usual(count(*), -3) AS enough ELSE WARN")
    labels = labels_of(table, 40)
    whole = [MeasuredBatch(label, 100 + index % 3, {}) for index, label in enumerate(labels)]
    some = [replace(each, rows=1, is_partial=True) if 20 <= at < 39 else each for at, each in enumerate(whole)]
    without = [each for each in some if not each.is_partial]
    shown, expected = (by_name(series_of(table, kept, labels))["rows"] for kept in (some, without))
    assert [point.number for point in shown.points[20:39]] == [1] * 19
    assert shown.points[-1] == expected.points[-1]


def test_measures_that_are_not_numbers_or_missing_are_returned_unchanged() -> None:
    table = declared(measures="max(at) AS newest, avg(v) AS mean")
    first, second, third = labels_of(table, 3)
    kept = [
        counted(first, 3, newest=("2024-01-01 09:00:00", "timestamp"), mean=("NaN", "double"), older=("7", "int")),
        counted(second, 0, newest=(None, "timestamp"), mean=(None, "double")),
        MeasuredBatch(third, 0, {MEASURED: {"mean": {"value": "5.0", "type": "double"}}, "warnings": [GIVEN_UP]}),
    ]
    found = series_of(table, kept, [first, second, third])
    assert [series.name for series in found] == ["rows", "newest", "mean", "older"]
    newest, mean = found[1], found[2]
    assert [(point.value, point.number) for point in newest.points] == [
        ("2024-01-01 09:00:00", None), (None, None), (None, None),
    ]  # fmt: skip
    assert (newest.type, newest.newest) == ("timestamp", newest.points[0])
    assert [(point.value, point.number) for point in mean.points] == [("NaN", None), (None, None), (None, None)]
    assert [point.value for point in found[0].points] == ["3", "0", None]  # lost rows have no value
    assert series_of(table, [], []) == ()


def test_a_rule_is_listed_for_the_measures_whose_expression_it_contains() -> None:
    table = declared(
        rules="COUNT( * ) > 5 AS some, avg( v ) > 2 AS high, max(v) > 2 * last_good(max(v)) AS grows, v > 0 AS rows_ok"
    )
    assert rules_on(table, "rows") == ("some",)
    assert rules_on(table, "mean") == ("high",)
    assert rules_on(table, "max(v)") == ("grows",)
    assert rules_on(table, "sum(v)") == ()


def test_a_profile_contains_the_newest_batch_and_the_null_share_of_each_batch() -> None:
    first, second, third = labels_of(declared(), 3)
    kept = [
        counted(first, 10, **{"v.nulls": ("5", "bigint"), "gone.nulls": ("1", "bigint")}),
        counted(second, 0, **{"v.nulls": ("0", "bigint")}),
        counted(third, 4, mean=("1", "double"), **{"v.nulls": ("1", "bigint"), "v.min": ("0.5", "double")}),
    ]
    [column] = profile_of(kept, {first, second, third})
    assert (column.column, column.newest) == ("v", {"nulls": "1", "min": "0.5"})
    assert column.null_shares == (0.5, None, 0.25)
    assert profile_of(kept, set()) == ()


def test_as_many_labels_are_read_as_the_usual_bounds_of_the_rules_need() -> None:
    plain, days = declared(), declared(rules="avg(v) > usual(avg(v), -3) AS ok ELSE WARN")
    hours = declared("HOUR", "avg(v) > usual(avg(v), -3) AS ok ELSE WARN")
    minutes = declared("5 MINUTES", "avg(v) > usual(avg(v), -3) AS ok ELSE WARN")
    last = START + timedelta(days=300)
    found = [count_labels_needed(each, each.cadence.floor(last), 60) for each in (plain, days, hours, minutes)]
    assert found == [60, 60 + 57, 60 + 56 * 24 + 1, 60 + 4500]
