"""Counts the versions of a temporal frame and of its keys, so that a join with it can choose a plan."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as sql

from waterclock.errors import WaterclockError
from waterclock.temporal.columns import exact_column, require_keys, require_temporal, to_names

# some join plans divide the time of a key with more versions into slices
LONG_KEY = 32


@dataclass(frozen=True, slots=True)
class FrameStatistics:
    """Counts of a DataFrame of versions, by which a join chooses its plan. Outdated ones make it slower, never wrong.

    `most_versions` is the largest number of versions of one key, `long_keys` the number of keys with more than 32
    versions. `first` and `last` are the earliest and the latest start of a version, in microseconds since 1970, None
    if unknown.
    """

    versions: int
    keys: int
    most_versions: int
    long_keys: int
    first: int | None = None
    last: int | None = None


def measure_temporal(df: DataFrame, natural_id: str | Sequence[str]) -> FrameStatistics:
    """Return statistics of a temporal frame, after a check that its periods are valid.

    For a result of `compute_temporal`, `Counts.numbers` returns the same without a job. Cost: a job with one exchange,
    one sort and one window.

    Raises E309 if periods of a key overlap or are empty, or if a row has no key or time. Raises E301, E303, E305, E306
    and E308 for unsuitable columns.
    """
    keys = to_names(natural_id)
    require_keys(df, keys, where="measure_temporal")
    require_temporal(df, where="measure_temporal")
    order = Window.partitionBy(*(f"k{at}" for at in range(len(keys)))).orderBy("eff")
    earlier = order.rowsBetween(Window.unboundedPreceding, -1)
    rows = df.select(
        *(exact_column(key).alias(f"k{at}") for at, key in enumerate(keys)),
        exact_column("rec_eff_time").alias("eff"),
        exact_column("rec_exp_time").alias("exp"),
    ).select("*", sql.max("exp").over(earlier).alias("ended"), sql.row_number().over(order).alias("number"))
    lacks = sql.lit(col=False)
    for name in [*(f"k{at}" for at in range(len(keys))), "eff", "exp"]:
        lacks |= sql.col(name).isNull()
    is_bad = (
        lacks | (sql.col("eff") >= sql.col("exp")) | sql.coalesce(sql.col("ended") > sql.col("eff"), sql.lit(col=False))
    )
    example = sql.concat_ws(", ", *(sql.col(f"k{at}").cast("string") for at in range(len(keys))))
    found = rows.agg(
        sql.count(sql.lit(1)).alias("versions"),
        sql.count_if(sql.col("number") == 1).alias("keys"),
        sql.max("number").alias("most"),
        sql.count_if(sql.col("number") == LONG_KEY + 1).alias("long"),
        sql.count_if(is_bad).alias("bad"),
        sql.min(sql.when(is_bad, example)).alias("example"),
        sql.unix_micros(sql.min("eff")).alias("first"),
        sql.unix_micros(sql.max("eff")).alias("last"),
    ).collect()[0]
    if found["bad"]:
        raise WaterclockError(
            "E309",
            f"{found['bad']} of {found['versions']} versions overlap an earlier one, or do not end after they start",
            where="measure_temporal",
            why=f"the key {found['example']} is an example",
            fix="make valid periods from raw rows with compute_temporal",
        )
    return FrameStatistics(
        found["versions"], found["keys"], found["most"] or 0, found["long"], found["first"], found["last"]
    )
