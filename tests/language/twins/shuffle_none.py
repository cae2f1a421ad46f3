"""Tables whose batches move no rows between tasks."""

from __future__ import annotations

import waterclock as wc

wc.connection("landing", type="files")
wc.connection("ops", type="sqlite")
wc.connection("out", type="files")
wc.collect(
    "raw.clicks",
    partitioned=True,
    columns="user_id BIGINT, page, at TIMESTAMP",
    from_="landing.clicks",
    every="day",
    start="2024-01-01",
    by="arrival time",
)
wc.collect("raw.users", columns="user_id BIGINT KEY, land", from_="ops.users", every="day")
wc.view("stg.day", as_="SELECT /*+ COALESCE(1) */ user_id, page, at FROM raw.clicks WHERE user_id > 0")
wc.transform(
    "marts.shown",
    partitioned=True,
    shuffle="none",
    as_="SELECT user_id, upper(page) AS page FROM raw.clicks WHERE page <> ''",
)
wc.transform(
    "marts.at_home",
    partitioned=True,
    shuffle="NONE",
    as_="SELECT /*+ BROADCAST(u) */ c.user_id, c.page, u.land "
    "FROM raw.clicks c JOIN raw.users u ON c.user_id = u.user_id",
)
wc.transform(
    "marts.per_user",
    partitioned=True,
    shuffle="none",
    as_="SELECT user_id, count(DISTINCT page) AS pages "
    "FROM (SELECT /*+ COALESCE(1) */ * FROM raw.clicks) GROUP BY user_id",
)
wc.transform(
    "marts.latest",
    partitioned=True,
    shuffle="none",
    sort_by=["user_id"],
    as_="SELECT user_id, page FROM (SELECT *, row_number() OVER (PARTITION BY user_id ORDER BY at, page) AS n "
    "FROM stg.day)\n  WHERE n = 1",
)
wc.transform(
    "marts.both",
    partitioned=True,
    shuffle="none",
    as_="SELECT user_id FROM marts.shown UNION ALL SELECT user_id FROM marts.at_home",
)
wc.transform(
    "marts.one",
    every="day",
    start="2024-01-01",
    mode="replace",
    shuffle="none",
    as_="SELECT n FROM (SELECT max(n) AS n FROM VALUES (1), (2) AS v(n)) ORDER BY n",
)
