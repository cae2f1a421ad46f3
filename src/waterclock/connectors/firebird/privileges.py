"""Reads the privileges of a Firebird login from the catalog, including those of PUBLIC, but not those of roles."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from waterclock.connectors.sql.delivery_record import DELIVERIES
from waterclock.connectors.sql.privileges import NEW_LOGIN, Privilege, PrivilegeReader, SourceLogin
from waterclock.connectors.sql.sessions import SqlSession
from waterclock.connectors.sql.versioned_views import is_behind_view
from waterclock.flow.declarations import Unit

_LOGIN = (
    "SELECT TRIM(CURRENT_USER), TRIM(CURRENT_ROLE), TRIM(MON$OWNER), (SELECT TRIM(RDB$OWNER_NAME) FROM RDB$RELATIONS"
    " WHERE RDB$RELATION_NAME = ?) FROM MON$DATABASE"
)
_GRANTED = (
    "SELECT TRIM(RDB$RELATION_NAME), TRIM(RDB$PRIVILEGE), TRIM(RDB$FIELD_NAME), TRIM(RDB$USER) FROM RDB$USER_PRIVILEGES"
    " WHERE RDB$RELATION_NAME IN (?, 'SQL$TABLES') AND TRIM(RDB$USER) IN (CURRENT_USER, 'PUBLIC')"
)
_ON_TABLES = {"S": "SELECT", "I": "INSERT", "U": "UPDATE", "D": "DELETE"}
_ADMINISTRATOR, _ADMINISTRATORS = "SYSDBA", "RDB$ADMIN"
_CREATE = "CREATE TABLE"
_NO_ROLE = "NONE"


def _stored_name(session: SqlSession, path: str) -> str:
    return session.dialect.quote_identifier(path)[1:-1].replace('""', '"')


def _read_granted(session: SqlSession, table: str) -> Iterator[Privilege]:
    quote = session.dialect.quote_identifier
    for relation, letter, column, user in session.rows_of(_GRANTED, (table,)):
        grantee = user if user == "PUBLIC" else quote(user)
        if relation == table and letter in _ON_TABLES:
            yield Privilege(f"{_ON_TABLES[letter]}{f' ({quote(column)})' if column else ''}", quote(table), grantee)
        elif relation != table and letter == "C":
            yield Privilege(_CREATE, "", grantee)


def _describe_source(session: SqlSession, unit: Unit, has_changes: bool) -> SourceLogin:  # noqa: FBT001
    del has_changes
    quote, table = session.dialect.quote_identifier, _stored_name(session, unit.path)
    user, role, owner, owner_of_table = session.first_of(_LOGIN, (table,))
    login = quote(user)
    reading = (Privilege("SELECT", quote(table), login),)
    if user in {_ADMINISTRATOR, owner} or role == _ADMINISTRATORS:
        power = f"{login} is an administrator or the owner of the database"
    elif user == owner_of_table:
        power = f"{login} owns {quote(table)}"
    else:
        granted = list(_read_granted(session, table))
        extra = tuple(each for each in granted if not each.name.startswith("SELECT"))
        may_read = role != _NO_ROLE or any(each.name.startswith("SELECT") for each in granted)
        is_known = owner_of_table is not None
        return SourceLogin(extra, reading if is_known and not may_read else (), reading)
    return SourceLogin(power=power, reading=reading, new_login=f"CREATE USER {NEW_LOGIN} PASSWORD '…'")


def _find_missing(session: SqlSession, unit: Unit, is_merge: bool) -> Sequence[Privilege]:  # noqa: FBT001
    quote = session.dialect.quote_identifier
    missing: dict[Privilege, None] = {}
    rows = ["SELECT", "INSERT", "DELETE", *(["UPDATE"] if is_merge else [])]
    for path, needed in ((unit.path, rows), (DELIVERIES, ["SELECT", "INSERT"])):
        table = _stored_name(session, path)
        user, role, owner, owner_of_table = session.first_of(_LOGIN, (table,))
        if user in {_ADMINISTRATOR, owner} or role != _NO_ROLE:
            return ()
        has = {each.name for each in _read_granted(session, table)}
        is_new = owner_of_table is None or (path == unit.path and is_behind_view(unit))
        if is_new:
            missing |= {} if _CREATE in has else {Privilege(_CREATE, "", quote(user)): None}
        elif user != owner_of_table:
            missing |= {Privilege(name, quote(table), quote(user)): None for name in needed if name not in has}
    return list(missing)


PRIVILEGES = PrivilegeReader(_describe_source, _find_missing)
