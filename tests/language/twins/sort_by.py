"""The order of the rows in each file."""

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
    sort_by=["user_id", "at"],
)
wc.collect(
    "raw.orders",
    columns="id BIGINT KEY, `sent_at` TIMESTAMP, place STRUCT<x: INT, y: INT>, *",
    from_="ops.orders",
    every="day",
    start="2024-01-01",
    by="data time `sent_at`",
    mode="merge order by `sent_at`",
    sort_by="(place, `sent_at`)",
)
wc.transform(
    "marts.prices",
    columns="id KEY, *",
    mode="temporal at since",
    sort_by=["ID", "rec_eff_time"],
    as_="SELECT id, amount, `sent_at` AS since FROM raw.orders",
)
wc.transform(
    "marts.clicks",
    partitioned=True,
    sort_by=["user_id"],
    as_="SELECT user_id, count(*) AS n FROM raw.clicks GROUP BY user_id",
)
