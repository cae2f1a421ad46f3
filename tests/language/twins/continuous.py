"""Open windows that are computed every few seconds."""

from __future__ import annotations

import waterclock as wc

wc.connection("landing", type="files")
wc.connection("ops", type="sqlite")
wc.connection("out", type="files")
wc.collect(
    "raw.clicks",
    partitioned=True,
    from_="landing.clicks",
    every="5 minutes",
    start="2024-01-01",
    by="arrival time",
    continuous="10 seconds",
)
wc.collect(
    "raw.orders",
    partitioned=True,
    columns="id BIGINT, `sent_at` TIMESTAMP, *",
    from_="ops.orders",
    every="hour",
    start="2024-01-01",
    by="data time `sent_at`",
    continuous="1 minute",
)
wc.transform(
    "marts.clicks",
    partitioned=True,
    continuous=True,
    as_="SELECT user_id, count(*) AS n FROM raw.clicks GROUP BY user_id",
)
wc.transform(
    "marts.recent",
    partitioned=True,
    every="hour",
    continuous=True,
    as_="SELECT sum(n) AS n FROM PAST(marts.clicks, '2 hours')",
)
