"""Random changes of code and random histories: a branch and its promotion give what a clean computation gives.

The oracle computes each table in Python, from the rows of the sources and the factors in the code. While the branch
lives, production collects other rows: the branch keeps those that it borrowed, and production those that it has.
In some lives production goes on before the branch makes any row: with other rows, equal ones, none, or new tables.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.branches import Branched, contents
from tests.tiny import day, described
from waterclock.timelabel.label import label_of

if TYPE_CHECKING:
    from collections.abc import Collection
    from datetime import datetime

    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow]

DAYS, KEYS, SEEDS = 2, 3, 12
NOW = day(DAYS + 1)
FLOW = """
COLLECT raw.o PARTITIONED (k BIGINT KEY, v BIGINT, at TIMESTAMP) FROM shop.o EVERY DAY BY DATA TIME at;
COLLECT raw.m (k BIGINT KEY, v BIGINT, gone BIGINT, at TIMESTAMP) FROM shop.m EVERY DAY BY DATA TIME at
  MERGE ORDER BY at DELETE WHEN gone = 1;
TRANSFORM marts.scaled PARTITIONED (k KEY, *) AS SELECT k, v * {scaled} AS v FROM raw.o;
TRANSFORM marts.past PARTITIONED AS SELECT max(v) * {past} AS v FROM PAST(raw.o, '2 days');
TRANSFORM marts.newest (k KEY, *) MERGE AS SELECT k, v * {newest} AS v FROM marts.scaled;
TRANSFORM marts.people PARTITIONED AS SELECT k, v * {people} AS v FROM raw.m;
TRANSFORM marts.total (v BIGINT)
  AS SELECT t.v * {total} + p.v AS v FROM (SELECT coalesce(sum(v), 0) AS v FROM marts.scaled) t
  CROSS JOIN (SELECT coalesce(max(v), 0) AS v FROM PREVIOUS(marts.total)) p;
