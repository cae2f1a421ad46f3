"""One query for many windows gives the result of a query per window, with a handful of jobs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pytest

from tests.tiny import Tiny, day, described, labels
from waterclock.engine.batch import transform
from waterclock.engine.reads.pin import pin
from waterclock.engine.runner import Runner

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from waterclock.engine.run_context import RunContext
    from waterclock.planner.plan import Batch, Group

pytestmark = [pytest.mark.spark, pytest.mark.slow]

# queries of raw.sales and raw.kinds; some days have rows in only one of them, or in neither
TOGETHER = {
    "row by row": "SELECT id, v * 2 AS v FROM raw.sales WHERE v > 1",
    "grouped": "SELECT k, count(*) AS n, sum(v) AS v FROM raw.sales GROUP BY k HAVING count(*) > 1",
    "one row": "SELECT count(*) AS n, sum(v) AS v, max(k) AS k FROM raw.sales WHERE id > 2",
    "grouped, with its time": "SELECT k, WINDOW_START() AS day, TIMELABEL() AS t, sum(v) v FROM raw.sales GROUP BY k",
    "its time in a condition": "SELECT id, date_diff(WINDOW_END(), at) AS d FROM raw.sales WHERE at > WINDOW_START()",
    "ranked": "SELECT * FROM (SELECT id, rank() OVER (PARTITION BY k ORDER BY v DESC) AS r FROM raw.sales) WHERE r < 3",
    "qualified": "SELECT id, k FROM raw.sales QUALIFY row_number() OVER (PARTITION BY k ORDER BY v DESC) = 1",
    "over all": "SELECT id, row_number() OVER (ORDER BY id) AS r, sum(v) OVER () AS v FROM raw.sales",
    "distinct": "SELECT DISTINCT k FROM raw.sales",
    "joined": "SELECT s.id, b.n FROM raw.sales s JOIN raw.kinds b ON s.k = b.k",
    "joined by names": "SELECT * EXCEPT (kinds.at) FROM raw.sales JOIN raw.kinds USING (k)",
    "each with each": "SELECT s.id, b.n FROM raw.sales s, raw.kinds b WHERE s.id > b.n",
    "from the left": "SELECT s.*, b.n FROM raw.sales s LEFT JOIN raw.kinds b ON s.k = b.k AND b.n > 0",
    "from the left twice": (
        "SELECT s.id, b.n, c.k AS other FROM raw.sales s LEFT JOIN raw.kinds b ON s.k = b.k "
        "LEFT JOIN raw.sales c ON c.id = s.id + 1"
    ),
    "what has one": "SELECT s.id FROM raw.sales s LEFT SEMI JOIN raw.kinds b ON s.k = b.k",
    "what has none": "SELECT s.id FROM raw.sales s LEFT ANTI JOIN raw.kinds b ON s.k = b.k",
    "from the left, grouped": "SELECT n, count(*) AS c FROM raw.sales s LEFT JOIN raw.kinds b ON s.k = b.k GROUP BY n",
    "put together": "SELECT k, id FROM raw.sales UNION ALL SELECT k, n FROM raw.kinds",
    "put together once": "SELECT k FROM raw.sales UNION SELECT k FROM raw.kinds",
    "put together by name": "SELECT k, id FROM raw.sales UNION ALL BY NAME SELECT n, k FROM raw.kinds",
    "without": "SELECT k FROM raw.sales EXCEPT SELECT k FROM raw.kinds",
    "in both": "SELECT k FROM raw.sales INTERSECT SELECT k FROM raw.kinds",
    "read twice": "WITH x AS (SELECT k, sum(v) v FROM raw.sales GROUP BY k) SELECT x.k, y.v FROM x JOIN x y USING (k)",
    "some of them": "SELECT id FROM raw.sales ORDER BY v DESC, id LIMIT 2",
    "taken apart": "SELECT id, e FROM raw.sales LATERAL VIEW explode(array(1, v)) t AS e",
    "turned": "SELECT * FROM (SELECT k, id % 2 AS p, v FROM raw.sales) PIVOT (sum(v) FOR p IN (0, 1))",
    "in groups of groups": "SELECT k, max(n) n FROM (SELECT k, v, count(*) n FROM raw.sales GROUP BY k, v) GROUP BY k",
    "the day before": "SELECT k, count(*) AS n FROM PREVIOUS(raw.sales) GROUP BY k",
    "of some days": "SELECT k, count(*) AS n FROM PAST(raw.sales, '2 days') GROUP BY k",
    "a state": "SELECT s.id, l.n FROM raw.sales s JOIN raw.lands l ON s.k = l.k",
    "what all read": "SELECT s.id, f.n FROM raw.sales s LEFT JOIN LATEST(raw.folded) f USING (k)",
    "from the left of what all read": "SELECT f.k, s.id FROM LATEST(raw.folded) f LEFT JOIN raw.sales s ON f.k = s.k",
    "what all read, counted": (
        "SELECT f.k, count(s.id) AS c FROM LATEST(raw.folded) f LEFT JOIN raw.sales s ON f.k = s.k GROUP BY f.k"
    ),
    "a function": "SELECT id, doubled(v) AS v FROM raw.sales",
}
EACH = {
    "from both sides": "SELECT s.id, b.n FROM raw.sales s FULL JOIN raw.kinds b ON s.k = b.k",
    "from the left, by names": "SELECT s.id, b.n FROM raw.sales s LEFT JOIN raw.kinds b USING (k)",
    "a query inside": "SELECT id FROM raw.sales WHERE k IN (SELECT k FROM raw.kinds)",
    "a value inside": "SELECT id, (SELECT count(*) FROM raw.kinds) AS n FROM raw.sales",
    "its time in a sum": "SELECT k, sum(date_diff(WINDOW_END(), at)) AS d FROM raw.sales GROUP BY k",
    "a fold": "SELECT s.id, f.n FROM raw.sales s JOIN raw.folded f ON s.k = f.k",
}
FLOW = """
CREATE FUNCTION doubled(x INT) RETURNS INT RETURN x * 2;
COLLECT raw.sales PARTITIONED (id INT, k STRING, v INT, at TIMESTAMP) FROM shop.sales EVERY DAY BY DATA TIME at;
COLLECT raw.kinds PARTITIONED (k STRING, n INT, at TIMESTAMP) FROM shop.kinds EVERY DAY BY DATA TIME at;
COLLECT raw.folded (k STRING KEY, n INT, at TIMESTAMP) FROM shop.kinds EVERY DAY BY DATA TIME at MERGE ORDER BY at;
COLLECT raw.lands (k STRING, n INT, at TIMESTAMP) FROM shop.kinds EVERY DAY BY DATA TIME at APPEND;
"""


def name_of(case: str) -> str:
    return "marts." + case.replace(" ", "_").replace(",", "")


@pytest.fixture(scope="module")
def collected(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> Tiny:
    """Return six days: the third without sales, the fourth without kinds, the fifth without both."""
    tiny = Tiny(tmp_path_factory.mktemp("windows"), spark)
    sold = [
        (10 * number + row, "abc"[row % 3], row % 4, f"2020-01-{number:02} {row:02}:00:00")
        for number in (1, 2, 4, 6)
        for row in range(4 + number)
    ]
    tiny.source("sales", "id INT, k TEXT, v INT, at TEXT", sold)
    kinds = [
        (k, number, f"2020-01-{number:02} 01:00:00") for number in (1, 2, 3, 6) for k in ("a", "b", "z")[number % 2 :]
    ]
    tiny.source("kinds", "k TEXT, n INT, at TEXT", kinds)
    cases = "".join(f"TRANSFORM {name_of(case)} PARTITIONED AS {sql};\n" for case, sql in (TOGETHER | EACH).items())
    tiny.declare(FLOW)
    outcome = tiny.run(day(7))
    assert not outcome.failed, described(outcome)
    tiny.declare(FLOW + cases)
    return tiny


def group_of(work: RunContext, case: str) -> Group:
    (group,) = [group for group in Runner(work).plan(day(7)).groups if group.table == name_of(case)]
    assert [batch.window.label for batch in group.batches] == labels(1, 2, 3, 4, 5, 6)
    return group


def made(work: RunContext, spark: SparkSession, batches: Sequence[Batch]) -> tuple[int, Counter[Any]]:
    """Return the number of queries, and the rows of all batches."""
    table = work.flow.tables[batches[0].table]
    pins = pin(work.ledger, work.lake, work.flow, batches)
    parts = transform.transform_parts(work, spark, table, batches, pins)
    rows = [row.asDict() for _, frame in parts for row in frame.collect()]
    return len(parts), Counter(tuple(sorted((key, str(value)) for key, value in row.items())) for row in rows)


def asked(work: RunContext, case: str) -> tuple[Sequence[Batch], Counter[Any]]:
    """Return the batches of a case, and their rows by separate queries."""
    batches = group_of(work, case).batches
    expected = Counter[Any]()
    for batch in batches:
        expected += made(work, work.sessions.own(), [batch])[1]
    return batches, expected


@pytest.mark.parametrize("case", [pytest.param(case, marks=pytest.mark.sampled(3)) for case in TOGETHER])
def test_one_query_for_many_windows_equals_one_query_per_window(
    collected: Tiny, case: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with collected.opened() as work:
        batches, expected = asked(work, case)
        monkeypatch.setattr(transform, "_query_one_by_one", None)  # it must not be needed
        assert made(work, work.sessions.own(), batches) == (1, expected)


@pytest.mark.parametrize("case", [pytest.param(case, marks=pytest.mark.sampled(2)) for case in EACH])
def test_unsupported_multi_window_queries_run_window_by_window(
    collected: Tiny, case: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with collected.opened() as work:
        batches, expected = asked(work, case)
        monkeypatch.setattr(transform, "MOST_WINDOWS_OF_A_UNION", 4)
        assert made(work, work.sessions.own(), batches) == (2, expected)
