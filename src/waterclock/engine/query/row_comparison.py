"""Compares the rows of two DataFrames label by label in one query: by key, or as multisets without one.

Rows that are equal on both sides are paired first. Of a key's remaining rows, one on each side is a changed row; all
others are removed or added. So a key that occurs several times is compared as a multiset.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import isfinite
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F  # noqa: N812 - the field's own name for it

from waterclock.engine.query.comparable_values import common_type, comparable_sql, is_float, is_number, shown_sql
from waterclock.spark_sql import fold_case, is_internal
from waterclock.storage.fetched_rows import rows_of
from waterclock.timelabel.label import TIMELABEL

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import DataType

ADDED, REMOVED, CHANGED = "added", "removed", "changed"
KINDS = (CHANGED, ADDED, REMOVED)


@dataclass(frozen=True, slots=True)
class RowCounts:
    """How many rows of a label differ. A changed row counts once."""

    added: int = 0
    removed: int = 0
    changed: int = 0

    @property
    def differing(self) -> int:
        """The number of differing rows."""
        return self.added + self.removed + self.changed

    def __add__(self, other: RowCounts) -> RowCounts:
        return RowCounts(self.added + other.added, self.removed + other.removed, self.changed + other.changed)


@dataclass(frozen=True, slots=True)
class LargestChange:
    """The largest change of a number: the row's label and key, and the number before and after."""

    label: str
    key: tuple[Any, ...]
    before: Any
    after: Any

    @property
    def size(self) -> float:
        """The absolute difference."""
        return abs(float(self.after) - float(self.before))


@dataclass(frozen=True, slots=True)
class ColumnChanges:
    """The number of changed rows in which a column differs, and the largest change if it is a number."""

    column: str
    rows: int
    largest: LargestChange | None = None


@dataclass(frozen=True, slots=True)
class DifferingRow:
    """A differing row: its `kind`, its values by column before and after, and how many `times` it occurs."""

    kind: str
    label: str
    before: Mapping[str, Any] | None
    after: Mapping[str, Any] | None
    times: int = 1


@dataclass(frozen=True, slots=True)
class ComparedRows:
    """The result of a comparison of rows: the differing rows by label, and the changed rows by column.

    `counts` has only labels with differing rows. `sample` has at most as many rows of each kind as were requested.
    """

    counts: Mapping[str, RowCounts] = field(default_factory=dict)
    columns: tuple[ColumnChanges, ...] = ()
    sample: tuple[DifferingRow, ...] = ()


@dataclass(frozen=True, slots=True)
class ComparedColumns:
    """The columns that both sides have, by their name after: `names` has the name before, `types` the compared type.

    `key` are those that identify a row; without any, rows are compared as multisets. `unlike` are columns whose types
    cannot be compared.
    """

    names: Mapping[str, str]
    types: Mapping[str, DataType]
    key: tuple[str, ...] = ()
    unlike: tuple[str, ...] = ()

    @property
    def values(self) -> list[str]:
        """The compared columns that are not part of the key."""
        return [name for name in self.names if name not in self.key]


def match_columns(
    before: DataFrame, after: DataFrame, key: Sequence[str] = (), ignored: Sequence[str] = ()
) -> ComparedColumns:
    """Match the columns of both sides by name, without regard to case, except those to ignore.

    `timelabel` is matched only as a column of `key`: rows are compared by label in any case. A column that one side
    does not have is left out, and so is one whose types cannot be compared. If a column of `key` is left out, rows have
    no key.
    """
    wanted = tuple(dict.fromkeys(map(fold_case, key)))
    left_out = {*({TIMELABEL} - {*wanted}), *map(fold_case, ignored)}
    olds = {fold_case(each.name): each for each in before.schema.fields}
    names, types, unlike = dict[str, str](), dict[str, Any](), list[str]()
    for each in after.schema.fields:
        folded = fold_case(each.name)
        old = olds.get(folded)
        if old is None or folded in left_out or is_internal(folded):
            continue
        kind = common_type([old.dataType, each.dataType])
        if kind is None:
            unlike.append(each.name)
        else:
            names[each.name], types[each.name] = old.name, kind
    found = {fold_case(name): name for name in names}
    keys = tuple(found[name] for name in wanted if name in found)
    return ComparedColumns(names, types, keys if len(keys) == len(wanted) else (), tuple(unlike))


