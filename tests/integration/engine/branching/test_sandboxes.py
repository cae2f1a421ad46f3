"""A branch delivers to its sandbox the rows of a clean project, and nothing to the destination of production."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.branches import ENVS, Branched, contents
from tests.tiny import day, described
from tests.unit.cli.conftest import ask
from waterclock.faults import inject_faults

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

FLOW = """
CREATE CONNECTION other TYPE sqlite;
COLLECT shop.sales PARTITIONED (id BIGINT KEY, amount BIGINT, at TIMESTAMP)
  FROM shop.sales EVERY DAY BY DATA TIME at;
TRANSFORM marts.net PARTITIONED (id KEY, *) AS SELECT id, {net} AS net FROM shop.sales;
TRANSFORM marts.best (id KEY, *) MERGE ORDER BY net AS SELECT id, net FROM marts.net;
TRANSFORM marts.same PARTITIONED AS SELECT id FROM shop.sales;
PUBLISH marts.net TO out.net;
PUBLISH marts.best TO out.best;
PUBLISH marts.same TO out.same;
PUBLISH marts.net TO other.net;
"""
SHORT_FLOW = """
CREATE CONNECTION other TYPE sqlite;
COLLECT shop.sales PARTITIONED (id BIGINT KEY, amount BIGINT, at TIMESTAMP)
  FROM shop.sales EVERY DAY BY DATA TIME at;
TRANSFORM marts.net PARTITIONED (id KEY, *) AS SELECT id, {net} AS net FROM shop.sales;
PUBLISH marts.net TO out.net;
"""
NOW = day(4)
SALES = [(n, n + 1, f"2020-01-{1 + n // 2:02d} 08:00:00") for n in range(6)]
TOML = (
    ENVS.replace('storage = "{storage}"', 'storage = "{storage}"\npublish = true').replace(
        'storage = ".clean"', 'storage = ".clean"\npublish = true'
    )
    + 'sandbox.out = {{ path = "try.sqlite", create = true }}\n'
).replace("connections.land", 'connections.other = {{ path = "other.sqlite", create = true }}\nconnections.land')


def rows(path: Path) -> dict[str, list[tuple[Any, ...]]]:
    """Return the rows of the tables of a destination by table, without those of its records."""
    with closing(sqlite3.connect(path)) as database:
        names = database.execute("SELECT name FROM sqlite_schema WHERE type IN ('table', 'view')").fetchall()
        return {
            name: sorted(database.execute(f'SELECT * FROM "{name}"').fetchall(), key=repr)
            for (name,) in names
            if name in {"net", "best", "same"}
        }


class Killed(BaseException):
    """Ends the work at a fault point like a kill: no handler catches it."""


def test_a_branch_delivers_to_its_sandbox_alone(tmp_path: Path, spark: SparkSession) -> None:
    prod = Branched(tmp_path / "shop", spark, toml=TOML)
    prod.source("sales", "id INTEGER, amount INTEGER, at TEXT", SALES)
    prod.declare(FLOW.format(net="amount"))
    outcome = prod.run(NOW)
    assert not outcome.failed, described(outcome)
    prod.declare(FLOW.format(net="amount * 10"))
    clean = Branched(prod.copied(tmp_path / "clean").root, spark, toml=None, env="clean")
    (clean.root / "out.sqlite").unlink()
    assert not clean.run(NOW).failed
    folders = [prod.root / ".prod", prod.root / "out.sqlite", prod.root / "other.sqlite"]
    before = [path.read_bytes() if path.is_file() else contents(path) for path in folders]

    branch = prod.of("try")
    branch.create(NOW)
    planned = ask("plan", "--project", str(prod.root), "--env", "try", width=200)
    assert planned.exit_code == 0, planned.output
    assert "out.net: delivered to the sandbox; 3 labels" in planned.stdout
    assert "out.best: delivered to the sandbox" in planned.stdout
    assert "other.net: not delivered: the branch has no sandbox of its connection" in planned.stdout
    assert "out.same" not in planned.stdout
    with pytest.raises(Killed), inject_faults(_killing("branch publish reset")):
        branch.make()
    branch.make()
    expected = rows(clean.root / "out.sqlite")
    assert expected.pop("same"), "an unchanged table"
    found = rows(prod.root / "try.sqlite")
    assert found == expected
    assert [path.read_bytes() if path.is_file() else contents(path) for path in folders] == before

    # other code: the same labels are delivered again
    prod.declare(FLOW.format(net="amount * 100"))
    branch.make()
    again = rows(prod.root / "try.sqlite")
    assert [[(key, 10 * net, *others) for key, net, *others in found[name]] for name in ("net", "best")] == [
        [tuple(row) for row in again[name]] for name in ("net", "best")
    ]
    branch.heard.finished_.clear()
    branch.make()
    assert not branch.heard.finished_, "nothing is delivered twice"
    assert [path.read_bytes() if path.is_file() else contents(path) for path in folders] == before


def test_a_sandbox_gets_the_labels_of_each_run(tmp_path: Path, spark: SparkSession) -> None:
    prod = Branched(tmp_path / "shop", spark, toml=TOML)
    sales = [(n, n, f"2020-01-{n:02d} 08:00:00") for n in range(1, 11)]
    prod.source("sales", "id INTEGER, amount INTEGER, at TEXT", sales)
    prod.declare(SHORT_FLOW.format(net="amount"))
    assert not prod.run(day(11)).failed
    prod.declare(SHORT_FLOW.format(net="amount * 10"))
    branch = prod.of("try")
    branch.create(day(11))
    branch.make()
    assert _delivered(prod.root) == [(n, 10 * n) for n in range(4, 11)], "the newest seven"
    branch.make(labels="2020-01-01")
    assert _delivered(prod.root) == [(n, 10 * n) for n in (1, *range(4, 11))], "earlier ones afterwards"
    prod.declare(SHORT_FLOW.format(net="amount * 20"))
    branch.make(labels="2020-01-10")
    assert _delivered(prod.root)[-2:] == [(9, 90), (10, 200)], "labels that no run delivered do not block later ones"


def _delivered(root: Path) -> list[tuple[int, int]]:
    return sorted((key, net) for key, net, *_ in rows(root / "try.sqlite")["net"])


def _killing(point: str) -> Callable[[str], None]:
    def strike(passed: str) -> None:
        if passed == point:
            raise Killed

    return strike
