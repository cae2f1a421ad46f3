"""Reads the definition of a table from the catalog, and checks that its changes can be collected.

A table that cannot be collected by its changes is refused before a slot is created. Otherwise a table without a replica
identity would be published, and the server would refuse every UPDATE of it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from waterclock.connectors.postgres.database import missing_table_error
from waterclock.connectors.postgres.dialect import table_of
from waterclock.connectors.postgres.logged_columns import LoggedColumns, columns_for_record, columns_of_range
from waterclock.errors import WaterclockError
from waterclock.flow.declarations import Unit

if TYPE_CHECKING:
    from waterclock.connectors.postgres.database import Connection

_TABLE = """
SELECT c.oid, n.nspname, c.relname, c.relkind, c.relpersistence, c.relreplident,
  EXISTS (SELECT FROM pg_inherits AS i WHERE i.inhparent = c.oid), row_security_active(c.oid),
  pg_relation_filenode(c.oid)::bigint, t.xmin::text || ' ' || c.relowner,
  c.relnatts, c.reltoastrelid, c.xmin::text::bigint
FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace LEFT JOIN pg_type AS t ON t.oid = c.reltype
WHERE c.oid = to_regclass(%s)"""
_COLUMNS = """
SELECT a.attnum, a.attname, t.typname, a.attgenerated <> '', a.atthasdef OR a.atthasmissing OR a.attidentity <> '',
  coalesce(a.attnum = ANY (i.indkey), false), a.xmin::text
FROM pg_attribute AS a JOIN pg_type AS t ON t.oid = a.atttypid
LEFT JOIN pg_index AS i ON i.indrelid = a.attrelid AND CASE %(identity)s
  WHEN 'd' THEN i.indisprimary WHEN 'i' THEN i.indisreplident ELSE false END
WHERE a.attrelid = %(oid)s AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum"""
_SCHEMA = """
SELECT n.xmin::text, (txid_snapshot_xmin(txid_current_snapshot()) %% (1::bigint << 32))::text
FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace WHERE c.oid = %s"""
_NAMESAKES = """
SELECT n.nspname, age(n.xmin) <= age(%s::text::xid)
FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
WHERE c.relname = %s AND c.oid <> %s AND c.relkind = 'r' AND c.relpersistence = 'p'"""
_KINDS = {
    "v": "a view",
    "m": "a materialized view",
    "f": "a foreign table",
    "p": "a partitioned table",
    "S": "a sequence",
}
_SAME_VALUES = frozenset({"text", "varchar"})


class UnfitDecoder(WaterclockError):
    """Raised if an output plugin cannot decode the table's changes on this server, but another one may."""


@dataclass(frozen=True, slots=True)
class FollowedColumn:
    """A column of a table that is collected by its changes.

    `number` is assigned by the server and never changes. `is_filled`: rows that existed before the column may have
    values in it. `altered` is a text that changes if the column is altered in any way.
    """

    number: int
    name: str
    kind: str
    is_generated: bool
    is_filled: bool
    is_identity: bool
    altered: str


@dataclass(frozen=True, slots=True)
class PostgresTableFacts:
    """The current definition of a table. `is_whole`: its old rows are logged completely (REPLICA IDENTITY FULL).

    `file` is a number that changes if all rows are rewritten. `named` is a text that changes if the table is renamed or
    its owner changes. `last_number` is the highest number that a column ever had. `toast` is the table of large values:
    a number that changes if ALTER TABLE rewrites all rows, and 0 for a table without one. `changed_by` is the
    transaction that last changed the table's definition.
    """

    oid: int
    schema: str
    name: str
    is_whole: bool
    columns: tuple[FollowedColumn, ...]
    file: int
    named: str
    last_number: int
    toast: int
    changed_by: int

    def to_record(self, before: Mapping[str, Any] | None = None, position: int = 0) -> dict[str, Any]:
        """Return the facts to store with a batch, by which the next batch detects changes of the table.

        Dropped columns are copied from the previous record, so that a new column with the same name is recognized as
        another one. `position` is a log position after all changes of the definition that these facts show.
        """
        now = {each.number: (each.name, each.kind, each.altered) for each in self.columns}
        noted: dict[str, Any] = {
            "oid": self.oid,
            "columns": columns_for_record(now, self.last_number, before, position),
        }
        return noted | {"file": self.file, "named": self.named, "toast": self.toast}

    def columns_since(self, before: Mapping[str, Any], low: int, wanted: Iterable[str]) -> LoggedColumns:
        """Return the columns whose names may be in the log from the position `low` on."""
        now = {each.number: (each.name, each.is_generated) for each in self.columns}
        return columns_of_range(now, self.last_number, before, low, wanted)


