"""The rights in docs/explain/security-model.md suffice for each connection and for the ledger.

`check --connect` names missing rights and those that a source does not need, with statements that correct them.
"""

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

from tests import firebird, mariadb, postgres
from tests.systems import setting_of, unit_of
from waterclock.connectors.delivering import Delivery, DeliveryOutcome
from waterclock.connectors.firebird.connector import CONNECTOR as FIREBIRD
from waterclock.connectors.mysql.connector import CONNECTOR as MYSQL
from waterclock.connectors.postgres.connector import CONNECTOR as POSTGRES
from waterclock.connectors.sql.privileges import ExtraPrivileges, describe_extra
from waterclock.errors import WaterclockError
from waterclock.flow.declarations import Unit
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
    """Return a role of the PostgreSQL server that may only log in."""
    name = f"role_{next(NUMBERS)}"
    postgres.server().run(f"CREATE ROLE {name} LOGIN")
    return name


def delivery(folder: Path, **changes: Any) -> Delivery:
    """Return a delivery of one row, with its own claim."""
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
    deliverer: Any = POSTGRES.deliverer(setting_of("out", tmp_path, url=server.url_of(role), schema=schema))
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
    deliverer: Any = MYSQL.deliverer(setting_of("out", tmp_path, url=server.url(destination, user)))
    assert deliver_all(deliverer, tmp_path) == DELIVERED


def extra_of(collector: Any, unit: Unit, *, has_changes: bool = False) -> ExtraPrivileges | None:
    """Return the unneeded privileges of a source's login."""
    login = collector.check_privileges(unit, has_changes=has_changes)
    assert login is not None
    return describe_extra([login])


def carry_out(fix: str, run: Callable[[str], Any]) -> None:
    """Run the statements of a fix."""
    for statement in fix.partition(": ")[2].split("; "):
        run(statement)


def granted_step_by_step(check: Callable[[], object], run: Callable[[str], Any]) -> list[tuple[str, str]]:
    """Carry out the fix of each error until there is none; return the codes and the reasons."""
    found = []
    for _ in range(4):
        try:
            check()
        except WaterclockError as error:
            found.append((error.code, str(error.why)))
            carry_out(str(error.fix), run)
        else:
            return found
    raise AssertionError(found)


def test_missing_grants_of_a_postgres_reader_are_reported(role: str, tmp_path: Path) -> None:
    server, schema = postgres.server(), postgres.server().fresh_schema()
    server.run(f"CREATE SCHEMA {schema}")
    server.run(f'CREATE TABLE {schema}."Or ders" (id INT PRIMARY KEY)')
    collector = POSTGRES.collector(setting_of("ops", tmp_path, url=server.url_of(role)))
    unit = unit_of("ops", f"{schema}.Or ders")
    assert granted_step_by_step(lambda: collector.check_privileges(unit, has_changes=False), server.run) == [
        ("E821", f'the login {role} does not have USAGE on SCHEMA {schema}, SELECT on {schema}."Or ders"')
    ]
    assert extra_of(collector, unit) is None
    assert granted_step_by_step(lambda: collector.check_privileges(unit, has_changes=True), server.run) == [
        ("E861", f"the login {role} does not have REPLICATION")
    ]


def test_one_granted_column_suffices_to_read_postgres(role: str, tmp_path: Path) -> None:
    server, schema = postgres.server(), postgres.server().fresh_schema()
    for sql in (
        f"CREATE SCHEMA {schema}",
        f"CREATE TABLE {schema}.orders (id INT PRIMARY KEY, card TEXT)",
        f"GRANT USAGE ON SCHEMA {schema} TO {role}",
        f"GRANT SELECT (id) ON {schema}.orders TO {role}",
    ):
        server.run(sql)
    collector = POSTGRES.collector(setting_of("ops", tmp_path, url=server.url_of(role), schema=schema))
    assert extra_of(collector, unit_of("ops", "orders")) is None


