"""Builds series of a table's measures over its newest batches: values, usual ranges, and profile counts. Pure.

All values are from the ledger and belong to batches that readers see: no row is read.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from waterclock.batches.audit_records import MeasuredBatch
from waterclock.flow.checks import list_batch_rules
from waterclock.flow.declarations import Rule, Table
from waterclock.flow.enums import Scope
from waterclock.flow.measures import (
    GIVEN_UP,
    ROWS,
    ComparedSource,
    Measure,
    MeasuredValue,
    counts_rows,
    read_measured_values,
)
from waterclock.flow.seasonal_baseline import LONGER, MOST_BACK, MOST_OF_LONG, MOST_VALUES, Usual, usual

_OF_COLUMN = ("nulls", "distinct", "min", "max")
_NUMBERS = re.compile(r"(?:tinyint|smallint|int|bigint|float|double|decimal\(.*\))")


@dataclass(frozen=True, slots=True)
class MeasurePoint:
    """A measure of one batch. `low` to `high` are the bounds of its rules by the usual value at that time.

    `value` is Spark's text, or None for NULL and for missing counts. `number` is None if the value is no number. A side
    without a bound is None.
    """

    label: datetime
    value: str | None = None
    number: float | None = None
    low: float | None = None
    usual: float | None = None
    high: float | None = None


@dataclass(frozen=True, slots=True)
class MeasureSeries:
    """A measure over labels, oldest first, and the names of the rules that use it."""

    name: str
    type: str
    rules: tuple[str, ...]
    points: tuple[MeasurePoint, ...]

    @property
    def newest(self) -> MeasurePoint | None:
        """The newest point that has a value."""
        return next((point for point in reversed(self.points) if point.value is not None), None)


@dataclass(frozen=True, slots=True)
class ColumnProfile:
    """The counts of PROFILE for a column in the newest batch, by kind, and the share of NULLs in each batch.

    A share is None if it was not counted, or if the batch has no rows.
    """

    column: str
    newest: Mapping[str, str | None]
    null_shares: tuple[float | None, ...]


def count_labels_needed(table: Table, last: datetime, newest: int) -> int:
    """Return how many newest labels to read, so that the usual values of the `newest` labels can be computed.

    Usual values need earlier labels. If no rule compares with `usual()`, the `newest` labels are enough.
    """
    if not _bound_distances(table):
        return newest
    if table.cadence.next(last) - last > LONGER:
        return newest + MOST_OF_LONG
    return newest + min(table.cadence.count(table.cadence.floor(last - MOST_BACK), last) + 1, MOST_VALUES)


def series_of(table: Table, kept: Sequence[MeasuredBatch], labels: Sequence[datetime]) -> tuple[MeasureSeries, ...]:
    """Return the series of a table's row counts and measures over some labels, in the order of declaration.

    `kept`: the measures of these labels and of earlier ones, oldest first. Labels whose rows were lost are skipped.
    Partial labels are shown, and do not count for usual values. Measures that are no longer declared come last. Cost:
    for a measure that is compared with its usual value, some microseconds for each pair of a label and an earlier one.
    """
    known = {each.label: _measured_values(table, each) for each in kept if not _has_lost_rows(each)}
    partial = frozenset(each.label for each in kept if each.is_partial)
    scales = _bound_distances(table)
    names = _measure_names(table, (known[label] for label in labels if label in known))
    return tuple(_build_series(table, name, known, labels, scales.get(name, frozenset()), partial) for name in names)


def profile_of(kept: Sequence[MeasuredBatch], labels: Collection[datetime]) -> tuple[ColumnProfile, ...]:
    """Return the PROFILE counts of each column of the newest batch, in its order. Empty if there are none."""
    counted = [
        (each, read_measured_values(each.measures))
        for each in kept
        if each.label in labels and not _has_lost_rows(each)
    ]
    if not counted:
        return ()
    columns: dict[str, dict[str, str | None]] = {}
    for name, found in counted[-1][1].items():
        if of := _split_profile_name(name):
            columns.setdefault(of[0], {})[of[1]] = found.value
    return tuple(
        ColumnProfile(
            column, newest, tuple(_null_share(values.get(f"{column}.nulls"), each.rows) for each, values in counted)
        )
        for column, newest in columns.items()
    )


def rules_on(table: Table, name: str) -> tuple[str, ...]:
    """Return the names of the batch rules that use a measure, ignoring whitespace and case in its expression."""
    declared = next((measure.expression for measure in _list_measures(table) if measure.name == name), name)
    pattern = re.compile(rf"(?<![\w.`]){re.escape(_normalize_expression(declared))}")

    def uses_measure(rule: Rule) -> bool:
        if rule.comparison is not None and any(_display_name(of) == name for of in rule.comparison.aggregates):
            return True
        text = _normalize_expression(rule.expression)
        return pattern.search(text) is not None or (
            name == ROWS and re.search(r"(?<![\w.`])count\([*1]\)", text) is not None
        )

    return tuple(rule.name for rule in list_batch_rules(table) if rule.scope is Scope.BATCH and uses_measure(rule))


def _list_compared_aggregates(table: Table) -> list[str]:
    """Return the aggregates that rules compare."""
    return [of for rule in list_batch_rules(table) if rule.comparison for of in rule.comparison.aggregates]


def _list_measures(table: Table) -> tuple[Measure, ...]:
    """Return the measures taken as rows are written, and those counted offline."""
    return (*table.measures, *(table.offline.measures if table.offline else ()))


def _normalize_expression(text: str) -> str:
    return re.sub(r"\s+", "", text).lower()


def _display_name(aggregate: str) -> str:
    """Return the display name of an aggregate. Counts of rows share one name."""
    return ROWS if counts_rows(aggregate) else aggregate


def _bound_distances(table: Table) -> Mapping[str, frozenset[float]]:
    """Map each measure to the distances of its rules' bounds from the usual value, in spreads."""
    found: dict[str, set[float]] = {}
    for rule in list_batch_rules(table):
        for value in () if rule.comparison is None else rule.comparison.values:
            if value.source is ComparedSource.USUAL:
                found.setdefault(_display_name(value.aggregate), set()).add(value.scales)
    return {name: frozenset(scales) for name, scales in found.items()}


