from __future__ import annotations

import waterclock as wc

wc.connection("landing", type="files")
wc.connection("ops", type="sqlite")
wc.connection("out", type="files")
wc.collect("raw.grows", columns="id BIGINT KEY, *", from_="ops.grows", every="day", on_schema_change="add")
wc.collect(
    "raw.stays",
    partitioned=True,
    columns="id BIGINT, name STRING",
    from_="landing.stays",
    every="day",
    by="arrival time",
    on_schema_change="ignore",
    retain="30 days",
)
wc.collect(
    "raw.texts",
    partitioned=True,
    columns="at TIMESTAMP, *",
    from_="landing.texts",
    every="day",
    start="2024-01-01",
    by="data time at",
    on_schema_change="TEXT",
)
wc.collect("raw.kept", from_="ops.kept", every="day", on_schema_change="hold")
wc.collect("raw.strict", from_="ops.strict", every="day", on_schema_change="fail")
wc.collect("raw.unsaid", from_="ops.unsaid", every="day")
wc.collect(
    "raw.promises",
    columns="id BIGINT KEY, name STRING",
    from_="ops.promises",
    every="day",
    compatible="backward",
)
wc.transform(
    "marts.forward", columns="id BIGINT NOT NULL, *", compatible="forward", as_="SELECT id, name FROM raw.promises"
)
wc.transform(
    "marts.full", partitioned=True, compatible="FULL TRANSITIVE", retain="30 days", as_="SELECT * FROM raw.texts"
)
wc.collect(
    "raw.people",
    columns="""
id BIGINT KEY, name STRING, full_name STRING AS (name) RETIRE '2027-12-31', fax STRING RETIRE '2027-06-30'
""",
    from_="ops.people",
    every="day",
)
wc.transform(
    "marts.people",
    columns="id BIGINT, city STRING AS (address.city) RETIRE '2027-12-31', *",
    as_="SELECT id, named_struct('city', name) AS address FROM raw.people",
)
