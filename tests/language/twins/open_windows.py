"""Windows whose books are closed, and the table of those that are open."""

from __future__ import annotations

import waterclock as wc

wc.connection("landing", type="files")
wc.connection("ops", type="sqlite")
wc.connection("out", type="files")
wc.collect(
    "web.clicks",
    partitioned=True,
    columns="id BIGINT, device STRING, at TIMESTAMP, came TIMESTAMP",
    from_="ops.clicks",
    every="hour",
    delay="5 minutes",
    by="data time came",
    start="2024-01-01",
)
wc.collect("web.devices", columns="device STRING KEY, name STRING", from_="ops.devices", every="day")
wc.transform(
    "web.daily",
    partitioned=True,
    columns="device STRING KEY, name STRING, n BIGINT EXPECT (n > 0)",
    options={"open_windows": "kept"},
    every="day",
    retain="90 days",
    close_when="watermark(at, device) >= WINDOW_END() OR closed_by_hand()",
    partial_after="2 days",
    expect=["count(*) > 0 ELSE WARN"],
    as_="""SELECT device, name, count(*) AS n FROM UNTIL(web.clicks, '1 day') LEFT JOIN web.devices USING (device)
WHERE at >= WINDOW_START() AND at < WINDOW_END() GROUP BY ALL""",
)
