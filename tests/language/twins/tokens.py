"""Random tokens instead of persons."""

from __future__ import annotations

import waterclock as wc

wc.connection("landing", type="files")
wc.connection("ops", type="sqlite")
wc.connection("out", type="files")
wc.connection("pii", type="keys", options={"key.2026": wc.secret("pii/2026"), "current": "2026"})
wc.collect(
    "raw.orders",
    partitioned=True,
    columns="id BIGINT KEY, buyer STRING NOT NULL SUBJECT customer TOKENS TAGS (pii), "
    "seller STRING SUBJECT customer TOKENS, clerk STRING SUBJECT employee, *",
    from_="landing.orders",
    every="day",
    start="2024-01-01",
    by="arrival time",
)
wc.transform(
    "marts.clerks",
    columns="clerk STRING KEY SUBJECT employee TOKENS, n BIGINT",
    mode="merge",
    as_="SELECT clerk, count(*) AS n FROM raw.orders GROUP BY clerk",
)
wc.transform(
    "web.orders",
    partitioned=True,
    columns="id BIGINT KEY, buyer STRING SUBJECT customer, note STRING",
    apart="(note) keys pii",
    as_="SELECT id, buyer, note FROM raw.orders",
)
wc.transform(
    "safe.buyers",
    partitioned=True,
    columns="buyer STRING SUBJECT customer",
    as_="SELECT DISTINCT detokenize(buyer, 'customer') AS buyer FROM raw.orders",
)
wc.publish("marts.clerks", to="ops.clerks")
