"""Parts of a query that certainly need a shuffle; others, visible only in Spark's plan, are not reported."""

from __future__ import annotations

import pytest

from waterclock.dpl.query.names_in_query import QueryNames
from waterclock.dpl.query.references import find_references
from waterclock.dpl.query.shuffles import find_shuffles
from waterclock.dpl.syntax.parser import parse_text
from waterclock.dpl.syntax.source_text import SourceText
from waterclock.dpl.syntax.statements import ParsedQuery


def names(query: str) -> QueryNames:
    statements, errors = parse_text(SourceText("a.dpl", f"CREATE VIEW a.b AS {query};"), variables={})
    assert not errors
    parsed = statements[0].value("AS", ParsedQuery)
    assert parsed is not None
    return find_references(parsed)


VIEWS = {"stg.plain": "SELECT * FROM raw.a WHERE x > 0", "stg.one": "SELECT /*+ COALESCE(1) */ * FROM raw.a"}


def found(query: str) -> list[str]:
    views = {name: names(text) for name, text in VIEWS.items()}
    return [words for _, words in find_shuffles(names(query), views)]


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("SELECT x FROM raw.a GROUP BY x", ["GROUP BY"]),
        ("SELECT x FROM raw.a GROUP BY ALL", ["GROUP BY"]),
        ("SELECT DISTINCT x FROM stg.plain", ["DISTINCT"]),
        ("SELECT sum(x) OVER () FROM raw.a", ["OVER"]),
        ("SELECT x FROM raw.a EXCEPT SELECT x FROM raw.b", ["EXCEPT"]),
        ("SELECT x FROM raw.a INTERSECT SELECT x FROM raw.b", ["INTERSECT"]),
        ("SELECT x FROM raw.a UNION ALL SELECT x FROM raw.b ORDER BY x", ["ORDER BY"]),
        ("SELECT x FROM (SELECT x FROM raw.a UNION ALL SELECT x FROM stg.plain) GROUP BY x", ["GROUP BY"]),
        ("SELECT a.x FROM PAST(raw.a, '2 days') a JOIN raw.b b ON a.x = b.x GROUP BY a.x", ["GROUP BY"]),
        ("SELECT y FROM raw.b WHERE y IN (SELECT x FROM raw.a GROUP BY x)", ["GROUP BY"]),
        ("WITH c AS (SELECT x FROM raw.a GROUP BY x) SELECT * FROM c", ["GROUP BY"]),
        ("SELECT x FROM (SELECT x, count(*) AS n FROM raw.a GROUP BY x) ORDER BY n", ["GROUP BY"]),
    ],
)
def test_rows_that_several_tasks_read_are_brought_together(query: str, words: list[str]) -> None:
    assert found(query) == words


@pytest.mark.parametrize(
    "query",
    [
        "SELECT x + 1 AS y FROM raw.a WHERE x > 0",
        "SELECT x FROM raw.a UNION ALL SELECT x FROM raw.b",
        "SELECT a.x FROM raw.a a JOIN raw.b b ON a.x = b.x",  # may be a broadcast
        "SELECT explode(xs) AS x FROM raw.a",
        "SELECT sum(x) AS x FROM raw.a",  # left to the plan
        "SELECT x FROM (SELECT /*+ COALESCE(1) */ x FROM raw.a) GROUP BY x",
        "SELECT x FROM stg.one GROUP BY x",
        "SELECT DISTINCT x FROM stg.plain JOIN stg.one USING (x)",
        "SELECT x FROM (SELECT max(x) AS x FROM raw.a) ORDER BY x",
        "SELECT x FROM VALUES (1), (2) AS v(x) ORDER BY x LIMIT 1",
        "WITH c AS (SELECT * FROM raw.a) SELECT x FROM c GROUP BY x",
        "SELECT x FROM raw.a TABLESAMPLE (1 PERCENT) GROUP BY x",
    ],
)
def test_a_query_that_may_run_without_a_shuffle_is_not_reported(query: str) -> None:
    assert found(query) == []


def test_the_plan_decides_on_tables_in_buckets() -> None:
    found = names("SELECT k, count(*) FROM raw.a GROUP BY k UNION ALL SELECT k, 1 FROM raw.b GROUP BY k")
    assert [words for _, words in find_shuffles(found, {})] == ["GROUP BY", "GROUP BY"]
    assert [words for _, words in find_shuffles(found, {}, ["raw.a"])] == ["GROUP BY"]
    assert not list(find_shuffles(found, {}, ["raw.a", "raw.b"]))
