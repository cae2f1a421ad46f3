"""Measures commands that have nothing to run: `run`, `plan`, `check` and `--help` with 10, 200 and 1,000 tables.

The flow is generated: a fifth of the tables are collects, the others are transforms of two tables each. Ten days are
done. Each command runs in a process of its own. Targets: 1 s of CPU for `plan` of 1,000 tables, 0.5 s more for `run`,
0.2 s for `--help`, and no JVM.
"""

from __future__ import annotations

import argparse
import sqlite3
import sys
import tempfile
from contextlib import closing
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

from measure import Cost, cost_of_process, grid, interleaved, middle

START = datetime(2013, 1, 1, tzinfo=UTC)
DAY = timedelta(days=1)
DAYS = 10
HEADER = """\
[project]
name = "bench"

[defaults]
start = "2013-01-01"

[env.dev]
storage = ".waterclock"
connections.shop = { path = "shop.sqlite" }
"""


def make(folder: Path, tables: int) -> Path:
    """Write a project with this many tables, fifty in a file, and a ledger in which ten days are done."""
    (folder / "flows").mkdir(parents=True)
    (folder / "waterclock.toml").write_text(HEADER, encoding="utf-8")
    statements = [_statement(number, max(tables // 5, 1)) for number in range(tables)]
    for first in range(0, tables, 50):
        text = "CREATE CONNECTION shop TYPE sqlite;\n\n" if first == 0 else ""
        (folder / "flows" / f"part_{first:04}.dpl").write_text(
            text + "\n\n".join(statements[first : first + 50]) + "\n", encoding="utf-8"
        )
    with closing(sqlite3.connect(folder / "shop.sqlite")) as shop, shop:
        shop.execute("CREATE TABLE sales (id INTEGER, amount REAL, country TEXT, at TIMESTAMP)")
    _fill(folder)
    return folder


def _statement(number: int, collects: int) -> str:
    if number < collects:
        return (
            f"COLLECT raw.t{number} PARTITIONED (id BIGINT, amount DOUBLE, country STRING, at TIMESTAMP)\n"
            "  FROM shop.sales EVERY DAY BY DATA TIME at;"
        )
    first, second = _name(number - collects, collects), _name(number - collects // 2 - 1, collects)
    return (
        f"TRANSFORM {_name(number, collects)} PARTITIONED\n"
        f"AS SELECT a.id, a.country, b.at, round(sum(a.amount + b.amount), 2) AS amount\n"
        f"FROM {first} a JOIN {second} b ON b.id = a.id WHERE a.country IS NOT NULL GROUP BY ALL;"
    )


def _name(number: int, collects: int) -> str:
    return f"raw.t{number}" if number < collects else f"mart.t{number}"


def _fill(folder: Path) -> None:
    """Record in the ledger that the batches of all tables are done for ten days."""
    from waterclock.batches.records import BatchResult, ClaimRequest
    from waterclock.ledger.ledger import Ledger
    from waterclock.operations.project_opening import open_project
    from waterclock.planner.planning import Planner
    from waterclock.planner.request import PlanRequest

    project = open_project(folder, None)
    Path(project.storage).mkdir(parents=True)
    ledger = Ledger.open(project.ledger)
    end = START + DAYS * DAY
    ledger.declared.apply(project.flow, who="bench", now=end, runner="bench")
    planner = Planner(project.flow)
    while groups := planner.plan(ledger.reads.snapshot(project.flow), end, PlanRequest(clock=ledger.now())).groups:
        for group in groups:
            inputs = {}
            for batch in group.batches:
                pins = ledger.reads.pins([(bound.read.table, bound.low, bound.high) for bound in batch.reads])
                inputs[batch.label] = tuple(
                    pin.input(str(bound.read), bound.scope.value) for bound, pin in zip(batch.reads, pins, strict=True)
                )
            table = project.flow.tables[group.table]
            labels = tuple(batch.label for batch in group.batches)
            request = ClaimRequest(
                group.table, labels, table.fingerprint, project.flow.fingerprint, "bench", "bench", end, 60, -1, inputs
            )
            results = [
                BatchResult(batch.label, batch.window.end, 1, 10, 1000, "10:1:2", f"_stage/{batch.window.label}")
                for batch in group.batches
            ]
            ledger.claims.record_done(ledger.claims.take(request), results)
    ledger.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5, help="how often each (5)")
    parser.add_argument("--tables", type=int, nargs="*", default=[10, 200, 1000])
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        projects = {count: make(Path(folder, str(count)), count) for count in asked.tables}
        end = START + DAYS * DAY
        over = ["--now", f"{end:%Y-%m-%dT%H:%MZ}"]
        variants = {"--help": ["--help"]}
        for count, project in projects.items():
            where = ["--project", str(project)]
            variants |= {
                f"check {count}": ["check", *where],
                f"plan {count}": ["plan", *over, *where],
                f"run {count}": ["run", *over, *where],
                f"plan, a day due {count}": ["plan", "--now", f"{end + DAY:%Y-%m-%dT%H:%MZ}", *where],
            }
        found = interleaved(
            {name: partial(_cost, arguments) for name, arguments in variants.items()}, asked.rounds, warm=1
        )
    middles = {name: middle(costs) for name, costs in found.items()}
    print(
        f"Seconds of a whole process, medians of {asked.rounds}. `--help` of any project: "
        f"{middles['--help'].wall:.2f} s, {middles['--help'].cpu:.2f} s of CPU.\n"
    )
    rows = []
    for count in projects:
        row = [f"{count:,}"]
        for name in ("check", "plan", "run", "plan, a day due"):
            cost = middles[f"{name} {count}"]
            row += [f"{cost.wall:.2f}", f"{cost.cpu:.2f}"]
        rows.append(row)
    names = ("check", "plan", "no-op run", "plan, a day due")
    print(grid(["tables", *(f"{name}{unit}" for name in names for unit in (" wall", " CPU"))], rows))


def _cost(arguments: list[str], _: int) -> Cost:
    return cost_of_process([sys.executable, "-m", "waterclock", *arguments])


if __name__ == "__main__":
    main()
