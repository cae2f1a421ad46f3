"""An API that is queried for each row of a table: one by one, in groups, and for a state."""

from __future__ import annotations

import waterclock as wc

wc.connection("landing", type="files")
wc.connection("ops", type="sqlite")
wc.connection("out", type="files")
wc.connection("api", type="rest", options={"url": "https://api.example.com/v1", "rate": "10 PER SECOND"})
wc.collect(
    "raw.orders",
    partitioned=True,
    columns="id BIGINT KEY, user_id BIGINT, sku STRING, at TIMESTAMP",
    from_="landing.orders",
    every="hour",
    start="2024-01-01",
    by="data time at",
)
wc.collect(
    "raw.users",
    partitioned=True,
    columns="user_id BIGINT KEY, name STRING, *",
    from_="api.users",
    options={"path": "users/{user_id}", "not_found": "skip", "in_flight": 4},
    for_each="raw.orders",
)
wc.collect(
    "raw.stock",
    columns="sku KEY, level INT, *",
    from_="api.`shops/{shop}/stock`",
    options={"params.skus": "{sku}", "rows": "items"},
    for_each="mart.skus",
    every="day",
)
wc.collect(
    "raw.prices",
    from_="api.prices",
    options={"params.skus": "{sku}", "batch": 50, "match": "article.sku", "cache": "7 days"},
    for_each="raw.orders",
    every="day",
    mode="merge on (sku)",
)
wc.transform(
    "mart.skus",
    every="day",
    as_="SELECT DISTINCT sku, 'north' AS shop FROM HISTORY(raw.orders)",
)
