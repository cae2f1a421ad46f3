"""Splits a child's versions at every change of a parent's attributes."""

from __future__ import annotations

from functools import reduce
from operator import or_

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as sql

from waterclock.temporal.asof import HINTS
from waterclock.temporal.columns import raise_at_row
from waterclock.temporal.plans import TemporalPlan
from waterclock.temporal.query_refusals import OVERLAPPING
from waterclock.temporal.record_columns import earliest_instant, open_end
from waterclock.temporal.time_slices import cuts_of, has_null_key, over_periods


def split(child: DataFrame, parent: DataFrame, keys: list[str], attributes: list[str], plan: TemporalPlan) -> DataFrame:
    """Return the child's versions, split at every change of the parent's attributes and with these attributes.

    Attributes are null while the parent has no version. Both frames have `keys`; a version's start and end are `start`
    and `end` in the child, `eff` and `exp` in the parent.
    """
    whole = complete_timelines(parent, keys, attributes)
    if plan in {TemporalPlan.BROADCAST, TemporalPlan.HASH, TemporalPlan.BUCKETS}:
        return _cut(_join_overlaps(child, whole, keys, plan))
    return _cut(_join_time_slices(child, whole, keys, plan))


def complete_timelines(parent: DataFrame, keys: list[str], attributes: list[str]) -> DataFrame:
    """Return the parent's versions with equal neighbours merged, and with versions of null attributes in all gaps.

    The versions of a key then cover all time from the year 1 to the open end.
    """
    order = Window.partitionBy(*keys).orderBy("eff")
    whole = order.rowsBetween(Window.unboundedPreceding, Window.unboundedFollowing)
    known = reduce(or_, (sql.col(name).isNotNull() for name in attributes), sql.lit(col=False))
    ended = sql.lag("exp").over(order)
    is_same = reduce(
        Column.__and__,
        (sql.col(name).eqNullSafe(sql.lag(name).over(order)) for name in attributes),
        ended == sql.col("eff"),
    )
    starts = (
        parent.where(~has_null_key(keys) & known)
        .select(
            *keys,
            "eff",
            _sound(ended, keys).alias("ended"),
            sql.last("exp").over(whole).alias("last_exp"),
            *attributes,
            sql.coalesce(~is_same, sql.lit(col=True)).alias("is_start"),
        )
        .where("is_start")
        .select(
            *keys,
            "eff",
            sql.coalesce(sql.lead("ended").over(order), "last_exp").alias("exp"),
            sql.coalesce(sql.lead("eff").over(order), open_end()).alias("next_eff"),
            sql.lag("eff").over(order).isNull().alias("is_first"),
            *attributes,
        )
    )
    return _fill_holes(starts, keys, attributes)


def _sound(ended: Column, keys: list[str]) -> Column:
    stopped = raise_at_row(OVERLAPPING, *map(sql.col, keys)).cast("timestamp")
    return sql.when(ended > sql.col("eff"), stopped).otherwise(ended)


def _fill_holes(starts: DataFrame, keys: list[str], attributes: list[str]) -> DataFrame:
    def span(start: Column, end: Column, *, is_known: bool) -> Column:
        return sql.struct(start.alias("eff"), end.alias("exp"), sql.lit(col=is_known).alias("is_known"))

    spans = sql.array(
        sql.when(sql.col("is_first"), span(earliest_instant(), sql.col("eff"), is_known=False)),
        span(sql.col("eff"), sql.col("exp"), is_known=True),
        sql.when(sql.col("exp") < sql.col("next_eff"), span(sql.col("exp"), sql.col("next_eff"), is_known=False)),
    )
    exploded = starts.select(*keys, *attributes, sql.explode(spans).alias("span")).where("span is not null")
    return exploded.select(
        *keys,
        sql.col("span.eff").alias("eff"),
        sql.col("span.exp").alias("exp"),
        *(sql.when(sql.col("span.is_known"), sql.col(name)).alias(name) for name in attributes),
    )


def _join_overlaps(child: DataFrame, whole: DataFrame, on: list[str], plan: TemporalPlan) -> DataFrame:
    theirs = whole.withColumnsRenamed({key: f"p_{key}" for key in on})
    hinted = sql.broadcast(theirs) if plan is TemporalPlan.BROADCAST else theirs.hint(HINTS.get(plan, "merge"))
    meets = (sql.col("start") < sql.col("exp")) & (sql.col("eff") < sql.col("end"))
    pairs = reduce(Column.__and__, (sql.col(key) == sql.col(f"p_{key}") for key in on), meets)
    return child.join(hinted, pairs, "left").drop(*(f"p_{key}" for key in on))


def _join_time_slices(child: DataFrame, whole: DataFrame, keys: list[str], plan: TemporalPlan) -> DataFrame:
    """Join within slices of time. A pair that overlaps in several slices is kept only in the first one."""
    cuts = cuts_of(whole, keys, is_small=plan in {TemporalPlan.SLICES, TemporalPlan.SORTED_SLICES})
    left = over_periods(child, cuts, "start", "end", "is_left_begin")
    right = over_periods(whole, cuts, "eff", "exp", "is_right_begin")
    pairs = _join_overlaps(left, right, [*keys, "slice", "part"], plan)
    counts_here = sql.col("eff").isNull() | sql.col("is_left_begin") | sql.col("is_right_begin")
    return pairs.where(counts_here).drop("slice", "part", "is_left_begin", "is_right_begin")


def _cut(pairs: DataFrame) -> DataFrame:
    start = sql.when(sql.col("eff") > sql.col("start"), sql.col("eff")).otherwise(sql.col("start"))
    end = sql.when(sql.col("exp") < sql.col("end"), sql.col("exp")).otherwise(sql.col("end"))
    return pairs.withColumns({"start": start, "end": end}).drop("eff", "exp")