def compare_rows(
    before: DataFrame,
    after: DataFrame,
    columns: ComparedColumns,
    *,
    most_labels: int,
    tolerance: float = 0.0,
    most_shown: int = 20,
) -> ComparedRows:
    """Compare the rows of both sides by label (`timelabel`) and key.

    A FLOAT or DOUBLE of a changed row differs only if its change is larger than `tolerance`; the tolerance does not
    apply to floats in keys and nested values, nor to rows without a key. At most `most_shown` rows of each kind are
    returned, and counts of at most `most_labels` labels. Changed rows with the largest changes of numbers come first: a
    row's change of a column counts as its share of the column's largest change, and a row by its largest share. All
    others are ordered by label and key.

    Cost: each side is read once and shuffled once, by label and key. Differing rows stay in Spark, in memory or on
    disk, until the counts and the sample are computed: up to four jobs over them.
    """
    comparison = _Comparison(columns, tolerance)
    differing = comparison.differing_rows(before, after).persist()
    try:
        counted = differing.groupBy("label").agg(*map(F.expr, comparison.aggregates()))
        found = rows_of(counted.selectExpr(*comparison.results()), most_labels)
        counts = {row[0]: RowCounts(*(int(number or 0) for number in row[1:4])) for row in found}
        total = sum(counts.values(), RowCounts())
        changes = tuple(comparison.list_changes({row[0]: row[4:] for row in found}))
        sample = [
            row
            for kind in KINDS
            if getattr(total, kind)
            for row in comparison.read_rows(differing.where(f"kind = '{kind}'"), kind, most_shown, changes)
        ]
    finally:
        differing.unpersist()
    return ComparedRows(counts, changes, tuple(sample))


def count_rows(rows: DataFrame, most_labels: int) -> dict[str, int]:
    """Count the rows of each label, for at most `most_labels` labels. Cost: one scan."""
    return dict(rows_of(rows.groupBy(TIMELABEL).agg(F.expr("count(1)")), most_labels))


