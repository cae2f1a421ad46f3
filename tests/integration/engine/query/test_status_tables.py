"""The ledger's status tables give the same rows, whether all are read or only those that a query needs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.tiny import Tiny, day, described
from waterclock.dpl.query.pushdown import Pushdown
from waterclock.engine.query import query as room
from waterclock.engine.query.query import AnsweredQuery, query

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

FLOW = """
COLLECT shop.orders PARTITIONED (id BIGINT KEY, amount BIGINT, at TIMESTAMP) FROM shop.orders
  EVERY DAY BY DATA TIME at;
TRANSFORM sales.revenue PARTITIONED AS SELECT sum(amount) AS revenue FROM shop.orders;
TRANSFORM sales.broken PARTITIONED EXPECT revenue < 30 ELSE FAIL AS SELECT revenue FROM sales.revenue;
"""
LABEL = "20200102000000"
QUERIES = (
    "SELECT count(*) FROM waterclock.batches",
    "SELECT * FROM waterclock.batches",
    "SELECT status, count(*) AS n, max(recorded_at) FROM waterclock.batches GROUP BY ALL",
    f"SELECT table, timelabel, rows FROM waterclock.batches WHERE timelabel = '{LABEL}' AND rows >= 1",
    "SELECT timelabel FROM waterclock.batches b WHERE b.status = 'failed' AND table IN ('sales.broken', 'x')",
    "SELECT count(*) FROM waterclock.batches WHERE status = 'FAILED'",
    "SELECT timelabel, window_end FROM waterclock.batches WHERE timelabel BETWEEN '202001' AND '20200102000001'",
    "SELECT timelabel FROM waterclock.batches WHERE is_suspect OR table = 'shop.orders'",
    "SELECT rows FROM waterclock.batches WHERE 2 > rows AND digest IS NOT NULL",
    "SELECT kind, rows FROM waterclock.events LEFT JOIN waterclock.batches b USING (claim) WHERE b.status = 'done'",
    "SELECT input, low, version, is_current FROM waterclock.inputs WHERE table = 'sales.revenue' AND position < 1",
    "SELECT (SELECT max(rows) FROM waterclock.batches WHERE table = 'shop.orders'), count(id) FROM waterclock.events",
    "SELECT id, at, data FROM waterclock.events WHERE kind = 'claimed' AND id > 3",
    "WITH b AS (SELECT table t, rows FROM waterclock.batches WHERE table > 's') SELECT t, sum(rows) FROM b GROUP BY 1",
    "SELECT table FROM waterclock.batches WHERE table = 'no.such'",
    "SELECT 'x' AS status, table FROM waterclock.batches |> WHERE status = 'x'",
    "SELECT claim FROM waterclock.events e(id, at, table, who, kind, a, claim, run, data) WHERE table = 'claimed'",
    "SELECT count(* EXCEPT (error, due_again, requested, source, measures, timings)) FROM waterclock.batches",
    "SELECT b.id FROM waterclock.events b ANTI JOIN waterclock.batches b ON status = 'x' WHERE b.table = 'shop.orders'",
)


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> Tiny:
    made = Tiny(tmp_path_factory.mktemp("asked"), spark)
    made.source(
        "orders", "id INTEGER, amount INTEGER, at TEXT", [(n, n * 10, f"2020-01-0{n} 12:00:00") for n in (1, 2, 3)]
    )
    made.declare(FLOW)
    outcome = made.run(day(4))
    assert [report.group.table for report in outcome.failed] == ["sales.broken"], described(outcome)
    return made


def answered(tiny: Tiny, text: str) -> tuple[tuple[tuple[str, str], ...], list[str]]:
    with tiny.opened() as work:
        found: AnsweredQuery = query(work, text, limit=1000)
    return found.columns, sorted(map(repr, found.rows))


@pytest.mark.sampled(6)
@pytest.mark.parametrize("text", QUERIES)
def test_pushdown_changes_no_query_result_of_status_tables(
    tiny: Tiny, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    found = answered(tiny, text)
    monkeypatch.setattr(room, "find_pushdown", lambda _query, _table, types: Pushdown(frozenset(types)))
    assert found == answered(tiny, text)
    assert found[1] or "no.such" in text
