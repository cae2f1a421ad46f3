"""Counts the cost of closing books, late rows, open windows and watermarks as data, history and tables grow.

For each check of CLOSE WHEN and each claim of a table: Spark jobs, scans and exchanges of the executed plans, ledger
statements, and CPU seconds of Python and the JVM. The same results are computed by hand in plain PySpark over Parquet.
Two devices send readings every 6 hours. The second one stops when windows are to stay open.

    python bench/books.py looks | history | late | open | marks   [SIZES ...]
"""

from __future__ import annotations

import re
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa
from measure import cpu_seconds, grid, jobs_so_far

from tests.tiny import Tiny, day
from waterclock.engine.batch import closing, retry
from waterclock.engine.run_settings import RunSettings
from waterclock.engine.spark.object_storage import storage_confs
from waterclock.engine.spark.session import open_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SIX = timedelta(hours=6)
ROWS = 50  # of a device in a slice
COLLECT = """
COLLECT web.readings PARTITIONED (device STRING, id BIGINT, at TIMESTAMP, came TIMESTAMP)
  FROM shop.readings EVERY 6 HOURS BY DATA TIME came{watermark};
"""
DAILY = """
TRANSFORM web.daily PARTITIONED{options} EVERY DAY CLOSE WHEN watermark(at, device) >= WINDOW_END(){lateness}
AS SELECT device, count(*) AS n FROM UNTIL(web.readings, '1 day')
WHERE at >= WINDOW_START() AND at < WINDOW_END() GROUP BY device;
"""
HEAD = ("what", "size", "calls", "jobs", "scans", "exchanges", "ledger", "CPU s")


