"""The rows of each label in buckets."""

from __future__ import annotations

import waterclock as wc

wc.connection("landing", type="files")
wc.connection("ops", type="sqlite")
wc.connection("out", type="files")
wc.collect(
    "raw.clicks",
    partitioned=True,
    columns="user_id BIGINT, page STRING",
    from_="landing.clicks",
    every="day",
    start="2024-01-01",
    by="arrival time",
    bucket_by="(user_id) into 64",
)
wc.transform(
    "marts.pages",
    partitioned=True,
    bucket_by="(PAGE, user_id) into 8",
    as_="SELECT page, user_id FROM raw.clicks",
)
wc.transform(
    "marts.clicks",
    partitioned=True,
    shuffle="none",
    as_="SELECT user_id, count(*) AS n FROM raw.clicks GROUP BY user_id",
)
