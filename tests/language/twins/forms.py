from __future__ import annotations

import waterclock as wc

wc.connection("landing", type="files", comment="what arrives")
wc.connection(
    "ops", type="sqlite", options={"path": "data/ops.sqlite", "timeout": 5}, owner="ops@example.com", tags="(source)"
)
wc.connection("out", type="files")
wc.function("dollars", parameters="cents INT", returns="DECIMAL(16,2)", return_="cents / 100")
wc.function("about_pi", parameters="", returns="DOUBLE", return_="3.14159")
wc.collect(
    "raw.a",
    partitioned=True,
    from_="landing.`web/click/*.json.gz`",
    options="(format 'json')",
    every="5 minutes",
    by="arrival time",
    watermark="at 10 minutes per (device, land)",
    retain="90 days",
    pool="heavy",
    await_="'web/%Y-%m-%d/_SUCCESS' for 3 hours",
    tags=["web", "raw"],
    owner="web@example.com",
    comment="it's raw",
    deadline="30 minutes by watermark",
    runtime="3 minutes",
)
wc.collect(
    "raw.b",
    columns="""
id BIGINT KEY, amount DECIMAL(12,2) NOT NULL ELSE FAIL, m MAP<STRING, ARRAY<STRUCT<x: INT, y: STRING>>>,
               at TIMESTAMP_NTZ COMMENT 'when' TAGS (own), kind STRING EXPECT (kind IN ('a', 'b')) AS known ELSE WARN
""",
    from_="ops.public.orders",
    start="2018-01-01",
    schedule="10 * * * *",
    by="data time at lookback 1 hour",
    mode="merge order by at, id delete when amount < 0",
    sequential=True,
)
wc.collect(
    "raw.c",
    regular=True,
    columns="*",
    from_="ops QUERY \"SELECT * FROM c WHERE kind = 'x'\"",
    options={"partitions": 4},
    await_="query 'SELECT done FROM loads WHERE day = :window_start'",
    every="day",
    delay="2 hours",
    zone="Europe/Berlin",
    mode="replace",
)
wc.collect(
    "raw.d",
    columns="`order` STRING, *",
    from_="landing.d",
    mode="append",
    by="data time at",
    await_="next",
    watermark="at 1 day",
    every="1 hour",
    start="2018-01-01 06:00",
    comment=":land",
)
wc.collect(
    "raw.late",
    partitioned=True,
    from_="landing.late",
    every="hour",
    start="2018-01-01",
    by="data time at lookback 3 days changed",
)
wc.collect(
    "raw.moved",
    partitioned=True,
    from_="ops.moved",
    every="hour",
    start="2018-01-01",
    by="data time at lookback 36 hours changed by modified_at",
)
wc.collect("raw.e", columns="code KEY, *", from_="project.seeds.countries", every="month")
wc.view("stg.big", columns="id, amount", comment="big ones", as_="SELECT * FROM raw.b WHERE amount > :late_minutes")
wc.view("stg.bigger", as_="(SELECT b.*, WINDOW_END() AS seen FROM stg.big b)")
wc.transform("marts.plain", every="hour", as_="SELECT * FROM raw.b")
wc.transform(
    "marts.slices",
    partitioned=True,
    columns="id KEY, *",
    every="day",
    retain=":keep",
    as_="SELECT raw_a.*, dollars(raw_a.cents) AS usd, TIMELABEL() AS label FROM raw.a AS raw_a",
)
wc.transform(
    "marts.reads",
    partitioned=True,
    every="day",
    start="2018-01-02",
    zone="UTC",
    as_="""
WITH h AS (SELECT * FROM HISTORY(raw.a)), stg AS (SELECT 1 AS one)
SELECT h.*, p.id AS p, q.id AS q, l.id AS l
FROM h, stg, PAST(raw.a, '7 days') AS p JOIN PAST(raw.a, INTERVAL 7 DAYS) q JOIN UNTIL(raw.a, '1 day') u JOIN PREVIOUS(raw.a) LEFT JOIN LATEST(raw.b) l USING (id)
WHERE h.at >= WINDOW_START() AND EXISTS (SELECT 1 FROM stg.bigger)
""",  # noqa: E501  as the DPL has it
)
wc.transform("marts.wrapped", every="day", as_="SELECT seen FROM PREVIOUS(stg.bigger) ORDER BY seen LIMIT 5")
wc.transform(
    "marts.merged",
    columns="id BIGINT KEY, n BIGINT, *",
    mode="merge on (id) order by n delete when n < :late_minutes",
    expect=[
        "n > 0, n < 100 AS small ELSE WARN, count(*) > 0 AS some, my_agg(n) > 1 OVER BATCH ELSE FAIL",
        "CASE WHEN n > 1 THEN TRUE ELSE FALSE END AS by_case",
    ],
    every="day",
    as_="SELECT id, count(*) AS n FROM raw.d GROUP BY id",
)
wc.transform(
    "marts.partial",
    columns="id BIGINT, is_whole BOOLEAN",
    every="day",
    partial_after="2 hours",
    deadline="3 hours",
    runtime="20 minutes",
    as_="SELECT id, NOT IS_PARTIAL() AS is_whole FROM raw.b",
)
wc.transform(
    "marts.books",
    partitioned=True,
    every="day",
    close_when="watermark(at, id) >= WINDOW_END() AND count(*) > :late_minutes OR (closed_by_hand())",
    partial_after="2 days",
    as_="SELECT id FROM UNTIL(raw.a, '1 day') WHERE at >= WINDOW_START() AND at < WINDOW_END()",
)
wc.transform(
    "marts.by_two",
    partitioned=True,
    every="day",
    close_when="watermark(late.at) >= WINDOW_END() AND watermark(raw.moved.at) > WINDOW_END() + INTERVAL 1 HOUR",
    as_="SELECT a.id FROM UNTIL(raw.late, '1 day') a JOIN UNTIL(raw.moved, '1 day') b USING (id)",
)
wc.transform(
    "marts.reported",
    columns="id BIGINT KEY, *",
    every="day",
    mode="merge",
    on_restate="report",
    keep_versions="90 days",
    as_="SELECT id, count(*) AS n FROM raw.d GROUP BY id",
)
wc.transform(
    "marts.running",
    columns="id BIGINT KEY, n BIGINT",
    every="hour",
    mode="append",
    as_="SELECT id, n FROM PREVIOUS(marts.running) UNION ALL SELECT id, 1 FROM raw.d",
)
wc.transform(
    "marts.refers",
    columns="code STRING REFERENCES raw.e, b BIGINT REFERENCES raw.b (id) ROLE billing AT at, *",
    every="day",
    as_="SELECT * FROM raw.c",
)
wc.publish("marts.merged", columns="id, n", to="ops.public.merged", every="day", mode="merge on (id)")
wc.publish(
    "marts.slices",
    to="out.`slices/of-days`",
    options={"format": "csv", "compression": "gzip"},
    mode="append",
    pool="heavy",
)
wc.publish("marts.slices", to="ops.slices", mode="merge on (timelabel, id)", expect="id > 0")
wc.publish("marts.plain", to="ops.plain")

wc.connection("upstream", type="waterclock", options="(path '../other')")
wc.collect(
    "linked.slices",
    partitioned=True,
    from_="upstream.shop.orders",
    every="day",
    start="2024-01-01",
    by="data time timelabel",
)
wc.collect(
    "linked.merged",
    columns="id KEY, *",
    from_="upstream.shop.orders",
    every="day",
    start="2024-01-01",
    by="data time TIMELABEL",
    mode="merge",
)
wc.collect("linked.state", from_="upstream.shop.newest", every="hour", delay="5 minutes")

wc.view("w.items", columns="id", shared=True, comment="read once", as_="SELECT * FROM raw.d")
wc.transform("marts.one", every="day", as_="SELECT i.id FROM w.items i")
wc.transform("marts.two", every="day", as_="SELECT count(*) AS n FROM w.items")
