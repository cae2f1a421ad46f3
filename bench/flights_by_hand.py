"""The flights flow as an experienced engineer writes it by hand with PySpark and Delta: the peer of our benchmark.

It has the same landing files, tables and Spark confs, but no stage, digests, audit trail or rules. Days run in order,
and within a day, weather runs hour by hour. There are three variants:

idempotent   a slice replaces its own label (`replaceWhere`), keyed tables MERGE, running totals carry a transaction id
dynamic      the same, but a slice replaces its label by dynamic partition overwrite
plain        appends and overwrites: the fastest variant that is correct while nothing fails or runs twice

Optimizations that are easy by hand are included: explicit schemas, a cached frame if several tables read it, one read
of the small reference table per day, and delivery of tiny results from the driver.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import os
import sqlite3
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

import pyarrow as pa

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession

NEW_YORK = ZoneInfo("America/New_York")
LATE_MINUTES = 15

FLIGHTS = (
    "year STRING, month STRING, day STRING, dep_time INT, sched_dep_time STRING, dep_delay INT, arr_time STRING, "
    "sched_arr_time STRING, arr_delay INT, carrier STRING, flight INT, tailnum STRING, origin STRING, dest STRING, "
    "air_time INT, distance INT, hour STRING, minute INT, time_hour TIMESTAMP"
)
WEATHER = (
    "origin STRING, year STRING, month STRING, day STRING, hour STRING, temp DOUBLE, dewp STRING, humid STRING, "
    "wind_dir STRING, wind_speed DOUBLE, wind_gust STRING, precip DOUBLE, pressure STRING, visib DOUBLE, "
    "time_hour TIMESTAMP"
)
TEXT, WHOLE, REAL = pa.string(), pa.int64(), pa.float64()
AIRLINES = {"carrier": TEXT, "name": TEXT}
AIRPORTS = {"faa": TEXT, "name": TEXT, "lat": REAL, "lon": REAL, "alt": WHOLE, "tzone": TEXT}
PLANES = dict.fromkeys(
    ("tailnum", "type", "manufacturer", "model", "engine", "operator", "updated_at"), TEXT
) | dict.fromkeys(("year", "engines", "seats", "speed", "is_retired"), WHOLE)
REPORTS = """
CREATE TABLE IF NOT EXISTS delays (timelabel TEXT, carrier TEXT, airline TEXT, flights INTEGER, mean_delay REAL,
  late INTEGER);
CREATE INDEX IF NOT EXISTS delays_timelabel ON delays (timelabel);
CREATE TABLE IF NOT EXISTS plane_use (tailnum TEXT PRIMARY KEY, last_seen TEXT, last_dest TEXT, flights INTEGER,
  minutes INTEGER);
CREATE TABLE IF NOT EXISTS carrier_summary (carrier TEXT, flights INTEGER, cancelled INTEGER, mean_delay REAL,
  worst_delay INTEGER);