"""
LATE = """
COLLECT raw.late PARTITIONED (k BIGINT KEY, v BIGINT, at TIMESTAMP) FROM shop.o EVERY DAY BY DATA TIME at;
"""
TABLES = ("scaled", "past", "newest", "people", "total")
READERS = {"scaled": {"scaled", "newest", "total"}}
Row = tuple[int, int, int]


@dataclass
class Sources:
    """The rows of both sources by day: key, value, and whether the row deletes its key."""

    rows: dict[tuple[str, int], list[Row]] = field(default_factory=dict)

    def draw(self, dice: random.Random, table: str, number: int) -> None:
        keys = dice.sample(range(KEYS), dice.randint(0, KEYS))
        self.rows[table, number] = [(k, dice.randint(1, 9), int(dice.random() < 0.3)) for k in keys]

    def fill(self, project: Branched) -> None:
        for name, columns in (
            ("o", "k INTEGER, v INTEGER"),
            ("m", "k INTEGER, v INTEGER, gone INTEGER"),
        ):
            found: list[tuple[Any, ...]] = []
            for (table, number), rows in self.rows.items():
                at = f"2020-01-{number:02d} 08:00:00"
                found += [(k, v, at) if name == "o" else (k, v, gone, at) for k, v, gone in rows if table == name]
            project.source(name, f"{columns}, at TEXT", found)

    def copied(self) -> Sources:
        """Return the rows as they are now."""
        return Sources(dict(self.rows))

    def tables(self, factors: dict[str, int], days: int = DAYS) -> dict[str, list[tuple[Any, ...]]]:
        """Compute every table from the rows of the sources of the first days."""
        found: dict[str, list[tuple[Any, ...]]] = {name: [] for name in TABLES}
        newest: dict[int, int] = {}
        state: dict[int, int] = {}
        total = 0
        for n in range(1, days + 1):
            label, orders = label_of(day(n)), self.rows["o", n]
            scaled = [(k, v * factors["scaled"]) for k, v, _ in orders]
            found["scaled"] += [(label, k, v) for k, v in scaled]
            newest |= {k: v * factors["newest"] for k, v in scaled}
            total += factors["total"] * sum(v for _, v in scaled)
            seen = [v for earlier in (n - 1, n) if earlier for _, v, _ in self.rows["o", earlier]]
            found["past"].append((label, max(seen) * factors["past"] if seen else None))
            for k, v, gone in self.rows["m", n]:
                state.pop(k, None)
                state |= {} if gone else {k: v}
            found["people"] += [(label, k, v * factors["people"]) for k, v in state.items()]
        found["newest"] = list(newest.items())
        found["total"] = [(total,)]
        return found


def rows_of(project: Branched, names: Collection[str] = TABLES) -> dict[str, list[tuple[Any, ...]]]:
    columns = {"past": "timelabel, v", "newest": "k, v", "total": "v"}
    return {
        name: sorted(project.rows(f"SELECT {columns.get(name, 'timelabel, k, v')} FROM marts.{name}"), key=repr)
        for name in names
    }


def in_order(tables: dict[str, list[tuple[Any, ...]]]) -> dict[str, list[tuple[Any, ...]]]:
    return {name: sorted(rows, key=repr) for name, rows in tables.items()}


@pytest.mark.sampled(1)
@pytest.mark.parametrize("seed", range(SEEDS))
def test_a_branch_and_its_promotion_equal_a_clean_computation(tmp_path: Path, spark: SparkSession, seed: int) -> None:
    dice = random.Random(seed)
    sources, before = Sources(), dict.fromkeys(TABLES, 1)
    for table in ("o", "m"):
        for number in range(1, DAYS + 1):
            sources.draw(dice, table, number)
    production = Branched(tmp_path / "project", spark)
    sources.fill(production)
    production.declare(FLOW.format(**before))
    run(production)

    changed = dice.sample(TABLES, dice.randint(1, 2))
    after = before | {name: dice.randint(2, 5) for name in changed}
    production.declare(FLOW.format(**after))
    files = contents(production.root / ".prod")
    branch = production.of("try")
    branch.create(NOW)
    branch.make()
    own = set().union(*({name} | READERS.get(name, set()) for name in changed))
    assert {report.group.table for report in branch.heard.finished_} <= {f"marts.{name}" for name in own}
    borrowed = in_order(sources.tables(after))
    assert rows_of(branch) == borrowed
    assert contents(production.root / ".prod") == files

    if dice.random() < 0.7:
        table, number = dice.choice(["o", "m"]), dice.randint(1, DAYS)
        sources.draw(dice, table, number)
        sources.fill(production)
        with production.ledger() as ledger:
            ledger.decisions.request_restate(f"raw.{table}", [day(number)], "recollect", who="a test")
        run(production, only=("raw.o", "raw.m"))
        assert rows_of(branch) == borrowed
    plan, _ = production.promote(branch, NOW)
    assert {*plan.adopted, *plan.computed} <= {f"marts.{name}" for name in own}
    run(production)
    assert rows_of(production) == in_order(sources.tables(after))


def restate(production: Branched, sources: Sources, table: str, number: int) -> None:
    """Collect a day of a source again, and make all that depends on it."""
    sources.fill(production)
    with production.ledger() as ledger:
        ledger.decisions.request_restate(f"raw.{table}", [day(number)], "recollect", who="a test")
    run(production)


def recompute(production: Branched, table: str, number: int) -> None:
    """Make a day of a table again, from the same rows. A commit of equal rows of a MERGE table changes none."""
    with production.ledger() as ledger:
        ledger.decisions.request_restate(f"marts.{table}", [day(number)], "recompute", who="a test")
    run(production)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("seed", range(SEEDS))
def test_a_branch_equals_the_state_at_its_creation_while_production_changes(
    tmp_path: Path, spark: SparkSession, seed: int
) -> None:
    dice = random.Random(1000 + seed)
    sources, before = Sources(), dict.fromkeys(TABLES, 1)
    for table in ("o", "m"):
        for number in range(1, DAYS + 1):
            sources.draw(dice, table, number)
    production = Branched(tmp_path / "project", spark)
    sources.fill(production)
    production.declare(FLOW.format(**before) + LATE)
    made_first = dice.sample([f"marts.{name}" for name in TABLES], dice.randint(2, len(TABLES)))
    run(production, only=("raw.o", "raw.m", "marts.scaled", *made_first))
    made = {"scaled", *(name.removeprefix("marts.") for name in made_first)}
    branch = production.of("try")
    branch.create(NOW)
    moment, days = sources.copied(), DAYS

    for act in dice.sample(["restate", "recompute", "another day"], dice.randint(1, 3)):
        if act == "restate":
            table, number = dice.choice(["o", "m"]), dice.randint(1, DAYS)
            sources.draw(dice, table, number)
            restate(production, sources, table, number)
        elif act == "recompute":
            recompute(production, dice.choice(sorted(made)), dice.randint(1, DAYS))
        else:
            days = DAYS + 1
            for table in ("o", "m"):
                sources.rows[table, days] = []
                if dice.random() < 0.5:
                    sources.draw(dice, table, days)
            sources.fill(production)
            run(production, now=day(days + 1))
    run(production, now=day(days + 1))
    assert rows_of(production) == in_order(sources.tables(before, days))
    borrowed = in_order(moment.tables(before))
    orders = [(label_of(day(n)), k, v) for n in range(1, DAYS + 1) for k, v, _ in moment.rows["o", n]]
    assert rows_of(branch, made) == {name: rows for name, rows in borrowed.items() if name in made}
    assert sorted(branch.rows("SELECT timelabel, k, v FROM raw.o")) == sorted(orders)
    assert branch.rows("SELECT k, v FROM raw.late") == []

    changed = dice.choice(sorted(made))
    after = before | {changed: dice.randint(2, 5)}
    production.declare(FLOW.format(**after) + LATE)
    branch.make()
    own = made & ({changed} | READERS.get(changed, set()))
    expected = in_order(moment.tables(after))
    assert rows_of(branch, made) == {name: rows for name, rows in expected.items() if name in made}
    assert {report.group.table for report in branch.heard.finished_} >= {f"marts.{name}" for name in own}
    assert rows_of(production) == in_order(sources.tables(before, days))


def run(production: Branched, *, now: datetime = NOW, **bounds: Any) -> None:
    outcome = production.run(now, **bounds)
    assert not outcome.failed, described(outcome)
