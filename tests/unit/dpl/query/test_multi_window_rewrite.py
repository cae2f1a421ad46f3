"""The rewriting of a query that runs for many windows at once."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.dpl.query.test_splice import query_of
from waterclock.dpl.query.multi_window_rewrite import window_wise

JOINED = """
SELECT o.id FROM raw.orders o LEFT JOIN raw.customers c ON o.id = c.id
SELECT o.id FROM raw.orders o LEFT OUTER JOIN raw.customers AS c ON o.id = c.id AND c.id > 1 WHERE o.id > 1 OR o.id < 0
SELECT orders.* FROM raw.orders LEFT SEMI JOIN raw.customers ON orders.id = customers.id
SELECT count(*) AS n FROM raw.orders o ANTI JOIN raw.customers c ON o.id * 2 = c.id
SELECT o.id FROM raw.orders o LEFT JOIN raw.customers c ON (o.id = c.id OR c.id IS NULL) GROUP BY o.id
"""
NOT_JOINED = """
SELECT o.id FROM raw.orders o JOIN raw.customers c ON o.id = c.id
SELECT o.id FROM raw.orders o LEFT JOIN raw.customers c USING (id)
SELECT o.id FROM raw.orders o LEFT JOIN raw.customers c ON o.id = c.id OR c.id IS NULL
SELECT o.id FROM raw.orders o LEFT JOIN raw.customers c ON CASE WHEN o.id = 1 OR c.id = 1 THEN true END
SELECT * FROM raw.orders o LEFT JOIN raw.customers c ON o.id = c.id
SELECT o.id, c.* FROM raw.orders o LEFT JOIN raw.customers c ON o.id = c.id
SELECT count(DISTINCT struct(*)) AS n FROM raw.orders o LEFT JOIN raw.customers c ON o.id = c.id
SELECT o.id FROM raw.orders o FULL JOIN raw.customers c ON o.id = c.id
SELECT o.id FROM raw.orders o RIGHT JOIN raw.customers c ON o.id = c.id
"""


def lines(text: str) -> list[str]:
    return text.strip().splitlines()


@pytest.mark.parametrize("text", lines(JOINED))
def test_the_condition_of_a_join_from_the_left_is_found(text: str, tmp_path: Path) -> None:
    query = query_of(text, tmp_path)
    found = window_wise(query, is_whole=True).joined
    assert [reference.read for reference in query.tables if reference.start in found] == [query.tables[1].read]
    ((name, on),) = found.values()
    assert query.text[:on].upper().endswith(" ON")
    assert name == (query.tables[1].alias or "c")


@pytest.mark.parametrize("text", lines(NOT_JOINED))
def test_an_unsuitable_join_is_not_rewritten_for_many_windows(text: str, tmp_path: Path) -> None:
    assert not window_wise(query_of(text, tmp_path), is_whole=True).joined


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("SELECT id, WINDOW_START() AS day, TIMELABEL() AS label FROM raw.orders", ["day", "label"]),
        ("SELECT DISTINCT WINDOW_END() AS `until` FROM raw.orders", ["until"]),
        ("WITH o AS (SELECT id FROM raw.orders) SELECT id, WINDOW_START() AS day FROM o GROUP BY id", ["day"]),
        ("SELECT id, WINDOW_START() AS day FROM raw.orders ORDER BY day", []),
        ("SELECT id, date(WINDOW_START()) AS day FROM raw.orders", []),
        ("SELECT id, WINDOW_START() AS day FROM raw.orders UNION SELECT id, at FROM raw.orders", []),
        ("SELECT id FROM (SELECT id, WINDOW_START() AS day FROM raw.orders)", []),
    ],
)
def test_a_value_that_is_a_column_and_nothing_else_is_found(text: str, names: list[str], tmp_path: Path) -> None:
    query = query_of(text, tmp_path)
    assert list(window_wise(query, is_whole=True).columns.values()) == names
    assert not window_wise(query, is_whole=False).columns
