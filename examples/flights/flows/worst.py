"""The same language in Python: each argument is a clause's own words."""

from __future__ import annotations

import waterclock as wc


@wc.transform(
    "marts.worst",
    partitioned=True,
    expect="worst_delay < 24 * 60 AS left_within_a_day",
    comment="By day, how late departures were from each airport of New York",
)
def worst(flights: wc.DataFrame = wc.table("clean.flown"), *, late: int = wc.var("late_minutes")) -> wc.DataFrame:
    """One row per origin: how many flights left more than `late` minutes late, and the longest of these delays."""
    from pyspark.sql import functions as sql

    late_ones = flights.where(flights.dep_delay > late)
    return late_ones.groupBy("origin").agg(sql.count("*").alias("late"), sql.max("dep_delay").alias("worst_delay"))
