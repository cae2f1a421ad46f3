from __future__ import annotations

from pathlib import Path

import pytest

from tests.language.cases import CAPABILITIES, KNOWN, SETTINGS
from waterclock.dpl.project import load_project
from waterclock.dpl.query.splice import SplicedQuery, list_reads, splice, variables_of
from waterclock.flow.declarations import Flat, Query, Read
from waterclock.flow.enums import ReadKind
from waterclock.flow.flats import flats_of
from waterclock.timelabel.duration import parse_duration


def query_of(text: str, root: Path, views: str = "") -> Query:
    (root / "flows").mkdir(exist_ok=True)
    (root / "waterclock.toml").write_text(SETTINGS, encoding="utf-8")
    (root / "flows/known.dpl").write_text(KNOWN, encoding="utf-8")
    (root / "flows/case.dpl").write_text(f"{views}TRANSFORM marts.x EVERY DAY AS {text}", encoding="utf-8")
    query = load_project(root, capabilities=CAPABILITIES).flow.tables["marts.x"].query
    assert query is not None
    return query


def name_of(read: Read | Flat) -> str:
    if isinstance(read, Flat):
        return f"flat_{read.read.table.replace('.', '_')}"
    return f"{read.kind}_{read.table.replace('.', '_')}"


CASES = """
SELECT * FROM raw.orders
SELECT * FROM plain_raw_orders AS `orders`

SELECT * FROM raw . orders o
SELECT * FROM plain_raw_orders o

SELECT * FROM `raw`.`orders` AS `o`
SELECT * FROM plain_raw_orders AS `o`

SELECT * FROM raw.orders PIVOT (sum(amount) FOR customer IN ('a')) p
SELECT * FROM plain_raw_orders AS `orders` PIVOT (sum(amount) FOR customer IN ('a')) p

SELECT id FROM raw.orders LATERAL VIEW explode(tags) t AS tag
SELECT id FROM plain_raw_orders AS `orders` LATERAL VIEW explode(tags) t AS tag

SELECT /*+ BROADCAST(orders) */ id, 'raw.orders' AS s /* raw.orders */ FROM raw.orders, range(3)
SELECT /*+ BROADCAST(orders) */ id, 'raw.orders' AS s                  FROM plain_raw_orders AS `orders`, range(3)

WITH orders AS (SELECT * FROM raw.orders) SELECT * FROM orders
WITH orders AS (SELECT * FROM plain_raw_orders AS `orders`) SELECT * FROM orders

SELECT o.id FROM past(raw.orders, INTERVAL '7' DAY) o JOIN latest ( raw.customers ) USING (id)
SELECT o.id FROM past_raw_orders o JOIN latest_raw_customers AS `customers` USING (id)

SELECT id FROM raw.orders WHERE at >= window_start() AND at < WINDOW_END ( ) AND TIMELABEL() > ''
SELECT id FROM plain_raw_orders AS `orders` WHERE at >= :wc_window_start AND at < :wc_window_end AND :wc_timelabel > ''

SELECT id FROM raw.orders WHERE id IN (SELECT id FROM PREVIOUS(raw.customers))
SELECT id FROM plain_raw_orders AS `orders` WHERE id IN (SELECT id FROM previous_raw_customers AS `customers`)

FROM raw.orders SELECT id
FROM plain_raw_orders AS `orders` SELECT id

SELECT id FROM (raw.orders o JOIN raw.customers USING (id))
SELECT id FROM (plain_raw_orders o JOIN plain_raw_customers AS `customers` USING (id))

SELECT id FROM raw.orders |> WHERE id > 1
SELECT id FROM plain_raw_orders AS `orders` |> WHERE id > 1
"""


@pytest.mark.parametrize(("text", "spliced"), [case.splitlines() for case in CASES.strip().split("\n\n")])
def test_references_are_put_in_place_and_nothing_else_changes(text: str, spliced: str, tmp_path: Path) -> None:
    assert splice(query_of(text, tmp_path), name_of).text == spliced


def test_columns_that_look_like_tables_are_not_treated_as_reads(tmp_path: Path) -> None:
    text = "SELECT orders.id, raw.orders.x FROM (SELECT struct(1 AS x) AS orders FROM raw.customers) AS raw"
    query = query_of(f"SELECT 1 AS one FROM raw.customers WHERE EXISTS ({text})", tmp_path)
    assert [reference.read for reference in query.tables] == [Read("raw.customers"), Read("raw.customers")]