"""


@dataclass(frozen=True, slots=True)
class Timing:
    """The cost of one batch in seconds. CPU is that of this process and its JVM."""

    table: str
    label: str
    wall: float
    cpu: float


@dataclass(frozen=True, slots=True)
class ByHand:
    """The script: its sources, its destination, and its variant.

    `landing` contains `faa/flights` and `noaa/weather`, `database` the reference tables. Tables and deliveries are
    written below `work`. `processes`: the processes whose CPU counts. `timings` gets one entry per batch.
    """

    spark: SparkSession
    landing: Path
    database: Path
    work: Path
    is_idempotent: bool
    processes: tuple[int, ...]
    is_dynamic: bool = False
    timings: list[Timing] = field(default_factory=list)

    def run_day(self, day: date) -> None:
        """Run all that is due at the end of a New York day: the weather of each hour, then the daily tables."""
        start, end = _start(day), _start(day + timedelta(days=1))
        label = _label(start)
        hour = start
        while hour < end:
            self._weather(hour)
            hour += timedelta(hours=1)
        self._flights(label, end)
        airlines = self._reference("airlines", label, AIRLINES)
        self._reference("airports", label, AIRPORTS)
        self._planes(label, start, end)
        clean = self._clean(label, start, end)
        self._delays(label, clean, airlines)
        use = self._plane_use(label, clean)
        self._hours_flown(label, clean)
        self._carrier_summary(label)
        self._worst(label, clean)
        delays = self._publish_delays(label)
        self._publish_files(label, delays)
        self._publish_plane_use(label, use)
        self._publish_summary(label)
        clean.unpersist()

    def read(self, table: str) -> DataFrame:
        """Return the newest version of a table."""
        return self.spark.read.format("delta").load(self.path(table))

    def path(self, table: str) -> str:
        """Return a table's folder."""
        return str(self.work / "tables" / table.replace(".", "/"))

    # ---- collect

    def _weather(self, hour: datetime) -> None:
        label = _label(hour)
        with self._timed("raw.weather", label):
            file = self.landing / "noaa" / "weather" / _named("noaa_weather", hour + timedelta(hours=1))
            if file.exists():
                self._write_slice("raw.weather", label, self._read_csv(file, WEATHER))

    def _flights(self, label: str, end: datetime) -> None:
        with self._timed("raw.flights", label):
            file = self.landing / "faa" / "flights" / _named("faa_flights", end)
            self._write_slice("raw.flights", label, self._read_csv(file, FLIGHTS))

    def _read_csv(self, file: Path, schema: str) -> DataFrame:
        return self.spark.read.csv(str(file), schema=schema, header=True, mode="FAILFAST")

    def _reference(self, name: str, label: str, columns: dict[str, pa.DataType]) -> DataFrame:
        with self._timed(f"raw.{name}", label):
            frame = self._from_database(f"SELECT {', '.join(columns)} FROM {name}", columns)
            frame.write.format("delta").mode("overwrite").save(self.path(f"raw.{name}"))
        return frame

    def _planes(self, label: str, start: datetime, end: datetime) -> None:
        from pyspark.sql import functions as sql

        with self._timed("raw.planes", label):
            query = f"SELECT {', '.join(PLANES)} FROM planes WHERE updated_at >= ? AND updated_at < ?"
            changes = self._from_database(query, PLANES, _text(start), _text(end)).withColumns(
                {
                    "year": sql.col("year").cast("int"),
                    "seats": sql.col("seats").cast("int"),
                    "is_retired": sql.col("is_retired").cast("boolean"),
                    "updated_at": sql.to_timestamp("updated_at"),
                }
            )
            self._upsert(
                "raw.planes", "tailnum", "updated_at", _newest(changes, "tailnum", "updated_at"), gone="is_retired"
            )

    def _from_database(self, query: str, columns: dict[str, pa.DataType], *values: str) -> DataFrame:
        with closing(sqlite3.connect(self.database)) as database:
            rows = database.execute(query, values).fetchall()
        arrays = [pa.array([row[at] for row in rows], kind) for at, kind in enumerate(columns.values())]
        return self.spark.createDataFrame(pa.table(arrays, list(columns)))

    # ---- transform

    def _clean(self, label: str, start: datetime, end: datetime) -> DataFrame:
        from pyspark.sql import functions as sql

        with self._timed("clean.flights", label):
            flights = self.read("raw.flights").where(sql.col("timelabel") == label)
            hours = sql.col("timelabel").between(_label(start), _label(end - timedelta(hours=1)))
            weather = (
                self.read("raw.weather").where(hours).select("origin", "time_hour", "wind_speed", "precip", "visib")
            )
            joined = flights.join(sql.broadcast(weather), ["origin", "time_hour"], "left").select(
                sql.concat_ws("-", "carrier", sql.col("flight").cast("string"), "time_hour").alias("flight_id"),
                *("carrier", "flight", "tailnum", "origin", "dest"),
                sql.timestamp_add("MINUTE", sql.col("minute"), sql.col("time_hour")).alias("scheduled_at"),
                *("dep_time", "dep_delay", "arr_delay", "air_time", "distance", "wind_speed", "precip", "visib"),
            )
            kept = joined.cache()
            self._write_slice("clean.flights", label, kept)
            return kept

    def _delays(self, label: str, clean: DataFrame, airlines: DataFrame) -> None:
        from pyspark.sql import functions as sql

        with self._timed("marts.delays", label):
            delays = (
                clean.where("dep_time IS NOT NULL")
                .groupBy("carrier")
                .agg(
                    sql.count("*").alias("flights"),
                    sql.round(sql.avg("dep_delay"), 2).alias("mean_delay"),
                    sql.count_if(sql.col("dep_delay") > LATE_MINUTES).alias("late"),
                )
            )
            named = delays.join(sql.broadcast(airlines.withColumnRenamed("name", "airline")), "carrier", "left")
            self._write_slice(
                "marts.delays", label, named.select("carrier", "airline", "flights", "mean_delay", "late")
            )

    def _plane_use(self, label: str, clean: DataFrame) -> DataFrame:
        from pyspark.sql import functions as sql

        with self._timed("marts.plane_use", label):
            use = (
                clean.where("dep_time IS NOT NULL")
                .groupBy("tailnum")
                .agg(
                    sql.max("scheduled_at").alias("last_seen"),
                    sql.max_by("dest", sql.struct("scheduled_at", "flight")).alias("last_dest"),
                    sql.count("*").alias("flights"),
                    sql.sum("air_time").alias("minutes"),
                )
            )
            self._upsert("marts.plane_use", "tailnum", "last_seen", use)
            return use

    def _hours_flown(self, label: str, clean: DataFrame) -> None:
        from pyspark.sql import functions as sql

        with self._timed("marts.hours_flown", label):
            minutes = sql.coalesce(sql.col("air_time"), sql.lit(0)).cast("bigint").alias("minutes")
            parts = clean.where("dep_time IS NOT NULL").select(
                "tailnum", sql.lit(1).cast("bigint").alias("flights"), minutes
            )
            if self._has("marts.hours_flown"):
                parts = parts.unionByName(self.read("marts.hours_flown"))
            total = parts.groupBy("tailnum").agg(
                sql.sum("flights").alias("flights"), sql.sum("minutes").alias("minutes")
            )
            writer = total.write.format("delta").mode("overwrite")
            if self.is_idempotent:  # the sum counts a day twice if it runs twice: Delta skips an id it has seen
                writer = writer.option("txnAppId", "hours_flown").option("txnVersion", label[:12])
            writer.save(self.path("marts.hours_flown"))

    def _carrier_summary(self, label: str) -> None:
        from pyspark.sql import functions as sql

        with self._timed("marts.carrier_summary", label):
            summary = (
                self.read("clean.flights")
                .groupBy("carrier")
                .agg(
                    sql.count("*").alias("flights"),
                    sql.count_if(sql.col("dep_time").isNull()).alias("cancelled"),
                    sql.round(sql.avg("dep_delay"), 2).alias("mean_delay"),
                    sql.max("dep_delay").alias("worst_delay"),
                )
            )
            summary.write.format("delta").mode("overwrite").save(self.path("marts.carrier_summary"))

    def _worst(self, label: str, clean: DataFrame) -> None:
        from pyspark.sql import functions as sql

        with self._timed("marts.worst", label):
            late = clean.where(sql.col("dep_delay") > LATE_MINUTES).groupBy("origin")
            worst = late.agg(sql.count("*").alias("late"), sql.max("dep_delay").alias("worst_delay"))
            self._write_slice("marts.worst", label, worst)

    # ---- publish

    def _publish_delays(self, label: str) -> list[Row]:
        from pyspark.sql import functions as sql

        with self._timed("reports.delays", label):
            rows = self.read("marts.delays").where(sql.col("timelabel") == label).collect()
            with self._reports() as reports:
                if self.is_idempotent:
                    reports.execute("DELETE FROM delays WHERE timelabel = ?", [label])
                values = [(label, row.carrier, row.airline, row.flights, row.mean_delay, row.late) for row in rows]
                reports.executemany("INSERT INTO delays VALUES (?, ?, ?, ?, ?, ?)", values)
        return rows

    def _publish_files(self, label: str, delays: list[Row]) -> None:
        with self._timed("out.delays", label):
            file = self.work / "out" / "delays" / f"delays_{label}.csv.gz"
            file.parent.mkdir(parents=True, exist_ok=True)
            with gzip.open(file, "wt", encoding="utf-8", newline="") as text:
                writer = csv.writer(text)
                writer.writerow(["carrier", "airline", "flights", "mean_delay", "late", "timelabel"])
                writer.writerows(delays)

    def _publish_plane_use(self, label: str, use: DataFrame) -> None:
        from pyspark.sql import functions as sql

        with self._timed("reports.plane_use", label), self._reports() as reports:
            last_seen = sql.date_format("last_seen", "yyyy-MM-dd'T'HH:mm:ss'Z'")
            values = [tuple(row) for row in use.withColumn("last_seen", last_seen).collect()]
            reports.executemany(
                "INSERT INTO plane_use VALUES (?, ?, ?, ?, ?) ON CONFLICT (tailnum) DO UPDATE SET "
                "last_seen = excluded.last_seen, last_dest = excluded.last_dest, flights = excluded.flights, "
                "minutes = excluded.minutes WHERE excluded.last_seen >= plane_use.last_seen",
                values,
            )

    def _publish_summary(self, label: str) -> None:
        with self._timed("reports.carrier_summary", label), self._reports() as reports:
            rows = [tuple(row) for row in self.read("marts.carrier_summary").collect()]
            reports.execute("DELETE FROM carrier_summary")
            reports.executemany("INSERT INTO carrier_summary VALUES (?, ?, ?, ?, ?)", rows)

    @contextmanager
    def _reports(self) -> Iterator[sqlite3.Connection]:
        """Open the destination, with one transaction."""
        with closing(sqlite3.connect(self.work / "reports.sqlite")) as database:
            database.executescript(REPORTS)
            with database:
                yield database

    # ---- the two ways to write

    def _write_slice(self, table: str, label: str, rows: DataFrame) -> None:
        from pyspark.sql import functions as sql

        writer = rows.withColumn("timelabel", sql.lit(label)).write.format("delta").partitionBy("timelabel")
        if self.is_dynamic:
            writer.mode("overwrite").option("partitionOverwriteMode", "dynamic").save(self.path(table))
        elif self.is_idempotent:
            writer.mode("overwrite").option("replaceWhere", f"timelabel = '{label}'").save(self.path(table))
        else:
            writer.mode("append").save(self.path(table))

    def _upsert(self, table: str, key: str, order: str, changes: DataFrame, gone: str = "") -> None:
        """Merge changes, one row per key, unless the table has a newer row.

        Rows marked in column `gone` are deleted.
        """
        if not self._has(table):
            _without(changes, gone).write.format("delta").save(self.path(table))
        elif self.is_idempotent:
            self._merge(table, key, order, changes, gone)
        else:
            both = self.read(table).unionByName(changes)
            _without(_newest(both, key, order), gone).write.format("delta").mode("overwrite").save(self.path(table))

    def _merge(self, table: str, key: str, order: str, changes: DataFrame, gone: str) -> None:
        changes.createOrReplaceTempView("changes")
        deletes = f"WHEN MATCHED AND s.{gone} AND s.{order} >= t.{order} THEN DELETE" if gone else ""
        kept = f"AND NOT s.{gone}" if gone else ""
        self.spark.sql(
            f"MERGE INTO delta.`{self.path(table)}` t USING changes s ON t.{key} = s.{key} {deletes} "
            f"WHEN MATCHED AND s.{order} >= t.{order} THEN UPDATE SET * WHEN NOT MATCHED {kept} THEN INSERT *"
        )

    def _has(self, table: str) -> bool:
        return Path(self.path(table), "_delta_log").is_dir()

    # ---- measuring

    @contextmanager
    def _timed(self, table: str, label: str) -> Iterator[None]:
        wall, cpu = time.perf_counter(), cpu_seconds(self.processes)
        yield
        spent = cpu_seconds(self.processes) - cpu
        self.timings.append(Timing(table, label, time.perf_counter() - wall, spent))


