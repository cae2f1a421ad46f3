"""Measures branches: creating and planning one by the length of the history, the difference of rows, and promoting.

    python bench/branch.py [--rows 1000000] [--rounds 3] [--minutes 15] [--labels 10 100 1000] [--tables 10]
                           [--sqlmesh PYTHON]

Create and plan: a ledger with this many labels of each table, and a changed table. The cost is the CPU of this process.

Difference: each round changes the code of `mart.amounts` such that one row in a hundred gets another amount, and of
`mart.same` such that no row changes. `diff` shows counts by label, changed rows by column with the largest changes, and
a sample; labels with equal digests are not read. By hand, `EXCEPT ALL` of both Delta tables in both directions, with
counts alone. Both use the same session.

Promoting: production adopts the labels that the branch has made, against making the same labels, as the branch did.

SQLMesh: PYTHON is an interpreter of an environment of its own, with `pip install sqlmesh`. The same rows and changes
are then measured on DuckDB in each round: `plan` of a virtual environment, `table_diff`, and `plan` of production. The
costs do not contain the start of its Python.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import scale_history
from big_slice import make_source
from branch_peers import SqlMesh, find_interpreter
from measure import Cost, cost_of, grid, middle, ratio
from product import warm_spark

from tests.branches import ENVS, Branched
from waterclock.engine.branching.creation import create_branch
from waterclock.engine.branching.deletion import delete_branch
from waterclock.engine.branching.known_branches import find_branch
from waterclock.engine.query.row_comparison import RowCounts
from waterclock.engine.spark.session import Sessions
from waterclock.operations.branch_plans import read_branch_plan
from waterclock.operations.comparing import ComparisonRequest, compare_tables
from waterclock.operations.project_opening import open_project

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

START = datetime(2020, 1, 1, tzinfo=UTC)
DAY = timedelta(days=1)
DAYS = 7
NOW = START + DAYS * DAY
CHANGED = 100  # one row in so many
FLOW = """
COLLECT raw.events PARTITIONED (id BIGINT KEY, customer BIGINT, amount DOUBLE, page STRING, country STRING, kind INT)
  FROM land.web.events EVERY DAY BY ARRIVAL TIME;
