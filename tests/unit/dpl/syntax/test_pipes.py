"""Replacements for steps after |> and for window() in the input of sqlglot's parser, and the resulting tree."""

from __future__ import annotations

from typing import Any

import pytest
from sqlglot import exp

from waterclock.dpl.syntax.pipes import is_piped, tokens_for_parser
from waterclock.dpl.syntax.query_errors import check_steps
from waterclock.dpl.syntax.source_text import SourceText
from waterclock.dpl.syntax.tokens import dialect, parse_query_text


def rewritten(text: str) -> str:
    return " ".join(token.text for token in tokens_for_parser(dialect().tokenize(text)))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("FROM t |> DROP a , u . b", "FROM t |> EXTEND __tmp_select , * EXCEPT ( a , u . b )"),
        (
            "FROM t |> SET a = f ( b ) , b = 1",
            "FROM t |> EXTEND __tmp_select , * REPLACE ( f ( b ) AS a ) |> EXTEND __tmp_select , * REPLACE ( 1 AS b )",
        ),
        ("SELECT a FROM t |> WHERE a", "FROM ( SELECT a FROM t ) AS __tmp_query |> WHERE a"),
        (
            "WITH x AS ( SELECT 1 ) SELECT a FROM x |> AS y",
            "WITH x AS ( SELECT 1 ) FROM ( SELECT a FROM x ) AS __tmp_query |> AS y",
        ),
        ("( FROM t |> DROP a )", "( FROM t |> EXTEND __tmp_select , * EXCEPT ( a ) )"),
        (
            "FROM t |> SELECT a , ( FROM u |> DROP b )",
            "FROM t |> EXTEND __tmp_select , a , ( FROM u |> EXTEND __tmp_select , * EXCEPT ( b ) )",
        ),
        ("FROM t |> SELECT DISTINCT a |> SELECT a FROM u", "FROM t |> SELECT DISTINCT a |> SELECT a FROM u"),
        ("FROM t |> SET a |> DROP", "FROM t |> SET a |> DROP"),
        ("FROM t |> DROP a UNION ALL SELECT 1", "FROM t |> DROP a UNION ALL SELECT 1"),
    ],
)
def test_a_step_that_the_parser_does_not_know_is_written_as_one_that_it_does(text: str, expected: str) -> None:
    assert rewritten(text) == expected


@pytest.mark.parametrize(
    ("text", "limit"),
    [
        ("FROM t |> LIMIT 1 + 2", "1 + 2"),
        ("FROM t |> LIMIT :n |> WHERE a > 1", ":n"),
        ("FROM t |> LIMIT 9 |> LIMIT least(:n, 3) OFFSET 1 |> LIMIT 7", "LEAST(:n, 3)"),
        ("FROM t |> LIMIT 9 |> LIMIT 7", "7"),
        ("FROM t |> LIMIT ALL", "ALL"),
    ],
)
def test_a_limit_may_be_an_expression(text: str, limit: str) -> None:
    tree = parse_query_text(text)
    assert tree.args["limit"].expression.sql("databricks") == limit
    nodes = [node for node in tree.walk() if "start" in node.meta]
    assert all(text[node.meta["start"]].isalnum() for node in nodes)


@pytest.mark.parametrize(
    ("text", "in_its_own_words"),
    [
        ("FROM t |> SELECT a, max(b) OVER (ORDER BY c) AS m |> SELECT m", None),
        ("FROM t |> SELECT t.*, (SELECT 1 FROM u) AS n |> UNION ALL (FROM u |> SELECT *)", None),
        ("FROM t |> DROP a |> SET b = 1", "FROM t |> SELECT * EXCEPT (a) |> SELECT * REPLACE (1 AS b)"),
    ],
)
def test_the_tree_is_that_of_select(text: str, in_its_own_words: str | None) -> None:
    [tree] = dialect().parse(in_its_own_words or text)
    assert tree is not None
    assert parse_query_text(text).sql() == tree.sql()


def test_the_cost_of_steps_is_linear(monkeypatch: pytest.MonkeyPatch) -> None:
    copied: list[exp.Expression] = []
    copy = exp.Expression.__deepcopy__

    def counted(node: exp.Expression, memo: Any) -> Any:
        copied.append(node)
        return copy(node, memo)

    monkeypatch.setattr(exp.Expression, "__deepcopy__", counted)
    parse_query_text(
        "FROM t " + " ".join(f"|> SET a = a + {n} |> SELECT * EXCEPT (c{n}), 1 AS d |> DROP b{n}" for n in range(20))
    )
    assert len(copied) <= 1  # that before the first step


@pytest.mark.parametrize(
    "text",
    [
        "FROM t |> SELECT t.a, t.where",
        "FROM t |> SELECT a AS where",
        "FROM t |> EXTEND s.having AS x",
        "FROM t |> AGGREGATE sum(a) AS n GROUP BY b",
    ],
)
def test_words_of_steps_are_names_behind_a_dot_or_as(text: str) -> None:
    tokens = dialect().tokenize(text)
    assert [error.what for error in check_steps(SourceText("a.dpl", text), tokens)] == []


def test_window_is_a_clause_only_before_a_name_and_as() -> None:
    tree = parse_query_text(
        "SELECT sum(a) OVER w AS s, window.start AS b FROM t WINDOW w AS (ORDER BY window(at, '1 day'))"
    )
    assert [each.name for each in tree.args["windows"]] == ["w"]
    grouped = parse_query_text("SELECT 1 FROM t GROUP BY window(at, '1 day'), a")
    assert len(grouped.args["group"].expressions) == 2


def test_the_name_behind_as_is_an_alias_and_no_table_of_the_query() -> None:
    tree = parse_query_text("FROM t |> AS x |> EXTEND 1 AS a |> AS x |> WHERE x.a > 0")
    tables = list(tree.find_all(exp.Table))
    assert {table.alias for table in tables if is_piped(table)} >= {"x"}
    assert "x" not in {table.name for table in tables}
    assert "x" not in {cte.alias for cte in tree.find_all(exp.CTE)}
