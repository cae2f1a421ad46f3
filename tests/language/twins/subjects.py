"""Columns whose values identify persons."""

from __future__ import annotations

import waterclock as wc

wc.connection("landing", type="files")
wc.connection("ops", type="sqlite")
wc.connection("out", type="files")
wc.collect(
    "raw.orders",
    partitioned=True,
    columns="id BIGINT KEY, buyer_id BIGINT NOT NULL SUBJECT customer, seller_id INT SUBJECT customer, "
    "clerk STRING HIDDEN SUBJECT employee COMMENT 'who sold it', *",
    from_="landing.orders",
    every="day",
    start="2024-01-01",
    by="arrival time",
)
wc.collect("raw.customers", columns="id BIGINT KEY SUBJECT customer, name, *", from_="ops.customers", every="day")
wc.transform(
    "marts.sold",
    partitioned=True,
    columns="client SUBJECT customer, *",
    as_="SELECT buyer_id AS client, id FROM raw.orders",
)
wc.publish("marts.sold", to="out.sold")
