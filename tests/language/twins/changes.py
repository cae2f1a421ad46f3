"""Tables of a database, followed by its log."""

from __future__ import annotations

import waterclock as wc

wc.connection("landing", type="files")
wc.connection("ops", type="sqlite")
wc.connection("out", type="files")
wc.connection("pg", type="postgres", options={"url": "postgresql://here/shop"})
wc.collect("shop.orders", columns="id KEY, *", from_="pg.orders", every="5 minutes", by="changes", mode="merge")
wc.collect(
    "shop.prices",
    columns="id BIGINT KEY, price DECIMAL(10,2), did STRING AS (_change.op), lsn AS (_change.lsn)",
    from_="pg.public.prices",
    options={"decoder": "pgoutput", "snapshot": "2"},
    every="hour",
    by="changes",
    mode="merge delete when price < 0",
)
wc.collect(
    "shop.customers",
    columns="id KEY, since TIMESTAMP AS (_change.at), *",
    from_="pg.customers",
    every="hour",
    by="changes",
    mode="temporal at since",
)
wc.collect(
    "shop.windows", columns="id KEY, *", from_="pg.windows", every="day", by="changes", mode="temporal nulls missing"
)
