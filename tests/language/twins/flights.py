from __future__ import annotations

import waterclock as wc

wc.connection("landing", type="files")
wc.connection("ops", type="sqlite")
wc.connection("out", type="files")
wc.collect(
    "raw.flights",
    partitioned=True,
    columns="time_hour TIMESTAMP NOT NULL, dep_delay INT, air_time INT, *",
    from_="landing.faa.flights",
    every="day",
    by="data time time_hour",
)
wc.collect(
    "raw.weather",
    partitioned=True,
    columns="time_hour TIMESTAMP NOT NULL, wind_speed DOUBLE, visib DOUBLE, *",
    from_="landing.noaa.weather",
    every="hour",
    by="data time time_hour",
)
wc.collect("raw.airlines", columns="carrier KEY, *", from_="ops.airlines", every="day")
wc.collect("raw.airports", columns="faa KEY, *", from_="ops.airports", every="day")
wc.collect(
    "raw.planes",
    columns="tailnum KEY, *",
    from_="ops.planes",
    every="day",
    by="data time updated_at",
    mode="merge order by updated_at delete when is_retired",
)
wc.transform(
    "clean.flights",
    partitioned=True,
    columns="flight_id KEY, tailnum REFERENCES raw.planes, *",
    every="day",
    expect="air_time > 0 OR air_time IS NULL AS flew_forward",
    as_="""
SELECT concat_ws('-', f.carrier, f.flight, f.time_hour) AS flight_id, f.*, w.wind_speed, w.visib
FROM raw.flights f LEFT JOIN raw.weather w USING (origin, time_hour)
""",
)
wc.transform(
    "marts.delays",
    partitioned=True,
    comment="Departure delays by carrier and day",
    as_="""
SELECT f.carrier, a.name AS airline, count(*) AS flights, avg(f.dep_delay) AS mean_delay,
          count_if(f.dep_delay > :late_minutes) AS late
FROM clean.flights f LEFT JOIN raw.airlines a USING (carrier) WHERE f.dep_time IS NOT NULL GROUP BY ALL
""",
)
wc.transform(
    "marts.plane_use",
    columns="tailnum KEY, *",
    mode="merge order by last_seen",
    as_="""
SELECT tailnum, max(time_hour) AS last_seen, max_by(dest, time_hour) AS last_dest, sum(air_time) AS minutes
FROM clean.flights WHERE tailnum IS NOT NULL GROUP BY tailnum
""",
)
wc.transform(
    "marts.hours_flown",
    columns="tailnum STRING KEY, flights BIGINT, minutes BIGINT",
    as_="""
SELECT tailnum, sum(flights) AS flights, sum(minutes) AS minutes
FROM (SELECT tailnum, flights, minutes FROM PREVIOUS(marts.hours_flown)
      UNION ALL SELECT tailnum, 1, air_time FROM clean.flights WHERE tailnum IS NOT NULL) GROUP BY tailnum
""",
)
wc.transform(
    "marts.carrier_summary",
    as_="SELECT carrier, count(*) AS flights, avg(dep_delay) AS mean_delay "
    "FROM HISTORY(clean.flights) GROUP BY carrier",
)
wc.publish("marts.carrier_summary", to="ops.carrier_summary")
wc.publish("marts.delays", to="ops.delays")
wc.publish("marts.plane_use", to="ops.plane_use")
wc.publish("marts.delays", to="out.delays", options={"format": "csv", "compression": "gzip"})