TRANSFORM mart.amounts PARTITIONED (id KEY, *)
AS SELECT id, customer, amount + if(id % {changed} = 0, {index}, 0) AS amount, page, country, kind FROM raw.events;
TRANSFORM mart.same PARTITIONED (id KEY, *) AS SELECT id, amount + 0 * {index} AS amount FROM raw.events;
"""
TABLES = ("mart.amounts", "mart.same")


def history_costs(tables: int, labels: int, rounds: int) -> tuple[Cost, Cost, float]:
    """Return the costs of creating and of planning a branch, and the size of the ledger in MB."""
    with tempfile.TemporaryDirectory() as name:
        root = scale_history.make(Path(name) / "project", tables, START)
        with (root / "waterclock.toml").open("a", encoding="utf-8") as file:
            file.write('\n[env.try]\nfrom = "dev"\n')
        ledger = root / ".waterclock" / "ledger.db"
        scale_history.fill(f"sqlite:///{ledger}", open_project(root, "dev").flow, START, labels)
        part = root / "flows" / "part_0000.dpl"
        part.write_text(part.read_text(encoding="utf-8").replace("amount > 100", "amount > 101", 1), encoding="utf-8")
        project, now = open_project(root, "try"), START + labels * scale_history.HOUR
        created, planned = list[Cost](), list[Cost]()
        for _ in range(rounds + 1):
            created.append(cost_of(lambda: create_branch(project, tick=None, now=now, days=7, who="bench")))
            planned.append(cost_of(lambda: read_branch_plan(root, "try")))
            delete_branch(find_branch(root, "try"))
        return middle(created[1:]), middle(planned[1:]), ledger.stat().st_size / 1e6


class Rounds:
    """Production, and one branch per round, with the costs of each step."""

    def __init__(self, spark: SparkSession, folder: Path, rows: int, sqlmesh: str | None) -> None:
        self.spark, self.rows = spark, rows // DAYS * DAYS
        self.costs: defaultdict[str, list[Cost]] = defaultdict(list)
        self.production = Branched(folder / "project", spark, toml=ENVS)
        self.branch = self.production.of("try")
        source = make_source(spark, folder, rows // DAYS)
        landing = self.production.root / "landing" / "new" / "web" / "events"
        landing.mkdir(parents=True)
        for day in range(DAYS):
            os.link(source, landing / f"web_events_{START + day * DAY:%Y_%m_%d}_23_59_59.parquet")
        self.peer = SqlMesh(sqlmesh, folder / "sqlmesh", source, DAYS) if sqlmesh else None
        self._declare(0)
        require(not self.production.run(NOW).failed, "production has failed batches")
        if self.peer:
            self.peer.step("promote")

    def run(self, index: int) -> None:
        """Change the code, and measure each step of a branch with it."""
        self._declare(index + 1)
        self._measure("create", lambda: self.branch.create(NOW))
        self._measure("plan", lambda: read_branch_plan(self.branch.root, "try"))
        self._measure("make", self.branch.make)
        self._measure_peer("make")
        for each in ("changed", "equal") if index % 2 else ("equal", "changed"):
            table = TABLES[each == "equal"]
            expected = 0 if each == "equal" else DAYS * -(-self.rows // DAYS // CHANGED)
            sides = {
                f"diff {each}": lambda table=table: self._compare(table),
                f"hand {each}": lambda table=table: self._by_hand(table),
            }
            for side in reversed(sides) if index % 2 else sides:
                found = list[int]()
                self._measure(side, lambda work=sides[side], into=found: into.append(work()))
                require(found == [expected], f"{side}: {found[0]} rows instead of {expected}")
            rows = self._measure_peer("compare", table, step=f"compare {each}")
            require(rows in ([], [expected, 0, 0]), f"SQLMesh: {rows} rows instead of {expected}")
        self._measure("promote", self._promote)
        self._measure_peer("promote")
        require(self._compare("mart.amounts") == 0, "production differs from the promoted branch")
        delete_branch(find_branch(self.branch.root, "try"))

    def _declare(self, index: int) -> None:
        self.production.declare(FLOW.format(changed=CHANGED, index=index))
        if self.peer:
            self.peer.declare(CHANGED, index)

    def _measure(self, step: str, work: Callable[[], object]) -> None:
        self.costs[step].append(cost_of(work, self.spark))

    def _measure_peer(self, *words: str, step: str = "") -> list[int]:
        if self.peer is None:
            return []
        cost, rows = self.peer.step(*words)
        self.costs[f"SQLMesh {step or words[0]}"].append(cost)
        return rows

    def _compare(self, table: str) -> int:
        request = ComparisonRequest((table,), against=self.production.load())
        found = compare_tables(self.branch.load(), request, Sessions.from_session(self.spark))
        counts = found.tables[0].found.counts if found.tables[0].found else RowCounts()
        require(not counts.added and not counts.removed, f"{table}: {counts}")
        return counts.changed

    def _by_hand(self, table: str) -> int:
        before, after = (
            self.spark.read.format("delta").load(f"{each.load().storage}/tables/{table.replace('.', '/')}")
            for each in (self.production, self.branch)
        )
        removed, added = before.exceptAll(after).count(), after.exceptAll(before).count()
        require(removed == added, f"{table}: {removed} rows before, {added} after")
        return added

    def _promote(self) -> None:
        plan, _ = self.production.promote(self.branch, NOW)
        adopted = sum(map(len, plan.adopted.values()))
        require(adopted == DAYS * len(TABLES), f"{adopted} labels were adopted")


def require(condition: bool, problem: str) -> None:  # noqa: FBT001
    if not condition:
        sys.exit(problem)


def print_history(tables: int, labels: list[int], rounds: int) -> None:
    lines = []
    for each in labels:
        created, planned, size = history_costs(tables, each, rounds)
        lines.append([f"{tables} × {each:,}", f"{1000 * created.cpu:.0f}", f"{1000 * planned.cpu:.0f}", f"{size:.1f}"])
    print(grid(["tables × labels", "create, CPU ms", "plan, CPU ms", "ledger MB"], lines), flush=True)


def print_rounds(found: Rounds, warm: int) -> None:
    costs = {step: of[warm:] for step, of in found.costs.items()}
    middles = {step: middle(of) for step, of in costs.items()}
    peers = {"diff changed": "hand changed", "diff equal": "hand equal", "promote": "make"}
    names = {
        "create": "`branch create`",
        "plan": "`plan`",
        "make": f"`run`: makes {DAYS * len(TABLES)} labels",
        "diff changed": "`diff`, 1 % changed",
        "hand changed": "`EXCEPT ALL` both ways, 1 % changed",
        "diff equal": "`diff`, equal",
        "hand equal": "`EXCEPT ALL` both ways, equal",
        "promote": f"`promote`: adopts {DAYS * len(TABLES)} labels",
    }
    lines = []
    for step, name in names.items():
        cost, peer = middles[step], peers.get(step)
        each = [(one.cpu, other.cpu) for one, other in zip(costs[step], costs[peer], strict=True)] if peer else []
        of_peer = ratio(cost.cpu, middles[peer].cpu) if peer else ""
        span = f"{ratio(*min(each, key=_share))} to {ratio(*max(each, key=_share))}" if each else ""
        lines.append([name, f"{cost.cpu:.2f}", f"{cost.wall:.2f}", cost.jobs, of_peer, span])
    rounds = len(costs["create"])
    print(
        f"\n{found.rows:,} rows in {DAYS} labels of each table; medians of {rounds} rounds, after {warm} to warm up."
        " The last columns compare CPU with that of the peer (by hand; `run`), and show the range over rounds.\n"
    )
    print(grid(["", "CPU s", "wall s", "jobs", "CPU of peer", "range"], lines))


def print_peer(found: Rounds, versions: str, warm: int) -> None:
    """Print the costs of Waterclock and of SQLMesh, for the same work in the same rounds."""
    costs = {step: of[warm:] for step, of in found.costs.items()}
    made = [sum(each, Cost()) for each in zip(*(costs[step] for step in ("create", "plan", "make")), strict=True)]
    steps = {
        "create, plan and make both tables": (made, "make"),
        "difference, 1 % changed": (costs["diff changed"], "compare changed"),
        "difference, equal": (costs["diff equal"], "compare equal"),
        "promote": (costs["promote"], "promote"),
    }
    lines = []
    for name, (ours, step) in steps.items():
        theirs = costs[f"SQLMesh {step}"]
        one, other = middle(ours), middle(theirs)
        each = [(our.cpu, their.cpu) for our, their in zip(ours, theirs, strict=True)]
        lines.append(
            [name, f"{one.cpu:.2f}", f"{one.wall:.2f}", f"{other.cpu:.2f}", f"{other.wall:.2f}",
             ratio(one.cpu, other.cpu), f"{ratio(*min(each, key=_share))} to {ratio(*max(each, key=_share))}"]
        )  # fmt: skip
    print(f"\nThe same rows and rounds in {versions}, in one process for each step, without its start.\n")
    print(grid(["", "CPU s", "wall s", "SQLMesh CPU s", "wall s", "CPU of SQLMesh", "range"], lines))


def _share(pair: tuple[float, float]) -> float:
    return pair[0] / pair[1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000, help="rows of each table (1,000,000)")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--warm", type=int, default=1, help="first rounds that do not count (1)")
    parser.add_argument("--labels", type=int, nargs="*", default=[10, 100, 1000], help="lengths of the history")
    parser.add_argument("--tables", type=int, default=10, help="tables with that history, a multiple of 10 (10)")
    parser.add_argument("--minutes", type=float, default=15, help="begin no round after these (15)")
    parser.add_argument("--sqlmesh", metavar="PYTHON", help="an interpreter with SQLMesh, to measure it as well")
    asked = parser.parse_args()
    sqlmesh = find_interpreter(asked.sqlmesh) if asked.sqlmesh else None
    if asked.labels:
        print_history(asked.tables, asked.labels, asked.rounds)
    if asked.rows:
        with tempfile.TemporaryDirectory() as name, warm_spark(Path(name)) as spark:
            found = Rounds(spark, Path(name), asked.rows, sqlmesh)
            begun = time.perf_counter()
            for index in range(asked.warm + asked.rounds):
                if index > asked.warm and time.perf_counter() - begun > 60 * asked.minutes:
                    break
                found.run(index)
            print_rounds(found, asked.warm)
            if found.peer:
                print_peer(found, found.peer.versions, asked.warm)


if __name__ == "__main__":
    main()
