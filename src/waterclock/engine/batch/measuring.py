"""Computes MEASURE values of a batch while it is written, and compares the batch with earlier ones."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from waterclock.batches.ledger_snapshot import BEGINNING
from waterclock.batches.records import MISSING
from waterclock.dpl.query.absent_columns import without_absent_columns
from waterclock.dpl.query.aggregates import expand_aggregates
from waterclock.engine.batch.rule_errors import first_line
from waterclock.engine.spark.queries import insert_values
from waterclock.errors import WaterclockError
from waterclock.flow.declarations import Rule, Table
from waterclock.flow.enums import Action, Scope
from waterclock.flow.measures import (
    MEASURED,
    PASSED_OVER,
    ROWS,
    ComparedSource,
    ComparedValue,
    MeasuredValue,
    counts_rows,
)
from waterclock.flow.seasonal_baseline import LEAST_SEASONS, LONGER, MOST_BACK, MOST_OF_LONG, MOST_VALUES, trend, usual
from waterclock.timelabel.label import TIMELABEL

if TYPE_CHECKING:
    from pyspark.sql import Column, SparkSession
    from pyspark.sql.types import StructType

    from waterclock.engine.run_context import RunContext
    from waterclock.storage.slices.manifest import Manifest

_VALUE, _TYPE, _PROFILE = "measure:", "measured as:", "profile:"
_NONE: Mapping[str, str] = {}
_LONGEST = 1000
_LONGEST_OF_PROFILE = 100
_MOST_BETWEEN = 10_000
_NUMBERS = re.compile(r"(?:tinyint|smallint|int|bigint|float|double|decimal\(.*\))")
_ORDERED = frozenset(
    "tinyint smallint int bigint float double boolean date timestamp timestamp_ntz string".split()
)  # and decimals


def list_comparison_rules(table: Table) -> tuple[Rule, ...]:
    """Return the rules of a table that compare a batch with earlier batches."""
    return tuple(rule for rule in table.rules if rule.scope is Scope.BATCH and rule.comparison is not None)


def measure_columns(
    table: Table, schema: StructType, absent: Mapping[str, str] = _NONE
) -> Sequence[tuple[str, Column]]:
    """Return the aggregates to record for each batch: its measures, the operands of comparison rules, and its profile.

    Spark returns values and types as text, which is exact for every type. `absent` are the columns that the rows do not
    have (see `absent_columns_of`).
    """
    from pyspark.sql import functions as F  # noqa: N812 - F is the usual name

    wanted = {measure.name: measure.expression for measure in table.measures}
    wanted |= {of: of for rule in list_comparison_rules(table) if rule.comparison for of in rule.comparison.aggregates}
    found = [
        pair
        for name, text in (
            (name, expand_aggregates(without_absent_columns(expression, absent))) for name, expression in wanted.items()
        )
        for pair in (
            (f"{_VALUE}{name}", F.expr(f"left(CAST(({text}) AS STRING), {_LONGEST})")),
            (f"{_TYPE}{name}", F.expr(f"typeof(({text}))")),
        )
    ]
    return [*found, *(_profile_columns(schema) if table.is_profiled else ())]


def _profile_columns(schema: StructType) -> Iterator[tuple[str, Column]]:
    """Yield the profile of each column: the number of NULLs, the approximate number of distinct values, min and max."""
    from pyspark.sql import functions as F  # noqa: N812

    for each in schema.fields:
        if each.name.lower() == TIMELABEL or each.name.startswith("_waterclock"):
            continue
        name = "`" + each.name.replace("`", "``") + "`"
        yield f"{_PROFILE}bigint:{each.name}.nulls", F.expr(f"CAST(count_if({name} IS NULL) AS STRING)")
        kind = each.dataType.simpleString()
        if kind not in _ORDERED and not kind.startswith("decimal"):
            continue
        yield f"{_PROFILE}bigint:{each.name}.distinct", F.expr(f"CAST(approx_count_distinct({name}) AS STRING)")
        for which in ("min", "max"):
            text = f"left(CAST({which}({name}) AS STRING), {_LONGEST_OF_PROFILE})"
            yield f"{_PROFILE}{kind}:{each.name}.{which}", F.expr(text)


def parse_measured_values(found: Mapping[str, Any], rows: int, *, is_profiled: bool) -> dict[str, MeasuredValue]:
    """Map names to measured values, given all values that Spark returned for a label's aggregates."""
    values = {
        key.removeprefix(_VALUE): MeasuredValue(value, found[_TYPE + key.removeprefix(_VALUE)])
        for key, value in found.items()
        if key.startswith(_VALUE)
    }
    if is_profiled:
        values[ROWS] = MeasuredValue(str(rows), "bigint")
    for key, value in found.items():
        if key.startswith(_PROFILE):
            kind, _, name = key.removeprefix(_PROFILE).partition(":")
            values[name] = MeasuredValue(value, kind)
    return values


