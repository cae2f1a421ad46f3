"""Which queries make each row of one row of a FLAT, and what do they hand on?"""

from __future__ import annotations

import pytest

from waterclock.dpl.query.rowwise import handed_on
from waterclock.flow.declarations import Flat, Place, Query, Read, TableReference, ValueReference

COLUMNS = ("id", "Buyer", "sold_at", "city_buyer")
FLAT = Flat(Read("fact.sales"))


def query(text: str, **said: object) -> Query:
    """Make a query whose `F` is read as a FLAT."""
    at = text.index("FROM F") + 5
    reference = TableReference(at, at + 1, None, at + 1, flat=FLAT)
    return Query(text, Place("flow.dpl", 1, 1), (reference,), **said)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "handed"),
    [
        ("SELECT * FROM F", {"id": "id", "buyer": "Buyer", "sold_at": "sold_at", "city_buyer": "city_buyer"}),
        ("SELECT f.id AS sale, upper(f.buyer) AS buyer FROM F AS f WHERE f.id > 1", {"id": "sale"}),
        ("SELECT Buyer, BUYER AS again, 1 AS one FROM F", {"buyer": "Buyer"}),
        (
            "SELECT f.*, coalesce(id, 0) AS sure FROM F AS f",
            {"id": "id", "buyer": "Buyer", "sold_at": "sold_at", "city_buyer": "city_buyer"},
        ),
        ("SELECT CASE WHEN id > 1 THEN buyer END AS a, cast(id AS STRING) AS b FROM F", {}),
    ],
)
def test_columns_that_are_handed_on(text: str, handed: dict[str, str]) -> None:
    assert handed_on(query(text), COLUMNS) == handed


@pytest.mark.parametrize(
    "text",
    [
        "SELECT DISTINCT id FROM F",
        "SELECT id FROM F LIMIT 3",
        "SELECT id FROM F ORDER BY id",
        "SELECT count(*) AS n FROM F",
        "SELECT id, row_number() OVER (ORDER BY id) AS n FROM F",
        "SELECT id FROM F GROUP BY id",
        "SELECT id FROM F WHERE id IN (SELECT 1)",
        "SELECT explode(id) AS one FROM F",
        "SELECT id, one FROM F LATERAL VIEW explode(ids) AS one",
        "SELECT id FROM F TABLESAMPLE (3 ROWS)",
        "SELECT * FROM F PIVOT (sum(id) FOR buyer IN ('a'))",
        "SELECT * EXCEPT (id) FROM F",
        "SELECT mine(id) AS m FROM F",
        "SELECT id, timelabel AS since FROM F",
        "SELECT a.id FROM F AS a JOIN F AS b ON a.id = b.id",
        "WITH f AS (SELECT * FROM F) SELECT * FROM f",
        "SELECT id FROM F UNION ALL SELECT 1",
    ],
)
def test_rows_that_are_not_made_one_by_one(text: str) -> None:
    assert handed_on(query(text), COLUMNS) is None


def test_what_is_another_value_another_time_is_not_of_the_row() -> None:
    window = ValueReference(7, 21, "WINDOW_START")
    assert handed_on(query("SELECT WINDOW_START() AS w, id FROM F", values=(window,)), COLUMNS) is None
    assert handed_on(query("SELECT id FROM F WHERE id > :least", variables=("least",)), COLUMNS) is None
