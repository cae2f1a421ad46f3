"""Messages and statements about privileges that a login has without need, or is missing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.systems import unit_of
from waterclock.connectors.mysql.privileges import _quote_account
from waterclock.connectors.postgres.dialect import DIALECT
from waterclock.connectors.postgres.privileges import _LOGIN, _TABLE, PRIVILEGES
from waterclock.connectors.sql.privileges import (
    NEW_LOGIN,
    REPLICATION,
    Privilege,
    SourceLogin,
    check_source,
    describe_extra,
    missing_privileges_error,
    require_for_delivery,
)
from waterclock.connectors.sql.sessions import SqlResult, SqlSession
from waterclock.errors import WaterclockError

ORDERS = unit_of("ops", "shop.orders")
READING = (Privilege("USAGE", "SCHEMA shop", "ann"), Privilege("SELECT", "shop.orders", "ann"))


def login(*extra: Privilege, power: str = "") -> SourceLogin:
    return SourceLogin(extra, (), READING, power, f"CREATE ROLE {NEW_LOGIN} LOGIN PASSWORD '…'" if power else "")


def test_a_login_that_can_only_read_has_nothing_extra() -> None:
    assert describe_extra([login(), login()]) is None


def test_privileges_are_revoked_from_whom_they_were_granted_to_once_for_each_object() -> None:
    create = Privilege("CREATE", "SCHEMA shop", "PUBLIC")
    found = describe_extra(
        [
            login(Privilege("INSERT", "shop.orders", "ann"), Privilege("UPDATE (id)", "shop.orders", "ann"), create),
            login(Privilege("DELETE", "shop.items", "ann"), create),
        ]
    )
    assert found is not None
    assert found.why == (
        "ann has INSERT, UPDATE (id) on shop.orders, DELETE on shop.items; PUBLIC has CREATE on SCHEMA shop"
    )
    assert found.fix == (
        "run in the database: REVOKE INSERT, UPDATE (id) ON shop.orders FROM ann; "
        "REVOKE CREATE ON SCHEMA shop FROM PUBLIC; REVOKE DELETE ON shop.items FROM ann"
    )


def test_a_fix_grants_read_access_to_the_login_before_it_revokes_the_role() -> None:
    found = describe_extra([login(Privilege("app", "", "ann", is_role=True))])
    assert found is not None
    assert found.why == "ann has the role app"
    assert found.fix == (
        "run in the database: GRANT USAGE ON SCHEMA shop TO ann; GRANT SELECT ON shop.orders TO ann; "
        "REVOKE app FROM ann"
    )


def test_an_owner_is_left_as_it_is_and_another_login_is_created() -> None:
    found = describe_extra([login(Privilege("INSERT", "shop.items", "ann")), login(power="ann owns shop.orders")])
    assert found is not None
    assert found.why == "ann owns shop.orders"
    assert found.fix == (
        f"create a login for Waterclock, and use it: CREATE ROLE {NEW_LOGIN} LOGIN PASSWORD '…'; "
        f"GRANT USAGE ON SCHEMA shop TO {NEW_LOGIN}; GRANT SELECT ON shop.orders TO {NEW_LOGIN} "
        "(docs/explain/security-model.md#rights-to-grant)"
    )
    assert "REVOKE" not in found.fix


@pytest.mark.parametrize(
    ("missing", "code", "why", "fix"),
    [
        (
            READING,
            "E821",
            "the login ann does not have USAGE on SCHEMA shop, SELECT on shop.orders",
            "run in the database: GRANT USAGE ON SCHEMA shop TO ann; GRANT SELECT ON shop.orders TO ann",
        ),
        (
            (Privilege(REPLICATION, "", "ann"),),
            "E861",
            "the login ann does not have REPLICATION",
            "run in the database: ALTER ROLE ann REPLICATION",
        ),
        (
            (Privilege("CREATE TABLE", "", '"ANN"'),),
            "E821",
            'the login "ANN" does not have CREATE TABLE',
            'run in the database: GRANT CREATE TABLE TO "ANN"',
        ),
    ],
)
def test_a_missing_privilege_is_an_error_with_the_statement_that_grants_it(
    missing: tuple[Privilege, ...], code: str, why: str, fix: str
) -> None:
    error = missing_privileges_error(ORDERS, missing, "collected")
    assert error.what == "ops.shop.orders cannot be collected: a privilege is missing"
    assert (error.code, error.where, error.why, error.fix) == (code, "ops.shop.orders", why, fix)


MISREADABLE = [
    [],
    [("ann",)],
    [(None, False, False, False)],
    [("ann; DROP TABLE shop.orders", False, False, False)],
    [('"ann" TO bob; --"', False, False, False)],
]


@pytest.mark.parametrize("rows", MISREADABLE)
@pytest.mark.parametrize("use", ["collected", "published to"])
def test_a_malformed_answer_of_the_catalog_is_an_error_and_no_statement(
    rows: list[tuple[object, ...]], use: str
) -> None:
    def run(sql: str, values: object) -> SqlResult:
        del values
        if sql == _LOGIN:
            return SqlResult(rows)
        return SqlResult([(1, "shop.orders", "shop", False, False)] if sql == _TABLE else [("INSERT", "shop.orders")])

    class Database:
        @contextmanager
        def open_for_reading(self, where: str) -> Iterator[SqlSession]:
            del where
            yield SqlSession(DIALECT, run)

    def check() -> None:
        if use == "collected":
            check_source(Database(), lambda session: session, PRIVILEGES, ORDERS, has_changes=False)
        else:
            require_for_delivery(SqlSession(DIALECT, run), PRIVILEGES, ORDERS, is_merge=False)

    with pytest.raises(WaterclockError) as refused:
        check()
    assert (refused.value.code, refused.value.where) == ("E810", "ops.shop.orders")
    assert "DROP" not in str(refused.value.fix)


@pytest.mark.parametrize(
    "grantee", ["ann", '"Ann ""A"" B"', "PUBLIC", "`ann`", "'o''brien'@'%'", "''@'localhost'", "_r$1"]
)
def test_names_of_grantees_are_sql(grantee: str) -> None:
    assert Privilege("INSERT", "", grantee).grantee == grantee


@pytest.mark.parametrize(
    "parts",
    [
        ("INSERT", "shop.orders", "ann, PUBLIC"),
        ("INSERT", "shop.orders", "'a'b'@'%'"),
        ("INSERT", "shop.orders", "'a\\'@'%'"),
        ("INSERT", "shop.orders TO bob; --", "ann"),
        ("ALL ON a TO bob; SELECT", "shop.orders", "ann"),
        ("INSERT (id) ON x TO y; --", "shop.orders", "ann"),
    ],
)
def test_other_texts_of_a_server_are_no_privilege(parts: tuple[str, str, str]) -> None:
    with pytest.raises(ValueError, match="not SQL"):
        Privilege(*parts)


def test_an_account_of_mysql_is_escaped() -> None:
    assert _quote_account("'o'brien'@'%'") == "'o''brien'@'%'"
    assert _quote_account("'a'@'b'@'10.0.0.1'") == "'a''@''b'@'10.0.0.1'"