def build_measure_entries(values: Mapping[str, MeasuredValue], passed_over: Sequence[str]) -> dict[str, Any]:
    """Build the entries for a revision's measures in the ledger: the values, and the rules that were skipped."""
    kept: dict[str, Any] = {MEASURED: {name: value.as_json() for name, value in values.items()}} if values else {}
    return kept | ({PASSED_OVER: list(passed_over)} if passed_over else {})


@dataclass(slots=True)
class MeasureHistory:
    """The measured values of earlier batches by label: from the ledger, and of earlier labels of this group."""

    table: Table
    known: dict[datetime, tuple[int, Mapping[str, MeasuredValue]]] = field(default_factory=dict)

    def add(self, label: datetime, rows: int, values: Mapping[str, MeasuredValue]) -> None:
        """Add the measured values of a label of this group. They replace those of its earlier revision."""
        self.known[label] = (rows, values)

    def last_good(self, label: datetime, aggregate: str) -> MeasuredValue | None:
        """Return an aggregate's value in the newest earlier label, or None if there is no earlier label or no value."""
        before = max((each for each in self.known if each < label), default=None)
        return None if before is None else self._value(before, aggregate)

    def usual(self, label: datetime, wanted: ComparedValue) -> MeasuredValue | None:
        """Return the usual value at a label (USUAL). None if there are too few earlier values, or none is a number."""
        cadence = self.table.cadence
        found = usual(
            self._numbers(label, wanted.aggregate), label, step=cadence.next(label) - label, zone=cadence.zone
        )
        return None if found is None else MeasuredValue(repr(found.at(wanted.scales)), "double")

    def trend(self, label: datetime, wanted: ComparedValue) -> MeasuredValue | None:
        """Return TREND at a label: the recent level divided by the earlier one. None if there are too few values."""
        cadence = self.table.cadence
        step = cadence.next(label) - label
        values = self._numbers(label, wanted.aggregate)
        found = trend(values, label, days=wanted.days, step=step, zone=cadence.zone)
        return None if found is None else MeasuredValue(repr(found), "double")

    def _numbers(self, label: datetime, aggregate: str) -> list[tuple[datetime, float]]:
        """Return the numeric values of an aggregate in the labels before `label`."""
        values = []
        for each in self.known:
            value = self._value(each, aggregate) if each < label else None
            if value is not None and value.value is not None and _NUMBERS.fullmatch(value.type):
                values.append((each, float(value.value)))
        return values

    def _value(self, label: datetime, aggregate: str) -> MeasuredValue | None:
        rows, values = self.known[label]
        # a label older than the rule may have been measured offline
        offline = self.table.offline.name_of(aggregate) if self.table.offline else None
        if name := next((name for name in (aggregate, offline) if name in values), None):
            return values[name]
        return MeasuredValue(str(rows), "bigint") if counts_rows(aggregate) else None


def history_of(work: RunContext, table: Table, labels: Sequence[datetime]) -> MeasureHistory | None:
    """Read the earlier values that a table's comparison rules need for some labels. None if no rule compares.

    Cost: one ledger query.
    """
    compared = [value for rule in list_comparison_rules(table) if rule.comparison for value in rule.comparison.values]
    wanted = {value.source for value in compared}
    if not wanted or not labels:
        return None
    first, last = min(labels), max(labels)
    between = min(table.cadence.count(first, last), _MOST_BETWEEN)
    low, most = BEGINNING, between + 1
    if wanted & {ComparedSource.USUAL, ComparedSource.TREND}:
        is_long = table.cadence.next(first) - first > LONGER
        back = max(MOST_BACK, LEAST_SEASONS + timedelta(days=max(value.days for value in compared)))
        low, most = (BEGINNING, between + MOST_OF_LONG) if is_long else (first - back, between + MOST_VALUES)
    found = work.ledger.reads.measures_before(table.name, last, low=low, most=most)
    return MeasureHistory(table, {label: (each.rows, each.measured) for label, each in found.items()})


