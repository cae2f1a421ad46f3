"""Measures the memory of a long-running service: one `waterclock run --watch` that runs thousands of batches.

    python bench/service.py [--batches 10000] [--every 500] [--minutes 20]

A sender writes the files of some minutes into a folder, and the next ones when all tables have these. So the labels of
a partitioned table share a claim, and those of other tables have one each. A monitor requests /metrics meanwhile. The
memory of both processes is read from /proc, and the JVM's heap after a collection with jcmd and jstat (of a JDK). Linux
only.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from statistics import linear_regression

from measure import grid

MINUTE = timedelta(minutes=1)
ROWS = 20
PROJECT = """\
[project]
name = "service"

[defaults]
start = "{start:%Y-%m-%d %H:%M}"

[env.dev]
storage = ".waterclock"
publish = true
connections.landing = {{ path = "landing" }}
connections.reports = {{ path = "reports.sqlite", create = true }}
connections.out = {{ path = "out" }}

[env.dev.spark.confs]
"spark.sql.shuffle.partitions" = 1
"""
FLOW = """\
CREATE CONNECTION landing TYPE files;
CREATE CONNECTION reports TYPE sqlite;
CREATE CONNECTION out TYPE files;

CREATE FUNCTION vat(amount DOUBLE) RETURNS DOUBLE RETURN amount * 0.2;

COLLECT raw.sales PARTITIONED (id BIGINT, customer BIGINT, amount DOUBLE, at TIMESTAMP)
  FROM landing.shop.sales EVERY MINUTE BY ARRIVAL TIME;

TRANSFORM clean.sales PARTITIONED
  EXPECT amount >= 0 AS paid, count(*) > 0 AS somebody_came ELSE WARN
AS SELECT id, customer, amount, vat(amount) AS vat, at FROM raw.sales;

TRANSFORM marts.by_customer PARTITIONED AS
  SELECT customer, count(*) AS sales, sum(amount) AS amount FROM clean.sales GROUP BY customer;

TRANSFORM marts.ten_minutes PARTITIONED AS
  SELECT customer, sum(amount) AS amount FROM PAST(clean.sales, '10 minutes') GROUP BY customer;

TRANSFORM marts.customers (customer KEY, *) EVERY 1 HOUR MERGE AS
  SELECT customer, max(at) AS seen, max(amount) AS most FROM clean.sales GROUP BY customer;

TRANSFORM marts.dear PARTITIONED AS SELECT id, amount FROM clean.sales WHERE amount > 100;

TRANSFORM marts.shares PARTITIONED AS
  SELECT id, amount / (amount + vat + 1) AS share FROM clean.sales;

TRANSFORM marts.both PARTITIONED AS
  SELECT id, share FROM marts.shares UNION ALL BY NAME SELECT id, amount FROM clean.sales;

