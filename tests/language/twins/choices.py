"""One of several queries, chosen by the label."""

from __future__ import annotations

import waterclock as wc

wc.connection("landing", type="files")
wc.connection("ops", type="sqlite")
wc.connection("out", type="files")
wc.collect(
    "raw.old",
    partitioned=True,
    columns="id BIGINT, cents BIGINT, at TIMESTAMP",
    from_="landing.old",
    every="day",
    start="2013-01-01",
    by="data time at",
)
wc.collect(
    "raw.new",
    partitioned=True,
    columns="id BIGINT, dollars DOUBLE, at TIMESTAMP",
    from_="landing.new",
    every="hour",
    start="2024-01-01",
    by="data time at",
)
wc.collect("raw.rates", columns="code STRING KEY, rate DOUBLE", from_="landing.rates", every="day")
wc.view("stg.new", as_="SELECT id, dollars * 100 AS cents FROM raw.new WHERE :land = 'DE'")

CLOSED = """date(WINDOW_END()) IN ('2024-02-29', DATE '2024-12-31') -- closed days
    AND NOT (:late_minutes > 20 OR :land IS NULL)"""
wc.transform(
    "core.orders",
    partitioned=True,
    every="day",
    when=[
        ("WINDOW_START() < '2024-01-01'", "SELECT id, cents FROM raw.old"),
        (CLOSED, "SELECT id, CASE WHEN cents > 0 THEN cents ELSE 0 END AS cents FROM stg.new, raw.rates"),
    ],
    as_="WITH n AS (SELECT * FROM stg.new) SELECT id, cents FROM n",
)
wc.transform(
    "core.state",
    columns="id BIGINT KEY, n BIGINT",
    every="day",
    mode="merge",
    expect="n > 0 ELSE WARN",
    when=[
        (
            "dayofweek(WINDOW_START()) = 1 AND hour(WINDOW_START()) BETWEEN 0 AND 1",
            "(SELECT id, count(*) AS n FROM PAST(raw.new, '7 days') GROUP BY id)",
        )
    ],
    as_="SELECT id, n FROM PREVIOUS(core.state) UNION ALL BY NAME SELECT id, 1 AS n FROM raw.new",
)