def run(
    spark: SparkSession,
    data: Path,
    work: Path,
    days: Sequence[date],
    *,
    is_idempotent: bool,
    is_dynamic: bool = False,
) -> list[Timing]:
    """Run days in order on the landing files and the database in `data`, and return the cost of each batch.

    `work` must be empty, or contain the days before.
    """
    script = ByHand(spark, data / "new", data / "ops.sqlite", work, is_idempotent, family(), is_dynamic)
    work.mkdir(parents=True, exist_ok=True)
    for day in days:
        script.run_day(day)
    return script.timings


def cpu_seconds(processes: Sequence[int] | None = None) -> float:
    """Return the CPU seconds of running processes so far, user and system. Linux only.

    Without `processes`, count this process and its descendants (the JVM). Finding these takes some milliseconds.
    """
    tick = os.sysconf("SC_CLK_TCK")
    return sum(_ticks(process) for process in (family() if processes is None else processes)) / tick


def family() -> tuple[int, ...]:
    """Return the ids of this process and its descendants that still run."""
    children = defaultdict(list)
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit() and (fields := _stat(int(folder.name))):
            children[int(fields[1])].append(int(folder.name))
    found = [os.getpid()]
    for process in found:
        found += children[process]
    return tuple(found)


def _ticks(process: int) -> int:
    fields = _stat(process)
    return int(fields[11]) + int(fields[12]) if fields else 0