PUBLISH marts.by_customer TO reports.by_customer;
PUBLISH marts.dear TO reports.dear;
PUBLISH marts.shares TO out.shares OPTIONS (format 'csv');
"""
IN_PYTHON = '''\
from __future__ import annotations

import waterclock as wc


@wc.transform("marts.large", partitioned=True)
def large(sales: wc.DataFrame = wc.table("clean.sales")) -> wc.DataFrame:
    """Sales that are large."""
    return sales.where(sales.amount >= 50)
'''
BY_MINUTE = 11  # tables with a batch each minute, in addition to the hourly table
BATCHES = "SELECT count(*), count(DISTINCT claim) FROM batches WHERE current_claim IS NOT NULL"
HEAD = (
    *("batches", "commits", "Python MiB", "Python threads", "Python files"),
    *("JVM MiB", "heap MiB", "classes MiB", "JVM threads", "JVM files", "files of Spark"),
)
_PATIENCE = 1200.0  # seconds for the batches of the files sent; the first time, Spark starts


@dataclass(frozen=True, slots=True)
class Sample:
    """The resources of the service after this many batches: sizes in MiB, and numbers of threads and open files."""

    batches: int
    commits: int
    held: tuple[float, ...]

    @property
    def row(self) -> list[str]:
        return [f"{self.batches:,}", f"{self.commits:,}", *(f"{value:.0f}" for value in self.held)]


def lay_out(folder: Path, start: datetime) -> None:
    (folder / "flows").mkdir()
    (folder / "landing" / "shop" / "sales").mkdir(parents=True)
    (folder / "waterclock.toml").write_text(PROJECT.format(start=start), encoding="utf-8")
    (folder / "flows" / "service.dpl").write_text(FLOW, encoding="utf-8")
    (folder / "flows" / "large.py").write_text(IN_PYTHON, encoding="utf-8")


def send(folder: Path, minute: datetime, number: int) -> None:
    """Write the file of a minute atomically. Its stamp is the last second of the minute."""
    path = folder / "landing" / "shop" / "sales" / f"shop_sales_{minute + timedelta(seconds=59):%Y_%m_%d_%H_%M_%S}.csv"
    rows = [f"{number * ROWS + row},{row % 7},{row * 7.5},{minute:%Y-%m-%d %H:%M}:{row:02d}" for row in range(ROWS)]
    written = path.with_suffix(".csv.part")
    written.write_text("\n".join(["id,customer,amount,at", *rows, ""]), encoding="utf-8")
    written.replace(path)


@contextmanager
def service(folder: Path, port: int) -> Iterator[subprocess.Popen[bytes]]:
    """Run `waterclock run --watch` as a service, and stop it as systemd does."""
    command = [sys.executable, "-m", "waterclock", "run", "--watch", "--every", "1", "--log", "json"]
    with (folder / "service.log").open("wb") as log:
        process = subprocess.Popen([*command, "--listen", str(port)], cwd=folder, stdout=log, stderr=log)
        try:
            yield process
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(300)


def watched(
    folder: Path, port: int, process: subprocess.Popen[bytes], start: datetime, asked: argparse.Namespace
) -> list[Sample]:
    """Send minute after minute until the ledger has the batches, or until Ctrl-C. Return samples of the resources."""
    samples: list[Sample] = []
    with suppress(KeyboardInterrupt):
        for number in range(0, -(-asked.batches // BY_MINUTE), asked.minutes):
            for minute in range(number, number + asked.minutes):
                send(folder, start + minute * MINUTE, minute)
            batches, commits = _until(folder, _due(number + asked.minutes), process)
            if not samples or batches // asked.every > samples[-1].batches // asked.every:
                _metrics(port)
                samples.append(Sample(batches, commits, _held(folder, process.pid)))
                print(*samples[-1].row, file=sys.stderr, flush=True)
    return samples


def _due(minutes: int) -> int:
    """Return the number of batches in this many minutes from the start of an hour."""
    return minutes * BY_MINUTE + minutes // 60


def _until(folder: Path, batches: int, process: subprocess.Popen[bytes]) -> tuple[int, int]:
    """Wait until the ledger has this many batches, and return the numbers of batches and commits."""
    end, done, commits = time.monotonic() + _PATIENCE, 0, 0
    path = folder / ".waterclock" / "ledger.db"
    while time.monotonic() < end and process.poll() is None:
        if path.exists():
            with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as ledger:
                try:
                    done, commits = ledger.execute(BATCHES).fetchone()
                except sqlite3.OperationalError:
                    done = 0  # its tables are being created
            if done >= batches:
                return done, commits
        time.sleep(0.1)
    raise SystemExit(f"{done} of {batches} batches, and no more\n{(folder / 'service.log').read_text()[-3000:]}")


def _held(folder: Path, process: int) -> tuple[float, ...]:
    found = subprocess.run(["pgrep", "-P", str(process), "java"], check=True, capture_output=True, text=True)
    java = int(found.stdout)
    resident = _resident(java)  # before the garbage collection, which frees memory
    subprocess.run(["jcmd", str(java), "GC.run"], check=True, capture_output=True)
    said = subprocess.run(["jstat", "-gc", str(java)], check=True, capture_output=True, text=True).stdout
    kib = dict(zip(*map(str.split, said.splitlines()), strict=True))
    heap = sum(float(kib[space]) for space in ("S0U", "S1U", "EU", "OU")) / 1024
    of_spark = sum(len(files) for _, _, files in os.walk(folder / ".waterclock" / "spark"))
    return (
        *(_resident(process), _count(process, "task"), _count(process, "fd")),
        *(resident, heap, float(kib["MU"]) / 1024, _count(java, "task"), _count(java, "fd"), of_spark),
    )


def _resident(process: int) -> float:
    return int(Path("/proc", str(process), "statm").read_text().split()[1]) * 4096 / 2**20


def _count(process: int, what: str) -> int:
    return len(list(Path("/proc", str(process), what).iterdir()))


def _metrics(port: int) -> None:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as answer:
        answer.read()


def slopes(samples: Sequence[Sample]) -> list[str]:
    """Return the growth of each resource per 1,000 batches, over the second half of the samples."""
    late = samples[len(samples) // 2 :]
    batches = [sample.batches / 1000 for sample in late]
    return [f"{linear_regression(batches, column).slope:+.2f}" for column in zip(*(s.held for s in late), strict=True)]


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batches", type=int, default=10_000)
    parser.add_argument("--every", type=int, default=500, help="look after so many batches (500)")
    parser.add_argument("--minutes", type=int, default=20, help="send files of so many minutes at a time (20)")
    parser.add_argument("--keep", type=Path, help="a folder to work in, which is left as it is")
    asked = parser.parse_args()
    folder = asked.keep or Path(tempfile.mkdtemp())
    folder.mkdir(exist_ok=True)
    begun = time.perf_counter()
    try:
        start = datetime.now(UTC).replace(minute=0, second=0, microsecond=0)
        start -= timedelta(hours=asked.batches // BY_MINUTE // 60 + 2)
        lay_out(folder, start)
        port = _free_port()
        with service(folder, port) as process:
            samples = watched(folder, port, process, start, asked)
    finally:
        if not asked.keep:
            shutil.rmtree(folder)
    minutes = (time.perf_counter() - begun) / 60
    print(
        f"{samples[-1].batches:,} batches of {BY_MINUTE + 1} tables in {minutes:.0f} minutes "
        "by one process of `run --watch`.\n"
    )
    print(grid(HEAD, [*(sample.row for sample in samples), ["per 1,000, second half", "", *slopes(samples)]]))


if __name__ == "__main__":
    main()
