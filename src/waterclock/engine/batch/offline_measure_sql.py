"""Writes OFFLINE measures as Spark SQL: for each label, and for several labels from their partial aggregates.

A partial aggregate (a "state") is stored as text: a sum, a minimum, a sketch. They are merged without reading rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from waterclock.dpl.query.aggregates import expand_aggregates
from waterclock.dpl.query.mergeable_aggregates import AggregateCall, SplitExpression, split_at_aggregates
from waterclock.flow.measures import Offline
from waterclock.spark_sql import quote_name
from waterclock.timelabel.label import TIMELABEL

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

LONGEST = 1000
LONGEST_OF_PROFILE = 100
_SKETCH, _SKETCH_OF_PROFILE = 12, 10  # 4,096 and 1,024 bytes: about 1.6 and 3.3 percent
_QUANTILES = 800  # some 16 KB: about 0.3 percent of the ranks
_WHOLE = frozenset({"tinyint", "smallint", "int", "bigint"})
_ORDERED = frozenset("tinyint smallint int bigint float double boolean date timestamp timestamp_ntz string".split())


@dataclass(frozen=True, slots=True)
class OfflineState:
    """One aggregate of a measure, with the SQL of its partial aggregates.

    `call` is the aggregate, `type` the type of its result, `of` the type of its argument.
    """

    call: AggregateCall
    type: str
    of: str
    sketch: int = _SKETCH

    @property
    def signature(self) -> str:
        """The key that two partial aggregates must have in common to be merged."""
        aggregate = self.call.merge_aggregate
        return f"{aggregate} {self.type} {self.sketch if aggregate == 'hll' else ''}".strip()

    @property
    def is_mergeable(self) -> bool:
        """Whether Spark has a sketch for the argument's type."""
        return self.call.merge_aggregate != "kll" or self._kll != ""

    @property
    def columns(self) -> tuple[str, ...]:
        """The SQL of a label's partial aggregate, as text columns."""
        by, text = self.call.merge_aggregate, self.call.text
        if by == "mean":
            return f"CAST(sum({self._argument}) AS STRING)", f"CAST(count({self._argument}) AS STRING)"
        if by == "hll":
            return (f"base64({self._sketch_sql})",)
        if by == "kll":
            return (f"CASE WHEN count({self._argument}) > 0 THEN base64({self._sketch_sql}) END",)
        return (f"CAST({text} AS STRING)",)

    @property
    def own(self) -> str:
        """The SQL of the aggregate's value over the rows of one label."""
        if self.call.merge_aggregate == "hll":
            return f"hll_sketch_estimate({self._sketch_sql})"
        if self.call.merge_aggregate == "kll":
            return f"CASE WHEN count({self._argument}) > 0 THEN {self._quantile(self._sketch_sql)} END"
        return self.call.text

    def merged_sql(self, names: Sequence[str]) -> str:
        """Return the SQL of the value over all labels, from the columns `names` with their partial aggregates."""
        by, first = self.call.merge_aggregate, names[0]
        if by == "mean":
            kind = "double" if self.type == "double" else "decimal(38,10)"
            total, count = f"sum(CAST({first} AS {kind}))", f"sum(CAST({names[1]} AS bigint))"
            return f"CAST(try_divide({total}, {count}) AS {self.type})"
        if by == "hll":
            return f"hll_sketch_estimate(hll_union_agg(unbase64({first}), false))"
        if by == "kll":
            there = f"FILTER (WHERE {first} IS NOT NULL)"
            merged = f"kll_merge_agg_{self._kll}(unbase64({first})) {there}"
            return f"CASE WHEN count({first}) > 0 THEN {self._quantile(merged)} END"
        return f"CAST({by}(CAST({first} AS {self.type})) AS {self.type})"

    @property
    def _argument(self) -> str:
        return self.call.arguments[0]

    @property
    def _kll(self) -> str:
        if self.of in _WHOLE:
            return "bigint"
        return "double" if self.of in {"float", "double"} or self.of.startswith("decimal") else ""

    @property
    def _sketch_sql(self) -> str:
        if self.call.merge_aggregate == "hll":
            return f"hll_sketch_agg(CAST(({self._argument}) AS STRING), {self.sketch})"
        return f"kll_sketch_agg_{self._kll}(CAST(({self._argument}) AS {self._kll}), {_QUANTILES})"

    def _quantile(self, sketch: str) -> str:
        ranks = self.call.arguments[1] if len(self.call.arguments) > 1 else "0.5"
        kind = "ARRAY<DOUBLE>" if self.type.startswith("array") else "DOUBLE"
        return f"CAST(kll_sketch_get_quantile_{self._kll}({sketch}, CAST({ranks} AS {kind})) AS {self.type})"