def facts_of(connection: Connection, unit: Unit) -> PostgresTableFacts:
    """Read a table's identity, columns and replica identity from PostgreSQL's catalog.

    Raises E804 if it does not exist, E862 if its changes are not logged completely.
    """
    row = connection.execute(_TABLE, (table_of(unit),)).fetchone()
    if row is None:
        raise missing_table_error(connection, unit)
    oid, schema, name, kind, persistence, identity, has_heirs, hides_rows, file, named, *marks = row
    kind, persistence, identity = (it.decode() if isinstance(it, bytes) else it for it in (kind, persistence, identity))
    if kind != "r":
        fix = (
            "collect each of its partitions" if kind == "p" else "collect the table behind it, or leave BY CHANGES out"
        )
        raise _unfit_table_error(
            unit, f"is {_KINDS.get(kind, 'not a table')}", "only changes of plain tables are logged", fix
        )
    if persistence != "p":
        raise _unfit_table_error(
            unit, "is not logged", "it is UNLOGGED or TEMPORARY", f"run ALTER TABLE {unit.path} SET LOGGED"
        )
    if has_heirs:
        why = "a SELECT from it also returns their rows, and the log contains each table separately"
        raise _unfit_table_error(
            unit, "has tables that inherit from it", why, "collect each of them, or leave BY CHANGES out"
        )
    if hides_rows:
        fix = "run ALTER ROLE … BYPASSRLS for the connection's user, or make it the table's owner"
        raise _unfit_table_error(
            unit, "shows this user only some of its rows", "the log contains changes that row level security hides", fix
        )
    columns = tuple(
        FollowedColumn(*each) for each in connection.execute(_COLUMNS, {"oid": oid, "identity": identity}).fetchall()
    )
    if identity != "f" and not any(each.is_identity for each in columns):
        raise _unfit_table_error(
            unit,
            "has no primary key or replica identity",
            "without one the log does not show which row was changed or deleted",
            f"add a primary key, or run ALTER TABLE {unit.path} REPLICA IDENTITY FULL",
        )
    return PostgresTableFacts(oid, schema, name, identity == "f", columns, int(file), str(named), *marks)


def require_followable(
    facts: PostgresTableFacts, unit: Unit, keys: Sequence[str], taken: Iterable[str], plugin: str
) -> None:
    """Raise an error for a table whose log would not contain the keys or the values that the collect needs.

    `keys` and `taken` are columns as the table spells them.

    The error is E862, and an UnfitDecoder if the other plugin would log them.
    """
    named = {each.name for each in facts.columns if facts.is_whole or each.is_identity}
    unknown = [key for key in keys if key not in named]
    if unknown:
        raise _unfit_table_error(
            unit,
            f"is logged without the KEY {', '.join(unknown)}",
            f"the log of a deleted row contains only {', '.join(sorted(named))}",
            f"use that as the KEY, or run ALTER TABLE {unit.path} REPLICA IDENTITY FULL",
        )
    wanted = set(taken)
    generated = [each.name for each in facts.columns if each.is_generated and each.name in wanted]
    if generated and plugin == "pgoutput":
        raise _unfit_table_error(
            unit,
            f"has generated columns: {', '.join(generated)}",
            "pgoutput leaves generated columns out",
            "remove them from the list, and compute them in a TRANSFORM; or use OPTIONS (decoder 'wal2json'), which"
            " needs wal2json on the server",
            kind=UnfitDecoder,
        )


def require_same(
    facts: PostgresTableFacts, before: Mapping[str, Any], unit: Unit, taken: Iterable[str], plugin: str
) -> None:
    """Raise E863 if the table's definition was changed in such a way that changes of rows are missing in the log.

    A new column that is NULL in all older rows is allowed, and so is a dropped one.
    """
    wanted = set(taken)
    if facts.oid != before["oid"]:
        raise _changed_table_error(
            unit,
            "is not the same table as before",
            "it was dropped and created again, and the log is that of the old one",
        )
    if plugin == "wal2json" and _was_renamed_back(facts, before):
        why = "wal2json identifies a table by its name, and leaves out changes under another name"
        raise _changed_table_error(unit, "had another name for a while", why)
    known = before["columns"]
    names = {name for name, *_ in known.values()}
    were_taken = before.get("taken")
    for each in facts.columns:
        if each.name not in wanted:
            continue
        name, kind, *_ = known.get(str(each.number), (None, None))
        if name is None and each.is_filled:
            raise _changed_table_error(
                unit, f"has a new column {each.name} with values", "unchanged rows have values in it too"
            )
        if name is None and each.name in names:
            why = "it was dropped and added again, which emptied it in all rows"
            raise _changed_table_error(unit, f"has a different column {each.name} than before", why)
        if name is not None and name != each.name:
            why = f"unchanged rows are known only under {name}"
            raise _changed_table_error(unit, f"has renamed its column {name} to {each.name}", why)
        if kind is not None and kind != each.kind and not {kind, each.kind} <= _SAME_VALUES:
            why = "the server rewrote all rows, which is not logged"
            raise _changed_table_error(unit, f"has {each.name} as {each.kind}, formerly {kind}", why)
        if name is not None and were_taken is not None and each.name not in were_taken:
            why = "unchanged rows have values in it that were never collected"
            raise _changed_table_error(unit, f"is now collected with {each.name}, which was left out before", why)
    if altered := _altered_with_rows(facts, before, wanted):
        why = "the server rewrote all rows, which is not logged"
        raise _changed_table_error(unit, f"was rewritten with a changed {' or '.join(altered)}", why)


