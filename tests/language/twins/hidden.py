"""Columns that only queries which name them return."""

from __future__ import annotations

import waterclock as wc

wc.connection("landing", type="files")
wc.connection("ops", type="sqlite")
wc.connection("out", type="files")
wc.collect(
    "raw.orders",
    partitioned=True,
    columns="id BIGINT KEY, city BIGINT REFERENCES raw.cities, file AS (_source.file) HIDDEN NOT NULL, "
    "n BIGINT HIDDEN AS (_source.row) EXPECT (n > 0) COMMENT 'where in its file', *",
    from_="landing.orders",
    every="day",
    start="2024-01-01",
    by="arrival time",
)
wc.collect("raw.cities", columns="id BIGINT KEY, name, loaded_by STRING HIDDEN", from_="ops.cities", every="day")
wc.collect(
    "raw.states",
    columns="id BIGINT KEY, at TIMESTAMP, name, loaded_by HIDDEN",
    from_="ops.states",
    every="day",
    start="2024-01-01",
    by="data time at",
    mode="temporal at at",
)
wc.collect(
    "raw.tracked",
    columns="id BIGINT KEY, at TIMESTAMP, name, loaded_by HIDDEN",
    from_="ops.states",
    every="day",
    start="2024-01-01",
    by="data time at",
    mode="temporal at at track (name, loaded_by)",
)
wc.view("stg.orders", as_="SELECT * FROM raw.orders")
wc.transform("marts.all", partitioned=True, as_="SELECT * FROM raw.orders")
wc.transform("marts.named", partitioned=True, as_="SELECT file, * FROM raw.orders")
wc.transform(
    "marts.both",
    partitioned=True,
    columns="file HIDDEN, *",
    as_="SELECT o.file, o.*, c.* EXCEPT (id)\n  FROM raw.orders o JOIN raw.cities c ON o.city = c.id "
    "WHERE c.loaded_by IS NOT NULL",
)
wc.transform("marts.plain", partitioned=True, as_="SELECT id, n FROM raw.orders")
wc.transform("marts.viewed", partitioned=True, as_="SELECT * FROM stg.orders")
wc.transform("marts.flat", partitioned=True, as_="SELECT * FROM FLAT(raw.orders)")
wc.transform("marts.past", partitioned=True, as_="SELECT count(DISTINCT *) AS n FROM PAST(raw.orders, '7 days')")
wc.transform(
    "marts.several",
    partitioned=True,
    as_="SELECT * FROM raw.orders UNION ALL BY NAME SELECT file, * FROM raw.orders",
)
wc.publish("raw.orders", to="out.orders")
wc.publish("raw.orders", columns="file, *", to="out.files")
wc.publish("raw.orders", columns="id, n", to="out.places")
