"""A table that no rebuild can follow stops alone, is reset, and then equals a clean run."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.tiny import Tiny, day, described
from tests.unit.cli.conftest import ask

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

SEEN = "COLLECT shop.stock (sku KEY, *) FROM shop.stock EVERY DAY START '2020-01-01' TEMPORAL;"
TIMED = (
    "COLLECT shop.stock (sku KEY, since TIMESTAMP, *) FROM shop.stock EVERY DAY START '2020-01-01' "
    "BY DATA TIME since TEMPORAL AT since;"
)
OTHERS = """
COLLECT shop.orders (id INT) FROM shop.orders EVERY DAY START '2020-01-01';
TRANSFORM marts.colours AS SELECT count(*) AS n FROM shop.stock;
"""
ROWS = [("a", "green", "2020-01-02 09:00:00"), ("b", "blue", "2020-01-01 08:00:00")]
SHOWN = "SELECT sku, colour, rec_eff_time, rec_is_current FROM shop.stock ORDER BY ALL"


def started(root: Path, spark: SparkSession, flow: str) -> Tiny:
    tiny = Tiny(root, spark)
    tiny.source("stock", "sku TEXT, colour TEXT, since TEXT", ROWS)
    tiny.source("orders", "id INT", [(1,)])
    tiny.declare(flow + OTHERS)
    return tiny


def test_a_reset_table_has_the_rows_of_a_clean_run(tmp_path: Path, spark: SparkSession) -> None:
    clean = started(tmp_path / "clean", spark, TIMED)
    assert not clean.run(day(3)).failed

    tiny = started(tmp_path / "reset", spark, SEEN)
    tiny.source("stock", "sku TEXT, colour TEXT", [("a", "red")])
    assert not tiny.run(day(2)).failed
    tiny.source("stock", "sku TEXT, colour TEXT, since TEXT", ROWS)
    tiny.declare(TIMED + OTHERS)
    outcome = tiny.run(day(3))
    assert [(each.group.table, each.error and each.error.code) for each in outcome.failed] == [("shop.stock", "E405")]
    assert tiny.rows("SELECT id FROM shop.orders") == [(1,)]
    assert len(tiny.done("shop.orders")) == 2  # it does not wait for the other table

    found = ask("reset", "shop.stock", "--yes", "--project", str(tiny.root))
    assert found.exit_code == 0, found.output
    outcome = tiny.run(day(3))
    assert not outcome.failed, described(outcome)
    assert tiny.rows(SHOWN) == clean.rows(SHOWN)
    assert tiny.rows("SELECT n FROM marts.colours") == clean.rows("SELECT n FROM marts.colours")
    assert tiny.run(day(3)).done == 0
