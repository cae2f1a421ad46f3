"""A project run and queried from Python, with the existing Spark session."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import waterclock as wc
from tests.tiny import Tiny, day

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

FLOW = """
COLLECT shop.orders PARTITIONED (id BIGINT KEY, amount DOUBLE EXPECT (amount > 0) AS paid, at TIMESTAMP)
  FROM shop.orders EVERY DAY BY DATA TIME at;
TRANSFORM marts.total AS SELECT count(*) AS orders FROM HISTORY(shop.orders);
"""
ROWS = [(1, 5.0, "2020-01-01 09:00:00"), (2, 7.0, "2020-01-02 09:00:00"), (3, -1.0, "2020-01-03 09:00:00")]


def test_a_project_can_be_run_queried_and_compared_from_python(
    tmp_path: Path, spark: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    tiny = Tiny(tmp_path, spark)
    tiny.source("orders", "id INTEGER, amount REAL, at TEXT", ROWS)
    tiny.declare(FLOW)
    first = wc.run(now=day(2), until=day(3), project=tmp_path)
    assert first
    assert (first.outcome.done, first.to_json()["failed"]) == (4, [])
    assert "4 batches done" in repr(first)
    assert capsys.readouterr().out.count("marts.total") == 2, "it reports each batch as it finishes"
    asked = "SELECT orders FROM marts.total"
    assert list(wc.query(asked, project=tmp_path)) == [(2,)]
    assert list(wc.query(asked, as_of=day(2), project=tmp_path)) == [(1,)]
    assert list(wc.query(asked, as_of="2020-01-02", limit=1, project=tmp_path)) == [(1,)]
    tiny.shop("UPDATE orders SET amount = 9 WHERE id = 2")
    with tiny.ledger() as ledger:
        ledger.decisions.request_restate("shop.orders", [day(2)], "recollect", who="a test")
    assert wc.run("shop.orders", now=day(3), project=tmp_path)
    compared = wc.diff("shop.orders", key="id", project=tmp_path)
    assert (bool(compared), compared.differs) == (False, True)
    [changed] = compared.to_json()["tables"][0]["rows"]
    assert (changed["kind"], changed["before"]["amount"], changed["after"]["amount"]) == ("changed", 7.0, 9.0)
    assert "id 2: amount 7.0 → 9.0" in compared._repr_html_()
    assert wc.diff("shop.orders", except_=["amount"], project=tmp_path)
    failed = wc.run("shop.orders", now=day(4), project=tmp_path)
    assert not failed
    assert "E740" in repr(failed)
    assert "E740" in failed._repr_html_()
    assert spark.sql("SELECT 1").collect() == [(1,)], "the session is unchanged"
