"""An API to collect from, and to send to."""

from __future__ import annotations

import waterclock as wc

wc.connection("landing", type="files")
wc.connection("ops", type="sqlite")
wc.connection("out", type="files")
wc.connection(
    "api",
    type="rest",
    options={
        "url": "https://api.example.com/v1",
        "headers.Accept": "application/json",
        "rate": "600 PER MINUTE",
        "paging": "cursor",
        "page_size": 100,
    },
)
wc.collect(
    "raw.orders",
    partitioned=True,
    columns="id BIGINT KEY, who STRING, at TIMESTAMP NOT NULL, lines ARRAY<STRUCT<sku: STRING, n: INT>>, *",
    from_="api.orders",
    options={
        "rows": "data.items",
        "next": "data.next",
        "since": "from",
        "until": "to",
        "params.status": "open",
    },
    every="day",
    start="2024-01-01",
    by="data time at",
)
wc.collect(
    "raw.people",
    columns="id BIGINT KEY, *",
    from_="api.people",
    options={"paging": "page", "stop": "short"},
    every="day",
)
wc.publish(
    "raw.orders",
    columns="id, who, at",
    to="api.inbox",
    options={"path": "inbox/orders", "chunk": 50, "in_flight": 4},
    mode="append order by at, id per (who)",
)
