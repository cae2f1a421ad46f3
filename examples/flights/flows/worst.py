"""The same language in Python: each argument is a clause's own words."""

from __future__ import annotations

import waterclock as wc


@wc.transform(
    "marts.worst",
    partitioned=True,
    expect="late > 0 AS somebody_was_late",
    comment="By day, how late departures were from each airport of New York",
)
def worst(flights=wc.table("clean.flown"), *, late=wc.var("late_minutes")) -> wc.DataFrame:
    """One row per origin: how many flights left more than `late` minutes late, and the longest of these delays."""
    from pyspark.sql import functions as sql

    late_ones = flights.where(flights.dep_delay > late)
    return late_ones.groupBy("origin").agg(sql.count("*").alias("late"), sql.max("dep_delay").alias("worst_delay"))
