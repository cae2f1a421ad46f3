"""Compares the privileges of a database login with those that the tables of its connection need. Reads only catalogs.

Each kind of database has a `PrivilegeReader`, which queries its catalog. `check --connect` reports missing
privileges as errors (E821, E861), and warns of privileges that a connection does not need if it is only collected from
(W206). Database files have no logins: the user of the operating system decides.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeVar, runtime_checkable

from waterclock.connectors.sql.database_errors import malformed_catalog_error
from waterclock.errors import WaterclockError

if TYPE_CHECKING:
    from waterclock.connectors.sql.sessions import ReadableDatabase, SqlSession
    from waterclock.flow.declarations import Unit

WRITING = ("INSERT", "UPDATE", "DELETE", "TRUNCATE", "CREATE", "ALTER", "DROP")
"""Privileges to change rows or tables, which collecting does not need."""
REPLICATION = "REPLICATION"
NEW_LOGIN = "waterclock_reader"
_DOCUMENTED = "docs/explain/security-model.md#rights-to-grant"
_Connection = TypeVar("_Connection")
_NAME = r"""(?:[A-Za-z_][\w$]*|"(?:[^"]|"")+"|`(?:[^`]|``)+`)"""
_PRIVILEGE_SQL = re.compile(rf"{_NAME}(?: [A-Z_]+)*(?: \({_NAME}\))?")
_OBJECT_SQL = re.compile(rf"(?:SCHEMA )?(?:{_NAME}|\*)(?:\.(?:{_NAME}|\*))?|")
_GRANTEE_SQL = re.compile(rf"{_NAME}|'(?:[^'\\]|'')*'@'(?:[^'\\]|'')*'")
_MALFORMED = (AttributeError, TypeError, ValueError)
"""The errors of a reader whose answers do not have the expected rows, columns or names."""


@dataclass(frozen=True, slots=True)
class Privilege:
    """A privilege of a login: its name, its object and who has or needs it, all as SQL.

    Without an object it is a privilege of the whole database or, with `is_role`, the membership in a role. Raises
    ValueError for other texts, which a server may send: administrators run the statements that are built from them.
    """

    name: str
    on: str
    grantee: str
    is_role: bool = False

    def __post_init__(self) -> None:
        for pattern, text in ((_PRIVILEGE_SQL, self.name), (_OBJECT_SQL, self.on), (_GRANTEE_SQL, self.grantee)):
            if not pattern.fullmatch(text):
                raise ValueError(f"{text[:80]!r} is not SQL of a privilege")


@dataclass(frozen=True, slots=True)
class SourceLogin:
    """The login with which a table is collected.

    `extra` are privileges that it does not need, `missing` those that it needs. `power` is set if it can do everything,
    or everything with the table: another login is then needed, as this one may be an application's. `new_login` is the
    statement that creates such a login, and `reading` are the privileges that it needs.
    """

    extra: tuple[Privilege, ...] = ()
    missing: tuple[Privilege, ...] = ()
    reading: tuple[Privilege, ...] = ()
    power: str = ""
    new_login: str = ""


@dataclass(frozen=True, slots=True)
class PrivilegeReader:
    """The catalog queries of a kind of database.

    - `of_source` describes the login for a collected table. The last argument is true for BY CHANGES.
    - `missing` lists the privileges that a delivery needs and that the login does not have. The last argument is true
      for MERGE.
    """

    of_source: Callable[[SqlSession, Unit, bool], SourceLogin]
    missing: Callable[[SqlSession, Unit, bool], Sequence[Privilege]]


@runtime_checkable
class PrivilegedSource(Protocol):
    """A source whose login has privileges."""

    def check_privileges(self, unit: Unit, *, has_changes: bool) -> SourceLogin | None:
        """Return the login's privileges; None if they are not known. Raises E821 or E861 if one is missing."""


@runtime_checkable
class PrivilegedDestination(Protocol):
    """A destination whose login has privileges."""

    def require_privileges(self, unit: Unit, *, is_merge: bool) -> None:
        """Raise E821 if the login has no privilege to deliver to the table, or to create it."""


@dataclass(frozen=True, slots=True)
class ExtraPrivileges:
    """The privileges that a login does not need, in words, and the statements that correct it."""

    why: str
    fix: str


