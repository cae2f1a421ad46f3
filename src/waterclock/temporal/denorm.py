"""Adds the attributes of a temporal parent to the rows of a child, which may be facts or another temporal frame."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import or_

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as sql
from pyspark.sql.types import BooleanType, DatetimeType, NumericType, StructField, TimestampType

from waterclock.errors import WaterclockError
from waterclock.temporal.asof import as_of
from waterclock.temporal.columns import (
    exact_column,
    require_choice,
    require_columns,
    require_comparable,
    require_keys,
    require_pairs,
    require_temporal,
    to_names,
)
from waterclock.temporal.counts import Counts, count_where
from waterclock.temporal.instants import instant
from waterclock.temporal.overlaps import split
from waterclock.temporal.plans import TemporalPlan, choose
from waterclock.temporal.record_columns import CURRENT, EFFECTIVE, EXPIRES, RECORD, earliest_instant, open_end
from waterclock.temporal.time_buckets import buckets_of
from waterclock.temporal.time_slices import has_null_key
from waterclock.temporal.version_statistics import FrameStatistics


@dataclass(frozen=True, slots=True)
class _JoinColumns:
    """The internal names of the columns of child and parent during a join. They cannot clash with a user's names."""

    child: dict[str, str]  # internal names of the child's columns, by name
    attributes: dict[str, str]  # internal names of the parent's attributes, by name
    parent_keys: tuple[str, ...]
    keys: list[str]  # internal names of the key, the same for child and parent
    suffix: str

    def rows(self, child: DataFrame, **times: Column) -> DataFrame:
        """Return the child with internal names, plus those of `times` that are not among its columns."""
        held = [exact_column(name).alias(held) for name, held in self.child.items()]
        added = {name: time for name, time in times.items() if name not in self.child.values()}
        return child.select(*held, *(time.alias(name) for name, time in added.items()))

    def versions(self, parent: DataFrame) -> DataFrame:
        """Return the parent's keys, attributes, `eff` and `exp`, with internal names."""
        return parent.select(
            *(exact_column(name).alias(held) for name, held in zip(self.parent_keys, self.keys, strict=True)),
            exact_column(EFFECTIVE).alias("eff"),
            exact_column(EXPIRES).alias("exp"),
            *(exact_column(name).alias(held) for name, held in self.attributes.items()),
        )

    def result(self, joined: DataFrame) -> DataFrame:
        """Return the joined rows with the child's column names, then the parent's with the suffix."""
        return joined.select(
            *(sql.col(held).alias(name) for name, held in self.child.items()),
            *(sql.col(held).alias(name + self.suffix) for name, held in self.attributes.items()),
        )


def denorm_transactional(  # noqa: PLR0913 - six by place, the others by name
    child: DataFrame,
    child_id: str | Sequence[str],
    child_time: str,
    parent: DataFrame,
    parent_id: str | Sequence[str],
    rolename: str | None = None,
    *,
    before_first: str = "null",
    zone: str | None = None,
    numbers: FrameStatistics | None = None,
    counts: Counts | None = None,
) -> DataFrame:
    """Return each row of the child once, with the parent's attributes as of the row's time.

    A version matches from its start to before its end. Without a version (no key, an unknown key, no time, before the
    first, in a gap, after a delete) attributes are null. Cost: two exchanges and no sort; no exchange if the parent is
    small, four if keys have very many versions; without `numbers` one exchange, one sort, one window.

    Args:
        child: Any rows, with a key of the parent and a time.
        child_id: The columns of the child with the parent's key.
        child_time: The column of the child with the time.
        parent: A temporal frame.
        parent_id: The columns of the parent's key.
        rolename: The suffix of the parent's attributes, after an underscore.
        before_first: "extend" moves the start of a key's first version back without limit, for history that was loaded
            late.
        zone: Needed if the time is no TIMESTAMP.
        numbers: Statistics of the parent from `compute_temporal` or `measure_temporal`, by which the join plan is
            chosen. Without them a plan is used that suits any parent, and the query fails with E309 if periods overlap.
        counts: Counts rows, matched, no_key, no_time.

    Returns:
        The child's columns, then the parent's attributes, without its key and record columns.

    Raises:
        WaterclockError: E301, E302, E305 to E308, E310, E312. Without `numbers`, the query fails with E309 if periods
            overlap.
    """
    where = "denorm_transactional"
    require_choice(before_first, ("null", "extend"), where=where)
    require_columns(child, [child_time], where=where)
    at = instant(child, child_time, zone, where=where)
    is_instant = isinstance(child.schema[child_time].dataType, TimestampType)
    sides = _sides(
        child,
        to_names(child_id),
        parent,
        to_names(parent_id),
        rolename,
        {child_time: "at"} if is_instant else {},
        where=where,
    )
    versions = sides.versions(parent)
    if before_first == "extend":
        versions = _extend_first_versions(versions, sides.keys)
    return _find_versions(sides.rows(child, at=at), versions, sides, numbers, counts, where)


