"""Converts raw rows to the versions of each key: fills nulls, and keeps one version for each change."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as sql

from waterclock.errors import WaterclockError
from waterclock.temporal.bounds import can_begin_sql
from waterclock.temporal.columns import (
    exact_column,
    raise_at_row,
    require_columns,
    require_comparable,
    require_keys,
    to_names,
)
from waterclock.temporal.counts import Counts, count_where
from waterclock.temporal.instants import instant
from waterclock.temporal.query_refusals import UNPLACED, UNTIMED
from waterclock.temporal.record_columns import CURRENT, EFFECTIVE, EXPIRES, RECORD, open_end
from waterclock.temporal.shape import Attribute, Shape, attributes_of
from waterclock.temporal.sources import unwrap_value, wrapped_only
from waterclock.temporal.version_statistics import LONG_KEY

if TYPE_CHECKING:
    from pyspark.sql.window import WindowSpec

_WHERE = "compute_temporal"


def compute_temporal(  # noqa: PLR0913 - all but two are keyword arguments
    df: DataFrame,
    natural_id: str | Sequence[str],
    *,
    time: str = EFFECTIVE,
    sequence: str | Sequence[str] = (),
    nulls: str | Mapping[str, str] = "missing",
    delete_when: str | Column | None = None,
    track: str | Sequence[str] | None = None,
    keep: str | Sequence[str] = (),
    fill_back: bool = True,
    zone: str | None = None,
    counts: Counts | None = None,
    placed: bool = False,
) -> DataFrame:
    """Return the versions of each key: one row per key and time at which a tracked attribute changed.

    The periods of a key do not overlap; the last one ends at OPEN unless the key was deleted. See
    docs/decisions/temporal-versions.md. Cost: one exchange, one sort (two with `delete_when`), three windows (four).

    Args:
        df: One row per key and time at which a source reported something; in any order, repeated or late.
        natural_id: The columns of the key.
        time: The column with the time from which a row is effective, from the year 1 to before OPEN.
        sequence: Columns that order rows of one time: the last row wins, attribute by attribute. They are not in the
            result. Rows with equal ones are ordered by their attributes, in the order of the columns.
        nulls: "missing": a null is filled from earlier rows, then from later ones; "value": it means empty. One word
            for all attributes, or one for each.
        delete_when: The column (not in the result) or condition by which a row deletes its key. Nothing is filled
            across a delete.
        track: The attributes whose changes make a version, None for all. Each other attribute has its last value within
            the version, so a read as of a time within it sees later values.
        keep: Columns that are neither compared nor filled: a version has the value of the row that began it, the last
            row of that time.
        fill_back: False leaves values null before the first row that has one.
        zone: Needed if `time` is no TIMESTAMP. It does not apply to texts that contain a zone.
        counts: Counts rows, no_key, no_time and bad_time (rows left out; bad_time: the text is no time, or no version
            can begin then), versions, keys, most_versions, long_keys.
        placed: True if the caller removed rows without key or time. Then no row is checked, because Spark may evaluate
            the check before the caller's filter.

    Returns:
        The key, rec_eff_time, the attributes, rec_exp_time, rec_is_current.

    Raises:
        WaterclockError: E301 to E303, E305, E308, E310. Without `counts`, the query fails with E304 at a row without
            key or time.
    """
    keys, order = to_names(natural_id), to_names(sequence)
    require_keys(df, keys, where=_WHERE)
    if isinstance(delete_when, str) and delete_when.isidentifier():
        require_columns(df, [delete_when], where=_WHERE)
    others = {*keys, time, *order, *_list_consumed_columns(df, delete_when)}
    attributes = tuple(attributes_of(df, others, nulls, track, to_names(keep), where=_WHERE))
    _require(df, (*keys, *order), attributes, time)
    df = wrapped_only(df, [each.name for each in attributes])
    shape = Shape(keys, attributes, len(order), fill_back, delete_when is not None)
    raw = _raw(df, shape, instant(df, time, zone, where=_WHERE), exact_column(time), order, delete_when)
    kept = raw.drop("said_at") if placed else _filter_placed_rows(raw, shape, counts)
    facts = _lives(kept, shape) if shape.has_deletes else kept
    return _close_versions(_keep_changes(_fill_forward(facts, shape), shape), shape, counts)


def _list_consumed_columns(df: DataFrame, delete_when: str | Column | None) -> tuple[str, ...]:
    return (delete_when,) if isinstance(delete_when, str) and delete_when in df.columns else ()


def _require(df: DataFrame, names: Sequence[str], attributes: Sequence[Attribute], time: str) -> None:
    require_columns(df, names, where=_WHERE)
    require_comparable(df, [*names, *(each.name for each in attributes)], where=_WHERE)
    taken = [name for name in df.columns if name.lower() in RECORD and name != time]
    if taken:
        raise WaterclockError(
            "E308",
            f"the rows already have columns that compute_temporal adds: {', '.join(taken)}",
            where=_WHERE,
            why="versions are computed from raw rows; filled values of a temporal frame are not observations",
            fix="pass the raw rows, or drop the columns",
        )


def _raw(
    df: DataFrame,
    shape: Shape,
    at: Column,
    said_at: Column,
    order: Sequence[str],
    delete_when: str | Column | None,
) -> DataFrame:
    flag = sql.expr(delete_when) if isinstance(delete_when, str) and delete_when not in df.columns else delete_when
    gone = exact_column(flag) if isinstance(flag, str) else flag
    gone = None if gone is None else sql.coalesce(gone.cast("boolean"), sql.lit(col=False))
    values = [
        (exact_column(each.name) if gone is None else sql.when(~gone, exact_column(each.name))).alias(each.held)
        for each in shape.attributes
    ]
    return df.select(
        *(exact_column(key).alias(held) for key, held in zip(shape.keys, shape.internal_key_columns, strict=True)),
        at.alias("at"),
        said_at.alias("said_at"),
        *(exact_column(name).alias(f"s{place}") for place, name in enumerate(order)),
        *([] if gone is None else [gone.alias("gone")]),
        *values,
    )


def _filter_placed_rows(raw: DataFrame, shape: Shape, counts: Counts | None) -> DataFrame:
    """Remove and count rows without key or time. Without `counts`, let the query fail at such a row."""
    no_key = reduce(or_, (sql.col(key).isNull() for key in shape.internal_key_columns))
    no_time, is_timed = sql.expr(f"NOT coalesce({can_begin_sql('at')}, false)"), sql.col("said_at").isNotNull()
    if counts is None:
        shown = [*map(sql.col, shape.internal_key_columns), sql.col("said_at")]
        unplaced, untimed = (raise_at_row(refusal, *shown).cast("boolean") for refusal in (UNPLACED, UNTIMED))
        stopped = sql.when(no_key | ~is_timed, unplaced).otherwise(untimed)
        return raw.where(sql.when(no_key | no_time, stopped).otherwise(sql.lit(col=True))).drop("said_at")
    counts.begin(_WHERE)
    watched = counts.watch(
        raw,
        rows=sql.count(sql.lit(1)),
        no_key=count_where(no_key),
        no_time=count_where(~no_key & ~is_timed),
        bad_time=count_where(~no_key & no_time & is_timed),
    )
    return watched.where(~no_key & ~no_time).drop("said_at")


def _lives(facts: DataFrame, shape: Shape) -> DataFrame:
    """Add the columns `life`, the number of deletes of the key up to the row, and `is_real`.

    `is_real` is false for a delete, and for a row directly before a delete of the same time.
    """
    order = shape.in_order(shape.internal_key_columns)
    running = order.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    dies = sql.lead("gone").over(order) & (sql.lead("at").over(order) == sql.col("at"))
    return facts.select(
        "*",
        sql.sum(sql.col("gone").cast("long")).over(running).alias("life"),
        (~sql.col("gone") & ~sql.coalesce(dies, sql.lit(col=False))).alias("is_real"),
    )


def _fill_forward(facts: DataFrame, shape: Shape) -> DataFrame:
    """Fill nulls from earlier rows, then keep the last row of each time."""
    order = shape.in_order(shape.life)
    running = order.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    values = (
        (sql.last(each.held, ignorenulls=True).over(running) if each.is_filled else sql.col(each.held)).alias(each.held)
        for each in shape.attributes
    )
    filled = facts.select(
        *shape.internal_key_columns, "at", *shape.marks, *values, sql.lead("at").over(order).alias("next_at")
    )
    return filled.where(sql.col("next_at").isNull() | (sql.col("next_at") != sql.col("at"))).drop("next_at")


def _keep_changes(filled: DataFrame, shape: Shape) -> DataFrame:
    """Fill nulls from later rows, and keep the first row of a life and the rows in which a tracked attribute changed.

    After filling forward, an attribute is null only at the start of a life, and filling it back is not a change. With
    `nulls_are_values`, an empty value after a null is not a change either: both are shown as null.
    """
    order = Window.partitionBy(*shape.life).orderBy("at")
    whole = order.rowsBetween(Window.unboundedPreceding, Window.unboundedFollowing)
    is_first = sql.lag("at").over(order).isNull()
    if shape.has_deletes:
        is_first |= sql.lag("gone").over(order)
    changes = [is_first]
    columns: list[Column] = []
    for each in shape.attributes:
        value, before = sql.col(each.held), sql.lag(each.held).over(order)
        is_filled_back = each.is_filled and shape.fill_back
        known = sql.first(each.held, ignorenulls=True).over(whole) if is_filled_back else None
        columns.append((value if known is None else sql.coalesce(value, known)).alias(each.held))
        if each.is_tracked:
            differs = sql.coalesce(value != before, sql.lit(col=False))
            changes.append(differs if is_filled_back else ~_bare(value, each).eqNullSafe(_bare(before, each)))
        elif each.rides_along:
            last = sql.last(each.held).over(whole)
            columns += [
                (before if known is None else sql.coalesce(before, known)).alias(f"before_{each.held}"),
                (last if known is None else sql.coalesce(last, known)).alias(f"last_{each.held}"),
            ]
    kept = filled.select(
        *shape.internal_key_columns, "at", *shape.marks, *columns, reduce(or_, changes).alias("is_kept")
    )
    return kept.where(sql.col("is_kept")).drop("is_kept")


def _close_versions(changes: DataFrame, shape: Shape, counts: Counts | None) -> DataFrame:
    """Return the result of `compute_temporal`: each version ends at the next version or delete of its key.

    Counts are observed directly on the rows of the window: any expression in between would copy each row once more.
    """
    order = Window.partitionBy(*shape.internal_key_columns).orderBy(*shape.life[len(shape.keys) :], "at")
    riding = [f"before_{each.held}" for each in shape.attributes if each.rides_along]
    following = ["at", *(["life"] if shape.has_deletes and riding else []), *riding]
    closed = changes.select(
        "*",
        *(sql.lead(name).over(order).alias(f"next_{name}") for name in following),
        *([] if counts is None else [_running_number(order, shape).alias("number")]),
    )
    if counts is not None:
        closed = _watch_counts(closed, shape, counts)
    if shape.has_deletes:
        closed = closed.where("is_real")
    expires = sql.coalesce("next_at", open_end())
    return closed.select(
        *(sql.col(held).alias(key) for key, held in zip(shape.keys, shape.internal_key_columns, strict=True)),
        sql.col("at").alias(EFFECTIVE),
        *(_select_attribute(each, shape).alias(each.name) for each in shape.attributes),
        expires.alias(EXPIRES),
        (expires == open_end()).alias(CURRENT),
    )


def _running_number(order: WindowSpec, shape: Shape) -> Column:
    if not shape.has_deletes:
        return sql.row_number().over(order)
    running = order.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    return sql.sum(sql.col("is_real").cast("int")).over(running)


def _watch_counts(closed: DataFrame, shape: Shape, counts: Counts) -> DataFrame:
    number = sql.when(sql.col("is_real"), sql.col("number")) if shape.has_deletes else sql.col("number")
    return counts.watch(
        closed,
        versions=sql.count(number),
        keys=count_where(number == 1),
        most_versions=sql.max(number),
        long_keys=count_where(number == LONG_KEY + 1),
        _first=sql.unix_micros(sql.min("at")),
        _last=sql.unix_micros(sql.max("at")),
    )


def _select_attribute(each: Attribute, shape: Shape) -> Column:
    return _bare(_last_within(each, shape) if each.rides_along else sql.col(each.held), each)


def _bare(value: Column, each: Attribute) -> Column:
    return unwrap_value(value) if each.is_wrapped else value


def _last_within(each: Attribute, shape: Shape) -> Column:
    """Return the last value of an untracked attribute within a version.

    This is its value before the next version of the same life or, without one, at the end of the life.
    """
    goes_on = sql.col("next_life") == sql.col("life") if shape.has_deletes else sql.col("next_at").isNotNull()
    return sql.when(goes_on, sql.col(f"next_before_{each.held}")).otherwise(sql.col(f"last_{each.held}"))