def test_a_reader_of_postgres_is_warned_of_each_way_to_write(role: str, tmp_path: Path) -> None:
    server, schema = postgres.server(), postgres.server().fresh_schema()
    app = f"app_{role}"
    for sql in (
        f"CREATE ROLE {app}",
        f"CREATE SCHEMA {schema}",
        f"CREATE TABLE {schema}.orders (id INT PRIMARY KEY)",
        f"GRANT USAGE ON SCHEMA {schema} TO {role}",
        f"GRANT SELECT, DELETE ON {schema}.orders TO {app}",
        f"GRANT {app} TO {role}",
        f"GRANT INSERT, UPDATE (id) ON {schema}.orders TO {role}",
        f"GRANT CREATE ON SCHEMA {schema} TO PUBLIC",
        f"GRANT pg_write_all_data TO {role}",
    ):
        server.run(sql)
    collector = POSTGRES.collector(setting_of("ops", tmp_path, url=server.url_of(role)))
    unit = unit_of("ops", f"{schema}.orders")
    found = extra_of(collector, unit)
    assert found is not None
    for words in (
        f"{role} has INSERT, UPDATE (id) on {schema}.orders, ",
        f"the role {app}",
        "the role pg_write_all_data",
        f"PUBLIC has CREATE on SCHEMA {schema}",
    ):
        assert words in found.why
    carry_out(found.fix, server.run)
    assert extra_of(collector, unit) is None
    assert collector.schema(unit) == {"id": "INT"}


@pytest.mark.parametrize("is_member", [False, True])
def test_a_login_that_owns_a_table_gets_another_one_but_by_changes_it_must_own_it(
    role: str, tmp_path: Path, *, is_member: bool
) -> None:
    server, schema, owner = postgres.server(), postgres.server().fresh_schema(), f"owner_{role}" if is_member else role
    if is_member:
        server.run(f"CREATE ROLE {owner}")
        server.run(f"GRANT {owner} TO {role}")
    server.run(f"CREATE SCHEMA {schema}")
    server.run(f"GRANT USAGE ON SCHEMA {schema} TO {role}")
    server.run(f"CREATE TABLE {schema}.orders (id INT PRIMARY KEY)")
    server.run(f"ALTER TABLE {schema}.orders OWNER TO {owner}")
    server.run(f"ALTER ROLE {role} REPLICATION")
    collector = POSTGRES.collector(setting_of("ops", tmp_path, url=server.url_of(role)))
    unit = unit_of("ops", f"{schema}.orders")
    found = extra_of(collector, unit)
    assert found is not None
    assert found.why == f"{role} owns {schema}.orders"
    assert extra_of(collector, unit, has_changes=True) is None


def test_a_superuser_gets_a_login_that_can_only_read(tmp_path: Path) -> None:
    server, schema = postgres.server(), postgres.server().fresh_schema()
    server.run(f"CREATE SCHEMA {schema}")
    server.run(f"CREATE TABLE {schema}.orders (id INT PRIMARY KEY)")
    unit = unit_of("ops", f"{schema}.orders")
    found = extra_of(POSTGRES.collector(setting_of("ops", tmp_path, url=server.url)), unit)
    assert found is not None
    assert found.why == "postgres is a superuser"
    carry_out(found.fix.rpartition(" (")[0], server.run)
    try:
        collector = POSTGRES.collector(setting_of("ops", tmp_path, url=server.url_of("waterclock_reader")))
        assert extra_of(collector, unit) is None
        assert collector.schema(unit) == {"id": "INT"}
    finally:
        server.run("DROP OWNED BY waterclock_reader")
        server.run("DROP ROLE waterclock_reader")


def test_missing_grants_of_a_postgres_writer_are_reported(role: str, tmp_path: Path) -> None:
    server, schema = postgres.server(), postgres.server().fresh_schema()
    server.run(f"CREATE SCHEMA {schema}")
    deliverer: Any = POSTGRES.deliverer(setting_of("out", tmp_path, url=server.url_of(role), schema=schema))
    totals, ours = unit_of("out", "totals"), unit_of("out", "ours")
    assert granted_step_by_step(lambda: deliverer.require_privileges(totals, is_merge=False), server.run) == [
        ("E821", f"the login {role} does not have USAGE, CREATE on SCHEMA {schema}")
    ]
    assert deliver_all(deliverer, tmp_path) == DELIVERED
    deliverer.require_privileges(totals, is_merge=False)
    server.run(f"CREATE TABLE {schema}.ours (id TEXT)")
    assert granted_step_by_step(lambda: deliverer.require_privileges(ours, is_merge=True), server.run) == [
        ("E821", f"the login {role} does not have SELECT, INSERT, DELETE, UPDATE on {schema}.ours")
    ]