def _has_lost_rows(each: MeasuredBatch) -> bool:
    return GIVEN_UP in str(each.measures.get("warnings", ""))


def _measured_values(table: Table, each: MeasuredBatch) -> Mapping[str, MeasuredValue]:
    own = {
        _display_name(name): found
        for name, found in read_measured_values(each.measures).items()
        if not _split_profile_name(name)
    }
    for aggregate in _list_compared_aggregates(table) if table.offline else ():
        if (name := table.offline.name_of(aggregate) if table.offline else None) in own and aggregate not in own:
            own[aggregate] = own[str(name)]  # a rule may use an offline measure before it is declared under its name
    return {**own, ROWS: MeasuredValue(str(each.rows), "bigint")}


def _measure_names(table: Table, shown: Iterable[Mapping[str, MeasuredValue]]) -> list[str]:
    found = {name: None for values in shown for name in values}
    declared = [ROWS, *(measure.name for measure in _list_measures(table))]
    declared += [_display_name(of) for of in _list_compared_aggregates(table)]
    return [name for name in dict.fromkeys([*declared, *sorted(found)]) if name in found]


def _build_series(
    table: Table,
    name: str,
    known: Mapping[datetime, Mapping[str, MeasuredValue]],
    labels: Sequence[datetime],
    scales: Collection[float],
    partial: Collection[datetime],
) -> MeasureSeries:
    numbers = {label: _parse_number(values.get(name)) for label, values in known.items()}
    history = [(label, value) for label, value in numbers.items() if value is not None and label not in partial]
    cadence = table.cadence
    points = []
    for label in labels:
        found = known.get(label, {}).get(name)
        value = None if found is None else found.value
        step = cadence.next(label) - label
        then = usual(history, label, step=step, zone=cadence.zone) if scales else None
        points.append(MeasurePoint(label, value, numbers.get(label), *_usual_bounds(then, scales)))
    kinds = (known[label][name].type for label in reversed(labels) if label in known and name in known[label])
    return MeasureSeries(name, next(kinds, ""), rules_on(table, name), tuple(points))


def _usual_bounds(then: Usual | None, scales: Collection[float]) -> tuple[float | None, float | None, float | None]:
    """Return the lowest bound, the usual value and the highest bound; each is None if there is none."""
    if then is None:
        return None, None, None
    low, high = min(scales), max(scales)
    return (
        _finite_or_none(then.at(low)) if low < 0 else None,
        _finite_or_none(then.at()),
        _finite_or_none(then.at(high)) if high > 0 else None,
    )


def _finite_or_none(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _parse_number(found: MeasuredValue | None) -> float | None:
    if found is None or found.value is None or not _NUMBERS.fullmatch(found.type):
        return None
    return _finite_or_none(float(found.value))


def _split_profile_name(name: str) -> tuple[str, str] | None:
    """Return column and kind of a PROFILE count, or None for any other measure."""
    column, _, which = name.rpartition(".")
    return (column, which) if column and which in _OF_COLUMN and "(" not in name else None


def _null_share(nulls: MeasuredValue | None, rows: int) -> float | None:
    count = _parse_number(nulls)
    return count / rows if count is not None and rows else None