@dataclass(frozen=True, slots=True)
class OfflineMeasure:
    """A named measure of a table: an expression and, if its values can be merged, the aggregates in it."""

    name: str
    text: str
    longest: int = LONGEST
    parts: SplitExpression | None = None
    states: tuple[OfflineState, ...] = ()

    @property
    def signature(self) -> str:
        """The key that partial aggregates of this measure must have in common to be merged."""
        return "; ".join(state.signature for state in self.states)

    @property
    def columns(self) -> tuple[str, ...]:
        """The SQL of a label's partial aggregates, to be merged with those of other labels."""
        return tuple(text for state in self.states for text in state.columns)

    @property
    def own(self) -> str:
        """The SQL of the measure's value over the rows of one label."""
        if self.parts is None:
            return expand_aggregates(self.text)
        return self.parts.render(lambda at: f"({self.states[at].own})")

    def merged_sql(self, names: Sequence[str]) -> str:
        """Return the SQL of the value of all labels together.

        `names` are the stored columns with the results of `columns`.
        """
        if self.parts is None:
            raise AssertionError(f"{self.name} cannot be merged")
        texts, at = [], 0
        for state in self.states:
            texts.append(state.merged_sql(names[at : at + len(state.columns)]))
            at += len(state.columns)
        return self.parts.render(lambda number: f"({texts[number]})")


def counts_of(offline: Offline, rows: DataFrame, *, is_merging: bool) -> list[OfflineMeasure]:
    """Return the measures of a table: those it declares, then the profile of each column. Cost: no job."""
    plain = [OfflineMeasure(measure.name, measure.expression) for measure in offline.measures]
    plain += _profile_measures(rows) if offline.is_profiled else []
    return [_add_partial_aggregates(count, rows) for count in plain] if is_merging else plain


def aggregate_columns(counts: Sequence[OfflineMeasure]) -> list[Column]:
    """Return the columns to aggregate for each label: value and type of each measure, and its partial aggregates."""
    from pyspark.sql import functions as F  # noqa: N812 - F is the usual name

    found = []
    for at, count in enumerate(counts):
        found += _value_columns(f"v{at}", count.own, count.longest)
        found += [F.expr(text).alias(f"s{at}_{number}") for number, text in enumerate(count.columns)]
    return found


def merged_columns(counts: Mapping[int, OfflineMeasure]) -> list[Column]:
    """Return the columns to aggregate from the partial aggregates of several labels.

    `counts` maps the position of each measure in `aggregate_columns` to the measure.
    """
    found: list[Column] = []
    for at, count in counts.items():
        found += _value_columns(
            f"v{at}", count.merged_sql([f"s{at}_{number}" for number in range(len(count.columns))]), count.longest
        )
    return found


def states_in(counts: Sequence[OfflineMeasure], row: Mapping[str, Any]) -> dict[str, Any]:
    """Map each measure to its partial aggregates, for the ledger, from a label's row of `aggregate_columns`."""
    return {
        count.name: [count.signature, *(row[f"s{at}_{number}"] for number in range(len(count.columns)))]
        for at, count in enumerate(counts)
        if count.states
    }


def _value_columns(name: str, text: str, longest: int) -> list[Column]:
    from pyspark.sql import functions as F  # noqa: N812

    value = F.expr(f"left(CAST(({text}) AS STRING), {longest})").alias(name)
    return [value, F.expr(f"typeof(({text}))").alias(name.replace("v", "t", 1))]


def _add_partial_aggregates(count: OfflineMeasure, rows: DataFrame) -> OfflineMeasure:
    from pyspark.sql import functions as F  # noqa: N812

    found = count.parts or split_at_aggregates(count.text)
    if found is None:
        return count
    types = [
        *(F.expr(call.text).alias(f"t{at}") for at, call in enumerate(found.calls)),
        *(F.expr(f"first({_argument(call)})").alias(f"o{at}") for at, call in enumerate(found.calls)),
    ]
    fields = [field.dataType.simpleString() for field in rows.agg(*types).schema.fields]
    sketch = _SKETCH_OF_PROFILE if count.longest == LONGEST_OF_PROFILE else _SKETCH
    calls = len(found.calls)
    states = tuple(OfflineState(call, fields[at], fields[calls + at], sketch) for at, call in enumerate(found.calls))
    if not all(state.is_mergeable for state in states):
        return OfflineMeasure(count.name, count.text, count.longest)
    return OfflineMeasure(count.name, count.text, count.longest, found, states)


def _argument(call: AggregateCall) -> str:
    return "1" if call.arguments[0] == "*" else f"({call.arguments[0]})"


def _profile_measures(rows: DataFrame) -> Iterator[OfflineMeasure]:
    """Yield the profile of each column: the number of NULLs, the approximate number of distinct values, min and max."""
    for field in rows.schema.fields:
        if field.name.lower() == TIMELABEL or field.name.startswith("_waterclock"):
            continue
        name, kind = quote_name(field.name), field.dataType.simpleString()
        yield OfflineMeasure(f"{field.name}.nulls", f"count_if({name} IS NULL)", LONGEST_OF_PROFILE)
        if kind not in _ORDERED and not kind.startswith("decimal"):
            continue
        yield OfflineMeasure(f"{field.name}.distinct", f"approx_count_distinct({name})", LONGEST_OF_PROFILE)
        of = f"left({name}, {LONGEST_OF_PROFILE})" if kind == "string" else name
        for which in ("min", "max"):
            yield OfflineMeasure(f"{field.name}.{which}", f"{which}({of})", LONGEST_OF_PROFILE)
