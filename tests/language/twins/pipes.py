"""Queries in steps, and rows grouped by windows of time within a batch."""

from __future__ import annotations

import waterclock as wc

wc.connection("landing", type="files")
wc.connection("ops", type="sqlite")
wc.connection("out", type="files")
wc.collect(
    "raw.orders",
    partitioned=True,
    columns="id BIGINT KEY, region STRING, at TIMESTAMP, amount DOUBLE, note STRING",
    from_="landing.orders",
    every="day",
    start="2024-01-01",
    by="data time at",
)
wc.transform(
    "clean.orders",
    partitioned=True,
    every="day",
    as_="FROM raw.orders |> AS o |> WHERE o.amount > 0 |> SET region = upper(region), amount = round(amount, 2) "
    "|> DROP note, timelabel",
)
wc.transform(
    "marts.large",
    partitioned=True,
    every="day",
    as_="SELECT id, amount * 2 AS doubled FROM raw.orders |> WHERE doubled > 100 "
    "|> EXTEND doubled + 1 AS more |> DROP id",
)
wc.transform(
    "marts.both",
    partitioned=True,
    every="day",
    as_="""FROM raw.orders |> AS a |> JOIN clean.orders b ON a.id = b.id |> SELECT a.id, b.amount
  |> UNION ALL (SELECT id, amount FROM raw.orders)""",
)
wc.transform(
    "marts.hours",
    partitioned=True,
    every="day",
    as_="""SELECT region, window.start AS since, window.end AS until, sum(amount) AS amount
  FROM raw.orders GROUP BY window(at, '1 hour'), region""",
)
wc.transform(
    "marts.sessions",
    partitioned=True,
    every="day",
    as_="SELECT session_window.start AS since, count(*) AS orders "
    "FROM raw.orders GROUP BY session_window(at, '30 minutes')",
)
wc.transform(
    "marts.ranked",
    partitioned=True,
    every="day",
    as_="SELECT id, sum(amount) OVER w AS total FROM raw.orders WINDOW w AS (PARTITION BY region ORDER BY id)",
)
