"""Reads by external engines and databases: manifests, parts of a destination."""

from __future__ import annotations

import waterclock as wc

wc.connection("landing", type="files")
wc.connection("ops", type="sqlite")
wc.connection("out", type="files")
wc.collect(
    "raw.clicks",
    partitioned=True,
    columns="id BIGINT, land STRING, at TIMESTAMP",
    from_="landing.clicks",
    options={"format": "csv", "manifest": "symlink"},
    every="day",
    by="data time at",
)
wc.transform(
    "marts.lands",
    columns="land STRING KEY, n BIGINT",
    options={"manifest": "symlink"},
    every="day",
    as_="SELECT land, count(*) AS n FROM HISTORY(raw.clicks) GROUP BY land",
)
wc.publish(
    "marts.lands", to="ops.lands", mode="replace where land IN ('DE', :land) AND NOT n BETWEEN 1 AND 2 OR land IS NULL"
)
wc.publish("marts.lands", to="ops.versions", options={"behind": "view", "keep": "7 DAYS"})
wc.publish("raw.clicks", to="ops.labels", options={"behind": "view"})
wc.collect(
    "raw.sent",
    partitioned=True,
    columns="id BIGINT, file AS (_source.file) NOT NULL, n BIGINT AS (_source.row), *",
    from_="landing.sent",
    every="day",
    start="2024-01-01",
    by="arrival time",
)
