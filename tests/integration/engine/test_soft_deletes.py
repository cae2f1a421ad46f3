"""Rows that a source marks as deleted are removed from a MERGE table and from each database it is published to."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.systems import DuckDatabase, MysqlDatabase, PostgresDatabase, SqliteDatabase
from tests.tiny import TOML, Tiny, day, described

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

PAGE = (Path(__file__).resolve().parents[3] / "docs/howto/collect-mariadb.md").read_text(encoding="utf-8")
Database = SqliteDatabase | DuckDatabase | PostgresDatabase | MysqlDatabase
DATABASES: dict[str, Callable[[Path], Database]] = {
    "sqlite": SqliteDatabase, "duckdb": DuckDatabase, "postgres": PostgresDatabase, "mysql": MysqlDatabase,
}  # fmt: skip
FLOW = """
COLLECT shop.people (id KEY, name, changed TIMESTAMP NOT NULL, deleted_at TIMESTAMP)
  FROM ops.people EVERY DAY START '2020-01-01' BY DATA TIME changed
  MERGE ORDER BY changed DELETE WHEN deleted_at IS NOT NULL;
PUBLISH shop.people TO ops.people_now MERGE;
"""


def options_of(database: Database) -> str:
    """Return the options of a connection as in a project file, with references to secrets."""
    listed = (
        f'{name} = {{{{ secret = "{name}" }}}}'
        if name in database.secrets
        else f'{name} = "{value}"'
        if isinstance(value, str)
        else f"{name} = {value}"
        for name, value in database.setting.options.items()
    )
    return ", ".join(listed)


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    "kind",
    [
        "sqlite",
        *(pytest.param(name, marks=pytest.mark.soak) for name in ("duckdb", "postgres")),
        pytest.param("mysql", marks=pytest.mark.slow),
    ],
)
def test_rows_are_removed_while_the_source_marks_them_as_deleted(
    kind: str, tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    database = DATABASES[kind](tmp_path)
    for name in database.secrets:
        monkeypatch.setenv(f"WATERCLOCK_SECRET_{name.upper()}", str(database.setting.options[name]))
    toml = TOML + f"connections.ops = {{{{ {options_of(database)} }}}}\n"
    tiny = Tiny(tmp_path, spark, toml=toml)
    tiny.declare(f"CREATE CONNECTION ops TYPE {kind};{FLOW}")
    database.run("CREATE TABLE people (id VARCHAR(9), name VARCHAR(9), changed TIMESTAMP, deleted_at TIMESTAMP NULL)")
    steps: list[tuple[str, list[str]]] = [
        ("INSERT INTO people VALUES ('a', 'Ann', '{at}', NULL), ('b', 'Bob', '{at}', NULL)", ["a", "b"]),
        ("UPDATE people SET deleted_at = '{at}', changed = '{at}' WHERE id = 'a'", ["b"]),
        ("UPDATE people SET deleted_at = NULL, changed = '{at}' WHERE id = 'a'", ["a", "b"]),
    ]
    for number, (sql, there) in enumerate(steps, 1):
        database.run(sql.format(at=f"2020-01-0{number} 10:00:00"))
        outcome = tiny.run(day(number + 1))
        assert not outcome.failed, described(outcome)
        assert [row[0] for row in tiny.rows("SELECT id FROM shop.people ORDER BY id")] == there
        published: list[Any] = database.run("SELECT id FROM people_now ORDER BY id")
        assert [row[0] for row in published] == there


@pytest.mark.soak
@pytest.mark.slow
def test_the_statements_and_privileges_of_the_mariadb_page_work_as_documented(
    tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    database = MysqlDatabase(tmp_path)
    database.run("CREATE OR REPLACE USER loader@'%' IDENTIFIED BY 'of the page'")
    rights = ", ".join(re.findall(r"The user may `(.+?)`", PAGE.replace("\n  ", " ")))
    database.run(f"GRANT {rights} ON {database.name}.* TO loader@'%'")
    monkeypatch.setenv("WATERCLOCK_SECRET_WEB_PASSWORD", "of the page")
    said = re.findall(r"connections\.web = .+", PAGE)[0]
    url = database.server.url(database.name, "loader")
    said = said.replace("mysql://loader@127.0.0.1:3306/shop", url).replace("{", "{{").replace("}", "}}")
    tiny = Tiny(tmp_path, spark, toml=f"{TOML}{said}\n")
    tiny.declare("\n".join(re.findall(r"```sql\n(.*?)```", PAGE, re.DOTALL)))
    database.run(
        "CREATE TABLE orders (order_id int PRIMARY KEY, amount decimal(10,2), ordered_at datetime,"
        " modified_at timestamp NOT NULL DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP)"
    )
    database.run(
        "CREATE TABLE customers (customer_id int PRIMARY KEY, name varchar(9), country char(2),"
        " updated_at timestamp NOT NULL, deleted_at timestamp NULL)"
    )
    database.run("INSERT INTO orders (order_id, amount, ordered_at) VALUES (1, 9.90, '2020-01-01 10:00')")
    database.run("INSERT INTO customers VALUES (1, 'Ann', 'DE', '2020-01-01 10:00', NULL)")
    database.run("INSERT INTO customers VALUES (2, 'Bob', 'FR', '2020-01-01 10:00', '2020-01-01 10:00')")
    outcome = tiny.run(day(2))
    assert not outcome.failed, described(outcome)
    assert [str(row[0]) for row in tiny.rows("SELECT amount FROM shop.orders")] == ["9.90"]
    assert database.run("SELECT customer_id, name FROM customers_now") == [(1, "Ann")]
