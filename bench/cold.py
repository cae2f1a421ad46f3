"""Measures a cold `waterclock run`: one due batch of a hundred rows, from SQLite into Delta.

    python bench/cold.py [--rounds 3] [--rows 100]

The peer is the script that an engineer would write: a Spark session with Delta, a query, `replaceWhere`. Each runs in a
process of its own. CPU includes all its child processes, such as the JVM, even those that end later. Linux only.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import resource
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path

from measure import Cost, grid, interleaved, middle, ratio

PROJECT = """\
[project]
name = "cold"

[defaults]
start = "2020-01-01"

[env.dev]
storage = ".waterclock"
connections.shop = { path = "shop.sqlite" }
"""
FLOW = """\
CREATE CONNECTION shop TYPE sqlite;

COLLECT raw.sales PARTITIONED (id BIGINT, amount DOUBLE, at TIMESTAMP) FROM shop.sales EVERY DAY BY DATA TIME at;
"""
BY_HAND = """
import datetime, sqlite3, sys
from pyspark.sql import SparkSession
builder = (
    SparkSession.builder.master("local[*]").config("spark.ui.enabled", "false")
    .config("spark.sql.extensions", "io.delta.sql.DeltaSparkSessionExtension")
    .config("spark.sql.catalog.spark_catalog", "org.apache.spark.sql.delta.catalog.DeltaCatalog")
    .config("spark.sql.session.timeZone", "UTC").config("spark.sql.shuffle.partitions", "8")
    .config("spark.jars", sys.argv[1])
)
spark = builder.getOrCreate()
rows = sqlite3.connect("shop.sqlite").execute(
    "SELECT id, amount, at, '20200101000000' FROM sales WHERE at >= '2020-01-01' AND at < '2020-01-02'"
).fetchall()
rows = [(id, amount, datetime.datetime.fromisoformat(at), label) for id, amount, at, label in rows]
frame = spark.createDataFrame(rows, "id BIGINT, amount DOUBLE, at TIMESTAMP, timelabel STRING")
where = "timelabel = '20200101000000'"
frame.write.format("delta").mode("overwrite").partitionBy("timelabel").option("replaceWhere", where).save("by_hand")
assert spark.read.format("delta").load("by_hand").count() == int(sys.argv[2])
spark.stop()
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--rows", type=int, default=100)
    asked = parser.parse_args()
    adopt_orphans()
    with tempfile.TemporaryDirectory() as root:
        folder = Path(root)
        lay_out(folder, asked.rows)
        jars = ",".join(jar.absolute().as_uri() for jar in delta_jars())
        (folder / "by_hand.py").write_text(BY_HAND, encoding="utf-8")
        run = [sys.executable, "-m", "waterclock", "run", "--now", "2020-01-02"]
        found = interleaved(
            {
                "ours": fresh(folder, ".waterclock", run),
                "by hand": fresh(folder, "by_hand", [sys.executable, "by_hand.py", jars, str(asked.rows)]),
            },
            asked.rounds,
        )
        nothing = middle(process(folder, run) for _ in range(asked.rounds))
    ours, theirs = middle(found["ours"]), middle(found["by hand"])
    rows = [
        ["`run`, one batch", f"{ours.wall:.1f}", f"{ours.cpu:.1f}", ratio(ours.cpu, theirs.cpu)],
        ["the same by hand", f"{theirs.wall:.1f}", f"{theirs.cpu:.1f}", ""],
        ["`run`, nothing due", f"{nothing.wall:.1f}", f"{nothing.cpu:.1f}", ratio(nothing.cpu, theirs.cpu)],
    ]
    print(f"{asked.rows} rows, each command in its own process; medians of {asked.rounds}.\n")
    print(grid(["what", "wall s", "CPU s", "CPU / by hand"], rows))


def delta_jars() -> tuple[Path, ...]:
    from waterclock.engine.spark.jars import delta_jars as found

    return tuple(found())


def lay_out(folder: Path, rows: int) -> None:
    (folder / "flows").mkdir()
    (folder / "waterclock.toml").write_text(PROJECT, encoding="utf-8")
    (folder / "flows" / "sales.dpl").write_text(FLOW, encoding="utf-8")
    with closing(sqlite3.connect(folder / "shop.sqlite")) as shop, shop:
        shop.execute("CREATE TABLE sales (id INTEGER, amount REAL, at TEXT)")
        made = [(number, number / 7, f"2020-01-01 {number % 24:02d}:00:00") for number in range(rows)]
        shop.executemany("INSERT INTO sales VALUES (?, ?, ?)", made)


def fresh(folder: Path, made: str, command: list[str]) -> Callable[[int], Cost]:
    """Return a function that measures a command after removing the folder that the command creates."""

    def measure(_: int) -> Cost:
        shutil.rmtree(folder / made, ignore_errors=True)
        return process(folder, command)

    return measure


def process(folder: Path, command: list[str]) -> Cost:
    before, begun = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    wall = time.perf_counter() - begun
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} gave {done.returncode}\n{done.stdout}\n{done.stderr}")
    with suppress(ChildProcessError):
        while True:
            os.wait()  # for the JVM, which ends after the process that started it
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return Cost(wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)


def adopt_orphans() -> None:
    """Become the parent of processes whose parent has ended, so that their CPU is counted here."""
    set_child_subreaper = 36
    ctypes.CDLL(None, use_errno=True).prctl(set_child_subreaper, 1, 0, 0, 0)


if __name__ == "__main__":
    main()
