"""Measures `status` and the status tables on a long history in which all batches are done: by default 146,000.

    python bench/status.py [--tables 40] [--days 3650] [--rounds 3]

Seconds of CPU. Commands run in processes of their own. The reads of `waterclock.batches` are the ledger's part of a
query, without Spark. Each is compared with a plain SQLite query of the same columns by the same condition and view.
"""

from __future__ import annotations

import argparse
import sqlite3
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import commands
from measure import Cost, cost_of_process, grid, middle, ratio

from waterclock.ledger.ledger import Ledger
from waterclock.ledger.read.status import STATUS_TABLES

READS = {
    "all columns": ("*", ()),
    "two columns": ('"table", status', ()),
    "of one table": ('"table", status', (("table", "=", ("raw.t1",)),)),
    "that failed": ('"table", timelabel', (("status", "=", ("failed",)),)),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", type=int, default=40)
    parser.add_argument("--days", type=int, default=3650)
    parser.add_argument("--rounds", type=int, default=3)
    asked = parser.parse_args()
    commands.DAYS = asked.days
    with tempfile.TemporaryDirectory() as root:
        project = commands.make(Path(root) / "project", asked.tables)
        end = commands.START + timedelta(days=asked.days)
        whole = f"{commands.START:%Y-%m-%d}..{end - commands.DAY:%Y-%m-%d}"
        told = {
            "`status`, the newest days": (),
            "`status`, the whole history": ("--labels", whole),
            "`status --json`, by month": ("--labels", whole, "--json", "--by", "month"),
            "`status --json`, by day": ("--labels", whole, "--json", "--by", "day"),
        }
        print(f"{asked.tables * asked.days:,} batches, {asked.days:,} days of {asked.tables} tables.\n")
        rows = [
            [name, f"{cost_of_status(project, f'{end:%Y-%m-%d}T12:00Z', words, asked.rounds).cpu:.2f}"]
            for name, words in told.items()
        ]
        print(grid(["a process", "CPU s"], rows))
        print()
        database = project / ".waterclock" / "ledger.db"
        with Ledger.open(f"sqlite:///{database}") as ledger, closing(sqlite3.connect(database)) as bare:
            print(grid(["read of `waterclock.batches`", "rows", "ms", "ours/bare SQLite"], reads(ledger, bare)))


def cost_of_status(project: Path, now: str, words: tuple[str, ...], rounds: int) -> Cost:
    command = [sys.executable, "-m", "waterclock", "status", "--project", str(project), "--now", now, *words]
    return middle(cost_of_process(command) for _ in range(rounds))


def reads(ledger: Ledger, bare: sqlite3.Connection) -> list[list[str]]:
    """Return a row for each read: its number of rows, its cost, and the ratio to plain SQLite."""
    found = []
    for name, (listed, conditions) in READS.items():
        columns = list(STATUS_TABLES["batches"]) if listed == "*" else listed.replace('"', "").split(", ")
        where = " AND ".join(f"\"{column}\" = '{values[0]}'" for column, _, values in conditions) or "true"
        ours, told = timed(lambda: ledger.past.columns("batches", columns, conditions))  # noqa: B023 - called at once
        peer, _ = timed(lambda: bare.execute(f"SELECT {listed} FROM waterclock_batches WHERE {where}").fetchall())  # noqa: B023
        found.append([name, f"{len(next(iter(told.values()))):,}", f"{1000 * ours:.0f}", ratio(ours, peer)])
    return found


def timed(work: Callable[[], object]) -> tuple[float, object]:
    begun = time.process_time()
    result = work()
    return time.process_time() - begun, result


if __name__ == "__main__":
    main()
