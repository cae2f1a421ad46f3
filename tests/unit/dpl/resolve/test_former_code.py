"""After a rename, the code of tables and their readers, written with the former names, is unchanged."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.language.cases import CAPABILITIES
from waterclock.dpl.project import load_project
from waterclock.dpl.resolve.former_code import text_with_former_names
from waterclock.flow.declarations import Flow

TOML = """[project]
name = "x"
[env.dev]
connections.ops = { path = "data/ops.sqlite" }
connections.landing = { path = "data/new" }
connections.api = { url = "https://api.example.com" }
"""
FLOW = """
CREATE CONNECTION ops TYPE sqlite; CREATE CONNECTION landing TYPE files; CREATE CONNECTION api TYPE rest;
COLLECT {orders} PARTITIONED (at TIMESTAMP, id BIGINT, customer BIGINT, note STRING HIDDEN, *) FROM landing.orders
  EVERY DAY START '2024-01-01' BY DATA TIME at WATERMARK at 10 MINUTES {was_orders};
CREATE VIEW stg.orders AS SELECT * FROM {orders} WHERE id > 1;
TRANSFORM marts.qualified PARTITIONED AS SELECT {short}.id, {short}.`at` FROM {orders};
TRANSFORM marts.past PARTITIONED AS SELECT o.id, '{text}' AS s FROM PAST({orders}, '3 days')
  AS o JOIN {orders} USING (id);
TRANSFORM marts.whole PARTITIONED AS SELECT id FROM `{orders}`;
TRANSFORM marts.starred PARTITIONED AS SELECT note, {short}.* FROM {orders};
TRANSFORM marts.at_the_door PARTITIONED EXPECT id > 0 OF {orders} ELSE DROP AS SELECT * FROM {orders};
TRANSFORM marts.by_view PARTITIONED AS SELECT * FROM stg.orders;
TRANSFORM marts.closed PARTITIONED OPTIONS (open_windows 'kept') CLOSE WHEN watermark({short}.at) >= WINDOW_END()
AS SELECT id, count(*) AS n FROM UNTIL({orders}, '1 day') GROUP BY id;
TRANSFORM marts.marked PARTITIONED AS SELECT id, watermark({orders}) AS m FROM {orders};
TRANSFORM marts.parent (id KEY) AS SELECT DISTINCT id FROM HISTORY({orders});
TRANSFORM {own} (n BIGINT) SEQUENTIAL {was_own}
AS SELECT n + 1 AS n FROM PREVIOUS({own}) UNION ALL SELECT count(*) FROM {orders};
TRANSFORM marts.refers (id REFERENCES marts.parent (id) ELSE WARN, *) AS SELECT id FROM HISTORY({orders});
TRANSFORM marts.chosen PARTITIONED WHEN WINDOW_START() < '2024-02-01' AS SELECT id FROM {orders} ELSE
  AS SELECT 1 AS id FROM {orders};
COLLECT api.asked FROM api.users OPTIONS (path 'users/{{id}}', rows '/') FOR EACH {orders};
PUBLISH {own} TO ops.own;
"""
PYTHON = """
import waterclock as wc


@wc.transform("marts.python", partitioned=True)
def python(orders=wc.table("{orders}"), before=wc.past(name="{orders}", span="2 days")):
    return orders.union(before)
"""
BEFORE = {
    "orders": "raw.orders",
    "short": "orders",
    "own": "marts.own",
    "was_orders": "",
    "was_own": "",
    "text": "raw.orders",
}
AFTER = {
    "orders": "shop.sold",
    "short": "sold",
    "own": "sums.own",
    "was_orders": "WAS raw.orders",
    "was_own": "WAS marts.own",
    "text": "raw.orders",
}


def flow_of(root: Path, names: dict[str, str]) -> Flow:
    (root / "flows").mkdir(parents=True)
    (root / "waterclock.toml").write_text(TOML, encoding="utf-8")
    (root / "flows" / "a.dpl").write_text(FLOW.format(**names), encoding="utf-8")
    (root / "flows" / "b.py").write_text(PYTHON.format(**names), encoding="utf-8")
    return load_project(root, capabilities=CAPABILITIES).flow


def test_code_of_renamed_tables_is_unchanged_except_for_the_names(tmp_path: Path) -> None:
    before, after = flow_of(tmp_path / "a", BEFORE), flow_of(tmp_path / "b", AFTER)
    assert len(before.tables) == len(after.tables)
    for name, table in after.tables.items():
        was = before.tables[table.was or name]
        assert (table.code_before or table.fingerprint) == was.fingerprint, name
        if name.startswith("marts."):
            assert table.fingerprint != was.fingerprint, name


def test_without_the_former_name_the_code_is_the_same(tmp_path: Path) -> None:
    said, unsaid = flow_of(tmp_path / "a", AFTER), flow_of(tmp_path / "b", AFTER | {"was_orders": "", "was_own": ""})
    assert {name: it.fingerprint for name, it in said.tables.items()} == {
        name: it.fingerprint for name, it in unsaid.tables.items()
    }
    assert not any(table.code_before or table.was for table in unsaid.tables.values())
    assert said.fingerprint != unsaid.fingerprint


def test_a_literal_that_was_changed_too_is_other_code(tmp_path: Path) -> None:
    before, after = flow_of(tmp_path / "a", BEFORE), flow_of(tmp_path / "b", AFTER | {"text": "shop.sold"})
    assert after.tables["marts.past"].code_before != before.tables["marts.past"].fingerprint


@pytest.mark.parametrize(
    ("text", "was"),
    [
        ("FROM a . b", "FROM x . y"),
        ("FROM c . a . b", "FROM c . a . b"),
        ("SELECT b . n FROM a . b", "SELECT y . n FROM x . y"),
        ("SELECT b FROM a . b AS b2", "SELECT b FROM x . y AS b2"),
        ("SELECT a.b . n FROM a.b", "SELECT x.y . n FROM x.y"),
        ("SELECT n AS a.b FROM a.b", "SELECT n AS a.b FROM x.y"),
        ("FROM A.b , a.b2 , c . a.b", "FROM x.y , a.b2 , c . a.b"),
        ("SELECT STRING:a.b FROM a . b2", "SELECT STRING:a.b FROM a . b2"),
    ],
)
def test_former_names_replace_only_complete_table_names(text: str, was: str) -> None:
    assert text_with_former_names(text.replace(" ", "\x1f"), {"a.b": "x.y"}) == was.replace(" ", "\x1f")
