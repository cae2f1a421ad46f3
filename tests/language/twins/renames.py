from __future__ import annotations

import waterclock as wc

wc.connection("landing", type="files")
wc.connection("ops", type="sqlite")
wc.connection("out", type="files")
wc.collect(
    "sales.orders",
    partitioned=True,
    columns="at TIMESTAMP, id BIGINT, *",
    from_="landing.orders",
    every="day",
    start="2024-01-01",
    by="data time at",
    watermark="at 10 minutes",
    was="raw.orders",
)
wc.transform(
    "sales.per_day",
    partitioned=True,
    options={"open_windows": "kept"},
    close_when="watermark(orders.at) >= WINDOW_END()",
    was="shop.daily",
    comment="renamed",
    as_="SELECT count(*) AS n FROM UNTIL(sales.orders, '1 day')",
)
wc.transform("marts.sum", as_="SELECT sum(n) AS n FROM HISTORY(sales.per_day)")
