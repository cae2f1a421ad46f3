"""What a server says of a table whose changes are followed: which it is, its columns, and by what its rows are told.

What cannot be followed is refused before a slot is made: a publication of a table without an identity would have the
server refuse every UPDATE of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from waterclock.connectors.postgres.database import no_table, table_of
from waterclock.errors import WaterclockError
from waterclock.flow.declarations import Unit

if TYPE_CHECKING:
    from waterclock.connectors.postgres.database import Connection

_TABLE = """
SELECT c.oid, n.nspname, c.relname, c.relkind, c.relpersistence, c.relreplident
FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace WHERE c.oid = to_regclass(%s)"""
_COLUMNS = """
SELECT a.attnum, a.attname, t.typname, a.attgenerated <> '', a.atthasdef OR a.atthasmissing OR a.attidentity <> '',
  coalesce(a.attnum = ANY (i.indkey), false)
FROM pg_attribute AS a JOIN pg_type AS t ON t.oid = a.atttypid
LEFT JOIN pg_index AS i ON i.indrelid = a.attrelid AND CASE %(identity)s
  WHEN 'd' THEN i.indisprimary WHEN 'i' THEN i.indisreplident ELSE false END
WHERE a.attrelid = %(oid)s AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum"""
_KINDS = {
    "v": "a view",
    "m": "a materialized view",
    "f": "a foreign table",
    "p": "a partitioned table",
    "S": "a sequence",
}
_ALIKE = frozenset({"text", "varchar"})


@dataclass(frozen=True, slots=True)
class FollowedColumn:
    """A column. `number` is the server's own and stays with it; `is_filled`: rows that were there have values of it."""

    number: int
    name: str
    kind: str
    is_generated: bool
    is_filled: bool
    is_identity: bool


@dataclass(frozen=True, slots=True)
class TableFacts:
    """A table as it is now. `is_whole`: its old rows are logged whole (REPLICA IDENTITY FULL)."""

    oid: int
    schema: str
    name: str
    is_whole: bool
    columns: tuple[FollowedColumn, ...]

    def noted(self) -> dict[str, Any]:
        """Return what is kept with a batch, to see at the next one what became of the table."""
        return {"oid": self.oid, "columns": {str(each.number): [each.name, each.kind] for each in self.columns}}


def facts_of(connection: Connection, unit: Unit) -> TableFacts:
    """Look a table up.

    Raises  E804 where it is not there, E862 where its changes are not logged, or not by its rows
    """
    row = connection.execute(_TABLE, (table_of(unit),)).fetchone()
    if row is None:
        raise no_table(connection, unit)
    oid, schema, name, kind, persistence, identity = row
    kind, persistence, identity = (it.decode() if isinstance(it, bytes) else it for it in (kind, persistence, identity))
    if kind != "r":
        fix = (
            "collect each of its partitions" if kind == "p" else "collect the table behind it, or leave BY CHANGES out"
        )
        raise _refused(unit, f"is {_KINDS.get(kind, 'no table')}", "changes are logged of plain tables", fix)
    if persistence != "p":
        raise _refused(unit, "is not logged", "it is UNLOGGED or TEMPORARY", f"ALTER TABLE {unit.path} SET LOGGED")
    columns = tuple(
        FollowedColumn(*each) for each in connection.execute(_COLUMNS, {"oid": oid, "identity": identity}).fetchall()
    )
    if identity != "f" and not any(each.is_identity for each in columns):
        raise _refused(
            unit,
            "has no identity",
            "without a primary key the log does not say which row was changed or deleted",
            f"give it a primary key, or ALTER TABLE {unit.path} REPLICA IDENTITY FULL",
        )
    return TableFacts(oid, schema, name, identity == "f", columns)


def require_followable(facts: TableFacts, unit: Unit, keys: Sequence[str], taken: Iterable[str], plugin: str) -> None:
    """Refuse what the log would not tell: keys that it does not name, values that it does not hold.

    `keys` and `taken` are columns as the table spells them. Raises  E862
    """
    named = {each.name for each in facts.columns if facts.is_whole or each.is_identity}
    unknown = [key for key in keys if key not in named]
    if unknown:
        raise _refused(
            unit,
            f"is not told by {', '.join(unknown)}",
            f"of a row that is deleted the log holds {', '.join(sorted(named))}",
            f"make that the KEY, or ALTER TABLE {unit.path} REPLICA IDENTITY FULL",
        )
    wanted = set(taken)
    generated = [each.name for each in facts.columns if each.is_generated and each.name in wanted]
    if generated and plugin == "pgoutput":
        raise _refused(
            unit,
            f"generates {', '.join(generated)}",
            "pgoutput leaves generated columns out",
            "leave the column off the list, and compute it in a TRANSFORM; or install wal2json at the server",
        )


def require_same(facts: TableFacts, before: Mapping[str, Any], unit: Unit, taken: Iterable[str]) -> None:
    """Refuse changes of the table itself that the log does not tell row by row.

    A new column that is NULL in all older rows is no such change, nor is one that went.
    Raises  E863
    """
    wanted = set(taken)
    if facts.oid != before["oid"]:
        raise _changed(
            unit, "is another table than before", "it was dropped and made anew, and the log is of the old one"
        )
    known = before["columns"]
    for each in facts.columns:
        if each.name not in wanted:
            continue
        name, kind = known.get(str(each.number), (None, None))
        if name is None and each.is_filled:
            raise _changed(
                unit, f"has a new column {each.name}, with values", "rows that were not changed since have them too"
            )
        if name is not None and name != each.name:
            why = f"rows that were not changed since are known by {name} alone"
            raise _changed(unit, f"calls its column {name} {each.name} now", why)
        if kind is not None and kind != each.kind and not {kind, each.kind} <= _ALIKE:
            why = "the server wrote all rows anew, and the log does not tell of it"
            raise _changed(unit, f"has {each.name} as {each.kind}, which was {kind}", why)


def _refused(unit: Unit, what: str, why: str, fix: str) -> WaterclockError:
    return WaterclockError("E862", f"{unit.path} {what}", where=str(unit), why=why, fix=fix)


def _changed(unit: Unit, what: str, why: str) -> WaterclockError:
    return WaterclockError("E863", f"{unit.path} {what}", where=str(unit), why=f"{why}: the log lacks them", fix=AGAIN)


AGAIN = "take the table whole once more: give OPTIONS (snapshot '…') a value that it did not have, such as today's date"