@dataclass(slots=True)
class LabelMeasurement:
    """Evaluates the measures of the labels of a group, oldest first, and compares each with earlier labels."""

    work: RunContext
    table: Table
    labels: Sequence[datetime]
    history: MeasureHistory | None = None
    is_read: bool = False

    @property
    def is_needed(self) -> bool:
        """Whether the table declares measures, a profile, or rules that compare batches."""
        return bool(self.table.measures or self.table.is_profiled or list_comparison_rules(self.table))

    def evaluate(
        self, spark: SparkSession, manifest: Manifest, found: Mapping[str, Any]
    ) -> tuple[list[tuple[Action, str]], dict[str, Any]]:
        """Return the findings on a sealed label, and the measures to record in the ledger. `found` are its measures.

        The values of a partial label are recorded, and later labels are not compared with them.
        """
        if not self.is_read:
            self.history, self.is_read = history_of(self.work, self.table, self.labels), True
        values = parse_measured_values(found, manifest.rows, is_profiled=self.table.is_profiled)
        if self.history is None:
            return [], build_measure_entries(values, ())
        broken, passed = evaluate_comparisons(spark, manifest.label, values, self.history)
        if MISSING in manifest.source:
            self.history.known.pop(manifest.label, None)
        else:
            self.history.add(manifest.label, manifest.rows, values)
        return broken, build_measure_entries(values, passed)


def evaluate_comparisons(
    spark: SparkSession, label: datetime, own: Mapping[str, MeasuredValue], history: MeasureHistory
) -> tuple[list[tuple[Action, str]], list[str]]:
    """Evaluate the rules that compare a label with earlier ones. Return the findings and the skipped rules.

    Spark evaluates them on typed literals, without a job. A rule is skipped if its earlier batches do not exist yet, or
    have no recorded values. A rule that is NULL because of a NULL of the batch itself is broken.
    """
    compared: list[tuple[Rule, str]] = []
    passed: list[str] = []
    bound: dict[str, str | None] = {}
    found_of: dict[str, str] = {}
    for rule in list_comparison_rules(history.table):
        if rule.comparison is None:
            continue
        texts, skip_reason = {}, ""
        for value in dict.fromkeys(rule.comparison.values):
            found = _find_value(label, value, own, history)
            if found is None or (value.source is not ComparedSource.OWN and found.value is None):
                skip_reason = f"{rule.name}: {_SKIP_REASONS[value.source]} for {value}"
                break
            name = f"v{len(bound)}"
            bound[name] = found.value
            texts[value] = f"CAST(:{name} AS {found.type})"
            found_of[rule.name] = "; ".join(
                filter(None, (found_of.get(rule.name), f"{value} is {_format_value(found)}"))
            )
        if skip_reason:
            passed.append(skip_reason)
        else:
            compared.append((rule, rule.comparison.render(texts)))
    if not compared:
        return [], passed
    answers = _evaluate_expressions(spark, compared, bound)
    broken = [
        (rule.action, f"{rule.name}: the batch is not ({rule.expression}), where {found_of[rule.name]}")
        for (rule, _), answer in zip(compared, answers, strict=True)
        if answer is not True
    ]
    return broken, passed


def _evaluate_expressions(
    spark: SparkSession, compared: Sequence[tuple[Rule, str]], bound: Mapping[str, str | None]
) -> list[object]:
    """Return the results of rules whose aggregates are replaced by literals. Raises E757 for a rule that fails."""
    from pyspark.errors import PySparkException

    columns = ", ".join(f"({text}) AS r{index}" for index, (_, text) in enumerate(compared))
    try:
        [row] = spark.sql(insert_values(f"SELECT {columns} FROM VALUES (1) AS t(one)", bound)).collect()
    except PySparkException as raised:
        if len(compared) > 1:
            return [answer for each in compared for answer in _evaluate_expressions(spark, [each], bound)]
        [(rule, _)] = compared
        raise WaterclockError(
            "E757",
            f"rule {rule.name} could not be evaluated: {rule.expression}",
            where=str(rule.place),
            why=first_line(str(raised)),
            fix="make it NULL where there is no answer, with try_divide; a value other than TRUE breaks the rule",
        ) from raised
    return list(row)


def _format_value(found: MeasuredValue) -> str:
    if found.value is None:
        return "NULL"
    return f"{float(found.value):.6g}" if found.type == "double" else found.value


_SKIP_REASONS = {
    ComparedSource.OWN: "nothing was counted",
    ComparedSource.LAST_GOOD: "no batch before it",
    ComparedSource.USUAL: "too few batches before it",
    ComparedSource.TREND: "too few batches before it",
}


def _find_value(
    label: datetime, wanted: ComparedValue, own: Mapping[str, MeasuredValue], history: MeasureHistory
) -> MeasuredValue | None:
    if wanted.source is ComparedSource.OWN:
        return own.get(wanted.aggregate)
    if wanted.source is ComparedSource.LAST_GOOD:
        return history.last_good(label, wanted.aggregate)
    if wanted.source is ComparedSource.TREND:
        return history.trend(label, wanted)
    return history.usual(label, wanted)
