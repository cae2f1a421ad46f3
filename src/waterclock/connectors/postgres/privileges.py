"""Reads the privileges of a PostgreSQL login from the catalog, including those of its roles and of PUBLIC."""

from __future__ import annotations

from collections.abc import Sequence

from waterclock.connectors.sql.delivery_record import DELIVERIES
from waterclock.connectors.sql.privileges import (
    NEW_LOGIN,
    REPLICATION,
    WRITING,
    Privilege,
    PrivilegeReader,
    SourceLogin,
)
from waterclock.connectors.sql.sessions import SqlSession
from waterclock.connectors.sql.versioned_views import is_behind_view
from waterclock.flow.declarations import Unit

_NEW_LOGIN = f"CREATE ROLE {NEW_LOGIN} LOGIN PASSWORD '…'"
_LOGIN = (
    "SELECT quote_ident(rolname), rolsuper, rolreplication OR rolsuper, EXISTS (SELECT FROM pg_roles AS r"
    " WHERE r.rolname = 'pg_write_all_data' AND pg_has_role(r.oid, 'USAGE')) FROM pg_roles WHERE rolname = current_user"
)
_TABLE = (
    "SELECT c.oid, quote_ident(n.nspname) || '.' || quote_ident(c.relname), quote_ident(n.nspname),"
    " has_schema_privilege(n.oid, 'USAGE'), pg_has_role(c.relowner, 'USAGE')"
    " FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace"
    " WHERE c.relkind IN ('r', 'v', 'm', 'p', 'f') AND c.relname = %s"
    " AND CASE WHEN %s = '' THEN pg_table_is_visible(c.oid) ELSE n.nspname = %s END"
)
_WRITES = """
SELECT name, object, CASE WHEN grantee = 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(grantee)) END
FROM (
  SELECT acl.privilege_type AS kind, acl.privilege_type AS name, %s AS object, acl.grantee
    FROM pg_class AS c, aclexplode(coalesce(c.relacl, acldefault('r', c.relowner))) AS acl WHERE c.oid = %s
  UNION ALL
  SELECT acl.privilege_type, acl.privilege_type || ' (' || quote_ident(a.attname) || ')', %s, acl.grantee
    FROM pg_attribute AS a, aclexplode(a.attacl) AS acl WHERE a.attrelid = %s
  UNION ALL
  SELECT acl.privilege_type, acl.privilege_type, 'SCHEMA ' || quote_ident(n.nspname), acl.grantee
    FROM pg_namespace AS n, aclexplode(coalesce(n.nspacl, acldefault('n', n.nspowner))) AS acl
    WHERE n.oid = (SELECT relnamespace FROM pg_class WHERE oid = %s)
) AS granted
WHERE kind = ANY (%s) AND (grantee = 0 OR pg_has_role(grantee, 'USAGE'))
"""
_MISSING_ON_TABLE = "SELECT name FROM unnest(%s::text[]) AS name WHERE NOT has_table_privilege(%s, name)"
_MISSING_ON_SCHEMA = "SELECT name FROM unnest(%s::text[]) AS name WHERE NOT has_schema_privilege(%s, name)"
# a schema that the login may not use is the current one for no login, but search_path still names it
_SCHEMA = (
    "SELECT nspname, quote_ident(nspname) FROM pg_namespace WHERE nspname = CASE WHEN %s <> '' THEN %s"
    " ELSE coalesce(current_schema(), trim('\"' FROM current_setting('search_path'))) END"
)


def _find_table(session: SqlSession, path: str) -> Sequence[object] | None:
    schema, _, name = path.rpartition(".")
    found: Sequence[object] | None = session.first_of(_TABLE, (name, schema, schema))
    return found


def _describe_source(session: SqlSession, unit: Unit, has_changes: bool) -> SourceLogin:  # noqa: FBT001
    login, is_superuser, may_replicate, writes_all = session.first_of(_LOGIN)
    found = _find_table(session, unit.path)
    if found is None:
        return SourceLogin()
    oid, table, schema, has_usage, is_owner = found
    usage, select = Privilege("USAGE", f"SCHEMA {schema}", login), Privilege("SELECT", str(table), login)
    replication = (Privilege(REPLICATION, "", login),) if has_changes else ()
    reading = (usage, select, *replication)
    if is_superuser:
        return SourceLogin(power=f"{login} is a superuser", reading=reading, new_login=_NEW_LOGIN)
    may_read = session.first_of("SELECT has_any_column_privilege(%s, 'SELECT')", (oid,))[0]
    missing = [each for each, has in ((usage, has_usage), (select, may_read)) if not has]
    missing += () if may_replicate else replication
    # BY CHANGES with pgoutput needs the ownership of the table
    power = f"{login} owns {table}" if is_owner and not has_changes else ""
    rows = session.rows_of(_WRITES, (table, oid, table, oid, oid, list(WRITING)))
    extra = [_of_login(Privilege(*row), login) for row in rows if not (is_owner and row[1] == table)]
    extra += [Privilege("pg_write_all_data", "", login, is_role=True)] if writes_all else []
    return SourceLogin(tuple(dict.fromkeys(extra)), tuple(missing), reading, power, _NEW_LOGIN if power else "")


def _of_login(granted: Privilege, login: str) -> Privilege:
    """Return a privilege of the login or of PUBLIC, or else the login's membership in the role that has it."""
    is_own = granted.grantee in {login, "PUBLIC"}
    return granted if is_own else Privilege(granted.grantee, "", login, is_role=True)


def _find_missing(session: SqlSession, unit: Unit, is_merge: bool) -> list[Privilege]:  # noqa: FBT001
    login = session.first_of(_LOGIN)[0]
    rows = ["SELECT", "INSERT", "DELETE", *(["UPDATE"] if is_merge else [])]
    missing: dict[Privilege, None] = {}
    for path, needed in ((unit.path, rows), (DELIVERIES, ["SELECT", "INSERT"])):
        found = _find_table(session, path)
        is_new = found is None or (path == unit.path and is_behind_view(unit))
        schema = path.rpartition(".")[0]
        place = session.first_of(_SCHEMA, (schema, schema))
        if place is not None:
            wanted = ["USAGE", "CREATE"] if is_new else ["USAGE"]
            names = session.rows_of(_MISSING_ON_SCHEMA, (wanted, place[0]))
            missing |= {Privilege(str(name), f"SCHEMA {place[1]}", login): None for (name,) in names}
        if found is not None and not is_new:
            names = session.rows_of(_MISSING_ON_TABLE, (needed, found[0]))
            missing |= {Privilege(str(name), str(found[1]), login): None for (name,) in names}
    return list(missing)


PRIVILEGES = PrivilegeReader(_describe_source, _find_missing)
