"""Joins each row with the version of a parent in effect at the row's time, by one of several join plans."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as sql

from waterclock.temporal import time_buckets, time_slices
from waterclock.temporal.columns import raise_at_row
from waterclock.temporal.plans import TemporalPlan
from waterclock.temporal.query_refusals import OVERLAPPING
from waterclock.temporal.time_buckets import BUCKET_HASH, Buckets, hash_as_they_compare
from waterclock.temporal.time_slices import cuts_of, has_null_key, spread_key

HINTS = {
    TemporalPlan.HASH: "shuffle_hash",
    TemporalPlan.BUCKETS: "shuffle_hash",
    TemporalPlan.SLICES: "shuffle_hash",
    TemporalPlan.SORTED_SLICES: "merge",
}


def as_of(
    child: DataFrame, parent: DataFrame, keys: list[str], plan: TemporalPlan, buckets: Buckets | None = None
) -> DataFrame:
    """Return each row of the child once, with the columns of the parent's version in effect at the row's time.

    Both frames have `keys`. The child has its time in `at`; the parent has the start and end of a version in `eff` and
    `exp`, and the columns to add. If no version was in effect, these are null, `eff` too. `TemporalPlan.BUCKETS` needs
    `buckets`. Without them, or if equal keys may have unequal hashes, rows are joined as by `TemporalPlan.HASH`.
    """
    if plan is TemporalPlan.WINDOW:
        return _join_by_window(child, parent, keys)
    if (
        plan is TemporalPlan.BUCKETS
        and buckets is not None
        and hash_as_they_compare(child.schema[key].dataType for key in keys)
    ):
        rows = time_buckets.add_bucket_hash(child, keys, buckets, "at")
        versions = time_buckets.over_periods(parent, keys, buckets, "eff", "exp")
        return _join_ranges(rows, versions, [BUCKET_HASH], plan, compared=keys).drop(BUCKET_HASH)
    if plan in {TemporalPlan.SLICES, TemporalPlan.SORTED_SLICES}:
        cuts = cuts_of(parent, keys, is_small=True)
        child = time_slices.add_slice_columns(child, cuts, "at")
        parent = time_slices.over_periods(parent, cuts, "eff", "exp")
        return _join_ranges(child, parent, [*keys, "slice", "part"], plan).drop("slice", "part")
    return _join_ranges(child, parent, keys, plan)


def _join_ranges(
    child: DataFrame, parent: DataFrame, on: list[str], plan: TemporalPlan, *, compared: Sequence[str] = ()
) -> DataFrame:
    theirs = parent.withColumnsRenamed({key: f"p_{key}" for key in (*on, *compared)})
    hinted = sql.broadcast(theirs) if plan is TemporalPlan.BROADCAST else theirs.hint(HINTS[plan])
    is_in_effect = (sql.col("at") >= sql.col("eff")) & (sql.col("at") < sql.col("exp"))
    # not written as =, since Spark would add it to its join keys. Neither comparison is true for a null
    same = [(sql.col(key) <= sql.col(f"p_{key}")) & (sql.col(key) >= sql.col(f"p_{key}")) for key in compared]
    joined = child.join(hinted, reduce(Column.__and__, [*_equal(on), *same], is_in_effect), "left")
    return joined.drop(*(f"p_{key}" for key in (*on, *compared)), "exp")


def _equal(on: list[str]) -> list[Column]:
    return [sql.col(key) == sql.col(f"p_{key}") for key in on]


def _join_by_window(child: DataFrame, parent: DataFrame, keys: list[str]) -> DataFrame:
    """Join by a union of rows and versions, ordered by time, and a window that finds the last version before each row.

    This is the only plan that needs no statistics of the parent. It does not keep all versions of a key in memory. If
    periods overlap, the query fails with E309.
    """
    wanted = [name for name in parent.columns if name not in keys]
    spread = sql.when(has_null_key(keys), spread_key("at")).otherwise(sql.lit(0).cast("long"))
    versions = parent.where(~has_null_key(keys)).select(
        *keys, sql.col("eff").alias("at"), sql.struct(*wanted).alias("version"), sql.lit(0).cast("long").alias("spread")
    )
    rows = child.select("*", spread.alias("spread"), sql.lit(col=True).alias("is_row"))
    order = Window.partitionBy(*keys, "spread").orderBy("at", sql.col("is_row").asc_nulls_first())
    before = order.rowsBetween(Window.unboundedPreceding, -1)
    timeline = rows.unionByName(versions, allowMissingColumns=True).select(
        *child.columns,
        "is_row",
        sql.last("version", ignorenulls=True).over(order.rowsBetween(Window.unboundedPreceding, 0)).alias("seen"),
        sql.max(sql.col("version.exp")).over(before).alias("ended"),
    )
    is_sound = sql.coalesce(sql.col("ended") <= sql.col("at"), sql.lit(col=True))
    stopped = raise_at_row(OVERLAPPING, *map(sql.col, keys)).cast("boolean")
    is_row = sql.when(sql.col("is_row"), sql.lit(col=True)).otherwise(~is_sound & stopped)
    seen = sql.when(sql.col("at") < sql.col("seen.exp"), sql.col("seen"))
    found = timeline.where(is_row).withColumn("seen", seen)
    return found.select(*child.columns, *(sql.col(f"seen.{name}").alias(name) for name in wanted if name != "exp"))
