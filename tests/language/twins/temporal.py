from __future__ import annotations

import waterclock as wc

wc.connection("landing", type="files")
wc.connection("ops", type="sqlite")
wc.connection("out", type="files")
wc.collect(
    "raw.crm",
    columns="id BIGINT, name STRING, phone STRING, seen TIMESTAMP, gone BOOLEAN, seq BIGINT",
    from_="landing.crm",
    every="day",
    by="arrival time",
    mode="append",
)
wc.collect("raw.planes", columns="tailnum STRING KEY, *", from_="ops.planes", every="day", mode="temporal")
wc.collect(
    "raw.stations",
    from_="ops.stations",
    every="day",
    mode="temporal on (faa) delete when is_closed track (name) fill forward",
)
wc.collect(
    "raw.depots",
    columns="code KEY, *",
    from_="ops.depots",
    every="day",
    mode="temporal track (city) nulls missing",
)
wc.collect("raw.crews", columns="code KEY, *", from_="ops.crews", every="day", mode="temporal nulls value (boss)")
wc.collect(
    "raw.weather",
    columns="origin KEY, time_hour TIMESTAMP, visib DOUBLE",
    from_="landing.weather",
    every="hour",
    by="data time time_hour lookback 1 day",
    mode="temporal at time_hour",
)
wc.collect(
    "raw.prices",
    columns="product STRING KEY, shop STRING KEY, rec_eff_time TIMESTAMP, price DECIMAL(12,2), *",
    from_="landing.prices",
    every="day",
    by="arrival time",
    mode="temporal at rec_eff_time nulls value",
)
wc.transform(
    "dim.customer",
    columns="id BIGINT KEY, name STRING, phone STRING, seen TIMESTAMP, gone BOOLEAN, seq BIGINT",
    mode="""temporal nulls value (phone) fill forward on (id) at seen order by seq, phone
            delete when gone AND seq > :late_minutes track (name, phone)""",
    expect="seq > 0",
    keep_versions="60 days",
    as_="SELECT * FROM raw.crm",
)
wc.transform(
    "dim.any_order",
    columns="id KEY, *",
    mode="temporal at at nulls value delete when CASE WHEN at < WINDOW THEN gone ELSE false END",
    on_restate="report",
    as_="SELECT id, name, phone, seen AS at, gone, seen AS window FROM raw.crm",
)
wc.transform(
    "dim.person",
    columns="id KEY, *",
    mode="temporal at since",
    as_="""SELECT id, name, seen AS since FROM raw.crm UNION ALL BY NAME
SELECT c.id, c.phone, struct(c.name) AS given, c.seen AS since FROM PAST(raw.calls, '2 days') c
WHERE c.seen < WINDOW_END()
UNION -- between
ALL BY NAME (SELECT * EXCEPT (phone), ended AS since FROM stg.ended UNION ALL SELECT 1, :land, NULL, NULL LIMIT 5)""",
)
wc.collect(
    "raw.calls",
    partitioned=True,
    columns="id BIGINT, name STRING, phone STRING, seen TIMESTAMP",
    from_="landing.calls",
    every="day",
    by="data time seen",
)
wc.view("stg.ended", as_="SELECT id, name, phone, seen AS ended FROM raw.crm WHERE gone AND seq > :late_minutes")
wc.transform("marts.by_name", every="day", as_="SELECT 1 AS one UNION ALL BY NAME SELECT 2 AS two")
wc.transform(
    "dim.city",
    columns="code STRING KEY, land STRING, *",
    mode="temporal at since",
    as_="SELECT 'P' AS code, 'F' AS land, 'Paris' AS city, seen AS since FROM raw.crm",
)
wc.transform(
    "dim.client",
    columns="""id BIGINT KEY, home STRING REFERENCES dim.city ROLE home,
               work STRING REFERENCES dim.city (code) ROLE work, seen TIMESTAMP, name STRING""",
    mode="temporal at seen",
    as_="SELECT id, name, phone AS home, phone AS work, seen FROM raw.crm",
)
wc.transform(
    "dim.shop",
    columns="land STRING KEY, nr INT KEY, boss BIGINT REFERENCES dim.client AT opened, opened TIMESTAMP",
    as_="SELECT name AS land, 1 AS nr, id AS boss, seen AS opened FROM raw.crm",
)
wc.transform(
    "fact.sale",
    partitioned=True,
    columns="""id BIGINT KEY, sold_at TIMESTAMP, billed_at TIMESTAMP, amount DOUBLE,
               shop INTEGER REFERENCES dim.shop (NR), buyer BIGINT REFERENCES dim.client ROLE buyer AT sold_at,
               payer BIGINT REFERENCES dim.client ROLE payer AT billed_at, land STRING REFERENCES dim.shop (land)""",
    as_="""SELECT id, seen AS sold_at, seen AS billed_at, 1.5D AS amount, id AS buyer, id AS payer, name AS land,
  2 AS shop FROM raw.calls""",
)
wc.transform(
    "marts.sale_flat",
    as_="""SELECT s.id, s.home_payer, s.city_home_payer, s.boss, city_work_buyer, name_buyer, s.timelabel AS label,
c.* EXCEPT (id)
FROM FLAT(fact.sale) s LEFT JOIN flat ( dim.client , 'Exact' ) c ON c.id = s.buyer AND c.rec_is_current""",
)
wc.view("stg.clients", as_="SELECT id, city_home FROM FLAT(dim.client)")
wc.transform(
    "marts.clients",
    every="day",
    as_="""SELECT id, city_home FROM stg.clients UNION ALL BY NAME
SELECT land_work FROM FLAT(dim.client, 'exact')""",
)
wc.transform(
    "marts.reads",
    every="day",
    as_="""SELECT id, name, phone, rec_eff_time, rec_exp_time, c.timelabel AS label FROM dim.customer c
WHERE rec_is_current""",
)
wc.publish("dim.customer", to="ops.customer")
wc.publish("dim.customer", to="ops.versions", mode="merge")
wc.publish("dim.customer", to="ops.names", columns="id, rec_eff_time, name", mode="merge on (rec_eff_time, id)")
wc.publish("raw.planes", to="out.planes", mode="replace")
wc.function("spelt", parameters="name STRING", returns="STRING", return_="format_attribute(name, 'initcap', '?')")
wc.view(
    "stg.spelt",
    as_="SELECT id, format_attribute(name) AS name, Format_Attribute(phone, 'lower') AS phone FROM raw.crm",
)
wc.transform(
    "marts.spelt",
    every="day",
    expect="""format_attribute(name, "upper", nullreplacement => '?') <> '?' ELSE WARN""",
    as_="SELECT id, spelt(name) AS name, format_attribute(value => phone, format => 'upper') AS phone FROM stg.spelt",
)
