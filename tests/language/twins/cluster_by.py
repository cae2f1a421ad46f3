"""The rows of each label in files by values."""

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
    cluster_by=["user_id"],
)
wc.collect(
    "raw.orders",
    columns="id BIGINT, `sent_at` TIMESTAMP, price DECIMAL(10, 2), *",
    from_="ops.orders",
    every="day",
    start="2024-01-01",
    by="data time `sent_at`",
    mode="append",
    cluster_by="(price, `sent_at`, ID)",
)
wc.transform(
    "marts.clicks",
    partitioned=True,
    cluster_by=["user_id", "n"],
    as_="SELECT user_id, count(*) AS n FROM raw.clicks GROUP BY user_id",
)