def _was_renamed_back(facts: PostgresTableFacts, before: Mapping[str, Any]) -> bool:
    """Return whether the table was renamed and then renamed back. A change of its owner does not count."""
    (was, owner), (now, owner_now) = str(before.get("named", facts.named)).split(), facts.named.split()
    return was != now and owner == owner_now


def require_logged(
    facts: PostgresTableFacts, before: Mapping[str, Any], unit: Unit, end: int, reached: int, truncated_by: int | None
) -> int | None:
    """Raise E863 for a table that may have been UNLOGGED for a while, so that changes are missing in wal2json's log.

    SET UNLOGGED gives the table a new `file`, and a table with large values also a new `toast`. VACUUM FULL, CLUSTER
    and TRUNCATE keep the `toast`. A table without one is accepted only if the transaction that changed it last emptied
    it. `reached` is the position up to which the log was read, `truncated_by` the last transaction before it that
    emptied the table, and `end` a position after all changes that `facts` show.

    Return the position up to which the log must be read to be certain; None if the table was not UNLOGGED.
    """
    if before.get("file", facts.file) == facts.file:
        return None
    was = before.get("toast", facts.toast)
    if facts.toast == was and (facts.toast or facts.changed_by == truncated_by):
        return None
    known_at = int(before.get("doubt", end))
    if facts.toast == was and reached < known_at:
        return known_at
    why = "all its rows were rewritten, as by SET UNLOGGED and SET LOGGED, and changes between them are not logged"
    raise _changed_table_error(unit, "may have been UNLOGGED for a while", why)


def mark_of_schema(connection: Connection, facts: PostgresTableFacts) -> list[str]:
    """Return the transaction that last altered the table's schema, and the oldest one that may still alter one.

    A rename alters the schema, and so do a GRANT and another owner, which are not distinguished from it.
    """
    return [str(text) for text in connection.execute(_SCHEMA, (facts.oid,)).fetchone() or ("", "0")]


def namesakes_of(
    connection: Connection, facts: PostgresTableFacts, before: Mapping[str, Any], unit: Unit, mark: Sequence[str]
) -> frozenset[str] | None:
    """Return the other schemas with a table of this name if this schema may have had another name for a while.

    wal2json identifies tables by their names: changes under another schema are missing, and those of another table that
    had this name are added. `mark` was read after the end of the log. Return None if the schema was not altered.

    Raises E863 if one of the others was altered too, so that the two may have changed their names.
    """
    if before.get("schema", mark)[0] == mark[0]:
        return None
    found = connection.execute(_NAMESAKES, (before["schema"][1], facts.name, facts.oid)).fetchall()
    if altered := sorted(schema for schema, is_altered in found if is_altered):
        raise moved_schema_error(str(unit), facts.schema, f"{altered[0]}.{facts.name} in a schema altered since")
    return frozenset(schema for schema, _ in found)


def _altered_with_rows(facts: PostgresTableFacts, before: Mapping[str, Any], wanted: Collection[str]) -> list[str]:
    """Return the columns that may have been altered while all rows were rewritten, so that their values may differ.

    VACUUM FULL, CLUSTER and TRUNCATE also write a new file, but alter no column. Servers since the minor releases of
    late 2026 also mark the columns after an altered one, so these are returned too.
    """
    if before.get("file", facts.file) == facts.file:
        return []
    old = {number: parts[2] for number, parts in before["columns"].items() if len(parts) > 2}
    return [
        each.name
        for each in facts.columns
        if each.name in wanted and old.get(str(each.number), each.altered) != each.altered
    ]


def _unfit_table_error(
    unit: Unit, what: str, why: str, fix: str, kind: type[WaterclockError] = WaterclockError
) -> WaterclockError:
    return kind("E862", f"{unit.path} {what}", where=str(unit), why=why, fix=fix)


def _changed_table_error(unit: Unit, what: str, why: str) -> WaterclockError:
    return WaterclockError(
        "E863", f"{unit.path} {what}", where=str(unit), why=f"{why}: changes are missing in the log", fix=AGAIN
    )


def moved_schema_error(where: str, schema: str, found: str) -> WaterclockError:
    """Build the error for a table whose schema may have had another name. `found` is another table of that name."""
    return WaterclockError(
        "E863",
        f"the schema {schema} may have had another name for a while",
        where=where,
        why=f"it was altered (renamed and renamed back, or by a GRANT, which cannot be distinguished), and there is"
        f" {found}: wal2json identifies tables by their names, so changes may be missing or be those of another table",
        fix=f"{AGAIN}; OPTIONS (decoder 'pgoutput'), which identifies tables by their numbers, does so too",
    )


AGAIN = "take a new snapshot of the table: give OPTIONS (snapshot '…') a new value, such as today's date"