class _Comparison:
    """The query of one comparison. Its columns have short names.

    `k0` is the first column of the key, `v0` the first other one after, `w0` before, and `d0` whether it differs.
    """

    def __init__(self, columns: ComparedColumns, tolerance: float) -> None:
        self.columns, self.tolerance = columns, tolerance
        self.keys = {name: f"k{at}" for at, name in enumerate(columns.key)}
        self.values = {name: f"v{at}" for at, name in enumerate(columns.values)}
        self.numbers = [name for name in self.values if is_number(columns.types[name])] if self.keys else []

    def differing_rows(self, before: DataFrame, after: DataFrame) -> DataFrame:
        """Return the rows that differ, one row for both values of a changed row."""
        both = self._select_side(before, is_after=False).unionAll(self._select_side(after, is_after=True))
        named = ["label", *self.keys.values(), *self.values.values()]
        # by label and key, so that the window below needs no second shuffle
        placed = both.repartition(*named[: 1 + len(self.keys)]) if self.keys else both
        counted = placed.groupBy(*named).agg(F.expr("count_if(is_after) - count_if(NOT is_after) AS more"))
        left = counted.where("more != 0")
        if not self.keys:
            olds = [f"{value} AS {_before(value)}" for value in self.values.values()]
            kinds = f"CASE WHEN more > 0 THEN '{ADDED}' ELSE '{REMOVED}' END AS kind"
            return left.selectExpr("label", kinds, "abs(more) AS times", *self.values.values(), *olds)
        return self._pair_rows(left)

    def _select_side(self, rows: DataFrame, *, is_after: bool) -> DataFrame:
        kinds = {each.name: each.dataType for each in rows.schema.fields}
        parts = [f"`{TIMELABEL}` AS label", f"{str(is_after).lower()} AS is_after"]
        for name, place in {**self.keys, **self.values}.items():
            own = name if is_after else self.columns.names[name]
            parts.append(f"{comparable_sql(own, kinds[own], self.columns.types[name])} AS {place}")
        return rows.selectExpr(*parts)

    def _pair_rows(self, left: DataFrame) -> DataFrame:
        """Join the two rows of each key that has one remaining row on each side."""
        window = f"OVER (PARTITION BY {', '.join(['label', *self.keys.values()])})"
        olds = f"struct({', '.join(self.values.values())})" if self.values else "NULL"
        windowed = left.selectExpr(
            "*",
            f"sum(greatest(more, 0L)) {window} = 1 AND sum(greatest(-more, 0L)) {window} = 1 AS is_pair",
            f"max(CASE WHEN more < 0 THEN {olds} END) {window} AS old",
        )
        kept = windowed.where("NOT is_pair OR more > 0")
        differs = [f"is_pair AND {self._differs(name)} AS {_differs(place)}" for name, place in self.values.items()]
        rows = kept.selectExpr(
            "label",
            f"CASE WHEN is_pair THEN '{CHANGED}' WHEN more > 0 THEN '{ADDED}' ELSE '{REMOVED}' END AS kind",
            "abs(more) AS times",
            *self.keys.values(),
            *self.values.values(),
            *(f"CASE WHEN is_pair THEN old.{name} ELSE {name} END AS {_before(name)}" for name in self.values.values()),
            *differs,
        )
        any_differs = " OR ".join(_differs(name) for name in self.values.values()) or "false"
        return rows.where(f"kind != '{CHANGED}' OR {any_differs}")

    def _differs(self, name: str) -> str:
        """Return the SQL that is true if a column of a pair differs by more than the tolerance."""
        new = self.values[name]
        differs = f"NOT (old.{new} <=> {new})"
        if self.tolerance > 0 and is_float(self.columns.types[name]):
            return f"{differs} AND NOT coalesce(abs({new} - old.{new}) <= CAST('{self.tolerance!r}' AS DOUBLE), false)"
        return differs

    def aggregates(self) -> Iterator[str]:
        """Yield the aggregates of each label: rows by kind, changed rows and the largest change by column."""
        for kind in (ADDED, REMOVED, CHANGED):
            yield f"sum(times) FILTER (WHERE kind = '{kind}') AS {kind}"
        if not self.keys:
            return
        yield from (f"count_if({_differs(place)}) AS {_differs(place)}" for place in self.values.values())
        keys = ", ".join(self.keys.values())
        for name in self.numbers:
            new, old = self.values[name], _before(self.values[name])
            size = _size(new)
            row = f"struct({keys}, {old} AS old, {new} AS new)"
            is_measured = f"{_differs(new)} AND {size} IS NOT NULL AND NOT isnan({size})"
            yield f"max_by({row}, struct({size}, {keys})) FILTER (WHERE {is_measured}) AS {_largest(new)}"

    def results(self) -> list[str]:
        """Return the columns of the aggregates.

        The fields of largest changes are separate columns, because Arrow needs plain types.
        """
        kinds = {place: self.columns.types[name] for name, place in self.keys.items()}
        largest = [
            shown_sql(f"{_largest(self.values[name])}.{part}", kinds.get(part, self.columns.types[name]))
            for name in self.numbers
            for part in (*self.keys.values(), "old", "new")
        ]
        differing = map(_differs, self.values.values()) if self.keys else ()
        return ["label", ADDED, REMOVED, CHANGED, *differing, *largest]

    def list_changes(self, found: Mapping[str, Sequence[Any]]) -> Iterator[ColumnChanges]:
        """Yield the columns with changed rows, most first. `found` has the results of the aggregates by label."""
        if not self.keys:
            return
        rows = {name: sum(int(row[at]) for row in found.values()) for at, name in enumerate(self.values)}
        largest: dict[str, LargestChange] = {}
        for label, row in sorted(found.items()):
            width = len(self.keys) + 2
            for at, name in enumerate(self.numbers):
                start = len(self.values) + at * width
                *key, old, new = row[start : start + width]
                if old is None or new is None:
                    continue
                one = LargestChange(label, tuple(key), old, new)
                if name not in largest or one.size > largest[name].size:
                    largest[name] = one
        for name in sorted(rows, key=lambda name: -rows[name]):
            if rows[name]:
                yield ColumnChanges(name, rows[name], largest.get(name))

    def read_rows(
        self, rows: DataFrame, kind: str, most: int, changes: Sequence[ColumnChanges] = ()
    ) -> list[DifferingRow]:
        """Return the first rows of one kind, by label and key, or by label and values without a key.

        Changed rows are ordered by the size of their changes first. `changes` has the largest one of each column.
        """
        places = {**self.keys, **self.values}
        after = [shown_sql(place, self.columns.types[name]) for name, place in places.items()]
        before = [shown_sql(_before(place), self.columns.types[name]) for name, place in self.values.items()]
        order = ["label", *(self.keys or self.values).values(), "times"]
        first = [F.expr(self._largest_share(changes)).desc()] if kind == CHANGED else []
        found = rows_of(rows.orderBy(*first, *order).limit(most).selectExpr("label", "times", *after, *before), most)
        result = []
        for label, times, *values in found:
            new = dict(zip(places, values[: len(places)], strict=True))
            old = new | dict(zip(self.values, values[len(places) :], strict=True))
            result.append(
                DifferingRow(kind, label, None if kind == ADDED else old, None if kind == REMOVED else new, int(times))
            )
        return result

    def _largest_share(self, changes: Sequence[ColumnChanges]) -> str:
        """Return the SQL of a row's largest share of a column's largest change: between 0 and 1."""
        shares = []
        for each in changes:
            if each.largest is None or not each.largest.size:
                continue
            place, most = self.values[each.column], each.largest.size
            size = _size(place)
            of_most = f"{size} / CAST('{most!r}' AS DOUBLE)"
            share = of_most if isfinite(most) else f"CAST({size} = CAST('Infinity' AS DOUBLE) AS DOUBLE)"
            shares.append(f"CASE WHEN {_differs(place)} AND NOT isnan({size}) THEN {share} END")
        return f"greatest(0D, {', '.join(shares)})" if shares else "0D"


def _size(place: str) -> str:
    """Return the SQL of the absolute change of a number."""
    return f"abs(CAST({place} AS DOUBLE) - CAST({_before(place)} AS DOUBLE))"


def _before(place: str) -> str:
    return f"w{place[1:]}"


def _differs(place: str) -> str:
    return f"d{place[1:]}"


def _largest(place: str) -> str:
    return f"m{place[1:]}"