def test_missing_and_unneeded_privileges_of_a_mariadb_login_are_reported(tmp_path: Path) -> None:
    server = mariadb.server()
    source, destination, user = server.fresh_database(), server.fresh_database(), f"user_{next(NUMBERS)}"
    pattern = source.replace("_", "\\_")
    server.run(f"CREATE USER {user}")
    server.run(f"CREATE TABLE {source}.orders (id INT PRIMARY KEY)")
    server.run(f"CREATE TABLE {source}.others (id INT PRIMARY KEY)")
    server.run(f"GRANT SELECT ON {source}.others TO {user}")
    collector = MYSQL.collector(setting_of("web", tmp_path, url=server.url(source, user)))
    orders, login = unit_of("web", "orders"), f"'{user}'@'%'"
    assert granted_step_by_step(lambda: collector.check_privileges(orders, has_changes=False), server.run) == [
        ("E821", f"the login {login} does not have SELECT on `{source}`.`orders`")
    ]
    assert extra_of(collector, orders) is None
    for sql in (
        f"GRANT INSERT, UPDATE ON {source}.orders TO {user}",
        f"GRANT CREATE, DROP ON `{pattern}`.* TO {user}",
        f"GRANT DELETE ON *.* TO {user}",
    ):
        server.run(sql)
    found = extra_of(collector, orders)
    assert found is not None
    assert f"CREATE, DROP on `{pattern}`.*" in found.why
    carry_out(found.fix, server.run)
    assert extra_of(collector, orders) is None
    assert collector.schema(orders) == {"id": "INT"}
    root = extra_of(MYSQL.collector(setting_of("web", tmp_path, url=server.url(source))), orders)
    assert root is not None
    assert root.why.endswith("is an administrator of the server")

    server.run(f"GRANT SELECT ON {destination}.* TO {user}")
    deliverer: Any = MYSQL.deliverer(setting_of("out", tmp_path, url=server.url(destination, user)))
    [(code, why)] = granted_step_by_step(
        lambda: deliverer.require_privileges(unit_of("out", "merged"), is_merge=True), server.run
    )
    needed = "INSERT, DELETE, UPDATE, CREATE TEMPORARY TABLES, CREATE"
    assert (code, why) == ("E821", f"the login {login} does not have {needed} on `{destination}`.*")


def test_privileges_of_a_role_of_mariadb_are_not_missing(tmp_path: Path) -> None:
    server = mariadb.server()
    database, user, role = server.fresh_database(), f"user_{next(NUMBERS)}", f"role_{next(NUMBERS)}"
    for sql in (
        f"CREATE USER {user}",
        f"CREATE ROLE {role}",
        f"GRANT {OF_MYSQL} ON {database}.* TO {role}",
        f"GRANT {role} TO {user}",
        f"SET DEFAULT ROLE {role} FOR {user}",
    ):
        server.run(sql)
    server.run(f"CREATE TABLE {database}.orders (id INT PRIMARY KEY)")
    setting = setting_of("out", tmp_path, url=server.url(database, user))
    deliverer: Any = MYSQL.deliverer(setting)
    deliverer.require_privileges(unit_of("out", "totals"), is_merge=True)
    assert extra_of(MYSQL.collector(setting), unit_of("out", "orders")) is None


def test_missing_and_unneeded_privileges_of_a_firebird_login_are_reported(tmp_path: Path) -> None:
    server = firebird.server()
    database = server.fresh_database()

    def run(sql: str) -> None:
        server.run(sql, database=database)

    def setting(user: str) -> Any:
        return setting_of("web", tmp_path, url=server.url(database, user), password=firebird.WORD)

    run("CREATE TABLE orders (id INTEGER)")
    collector: Any = FIREBIRD.collector(setting(firebird.READER))
    orders = unit_of("web", "orders")
    assert granted_step_by_step(lambda: collector.check_privileges(orders, has_changes=False), run) == [
        ("E821", 'the login "READER" does not have SELECT on "ORDERS"')
    ]
    assert extra_of(collector, orders) is None
    for sql in (
        "GRANT UPDATE (id), DELETE ON orders TO USER reader",
        "GRANT INSERT ON orders TO PUBLIC",
        "GRANT CREATE TABLE TO USER reader",
    ):
        run(sql)
    found = extra_of(collector, orders)
    assert found is not None
    assert 'PUBLIC has INSERT on "ORDERS"' in found.why
    carry_out(found.fix, run)
    assert extra_of(collector, orders) is None
    owner = extra_of(FIREBIRD.collector(setting(firebird.KEEPER)), orders)
    assert owner is not None
    assert owner.why == '"KEEPER" is an administrator or the owner of the database'
    deliverer: Any = FIREBIRD.deliverer(setting(firebird.READER))
    totals = unit_of("web", "totals")
    assert granted_step_by_step(lambda: deliverer.require_privileges(totals, is_merge=False), run) == [
        ("E821", 'the login "READER" does not have CREATE TABLE')
    ]
