from __future__ import annotations

import waterclock as wc

wc.connection("landing", type="files")
wc.connection("ops", type="sqlite")
wc.connection("out", type="files")
wc.connection("door", type="receiver", options={"path": "data/door", "headers": "user-agent", "raw": True})
wc.collect(
    "web.clicks",
    from_="door.clicks",
    every="5 minutes",
    by="arrival time",
    partitioned=True,
    columns="event_id STRING KEY ORDER BY _received DESC ELSE DROP, user_id STRING, at TIMESTAMP,"
    " _received TIMESTAMP, _request STRING, _event INT, _headers STRING, _raw STRING",
)
