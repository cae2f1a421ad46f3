"""Columns that are transformed for delivery, and files that are copied unchanged."""

from __future__ import annotations

import waterclock as wc

wc.connection("landing", type="files")
wc.connection("ops", type="sqlite")
wc.connection("out", type="files")
wc.function("initial", parameters="x STRING", returns="STRING", return_="left(x, 1)")
wc.collect(
    "raw.people",
    partitioned=True,
    columns="id BIGINT KEY, email STRING, phone STRING, born DATE, home STRUCT<city: STRING>",
    from_="landing.people",
    every="day",
    by="arrival time",
)
wc.transform(
    "marts.people",
    columns="id BIGINT KEY, email STRING, phone STRING",
    mode="merge",
    every="day",
    as_="SELECT id, email, phone FROM HISTORY(raw.people)",
)
wc.publish(
    "raw.people",
    columns="id, email AS (mask_text(email)), phone AS (mask_text(phone, keep_last => 3)) COMMENT 'its end', "
    "born AS (trunc(born, 'YEAR')), city AS (home.city), of AS (initial(email)), land AS (:land)",
    to="out.people",
    expect="length(phone) > 3 AS is_whole, count(*) > 0",
)
wc.publish("marts.people", columns="person AS (id), email AS (mask_text(email))", to="ops.people", mode="merge")
wc.publish("marts.people", columns="id AS ((id)), email AS (mask(email))", to="ops.others", mode="merge on (id)")
wc.collect(
    "raw.scans",
    partitioned=True,
    from_="landing.`scans/*.pdf`",
    options={"format": "raw"},
    every="day",
    by="arrival time",
)
wc.publish("raw.scans", to="out.scans", options={"format": "raw", "keep": "all"})
