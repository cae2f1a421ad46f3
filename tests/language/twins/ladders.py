"""Actions on rows and batches that break rules."""

from __future__ import annotations

import waterclock as wc

wc.connection("landing", type="files")
wc.connection("ops", type="sqlite")
wc.connection("out", type="files")
wc.collect(
    "raw.orders",
    partitioned=True,
    columns=(
        "id BIGINT KEY ELSE QUARANTINE, amount DECIMAL(12, 2) ELSE QUARANTINE AT MOST 1 PERCENT ELSE HOLD "
        "NOT NULL ELSE DROP, kind STRING EXPECT (kind IN ('a', 'b')) AS known ELSE WARN AT MOST 10 ELSE HOLD "
        "AT MOST 100 ELSE FAIL, at TIMESTAMP"
    ),
    from_="landing.orders",
    every="day",
    start="2024-01-01",
    by="data time at",
    expect=[
        "amount > 0 AS positive ELSE QUARANTINE AT MOST 0.5 PERCENT ELSE FAIL",
        "id < 100 ELSE DROP AT MOST :late_minutes",
        "count(*) > 0 AS some ELSE HOLD",
        "sum(amount) > 0 ELSE WARN",
        "count(DISTINCT id) = count(*) AS once OVER TABLE ELSE HOLD",
    ],
)
wc.transform(
    "core.orders",
    partitioned=True,
    columns="id KEY ELSE WARN, amount DOUBLE ELSE WARN, *",
    every="day",
    expect=["CASE WHEN id > 1 THEN TRUE ELSE FALSE END AS by_case ELSE QUARANTINE"],
    when=[("WINDOW_START() < '2024-01-01'", "SELECT id, amount FROM raw.orders")],
    as_="SELECT id, amount + 1 AS amount FROM raw.orders",
)
wc.publish("core.orders", to="ops.orders", expect=["id > 0 ELSE QUARANTINE AT MOST 3"])
wc.transform(
    "core.newest",
    columns="id KEY, *",
    mode="merge",
    expect="count(*) > 0 AS some OVER TABLE ELSE HOLD",
    as_="SELECT * FROM raw.orders",
)
wc.transform(
    "core.versions",
    columns="id KEY, at TIMESTAMP, *",
    mode="temporal at at",
    expect="count_if(rec_is_current) >= 0 AS current OVER TABLE",
    as_="SELECT * FROM raw.orders",
)
wc.publish("core.newest", to="ops.newest", expect="count(DISTINCT id) = count(*) OVER TABLE ELSE WARN")
wc.collect(
    "raw.lines",
    columns="customer BIGINT, land STRING",
    from_="landing.lines",
    every="day",
    expect=["parsed() ELSE QUARANTINE AT MOST 1 PERCENT ELSE HOLD", "customer > 0 AS known ELSE WARN"],
)
wc.collect("raw.strict", columns="id BIGINT", from_="landing.strict", every="day", expect="parsed() AS readable")
wc.collect("raw.places", columns="land STRING KEY, zip STRING KEY, name STRING", from_="ops.places", every="day")
wc.transform(
    "core.placed",
    columns=(
        "zip STRING REFERENCES raw.places (zip) ROLE home ELSE DROP AT MOST 3 ELSE HOLD, "
        "land STRING REFERENCES raw.places (land) ROLE home, at REFERENCES raw.strict (id) ELSE WARN, *"
    ),
    as_="SELECT l.land, '1' AS zip, l.customer AS at FROM raw.lines l JOIN raw.places USING (land)",
)
wc.collect(
    "raw.sent",
    partitioned=True,
    columns="id STRING KEY ORDER BY at DESC ELSE DROP, past STRING, at TIMESTAMP",
    from_="landing.sent",
    every="hour",
    start="2024-01-01",
    by="arrival time",
)
wc.collect(
    "raw.stock",
    columns=("sku KEY ORDER BY (counted_at, line DESC) ELSE QUARANTINE AT MOST 1 PERCENT ELSE HOLD, shop KEY, *"),
    from_="ops.stock",
    every="day",
)
wc.transform(
    "core.sent",
    partitioned=True,
    columns="id KEY PAST 7 DAYS ORDER BY (at) ELSE DROP, *",
    as_="SELECT * FROM raw.sent",
)
wc.transform(
    "core.sent_once",
    partitioned=True,
    columns="id KEY ELSE QUARANTINE, past KEY PAST 30 DAYS, *",
    every="day",
    when=[("WINDOW_START() < '2024-02-01'", "SELECT * FROM raw.sent")],
    as_="SELECT * FROM core.sent",
)
