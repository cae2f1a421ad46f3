"""Batches of Python transforms store their column lineage in the ledger; `lineage` needs no Spark to show it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from typer.testing import CliRunner

from tests.tiny import Tiny, day, described
from waterclock.cli.app import app

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
FLOW = """
COLLECT raw.customers (id BIGINT KEY, name STRING) FROM shop.customers EVERY DAY;
COLLECT raw.orders PARTITIONED (id BIGINT KEY, customer BIGINT REFERENCES raw.customers, cents BIGINT, at TIMESTAMP)
  FROM shop.orders EVERY DAY BY DATA TIME at;
CREATE VIEW core.large AS SELECT id, cents AS amount FROM raw.orders WHERE at IS NOT NULL;
TRANSFORM marts.after PARTITIONED AS SELECT id, euros * 2 AS twice FROM marts.spent;
"""
CODE = """
import waterclock as wc

@wc.transform("marts.spent", partitioned=True)
def spent(orders=wc.table("raw.orders"), large=wc.table("core.large"), *, window: wc.Window) -> wc.DataFrame:
    who = orders.customer if window.start.day == 1 else orders.cents
    return orders.join(large, "id").select("id", (large.amount / 100).alias("euros"), who.alias("who"))

@wc.transform("marts.flat", partitioned=True)
def flat(sales=wc.flat("raw.orders")) -> wc.DataFrame:
    return sales.select("id", "name").distinct()

@wc.transform("marts.first", partitioned=True)
def first(orders=wc.table("raw.orders")) -> wc.DataFrame:
    from pyspark.sql import functions as F

    least = orders.agg(F.min("cents")).first()[0]
    return orders.select("id", F.lit(least).alias("least"))
"""


def ask(tiny: Tiny, *arguments: str) -> Any:
    told = CliRunner().invoke(app, ["lineage", *arguments, "--json", "--project", str(tiny.root)])
    assert told.exit_code == 0, told.output
    return json.loads(told.stdout)


def beyond(told: Any) -> set[tuple[str, bool]]:
    return {(f"{each['table']}.{each['column']}", each["is_unknown"]) for each in told["made_from"]["beyond"]}


def test_lineage_covers_python_transforms_once_a_batch_has_recorded_their_plan(
    tmp_path: Path, spark: SparkSession
) -> None:
    tiny = Tiny(tmp_path, spark)
    tiny.source("customers", "id INTEGER, name TEXT", [(1, "Ada")])
    tiny.source("orders", "id INTEGER, customer INTEGER, cents INTEGER, at TEXT", [(7, 1, 500, "2020-01-01 09:00")])
    tiny.declare(FLOW)
    (tmp_path / "flows" / "code.py").write_text(CODE)
    assert beyond(ask(tiny, "marts.after.twice")) == {("marts.spent.euros", False)}
    before = ask(tiny, "marts.spent.euros")
    assert beyond(before) == {("raw.orders.*", True)}
    outcome = tiny.run(day(2))
    assert not outcome.failed, described(outcome)
    assert beyond(ask(tiny, "marts.spent.euros")) == {("raw.orders.cents", False)}
    assert beyond(ask(tiny, "marts.spent.who")) == {("raw.orders.customer", False)}
    assert beyond(ask(tiny, "marts.flat.name")) == {("raw.customers.name", False)}
    assert beyond(ask(tiny, "marts.first.least")) == {("raw.orders.*", True)}
    assert beyond(ask(tiny, "marts.first.id")) == {("raw.orders.*", True), ("raw.orders.id", False)}
    impact = {each["table"]: each for each in ask(tiny, "raw.orders.cents", "--impact")["impact"]}
    assert impact["marts.spent"]["columns"] == {"euros": "computed"}
    assert impact["marts.after"]["columns"] == {"twice": "computed"}
    assert impact["marts.first"]["columns"] == {"id": "may read", "least": "may read"}
    assert "first() in flows/code.py" in impact["marts.first"]["why"][0]
    assert "marts.flat" not in impact
    chosen = {each["table"]: each["uses"] for each in ask(tiny, "raw.orders.at", "--impact")["impact"]}
    assert chosen["marts.spent"] == ["filter"]
    tiny.shop("INSERT INTO orders VALUES (8, 1, 600, '2020-01-02 10:00')")
    outcome = tiny.run(day(3))  # another path through the code: the lineage of both is shown
    assert not outcome.failed, described(outcome)
    assert beyond(ask(tiny, "marts.spent.who")) == {("raw.orders.cents", False), ("raw.orders.customer", False)}
    (tmp_path / "flows" / "code.py").write_text(CODE.replace("/ 100", "/ 1000"))
    assert beyond(ask(tiny, "marts.spent.euros")) == {("raw.orders.*", True)}
    assert beyond(ask(tiny, "marts.flat.name")) == {("raw.customers.name", False)}
