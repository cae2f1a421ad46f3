"""The rights that docs/explain/security-model.md lists suffice for each connection and for the ledger."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests import mariadb, postgres
from tests.systems import setting_of, unit_of
from waterclock.connectors.delivering import Delivery, DeliveryOutcome
from waterclock.connectors.mysql.connector import CONNECTOR as MYSQL
from waterclock.connectors.postgres.connector import CONNECTOR as POSTGRES
from waterclock.flow.enums import Mode
from waterclock.ledger.ledger import Ledger

pytestmark = pytest.mark.slow

PAGE = (Path(__file__).resolve().parents[3] / "docs" / "explain" / "security-model.md").read_text(encoding="utf-8")
OF_POSTGRES = "`USAGE, CREATE` on the schema"
OF_MYSQL = "SELECT, INSERT, UPDATE, DELETE, CREATE, ALTER, INDEX, DROP, CREATE TEMPORARY TABLES"
NUMBERS = count(1)
PLAIN = Delivery(
    project="flights",
    publish="ops.totals",
    claim=1,
    label=datetime(2013, 1, 1, tzinfo=UTC),
    label_text="20130101000000",
    mode=Mode.REPLACE,
    is_from_partitioned=False,
    columns=(("id", "STRING"), ("amount", "INT")),
    files=(),
)


@pytest.fixture
def role() -> str:
    """A role of the PostgreSQL server without any right, and the right to log in."""
    name = f"role_{next(NUMBERS)}"
    postgres.server().run(f"CREATE ROLE {name} LOGIN")
    return name


def delivery(folder: Path, **changes: Any) -> Delivery:
    """A delivery of one row, by a claim of its own."""
    number = next(NUMBERS)
    path = folder / f"part-{number}.parquet"
    pq.write_table(pa.table({"id": ["a"], "amount": pa.array([number], pa.int32())}), path)
    return replace(PLAIN, files=(path,), claim=number, **changes)


def deliver_all(deliverer: Any, folder: Path) -> list[DeliveryOutcome]:
    """Deliver a state twice, a merge, and kill a claim; return the outcomes."""
    totals, merged = unit_of("out", "totals"), unit_of("out", "merged")
    by_key: dict[str, Any] = {"mode": Mode.MERGE, "keys": ("id",), "publish": "ops.merged"}
    return [
        *(deliverer.deliver(totals, (delivery(folder),))[-1].outcome for _ in range(2)),
        *(deliverer.deliver(merged, (delivery(folder, **by_key),))[-1].outcome for _ in range(2)),
        deliverer.kill(totals, "flights", "ops.totals", next(NUMBERS)).outcome,
    ]


DELIVERED = [DeliveryOutcome.DELIVERED] * 4 + [DeliveryOutcome.KILLED]


def test_the_page_lists_these_rights() -> None:
    assert all(rights in PAGE for rights in (OF_POSTGRES, f"`{OF_MYSQL}`", "`USAGE` on the schema", "owns the schema"))


def test_a_reader_of_postgres_needs_to_select(role: str, tmp_path: Path) -> None:
    server, schema = postgres.server(), postgres.server().fresh_schema()
    for sql in (
        f"CREATE SCHEMA {schema}",
        f"CREATE TABLE {schema}.orders (id INT PRIMARY KEY)",
        f"GRANT USAGE ON SCHEMA {schema} TO {role}",
        f"GRANT SELECT ON {schema}.orders TO {role}",
    ):
        server.run(sql)
    collector = POSTGRES.collector(setting_of("ops", tmp_path, url=server.url_of(role)))
    unit = unit_of("ops", f"{schema}.orders")
    assert collector.schema(unit) == {"id": "INT"}
    assert collector.clock(unit).tzinfo is not None
    with collector.database.open_for_reading("ops") as connection:
        assert connection.execute(f"SELECT pg_export_snapshot() IS NOT NULL, count(*) FROM {schema}.orders").fetchone()


def test_a_writer_to_postgres_needs_a_schema_to_create_tables_in(role: str, tmp_path: Path) -> None:
    server, schema = postgres.server(), postgres.server().fresh_schema()
    server.run(f"CREATE SCHEMA {schema}")
    server.run(f"GRANT USAGE, CREATE ON SCHEMA {schema} TO {role}")
    deliverer = POSTGRES.deliverer(setting_of("out", tmp_path, url=server.url_of(role), schema=schema))
    assert deliver_all(deliverer, tmp_path) == DELIVERED


@pytest.mark.parametrize("is_of_database", [False, True])
def test_a_ledger_needs_a_schema_of_its_own_or_the_right_to_create_one(role: str, *, is_of_database: bool) -> None:
    server, schema = postgres.server(), postgres.server().fresh_schema()
    server.run(
        f"GRANT CREATE ON DATABASE postgres TO {role}"
        if is_of_database
        else f"CREATE SCHEMA {schema} AUTHORIZATION {role}"
    )
    with Ledger.open(f"{server.url_of(role)}?schema={schema}") as ledger:
        assert ledger.sequence() == 0
    with Ledger.open(f"{server.url_of(role)}?schema={schema}") as ledger:
        assert ledger.answers()


def test_a_reader_of_the_ledger_needs_its_views(role: str) -> None:
    server, schema = postgres.server(), postgres.server().fresh_schema()
    Ledger.open(f"{server.url}?schema={schema}").close()
    server.run(f"GRANT USAGE ON SCHEMA {schema} TO {role}")
    server.run(f"GRANT SELECT ON {schema}.waterclock_batches TO {role}")
    import psycopg

    with closing(psycopg.connect(server.url_of(role), autocommit=True)) as connection:
        assert connection.execute(f"SELECT count(*) FROM {schema}.waterclock_batches").fetchone() == (0,)
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            connection.execute(f"SELECT count(*) FROM {schema}.batches")


def test_users_of_mariadb_need_no_more_than_the_page_lists(tmp_path: Path) -> None:
    server = mariadb.server()
    source, destination, user = server.fresh_database(), server.fresh_database(), f"user_{next(NUMBERS)}"
    for sql in (
        f"CREATE TABLE {source}.orders (id INT PRIMARY KEY)",
        f"CREATE USER {user}",
        f"GRANT SELECT ON {source}.orders TO {user}",
        f"GRANT {OF_MYSQL} ON {destination}.* TO {user}",
    ):
        server.run(sql)
    collector = MYSQL.collector(setting_of("web", tmp_path, url=server.url(source, user)))
    read: Callable[..., Any] = collector.schema
    assert read(unit_of("web", "orders")) == {"id": "INT"}
    deliverer = MYSQL.deliverer(setting_of("out", tmp_path, url=server.url(destination, user)))
    assert deliver_all(deliverer, tmp_path) == DELIVERED
