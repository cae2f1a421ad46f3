from __future__ import annotations

import waterclock as wc

wc.connection("landing", type="files")
wc.connection("ops", type="sqlite")
wc.connection("out", type="files")
wc.collect(
    "raw.sales",
    partitioned=True,
    columns="id BIGINT, at TIMESTAMP, amount DECIMAL(10, 2), *",
    from_="landing.sales",
    every="hour",
    start="2024-01-01",
    by="data time at",
    expect=[
        "count(*) >= 0.5 * last_good(count(*)) AS not_shrunk ELSE HOLD",
        "sum(amount) BETWEEN usual(sum(amount), -4.5) AND usual(sum(amount), 4.5) AS as_usual ELSE WARN",
        "trend(sum(amount), 30) BETWEEN 0.8 AND 1.25 AS steady ELSE WARN",
    ],
    measure=["PROFILE", "sum(amount) AS revenue", "max(at) AS newest"],
)
wc.collect("raw.stock", from_="ops.stock", every="day", measure="count_if(amount > :late_minutes) AS late")
wc.transform(
    "marts.sales",
    partitioned=True,
    measure=["avg(amount) AS mean", "skew(id) AS skew"],
    expect=[
        "skew( id ) < 3 * last_good(skew(id))",
        "coalesce(max(amount), 0) < 3 * Last_Good( max( amount ) ) AND count(*) > usual(count(*)) / 2",
    ],
    as_="SELECT * FROM raw.sales",
)
wc.transform(
    "marts.offline",
    partitioned=True,
    every="day",
    measure=[
        "sum(amount) AS revenue",
        "PROFILE, count(DISTINCT id) AS ids, percentile(amount, 0.5) FILTER (WHERE id > 0) AS middle OFFLINE 1 WEEK",
    ],
    as_="SELECT * FROM raw.sales",
)
wc.publish("marts.sales", to="out.sales", measure="approx_count_distinct(id) AS ids")