@dataclass
class Counted:
    """Counts the cost of work, by a name for each kind of work."""

    spark: SparkSession
    statements: int = 0
    found: dict[str, list[float]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        sa.event.listen(sa.Engine, "before_cursor_execute", self._heard)

    def _heard(self, *_: Any) -> None:
        self.statements += 1

    @contextmanager
    def of(self, name: str) -> Iterator[None]:
        self._settled()
        jobs, plans, asked, cpu = jobs_so_far(self.spark), self._plans(), self.statements, cpu_seconds()
        yield
        cpu, asked = cpu_seconds() - cpu, self.statements - asked
        self._settled()
        new = [text for number, text in self._plans().items() if number not in plans]
        scans, exchanges = (sum(map(count, new)) for count in (scans_in, exchanges_in))
        told = [1, jobs_so_far(self.spark) - jobs, scans, exchanges, asked, cpu]
        kept = self.found.setdefault(name, [0.0] * len(told))
        self.found[name] = [before + more for before, more in zip(kept, told, strict=True)]

    def _settled(self) -> None:
        self.spark.sparkContext._jsc.sc().listenerBus().waitUntilEmpty()  # noqa: SLF001

    def _plans(self) -> dict[int, str]:
        listed = self.spark._jsparkSession.sharedState().statusStore().executionsList()  # noqa: SLF001
        each = (listed.apply(index) for index in range(listed.size()))
        return {one.executionId(): one.physicalPlanDescription() for one in each}

    def taken(self) -> dict[str, list[float]]:
        found, self.found = self.found, {}
        return found


def _tree(text: str) -> str:
    """Return the tree of the executed plan, without the initial plan and without the details of its nodes."""
    return text.partition("\n\n\n")[0].partition("== Initial Plan ==")[0]


def scans_in(text: str) -> int:
    return len(re.findall(r"Scan (?!OneRow)", _tree(text)))


def exchanges_in(text: str) -> int:
    return len(re.findall(r"(?<!Reused)(?<!Broadcast)Exchange", _tree(text)))


def rows_until(end: datetime, silent_from: datetime | None, *, skip: timedelta = timedelta(0)) -> list[tuple[Any, ...]]:
    """Return readings of both devices in each slice up to `end`. Device b stops at an instant. A tenth is late."""
    rows: list[tuple[Any, ...]] = []
    at = day(1)
    while at < end:
        for device in ("a", "b"):
            if device == "b" and silent_from is not None and at >= silent_from:
                continue
            for number in range(ROWS):
                came = at + timedelta(minutes=5 * number)
                taken = came - (skip if number % 10 == 9 else timedelta(0))
                rows.append((device, len(rows), f"{taken:%F %T}", f"{came:%F %T}"))
        at += SIX
    return rows


def project(spark: SparkSession, flow: str, rows: Sequence[tuple[Any, ...]]) -> Tiny:
    tiny = Tiny(Path(tempfile.mkdtemp()), spark, settings=RunSettings(threads=1, attempts=1, who="bench"))
    tiny.declare(flow)
    tiny.source("readings", "device TEXT, id INT, at TEXT, came TEXT", rows)
    return tiny


def by_hand(spark: SparkSession, rows: Sequence[tuple[Any, ...]]) -> str:
    """Write the readings to Parquet files by slice, as one does by hand, and register them as `readings`."""
    folder = tempfile.mkdtemp()
    text = "device STRING, id BIGINT, at STRING, came STRING"
    spark.createDataFrame(list(rows), text).selectExpr(
        "device", "id", "timestamp(at) AS at", "timestamp(came) AS came",
        "date_format(timestamp_seconds(floor(unix_timestamp(timestamp(came)) / 21600) * 21600), 'yyyyMMddHHmmss') AS s",
    ).write.partitionBy("s").mode("overwrite").parquet(folder)  # fmt: skip
    spark.read.parquet(folder).createOrReplaceTempView("readings")
    return folder


def told(size: int, found: dict[str, list[float]], table: list[list[object]], *, but: str = "web.readings") -> None:
    for name, (calls, *counts, cpu) in found.items():
        if name != but:
            table.append([name, size, int(calls), *map(int, counts), f"{cpu:.1f}"])


def looks(counted: Counted, sizes: Sequence[int]) -> list[list[object]]:
    """Count one check of CLOSE WHEN at a new boundary, for each number of open windows."""
    table: list[list[object]] = []
    for size in sizes:
        end, silent = day(1) + timedelta(days=size), day(1, 6)
        rows = rows_until(end + SIX, silent)
        tiny = project(counted.spark, COLLECT.format(watermark="") + DAILY.format(options="", lateness=""), rows)
        tiny.run(end)
        counted.taken()
        tiny.run(end + SIX)
        told(size, counted.taken(), table)
        by_hand(counted.spark, rows)
        label = f"{day(1):%Y%m%d%H%M%S}"
        with counted.of("by hand, from the oldest open window"):
            counted.spark.sql(
                "SELECT device, max(at) AS newest FROM readings WHERE s >= "
                f"'{label}' GROUP BY device ORDER BY newest LIMIT 1"
            ).collect()
        label = f"{end:%Y%m%d%H%M%S}"
        with counted.of("by hand, the new slice, newest by device kept"):
            counted.spark.sql(f"SELECT device, max(at) AS m FROM readings WHERE s = '{label}' GROUP BY 1").collect()
        told(size, counted.taken(), table)
    return table


def history(counted: Counted, sizes: Sequence[int]) -> list[list[object]]:
    """Count one check of CLOSE WHEN at a new boundary, with one open window, for each number of closed windows."""
    table: list[list[object]] = []
    for size in sizes:
        end = day(1) + timedelta(days=size)
        rows = rows_until(end + 2 * SIX, end + SIX)
        tiny = project(counted.spark, COLLECT.format(watermark="") + DAILY.format(options="", lateness=""), rows)
        tiny.run(end + SIX)
        told(size, {f"catching up: {name}": of for name, of in counted.taken().items()}, table, but="")
        with counted.of("whole run at the next boundary"):
            tiny.run(end + 2 * SIX)
        told(size, counted.taken(), table)
    return table


def late(counted: Counted, sizes: Sequence[int]) -> list[list[object]]:
    """Count the batches of late rows when all slices of some days are run at once, with and without MAX LATENESS."""
    table: list[list[object]] = []
    for size in sizes:
        end = day(1) + timedelta(days=size)
        rows = rows_until(end, None, skip=timedelta(hours=30))
        for lateness in ("", " MAX LATENESS 12 HOURS"):
            flow = COLLECT.format(watermark="") + DAILY.format(options="", lateness=lateness)
            tiny = project(counted.spark, flow, rows)
            tiny.run(end)
            told(4 * size, {f"{name}{lateness}": of for name, of in counted.taken().items()}, table, but="")
        by_hand(counted.spark, rows)
        with counted.of("by hand: one query, by slice"):
            counted.spark.sql(
                "SELECT *, 'late' AS reason FROM readings WHERE to_timestamp(string(s), 'yyyyMMddHHmmss') >= "
                "date_trunc('day', at) + INTERVAL 30 HOURS OR at IS NULL"
            ).write.partitionBy("s").mode("overwrite").parquet(tempfile.mkdtemp())
        told(4 * size, counted.taken(), table)
    return table


def opened(counted: Counted, sizes: Sequence[int]) -> list[list[object]]:
    """Count one batch of the speed table, for each number of open windows."""
    table: list[list[object]] = []
    for size in sizes:
        end = day(1) + timedelta(days=size)
        rows = rows_until(end + SIX, day(1, 6))
        flow = COLLECT.format(watermark="") + DAILY.format(options=" OPTIONS (open_windows 'kept')", lateness="")
        tiny = project(counted.spark, flow, rows)
        tiny.run(end)
        counted.taken()
        tiny.run(end + SIX)
        told(size, {name: of for name, of in counted.taken().items() if "spd" in name}, table)
        by_hand(counted.spark, rows)
        with counted.of("by hand: one query of all open windows"):
            counted.spark.sql(
                "SELECT date_trunc('day', at) AS d, device, count(*) AS n FROM readings "
                f"WHERE s >= '{day(1):%Y%m%d%H%M%S}' GROUP BY 1, 2"
            ).coalesce(1).write.mode("overwrite").parquet(tempfile.mkdtemp())
        told(size, counted.taken(), table)
    return table


def marks(counted: Counted, sizes: Sequence[int]) -> list[list[object]]:
    """Count the batches of the watermark table, for each number of windows."""
    table: list[list[object]] = []
    for size in sizes:
        end = day(1) + size * SIX
        rows = rows_until(end, None)
        tiny = project(counted.spark, COLLECT.format(watermark=" WATERMARK at 10 MINUTES PER (device)"), rows)
        tiny.run(end)
        told(size, counted.taken(), table)
        by_hand(counted.spark, rows)
        with counted.of("by hand: one query of all windows"):
            counted.spark.sql(
                "SELECT s, min(newest) - INTERVAL 10 MINUTES AS mark FROM (SELECT s, device, max(max(at)) OVER ("
                "PARTITION BY device ORDER BY s) AS newest FROM readings GROUP BY s, device) GROUP BY s"
            ).coalesce(1).write.mode("overwrite").parquet(tempfile.mkdtemp())
        told(size, counted.taken(), table)
    return table


def counting(counted: Counted) -> None:
    """Count each check of CLOSE WHEN, and each claim, separately from now on."""
    asked: Callable[..., Any] = closing._evaluate_condition  # noqa: SLF001
    carried: Callable[..., Any] = retry.run_group_with_retries

    def looked(work: Any, books: Any, closes: Any, pairs: Any) -> Any:
        with counted.of(f"look at {books.table.name}"):
            found = asked(work, books, closes, pairs)
        bounds = [closing._bind_read(books, read, pair) for read in books.open_ended_reads for pair in pairs]  # noqa: SLF001
        seen, least = sum((it.high - it.low) // SIX for it in bounds), min(it.low for it in bounds)
        told_ = f"{len(pairs)} boundaries of {len({it.window for it in pairs})} windows, which see {seen} slices"
        print(f"  a look at {told_} of {(max(it.high for it in bounds) - least) // SIX}", file=sys.stderr)
        return found

    def made(work: Any, group: Any, now: Any) -> Any:
        with counted.of(group.table):
            return carried(work, group, now)

    closing._evaluate_condition = looked  # noqa: SLF001
    retry.run_group_with_retries = made


MEASURES = {"looks": looks, "history": history, "late": late, "open": opened, "marks": marks}

if __name__ == "__main__":
    confs = {**storage_confs({}), "spark.sql.shuffle.partitions": "1"}
    spark = open_session("local[2]", Path(tempfile.mkdtemp()), confs, schemes=())
    counted_ = Counted(spark)
    counting(counted_)
    print(grid(HEAD, MEASURES[sys.argv[1]](counted_, [int(it) for it in sys.argv[2:]])))
    spark.stop()
