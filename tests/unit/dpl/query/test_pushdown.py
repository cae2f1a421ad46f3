from __future__ import annotations

import pytest

from waterclock.dpl.adhoc import adhoc_query
from waterclock.dpl.query.pushdown import PushedCondition, find_pushdown
from waterclock.flow.declarations import Flow

TYPES = {"table": "STRING", "timelabel": "STRING", "rows": "BIGINT", "status": "STRING", "is_suspect": "BOOLEAN"}
NAME = "waterclock.batches"
EVERY = set(TYPES)
A_YEAR = [PushedCondition("timelabel", ">=", ("2013",)), PushedCondition("timelabel", "<=", ("2014",))]


def asked(text: str) -> tuple[set[str], list[PushedCondition]]:
    query = adhoc_query(text, Flow(project="x", tables={}), status_tables=(NAME, "waterclock.events"))
    found = find_pushdown(query, NAME, TYPES)
    return set(found.columns), list(found.conditions)


@pytest.mark.parametrize(
    ("text", "columns"),
    [
        ("SELECT count(*) FROM waterclock.batches", set()),
        ("SELECT status, count(*) AS n FROM waterclock.batches GROUP BY ALL", {"status"}),
        ("SELECT B.ROWS FROM waterclock.batches b WHERE b.Status = 'done'", {"rows", "status"}),
        ("SELECT 1 FROM waterclock.batches a JOIN waterclock.batches b USING (timelabel)", {"timelabel"}),
        ("WITH x AS (SELECT rows AS n FROM waterclock.batches) SELECT max(n) FROM x", {"rows"}),
        ("SELECT * FROM waterclock.batches", EVERY),
        ("SELECT b.* FROM waterclock.batches b", EVERY),
        ("SELECT count(struct(*)) FROM waterclock.batches", EVERY),
        ("SELECT rows FROM (SELECT * FROM waterclock.batches)", EVERY),
        ("SELECT count(*) FROM waterclock.batches NATURAL JOIN waterclock.events", EVERY),
        ("SELECT count(* EXCEPT (rows)) FROM waterclock.batches", EVERY),
        ("SELECT a FROM waterclock.batches AS t(a, b, c, d, e)", EVERY),
        ("SELECT 'x' AS status, table FROM waterclock.batches |> WHERE status = 'x'", EVERY),
        ("SELECT 1 FROM (SELECT rows FROM waterclock.batches) PIVOT (sum(rows) FOR rows IN (1, 2))", EVERY),
    ],
)
def test_columns_are_those_that_the_text_names_if_it_names_all_it_reads(text: str, columns: set[str]) -> None:
    assert asked(text)[0] == columns


@pytest.mark.parametrize(
    ("where", "conditions"),
    [
        ("table = 'a.b'", [PushedCondition("table", "=", ("a.b",))]),
        ("'a.b' = table AND rows > 5", [PushedCondition("table", "=", ("a.b",)), PushedCondition("rows", ">", (5,))]),
        ("5 >= rows", [PushedCondition("rows", "<=", (5,))]),
        ("(status IN ('failed', 'held')) AND is_suspect", [PushedCondition("status", "=", ("failed", "held"))]),
        ("timelabel BETWEEN '2013' AND '2014'", A_YEAR),
        ("table = 'a' OR rows = 1", []),
        ("NOT table = 'a'", []),
        ("table <> 'a'", []),
        ("lower(table) = 'a'", []),
        ("table = 5", []),
        ("rows = '5'", []),
        ("rows = 5.0", []),
        ("rows > -5", []),
        ("table = 'it\\'s'", []),
        ("table = 'a' || 'b'", []),
        ("is_suspect = true", []),
        ("table IN (SELECT table FROM waterclock.events)", []),
        ("timelabel = status", []),
        ("other = 'a'", []),
    ],
)
def test_conditions_are_comparisons_that_each_row_must_meet(where: str, conditions: list[PushedCondition]) -> None:
    assert asked(f"SELECT rows FROM waterclock.batches WHERE {where}")[1] == conditions


@pytest.mark.parametrize(
    ("text", "is_told"),
    [
        ("SELECT b.rows FROM waterclock.events e LEFT JOIN waterclock.batches b ON true WHERE b.table = 'a'", True),
        ("SELECT rows FROM waterclock.events e JOIN waterclock.batches b ON true WHERE table = 'a'", False),
        ("SELECT e.id FROM waterclock.events e JOIN waterclock.batches b ON true WHERE e.table = 'a'", False),
        ("SELECT rows FROM waterclock.batches WHERE table = 'a' UNION ALL SELECT rows FROM waterclock.batches", False),
        ("SELECT (SELECT max(rows) FROM waterclock.batches WHERE table = 'a') FROM waterclock.events", True),
        ("SELECT rows FROM (SELECT rows, table FROM waterclock.batches) WHERE table = 'a'", False),
        ("SELECT rows FROM waterclock.batches TABLESAMPLE (5 ROWS) WHERE table = 'a'", False),
        ("SELECT rows FROM waterclock.batches HAVING table = 'a'", False),
        ("SELECT rows FROM waterclock.batches AS b(table, rows) WHERE table = 'a'", False),
        ("SELECT 'a' AS table, rows FROM waterclock.batches |> WHERE table = 'a'", False),
        ("SELECT b.id FROM waterclock.events b ANTI JOIN waterclock.batches b ON true WHERE b.table = 'a'", False),
    ],
)
def test_conditions_are_pushed_down_only_if_they_belong_to_the_tables_only_reference(text: str, is_told: bool) -> None:
    assert asked(text)[1] == ([PushedCondition("table", "=", ("a",))] if is_told else [])


def test_pushed_conditions_and_values_are_limited_to_the_databases_maximum() -> None:
    values = ", ".join(map(str, range(501)))
    assert asked(f"SELECT rows FROM waterclock.batches WHERE rows IN ({values})")[1] == []
    where = " AND ".join(f"rows >= {number}" for number in range(1000))
    assert len(asked(f"SELECT rows FROM waterclock.batches WHERE {where}")[1]) == 50
