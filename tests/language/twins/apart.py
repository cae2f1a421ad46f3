"""Columns that identify persons, stored separately from the rows of events."""

from __future__ import annotations

import waterclock as wc

wc.connection("landing", type="files")
wc.connection("ops", type="sqlite")
wc.connection("out", type="files")
wc.connection("pii", type="keys", options={"key.2026": wc.secret("pii/2026"), "current": "2026"})
wc.collect(
    "web.raw",
    partitioned=True,
    columns="id BIGINT, at TIMESTAMP, page STRING, customer_id BIGINT SUBJECT customer, email STRING, phone STRING",
    from_="landing.web",
    every="day",
    start="2026-11-16",
    by="arrival time",
    retain="7 days",
)
wc.transform(
    "web.visits",
    partitioned=True,
    columns="id BIGINT KEY, customer_id BIGINT SUBJECT customer TAGS (pii), "
    "email STRING EXPECT (email LIKE '%@%') ELSE QUARANTINE TAGS (pii), *",
    every="day",
    expect="id > 0 AS known",
    measure="count(*) AS visits",
    retain="1000 days",
    sort_by=["page"],
    was="web.hits",
    owner="web",
    apart="(email, Phone) keys pii for 90 days",
    as_="SELECT id, at, page, customer_id, lower(email) AS email, phone FROM web.raw WHERE id IS NOT NULL",
)
wc.transform(
    "web.calls",
    partitioned=True,
    columns="customer_id BIGINT SUBJECT customer, phone STRING, page STRING",
    apart="(phone)",
    as_="SELECT customer_id, phone, page FROM web.raw",
)
wc.transform(
    "marts.pages",
    partitioned=True,
    as_="SELECT page, count(DISTINCT customer_pseudonym) AS people FROM web.visits\n  GROUP BY page",
)
wc.transform(
    "marts.letters",
    partitioned=True,
    as_="SELECT customer_id AS client, email, page FROM web.visits_whole",
)
wc.publish(
    "web.visits_apart",
    columns="customer_pseudonym, email AS (mask_text(email))",
    to="ops.people",
)