def denorm_temporal(  # noqa: PLR0913 - five by place, the others by name
    child: DataFrame,
    child_id: str | Sequence[str],
    parent: DataFrame,
    parent_id: str | Sequence[str],
    rolename: str | None = None,
    *,
    exact: bool = False,
    numbers: FrameStatistics | None = None,
    counts: Counts | None = None,
) -> DataFrame:
    """Return the child's versions with the parent's attributes as of the start of each version.

    The cost is that of `denorm_transactional`. If `exact`, the parent is sorted once, too.

    Args:
        child: A temporal frame with a key of the parent.
        child_id: The columns of the child with the parent's key.
        parent: A temporal frame.
        parent_id: The columns of the parent's key.
        rolename: The suffix of the parent's attributes, after an underscore.
        exact: True splits the child's versions at every change of the parent's attributes, which are null while the
            parent has no version. False ignores changes of the parent within a version.
        numbers: As in `denorm_transactional`.
        counts: As in `denorm_transactional`; if exact, `rows` counts the split versions, and `matched` those with a
            value.

    Returns:
        The child's columns, then the parent's attributes.

    Raises:
        WaterclockError: E301, E303, E305 to E308, E312.
    """
    where = "denorm_temporal"
    require_temporal(child, where=f"{where}, the child")
    called = {EFFECTIVE: "start", EXPIRES: "end", CURRENT: "is_current"} if exact else {EFFECTIVE: "at"}
    sides = _sides(child, to_names(child_id), parent, to_names(parent_id), rolename, called, where=where)
    versions = sides.versions(parent)
    if not exact:
        return _find_versions(sides.rows(child), versions, sides, numbers, counts, where)
    require_comparable(parent, sides.attributes, where=where)
    rows = sides.rows(child).drop("is_current")
    spans = split(rows, versions, sides.keys, list(sides.attributes.values()), _plan(versions, numbers))
    if counts is not None:
        spans = _watch_counts(spans, sides, counts, where, start="start")
    return sides.result(spans.withColumn("is_current", sql.col("end") == open_end()))


def _sides(
    child: DataFrame,
    child_keys: tuple[str, ...],
    parent: DataFrame,
    parent_keys: tuple[str, ...],
    rolename: str | None,
    called: Mapping[str, str],
    *,
    where: str,
) -> _JoinColumns:
    require_keys(child, child_keys, where=f"{where}, the child")
    require_temporal(parent, where=f"{where}, the parent")
    require_keys(parent, parent_keys, where=f"{where}, the parent")
    require_pairs(child, child_keys, parent, parent_keys)
    held = {name: f"c{at}" for at, name in enumerate(child.columns)}
    held |= called
    held |= {name: f"k{at}" for at, name in enumerate(child_keys)}
    attributes = [name for name in parent.columns if name not in {*parent_keys, *RECORD}]
    sides = _JoinColumns(
        held,
        {name: f"a{at}" for at, name in enumerate(attributes)},
        parent_keys,
        [f"k{at}" for at in range(len(child_keys))],
        "" if rolename is None else f"_{rolename}",
    )
    _require_new(child, [name + sides.suffix for name in attributes], rolename, where)
    return sides


def _require_new(child: DataFrame, names: list[str], rolename: str | None, where: str) -> None:
    there = {name.lower() for name in child.columns}
    clashes = [name for name in names if name.lower() in there]
    if clashes and len(clashes) == len(names) and rolename is not None:
        raise WaterclockError(
            "E307",
            f"role {rolename} used twice",
            where=where,
            why=f"the child already has {', '.join(clashes)}",
            fix="give this role another name",
        )
    if clashes:
        raise WaterclockError(
            "E308",
            f"the child already has {', '.join(clashes)}",
            where=where,
            fix="pass a rolename, or select the attributes: parent.select(…)",
        )


def _find_versions(
    rows: DataFrame,
    versions: DataFrame,
    sides: _JoinColumns,
    numbers: FrameStatistics | None,
    counts: Counts | None,
    where: str,
) -> DataFrame:
    buckets = None if numbers is None else buckets_of(numbers)
    found = as_of(rows, versions, sides.keys, _plan(versions, numbers), buckets)
    return sides.result(found if counts is None else _watch_counts(found, sides, counts, where))


def _watch_counts(found: DataFrame, sides: _JoinColumns, counts: Counts, where: str, *, start: str = "at") -> DataFrame:
    no_key = has_null_key(sides.keys)
    values = (sql.col(held).isNotNull() for held in sides.attributes.values())
    matched = sql.col("eff").isNotNull() if "eff" in found.columns else reduce(or_, values, sql.lit(col=False))
    counts.begin(where)
    return counts.watch(
        found,
        rows=sql.count(sql.lit(1)),
        matched=count_where(matched),
        no_key=count_where(no_key),
        no_time=count_where(~no_key & sql.col(start).isNull()),
    )


def _extend_first_versions(versions: DataFrame, keys: list[str]) -> DataFrame:
    is_first = sql.lag("eff").over(Window.partitionBy(*keys).orderBy("eff")).isNull()
    return versions.withColumn("eff", sql.when(is_first, earliest_instant()).otherwise(sql.col("eff")))


def _plan(versions: DataFrame, numbers: FrameStatistics | None) -> TemporalPlan:
    setting = versions.sparkSession.conf.get("spark.sql.shuffle.partitions") or ""
    partitions = int(setting) if setting.isdigit() else 1  # some platforms accept "auto"
    return choose(numbers, row_bytes=sum(map(_bytes_of, versions.schema.fields)), partitions=partitions)


def _bytes_of(field: StructField) -> int:
    """Return the approximate size in bytes of a value in a hash table."""
    return 8 if isinstance(field.dataType, (NumericType, DatetimeType, BooleanType)) else 32
