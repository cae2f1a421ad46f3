"""Functions of Spark that sqlglot parses as AT TIME ZONE."""

from __future__ import annotations

import waterclock as wc

wc.connection("landing", type="files")
wc.connection("ops", type="sqlite")
wc.connection("out", type="files")
wc.collect(
    "raw.rides",
    partitioned=True,
    columns="id BIGINT, began_at TIMESTAMP",
    from_="landing.rides",
    every="day",
    start="2026-01-01",
    by="data time began_at",
)
wc.transform(
    "marts.days",
    partitioned=True,
    as_="""SELECT id, date(from_utc_timestamp(began_at, 'Europe/Berlin')) AS day,
  to_utc_timestamp(began_at, 'Asia/Tokyo') AS shifted, at AS time
FROM (SELECT *, hour(began_at) AS at FROM raw.rides)""",
)