def test_a_read_of_nested_views_applies_to_each_plain_reference_inside(tmp_path: Path) -> None:
    views = (
        "CREATE VIEW stg.a (id) AS SELECT id FROM raw.orders o JOIN LATEST(raw.customers) USING (id) -- end\n;"
        "CREATE VIEW stg.b AS SELECT id FROM stg.a WHERE id > :late_minutes;\n"
    )
    query = query_of("SELECT id FROM PREVIOUS(stg.b)", tmp_path, views)
    assert splice(query, name_of).text == (
        "SELECT id FROM (SELECT id FROM (SELECT `id` FROM (SELECT id FROM previous_raw_orders o "
        "JOIN latest_raw_customers AS `customers` USING (id))) AS `a` WHERE id > :late_minutes) AS `b`"
    )
    assert list_reads(query) == (Read("raw.orders", ReadKind.PREVIOUS), Read("raw.customers", ReadKind.LATEST))
    assert variables_of(query) == ("late_minutes",)


def place(spliced: SplicedQuery, word: str) -> str:
    offset = spliced.text.index(word)
    line = spliced.text.count("\n", 0, offset) + 1
    return str(spliced.place_of(line, offset - (spliced.text.rfind("\n", 0, offset) + 1) + 1))


def test_positions_lead_back_to_the_file_also_inside_of_views(tmp_path: Path) -> None:
    views = "CREATE VIEW stg.a AS\n  SELECT *,\n    amountt\n  FROM raw.orders;\n"
    spliced = splice(query_of("SELECT id, x,\n  WINDOW_END() AS e\nFROM stg.a WHERE y", tmp_path, views), name_of)
    assert place(spliced, "amountt") == "flows/case.dpl:3:5"
    assert place(spliced, "plain_raw_orders") == "flows/case.dpl:4:8"
    assert place(spliced, "x,") == "flows/case.dpl:5:43"
    assert place(spliced, ":wc_window_end") == "flows/case.dpl:6:3"
    assert place(spliced, "AS e") == "flows/case.dpl:6:16"
    assert place(spliced, "WHERE y") == "flows/case.dpl:7:12"


def test_a_position_outside_of_the_text_gives_its_nearest_end(tmp_path: Path) -> None:
    spliced = splice(query_of("SELECT id FROM raw.orders o", tmp_path), name_of)
    assert str(spliced.place_of(9, 99)) == "flows/case.dpl:1:58"
    assert str(spliced.place_of(1, 0)) == "flows/case.dpl:1:32"


def test_queries_between_union_all_by_name_are_spliced_each_by_itself(tmp_path: Path) -> None:
    text = (
        "SELECT id FROM raw.orders\nUNION ALL BY NAME\n  SELECT WINDOW_END() AS w FROM stg.landed"
        "\nUNION ALL BY NAME SELECT id FROM PREVIOUS(raw.customers);"
    )
    query = query_of(text, tmp_path, "CREATE VIEW stg.landed AS SELECT * FROM raw.orders WHERE amount > :land;\n")
    assert (query.tables, query.values, query.variables, query.text) == ((), (), (), text[:-1])
    assert [splice(branch, name_of).text for branch in query.branches] == [
        "SELECT id FROM plain_raw_orders AS `orders`",
        "SELECT :wc_window_end AS w FROM (SELECT * FROM plain_raw_orders AS `orders` WHERE amount > :land) AS `landed`",
        "SELECT id FROM previous_raw_customers AS `customers`",
    ]
    assert list_reads(query) == (Read("raw.orders"), Read("raw.customers", ReadKind.PREVIOUS))
    assert variables_of(query) == ("land",)
    assert [str(branch.place) for branch in query.branches] == [
        "flows/case.dpl:2:32",
        "flows/case.dpl:4:3",
        "flows/case.dpl:5:19",
    ]
    assert str(splice(query.branches[2], name_of).place_of(1, 8)) == "flows/case.dpl:5:26"
    with pytest.raises(ValueError, match="splice each of the branches"):
        splice(query, name_of)


def test_a_flat_read_is_one_relation_and_reads_all_that_it_brings(tmp_path: Path) -> None:
    tables = (
        "TRANSFORM fact.a PARTITIONED (id BIGINT, customer BIGINT REFERENCES raw.customers) "
        "AS SELECT id, id AS customer FROM raw.orders;\n"
        "CREATE VIEW stg.f AS SELECT id FROM flat ( fact.a ) JOIN raw.orders USING (id);\n"
    )
    query = query_of("SELECT a.id FROM FLAT(fact.a) JOIN PAST(stg.f, '2 days') f USING (id)", tmp_path, tables)
    assert splice(query, name_of).text == (
        "SELECT a.id FROM flat_fact_a AS `a` "
        "JOIN (SELECT id FROM flat_fact_a AS `a` JOIN past_raw_orders AS `orders` USING (id)) f USING (id)"
    )
    past = Read("raw.orders", ReadKind.PAST, parse_duration("2 days"))
    assert list_reads(query) == (Read("fact.a"), Read("raw.customers"), past)
    assert [str(flat) for flat in flats_of(query)] == ["FLAT(fact.a)"]
