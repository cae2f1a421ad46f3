"""Reads the privileges of a MariaDB or MySQL login from `information_schema`. Those of its roles are not known."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from waterclock.connectors.sql.delivery_record import DELIVERIES
from waterclock.connectors.sql.privileges import NEW_LOGIN, WRITING, Privilege, PrivilegeReader, SourceLogin
from waterclock.connectors.sql.sessions import SqlSession
from waterclock.connectors.sql.versioned_views import is_behind_view
from waterclock.flow.declarations import Unit

# each server runs only the comment of its own kind
_LOGIN = (
    "SELECT CURRENT_USER(), COALESCE(/*!80000 CURRENT_ROLE(), *//*M!100005 CURRENT_ROLE(), */ 'NONE'),"
    " COALESCE(%s, DATABASE())"
)
_GRANTED = """
SELECT PRIVILEGE_TYPE, '', '', GRANTEE FROM information_schema.USER_PRIVILEGES WHERE GRANTEE IN (%s, %s)
UNION ALL
SELECT PRIVILEGE_TYPE, TABLE_SCHEMA, '', GRANTEE FROM information_schema.SCHEMA_PRIVILEGES
  WHERE %s LIKE TABLE_SCHEMA AND GRANTEE IN (%s, %s)
UNION ALL
SELECT PRIVILEGE_TYPE, TABLE_SCHEMA, TABLE_NAME, GRANTEE FROM information_schema.TABLE_PRIVILEGES
  WHERE TABLE_SCHEMA = %s AND TABLE_NAME = %s AND GRANTEE IN (%s, %s)
"""
_EXISTS = "SELECT 1 FROM information_schema.TABLES WHERE TABLE_SCHEMA = %s AND TABLE_NAME = %s"
_PUBLIC = "'PUBLIC'@''"
_ADMINISTRATOR = frozenset({"SUPER", "CREATE USER"})


def _split(unit_path: str) -> tuple[str | None, str]:
    schema, _, name = unit_path.rpartition(".")
    return schema or None, name


def _read_login(session: SqlSession, path: str) -> tuple[str, str, bool]:
    """Return the login as a grantee, the database of a table, and whether the login has an active role."""
    user, role, database = session.first_of(_LOGIN, (_split(path)[0],))
    name, _, host = str(user).rpartition("@")
    return f"'{name}'@'{host}'", str(database), role != "NONE"


def _read_granted(session: SqlSession, login: str, database: str, table: str) -> Iterator[Privilege]:
    whose = (login, _PUBLIC)
    quote = session.dialect.quote_identifier
    rows = session.rows_of(_GRANTED, (*whose, database, *whose, database, table, *whose))
    for name, schema, of_table, grantee in rows:
        on = f"{quote(schema) if schema else '*'}.{quote(of_table) if of_table else '*'}"
        yield Privilege(str(name), on, "PUBLIC" if grantee == _PUBLIC else _quote_account(str(grantee)))


def _quote_account(grantee: str) -> str:
    """Return an account as SQL. `information_schema` writes it as 'name'@'host', without escapes."""
    return "@".join(f"'{part.replace(chr(39), chr(39) * 2)}'" for part in grantee[1:-1].rsplit("'@'", 1))


def _describe_source(session: SqlSession, unit: Unit, has_changes: bool) -> SourceLogin:  # noqa: FBT001
    del has_changes
    login, database, _ = _read_login(session, unit.path)
    quote, table = session.dialect.quote_identifier, _split(unit.path)[1]
    reading = (Privilege("SELECT", f"{quote(database)}.{quote(table)}", _quote_account(login)),)
    granted = list(_read_granted(session, login, database, table))
    if any(each.on == "*.*" and each.name in _ADMINISTRATOR for each in granted):
        power = f"{login} is an administrator of the server"
        return SourceLogin(power=power, reading=reading, new_login=f"CREATE USER {NEW_LOGIN} IDENTIFIED BY '…'")
    return SourceLogin(tuple(each for each in granted if each.name in WRITING), reading=reading)


def _find_missing(session: SqlSession, unit: Unit, is_merge: bool) -> Sequence[Privilege]:  # noqa: FBT001
    quote = session.dialect.quote_identifier
    missing: dict[Privilege, None] = {}
    rows = ["SELECT", "INSERT", "DELETE", *(["UPDATE", "CREATE TEMPORARY TABLES"] if is_merge else [])]
    for path, needed in ((unit.path, rows), (DELIVERIES, ["SELECT", "INSERT"])):
        login, database, has_role = _read_login(session, path)
        if has_role:
            return ()  # the privileges of a role are not in these views
        table = _split(path)[1]
        exists = session.first_of(_EXISTS, (database, table)) is not None
        is_new = not exists or (path == unit.path and is_behind_view(unit))
        wanted = [*needed, *(["CREATE"] if is_new else [])]
        has = {each.name for each in _read_granted(session, login, database, table)}
        account = _quote_account(login)
        missing |= {Privilege(name, f"{quote(database)}.*", account): None for name in wanted if name not in has}
    return list(missing)


PRIVILEGES = PrivilegeReader(_describe_source, _find_missing)