def check_source(
    database: ReadableDatabase[_Connection],
    session_in: Callable[[_Connection], SqlSession],
    reader: PrivilegeReader,
    unit: Unit,
    *,
    has_changes: bool,
) -> SourceLogin | None:
    """Return the privileges of the login for a collected table; None for a query, or if they cannot be read.

    Raises E821 if the login may not read the table, E861 if it may not read the server's log, E810 for a malformed
    answer.
    """
    if unit.query is not None:
        return None
    found = None
    try:
        with database.open_for_reading(str(unit)) as connection:
            session = session_in(connection)
            found = reader.of_source(session, unit, has_changes)
            if not found.missing:
                session.execute(f"SELECT 1 FROM {session.dialect.table_of(unit)} WHERE 1 = 0")
    except _MALFORMED as error:
        raise malformed_catalog_error(str(unit), str(error)) from error
    except WaterclockError as error:
        if error.code != "E821" or found is None:
            return None  # a missing table or a server that does not answer is reported by other checks
        found = SourceLogin(missing=tuple(each for each in found.reading if each.name == "SELECT"))
    if found.missing:
        raise missing_privileges_error(unit, found.missing, "collected")
    return found


def require_for_delivery(session: SqlSession, reader: PrivilegeReader, unit: Unit, *, is_merge: bool) -> None:
    """Raise E821 if the login has no privilege to deliver to a table, or to create it; E810 for a malformed answer."""
    try:
        missing = reader.missing(session, unit, is_merge)
    except _MALFORMED as error:
        raise malformed_catalog_error(str(unit), str(error)) from error
    if missing:
        raise missing_privileges_error(unit, missing, "published to")


def missing_privileges_error(unit: Unit, missing: Sequence[Privilege], use: str) -> WaterclockError:
    """Build the error for privileges that a login does not have, with the statements that grant them."""
    is_of_log = all(each.name == REPLICATION for each in missing)
    return WaterclockError(
        "E861" if is_of_log else "E821",
        f"{unit} cannot be {use}: a privilege is missing",
        where=str(unit),
        why=f"the login {missing[0].grantee} does not have {_list_words(missing)}",
        fix=f"run in the database: {'; '.join(grant_statements(missing))}",
    )


def describe_extra(logins: Sequence[SourceLogin]) -> ExtraPrivileges | None:
    """Describe the privileges that a connection does not need, with the statements that revoke them.

    If the login is an owner or administrator, the statements create another login: revoking could stop others.
    """
    powers = tuple(dict.fromkeys(each.power for each in logins if each.power))
    extra = tuple(dict.fromkeys(privilege for each in logins for privilege in each.extra))
    if powers:
        reading = tuple(dict.fromkeys(privilege for each in logins for privilege in each.reading))
        new = [Privilege(each.name, each.on, NEW_LOGIN) for each in reading]
        statements = [*dict.fromkeys(each.new_login for each in logins if each.new_login), *grant_statements(new)]
        fix = f"create a login for Waterclock, and use it: {'; '.join(statements)} ({_DOCUMENTED})"
        return ExtraPrivileges("; ".join(powers), fix)
    if not extra:
        return None
    whose = dict.fromkeys(each.grantee for each in extra)
    has = [f"{grantee} has {_list_words([each for each in extra if each.grantee == grantee])}" for grantee in whose]
    # a role that can write may be the one that lets the login read
    own = dict.fromkeys(
        privilege for each in logins if any(one.is_role for one in each.extra) for privilege in each.reading
    )
    statements = [*grant_statements(own), *revoke_statements(extra)]
    return ExtraPrivileges("; ".join(has), f"run in the database: {'; '.join(statements)}")


def _list_words(privileges: Sequence[Privilege]) -> str:
    roles = [f"the role {each.name}" for each in privileges if each.is_role]
    others = [f"{names}{on.replace(' ON ', ' on ', 1)}" for names, on, _ in _group(privileges, has_roles=False)]
    return ", ".join([*others, *roles])


def grant_statements(privileges: Iterable[Privilege]) -> list[str]:
    """Return the statements that grant privileges, one for each object and grantee."""
    return [
        f"ALTER ROLE {grantee} {names}" if names == REPLICATION else f"GRANT {names}{on} TO {grantee}"
        for names, on, grantee in _group(privileges)
    ]


def revoke_statements(privileges: Iterable[Privilege]) -> list[str]:
    """Return the statements that revoke privileges, one for each object and grantee."""
    return [f"REVOKE {names}{on} FROM {grantee}" for names, on, grantee in _group(privileges)]


def _group(privileges: Iterable[Privilege], *, has_roles: bool = True) -> list[tuple[str, str, str]]:
    """Return the privileges for each object and grantee, the SQL with the object, and the grantee."""
    names: dict[tuple[str, str], list[str]] = {}
    for each in privileges:
        if each.is_role and not has_roles:
            continue
        names.setdefault((each.on, each.grantee), []).append(each.name)
    return [(", ".join(found), f" ON {on}" if on else "", grantee) for (on, grantee), found in names.items()]
