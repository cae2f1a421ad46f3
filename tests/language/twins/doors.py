"""Rules for the input rows of a transform, checked before its query."""

from __future__ import annotations

import waterclock as wc

wc.connection("landing", type="files")
wc.connection("ops", type="sqlite")
wc.connection("out", type="files")
wc.collect(
    "shop.orders",
    partitioned=True,
    columns="id BIGINT, amount DECIMAL(12, 2), land STRING, at TIMESTAMP",
    from_="landing.orders",
    every="day",
    start="2024-01-01",
    by="data time at",
)
wc.collect("shop.places", columns="land STRING KEY, name STRING", from_="landing.places", every="day")
wc.transform(
    "sales.daily",
    partitioned=True,
    expect=[
        "amount > 0 AS positive OF shop.orders ELSE QUARANTINE AT MOST 1 PERCENT ELSE HOLD",
        "count(*) >= 100 OF shop.orders ELSE HOLD",
        "total < 1000000",
        "name IS NOT NULL OF shop.places ELSE DROP",
        "land IN ('DE', 'FR') OF `shop`.orders ELSE WARN AT MOST :late_minutes",
        "count(DISTINCT land) > 1 AS whole OF shop.places",
    ],
    as_="SELECT name, sum(amount) AS total FROM shop.orders JOIN shop.places USING (land) GROUP BY name",
)
wc.view("shop.dear", as_="SELECT land AS of, amount FROM shop.orders WHERE amount > 100")
wc.transform(
    "sales.dear",
    columns="of STRING, amount DECIMAL(12, 2)",
    every="day",
    expect=[
        "of = 'DE' AS german ELSE WARN",
        "amount > 0 OF shop.orders",
        "CASE WHEN land = 'DE' THEN amount > 1 ELSE TRUE END AS by_land OF shop.orders ELSE DROP",
    ],
    as_="SELECT of, amount FROM shop.dear",
)
wc.transform(
    "sales.both",
    partitioned=True,
    every="day",
    expect=["amount > 0 OF shop.orders ELSE DROP"],
    when=[("WINDOW_START() < '2024-02-01'", "SELECT land FROM shop.places")],
    as_="SELECT land FROM shop.orders",
)
