"""A file for each value of a column."""

from __future__ import annotations

import waterclock as wc

wc.connection("landing", type="files")
wc.connection("ops", type="sqlite")
wc.connection("out", type="files")
wc.collect(
    "raw.clicks",
    partitioned=True,
    from_="landing.clicks",
    every="day",
    start="2024-01-01",
    by="arrival time",
    partition_by=["country"],
    sort_by=["user_id"],
)
wc.collect(
    "raw.orders",
    columns="id BIGINT, day DATE, *",
    from_="ops.orders",
    every="day",
    start="2024-01-01",
    by="data time day",
    mode="append",
    partition_by="(DAY)",
)
wc.transform(
    "marts.clicks",
    partitioned=True,
    partition_by=["country"],
    as_="SELECT country, count(*) AS n FROM raw.clicks GROUP BY country",
)
