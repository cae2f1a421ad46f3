"""How many labels may be made again because their inputs were restated."""

from __future__ import annotations

import waterclock as wc

wc.connection("landing", type="files")
wc.connection("ops", type="sqlite")
wc.connection("out", type="files")
wc.collect("raw.clicks", partitioned=True, from_="landing.clicks", every="day", start="2024-01-01", by="arrival time")
wc.transform(
    "marts.clicks",
    partitioned=True,
    on_restate="recompute at most 100 labels else hold",
    as_="SELECT user_id, count(*) AS n FROM raw.clicks GROUP BY user_id",
)
wc.transform(
    "marts.users",
    columns="user_id KEY, *",
    mode="merge",
    on_restate="recompute at most 1 label else hold",
    every="day",
    as_="SELECT user_id, count(*) AS n FROM raw.clicks GROUP BY user_id",
)
wc.transform(
    "marts.asked",
    partitioned=True,
    on_restate="RECOMPUTE AT MOST :late_minutes LABELS ELSE HOLD",
    owner="a@example.com",
    as_="SELECT user_id FROM raw.clicks",
)
wc.transform(
    "marts.never",
    partitioned=True,
    on_restate="recompute at most 0 labels else hold",
    as_="SELECT user_id FROM raw.clicks",
)
wc.transform("marts.always", partitioned=True, on_restate="recompute", as_="SELECT user_id FROM raw.clicks")
wc.publish(
    "marts.clicks",
    to="ops.clicks",
    mode="merge on (timelabel, user_id)",
    on_restate="recompute at most 31 labels else hold",
)