def _stat(process: int) -> list[str]:
    try:
        return Path("/proc", str(process), "stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return []


def _newest(rows: DataFrame, key: str, order: str) -> DataFrame:
    from pyspark.sql import Window
    from pyspark.sql import functions as sql

    place = sql.row_number().over(Window.partitionBy(key).orderBy(sql.desc(order)))
    return rows.withColumn("place", place).where("place = 1").drop("place")


def _without(rows: DataFrame, gone: str) -> DataFrame:
    return rows.where(f"NOT {gone}") if gone else rows


def _start(day: date) -> datetime:
    return datetime(day.year, day.month, day.day, tzinfo=NEW_YORK).astimezone(UTC)


def _label(instant: datetime) -> str:
    return f"{instant:%Y%m%d%H%M00}"


def _text(instant: datetime) -> str:
    return f"{instant:%Y-%m-%dT%H:%M:%SZ}"


def _named(prefix: str, end: datetime) -> str:
    return f"{prefix}_{end - timedelta(seconds=1):%Y_%m_%d_%H_%M_%S}.csv.gz"


def main() -> None:
    """Run some days on data that examples/flights/make_data.py wrote, and print the cost of each table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("data", type=Path, help="a folder that make_data.py has filled")
    parser.add_argument("--days", type=int, default=2, help="how many days of 2013; the first one warms up (2)")
    parser.add_argument("--plain", action="store_true", help="appends and overwrites in place of idempotent writes")
    given = parser.parse_args()
    days = [date(2013, 1, 1) + timedelta(days=offset) for offset in range(given.days)]
    with tempfile.TemporaryDirectory() as folder:
        from waterclock.engine.spark.session import open_session

        spark = open_session("local[2]", Path(folder, "spark"), {})
        timings = run(spark, given.data, Path(folder, "work"), days, is_idempotent=not given.plain)
        spark.stop()
    _print(timings, _label(_start(days[1] if len(days) > 1 else days[0])))


def _print(timings: Sequence[Timing], since: str) -> None:
    by_table: dict[str, list[Timing]] = defaultdict(list)
    for timing in timings:
        if timing.label >= since:
            by_table[timing.table].append(timing)
    everything = [timing for batches in by_table.values() for timing in batches]
    print(f"{'table':24}{'batches':>8}{'wall s':>9}{'CPU s':>9}{'median ms':>11}")
    for table, batches in [*by_table.items(), ("total", everything)]:
        wall, cpu = sum(one.wall for one in batches), sum(one.cpu for one in batches)
        middle = 1000 * median(one.wall for one in batches)
        print(f"{table:24}{len(batches):8}{wall:9.2f}{cpu:9.2f}{middle:11.0f}")


if __name__ == "__main__":
    main()
