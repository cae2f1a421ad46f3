"""The words and statements for privileges that a login does not need, or does not have."""

from __future__ import annotations

import pytest

from tests.systems import unit_of
from waterclock.connectors.sql.privileges import (
    NEW_LOGIN,
    REPLICATION,
    Privilege,
    SourceLogin,
    describe_extra,
    missing_privileges_error,
)

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


def test_a_role_is_revoked_after_what_it_may_have_given_the_login_to_read() -> None:
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
