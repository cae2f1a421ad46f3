"""Delivers sealed slices to a Firebird database in one transaction, once per claim.

`sql/database_delivery` describes the modes, and `sql/delivery_after_ddl` the steps. Deliveries of a publish run one
after another: each inserts a row with the same key in a second transaction that is never committed, so that the next
delivery must wait. Killing a claim first ends the connection that delivers it.

New columns are whole numbers, FLOAT, DOUBLE PRECISION, NUMERIC up to 18 digits, BOOLEAN, DATE, TIMESTAMP (instants in
UTC), BLOB SUB_TYPE BINARY, and BLOB SUB_TYPE TEXT for all others. Texts of a key are VARCHAR. A MERGE stages its rows
in a temporary table, which remains, empty.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from waterclock.connectors.delivering import Delivery
from waterclock.connectors.firebird.columns import FirebirdColumn, columns_of, kind_at, stored_name
from waterclock.connectors.firebird.database import DIALECT, FirebirdConnection, FirebirdDatabase
from waterclock.connectors.firebird.privileges import PRIVILEGES
from waterclock.connectors.slice_rows import to_portable_types
from waterclock.connectors.sql.capabilities import GONE
from waterclock.connectors.sql.cascades import foreign_keys, require_no_cascades
from waterclock.connectors.sql.database_errors import lock_timeout_error
from waterclock.connectors.sql.delivery_after_ddl import AfterDdlDeliverer, DdlWriter
from waterclock.connectors.sql.delivery_record import DELIVERIES
from waterclock.connectors.sql.destination import (
    DestinationIndex,
    add_columns,
    create_table,
    is_indexed,
    require_own_rows,
    require_short_names,
    stored_names,
    wanted_columns,
    wanted_index,
)
from waterclock.connectors.sql.exact_values import inexact_value_error, require_exact_values
from waterclock.connectors.sql.replace_where import replaced_rows
from waterclock.connectors.sql.sessions import SqlSession
from waterclock.connectors.sql.slice_tuples import rows_of_slice
from waterclock.connectors.sql.staged_slices import StagedSlice, merge, require_distinct_keys, stage_of
from waterclock.connectors.sql.versioned_views import Columns
from waterclock.connectors.sql.view_tables import SqlViewTables
from waterclock.errors import WaterclockError
from waterclock.flow.declarations import Unit
from waterclock.timelabel.label import TIMELABEL

if TYPE_CHECKING:
    import pyarrow as pa

_NAME = "VARCHAR({}) CHARACTER SET UTF8 NOT NULL"
_CREATE = (
    f"CREATE TABLE {DELIVERIES} (project {_NAME.format(120)}, claim BIGINT NOT NULL, publish {_NAME.format(120)},"
    f' label {_NAME.format(64)}, outcome {_NAME.format(16)}, mode {_NAME.format(64)}, "ROW_COUNT" BIGINT NOT NULL,'
    " deleted_count BIGINT NOT NULL, note BLOB SUB_TYPE TEXT CHARACTER SET UTF8 NOT NULL,"
    " delivered_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP NOT NULL, PRIMARY KEY (project, claim, label))"
)
_LOCK_PUBLISH = (
    f'INSERT INTO {DELIVERIES} (project, claim, publish, label, outcome, mode, "ROW_COUNT", deleted_count, note)'
    " VALUES (?, -1, ?, ?, '', '', 0, 0, '')"
)
_MARK_CONNECTION = "SELECT RDB$SET_CONTEXT('USER_SESSION', 'waterclock', ?) FROM RDB$DATABASE"
_END_CONNECTION = (
    "DELETE FROM MON$ATTACHMENTS WHERE MON$ATTACHMENT_ID IN (SELECT MON$ATTACHMENT_ID FROM MON$CONTEXT_VARIABLES"
    " WHERE MON$VARIABLE_NAME = 'waterclock' AND MON$VARIABLE_VALUE = ?)"
)
_DOMAINS = "SELECT TRIM(RDB$FIELD_NAME), TRIM(RDB$FIELD_SOURCE) FROM RDB$RELATION_FIELDS WHERE RDB$RELATION_NAME = ?"
_INDEXES = (
    "SELECT i.RDB$INDEX_NAME, i.RDB$UNIQUE_FLAG, TRIM(s.RDB$FIELD_NAME) FROM RDB$INDICES AS i"
    " JOIN RDB$INDEX_SEGMENTS AS s ON s.RDB$INDEX_NAME = i.RDB$INDEX_NAME WHERE i.RDB$RELATION_NAME = ?"
    " AND COALESCE(i.RDB$INDEX_INACTIVE, 0) = 0 ORDER BY 1, s.RDB$FIELD_POSITION"
)
_CASCADES = (
    "SELECT '', TRIM(c.RDB$RELATION_NAME), c.RDB$CONSTRAINT_NAME, TRIM(r.RDB$DELETE_RULE), TRIM(own.RDB$FIELD_NAME),"
    " TRIM(its.RDB$FIELD_NAME) FROM RDB$REF_CONSTRAINTS AS r"
    " JOIN RDB$RELATION_CONSTRAINTS AS c ON c.RDB$CONSTRAINT_NAME = r.RDB$CONSTRAINT_NAME"
    " JOIN RDB$RELATION_CONSTRAINTS AS k ON k.RDB$CONSTRAINT_NAME = r.RDB$CONST_NAME_UQ"
    " JOIN RDB$INDEX_SEGMENTS AS own ON own.RDB$INDEX_NAME = c.RDB$INDEX_NAME"
    " JOIN RDB$INDEX_SEGMENTS AS its ON its.RDB$INDEX_NAME = k.RDB$INDEX_NAME"
    " AND its.RDB$FIELD_POSITION = own.RDB$FIELD_POSITION WHERE k.RDB$RELATION_NAME = ?"
    " AND r.RDB$DELETE_RULE IN ('CASCADE', 'SET NULL', 'SET DEFAULT')"
    " AND c.RDB$RELATION_NAME <> k.RDB$RELATION_NAME ORDER BY 2, 3, own.RDB$FIELD_POSITION"
)
_LONGEST_KEY = 240  # characters of all keys together, with pages of 4 KB
_BLOCK_VALUES, _BLOCK_BYTES, _LONG = 500, 30_000, 2_000
_UNIQUE = 335544665
_FLOATS = ("float", "double precision")
_TableColumns = Mapping[str, FirebirdColumn]


@dataclass(frozen=True, slots=True)
class FirebirdTables(SqlViewTables):
    """The tables and views of a Firebird database."""

    connection: FirebirdConnection

    def kind_at(self, unit: Unit) -> str:
        """Return `table` or `view`, the kind of object with the unit's name; empty if the name is free."""
        return kind_at(self.connection, unit)

    def columns(self, parts: Sequence[Unit]) -> dict[str, Columns]:
        """Map the path of each table that exists to its columns."""
        there = (part for part in parts if kind_at(self.connection, part) == "table")
        return {part.path: [(each.name, each.kind) for each in columns_of(self.connection, part)] for part in there}

    def drop(self, part: Unit) -> None:
        """Drop a table, if it exists."""
        if self.kind_at(part):
            self.session.execute(f"DROP TABLE {DIALECT.table_of(part)}")

    def _show(self, view: str, query: str) -> None:
        self.session.execute(f"CREATE OR ALTER VIEW {view} AS {query}" if query else f"DROP VIEW {view}")

    def _instant(self, delivered_at: datetime) -> datetime:
        # the server records its local time, in a zone that it does not name
        now: datetime = self.session.first_of("SELECT LOCALTIMESTAMP FROM RDB$DATABASE")[0]
        return datetime.now(UTC) - (now - delivered_at)


def _quote(stored: str) -> str:
    return '"' + stored.replace('"', '""') + '"'


def _short_hash(*parts: object) -> str:
    return hashlib.sha256("\0".join(map(str, parts)).encode()).hexdigest()[:32]


def _read_columns(connection: FirebirdConnection, unit: Unit) -> dict[str, FirebirdColumn]:
    """Return the columns of the destination by lower-case name; empty if there is no table."""
    return {each.name.lower(): each for each in columns_of(connection, unit)} if kind_at(connection, unit) else {}


def _wanted_columns(delivery: Delivery) -> dict[str, str]:
    wanted = wanted_columns(delivery, DIALECT)
    long = [key for key in delivery.keys if wanted[key] == DIALECT.other]
    return {**wanted, **dict.fromkeys(long, f"VARCHAR({_LONGEST_KEY // max(1, len(long))}) CHARACTER SET UTF8")}


def _create_index(session: SqlSession, unit: Unit, wanted: DestinationIndex, known: _TableColumns) -> None:
    if is_indexed(wanted, session.rows_of(_INDEXES, (stored_name(unit.path),))):
        return
    listed = ", ".join(DIALECT.quote_identifier(known[name.lower()].name) for name in wanted.columns)
    name, kind = _short_hash(unit.path, *wanted.columns)[:12], "UNIQUE INDEX" if wanted.is_unique else "INDEX"
    session.execute(f"CREATE {kind} waterclock_{name} ON {DIALECT.table_of(unit)} ({listed})")


def _view_error(unit: Unit, delivery: Delivery) -> WaterclockError:
    return WaterclockError(
        "E875",
        f"{unit} is a view, which cannot take a delivery",
        where=f"{unit}@{delivery.label_text}",
        why="a view over other tables may not store the rows that it is given; nothing was changed",
        fix="publish to the table behind it, or to another name",
    )


def _convert_values(values: pa.Array, into: FirebirdColumn, spark_type: str, where: str) -> list[Any]:
    import pyarrow as pa

    require_exact_values(values, into.stored, where)
    is_text, is_bytes, is_bool = (
        getattr(pa.types, f"is_{kind}")(values.type) for kind in ("string", "binary", "boolean")
    )
    is_other = {
        "octets": not (is_bytes or is_text or pa.types.is_nested(values.type)),
        "boolean": not is_bool,
        **dict.fromkeys(_FLOATS, is_bytes or is_text),
    }.get(into.kind, is_bytes)
    if is_other and values.null_count < len(values):
        raise inexact_value_error(into.stored, values.drop_null()[0].as_py(), "stores values of another kind", where)
    if pa.types.is_timestamp(values.type) and into.kind in {"timestamp", "date"}:
        values = values.cast(pa.timestamp("us", values.type.tz and "UTC")).cast(pa.timestamp("us"))
        values = values.cast(pa.date32()) if into.kind == "date" else values
    elif not (pa.types.is_date(values.type) and into.kind == "date"):
        values = to_portable_types(values, spark_type)
    plain: list[Any] = values.to_pylist()
    if into.kind in _FLOATS:
        return [value if value is None else float(value) for value in plain]
    if into.kind == "octets":
        return [value.encode() if isinstance(value, str) else value for value in plain]
    if into.kind in {"text", "numeric", "smallint", "integer", "bigint"}:
        return [_to_text(value, is_number=into.kind != "text") for value in plain]
    return plain


def _to_text(value: Any, *, is_number: bool) -> str | None:
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool):
        return str(int(value)) if is_number else str(value).lower()
    return format(Decimal(repr(value)), "f") if is_number and isinstance(value, float) else str(value)


def _split_into_blocks(rows: Iterator[tuple[Any, ...]], width: int) -> Iterator[list[tuple[Any, ...]]]:
    """Split rows into blocks, each of which fits into one statement."""
    held: list[tuple[Any, ...]] = []
    size = 0
    for row in rows:
        bytes_of_row = sum(min(_LONG, 4 * len(value)) if isinstance(value, str | bytes) else 8 for value in row)
        if held and (size + bytes_of_row > _BLOCK_BYTES or (len(held) + 1) * width > _BLOCK_VALUES):
            yield held
            held, size = [], 0
        held.append(row)
        size += bytes_of_row
    if held:
        yield held


def _parameter_type(values: Sequence[Any]) -> str:
    """Return the SQL type of a parameter that can take all of these values."""
    there = [value for value in values if value is not None]
    longest = max((len(value) for value in there if isinstance(value, str | bytes)), default=1)
    first = there[0] if there else ""
    if isinstance(first, str | bytes):
        is_text = isinstance(first, str)
        if longest * 4 > _LONG:
            return "BLOB SUB_TYPE TEXT CHARACTER SET UTF8" if is_text else "BLOB SUB_TYPE BINARY"
        return f"VARCHAR({max(1, longest)}) CHARACTER SET {'UTF8' if is_text else 'OCTETS'}"
    kinds = {bool: "BOOLEAN", float: "DOUBLE PRECISION", datetime: "TIMESTAMP", int: "BIGINT"}
    return kinds.get(type(first), "DATE")


def _prepare_table(
    connection: FirebirdConnection,
    unit: Unit,
    delivery: Delivery,
    is_ours: bool,  # noqa: FBT001 - passed by position, as a function of DdlWriter
    comment: str,
) -> _TableColumns:
    """Create or alter the destination for a delivery. Return its columns by lower-case name.

    Raises E813 for names that are too long, E820 for a table with rows of other owners, or to which other tables refer,
    and E875 for a view.
    """
    longest = 31 if connection.attachment.info.engine_version < 4 else 63
    require_short_names(unit, delivery, longest, f"names have up to {longest} bytes there", is_in_bytes=True)
    session, known, wanted = connection.in_session(), _read_columns(connection, unit), _wanted_columns(delivery)
    if not known:
        create_table(session, unit, wanted)
        if comment:
            session.execute(f"COMMENT ON TABLE {DIALECT.table_of(unit)} IS '{comment}'")
    else:
        if kind_at(connection, unit) == "view":
            raise _view_error(unit, delivery)
        require_own_rows(session, unit, delivery, stored_names(known), is_ours=is_ours)
        if not delivery.is_by_label or TIMELABEL in known:
            keys = foreign_keys(session.rows_of(_CASCADES, (stored_name(unit.path),)), _quote)
            replaced = replaced_rows("SELECT *", unit, delivery, DIALECT, stored_names(known))
            require_no_cascades(unit, delivery, keys, replaced, session.first_of, "drop the constraint", DIALECT.limit)
        add_columns(session, unit, wanted, known)
    known = _read_columns(connection, unit)
    if index := wanted_index(delivery):
        _create_index(session, unit, index, known)
    return known


def _stage(
    connection: FirebirdConnection, unit: Unit, delivery: Delivery, there: _TableColumns, number: int
) -> StagedSlice:
    table = f"waterclock_{_short_hash(unit.path)[:12]}_{number}"
    domains = dict(connection.in_session().rows_of(_DOMAINS, (stored_name(unit.path),)))
    columns = [there[name.lower()].name for name in delivery.column_names]
    listed = [f"{DIALECT.quote_identifier(name)} {_quote(domains[stored_name(name)])}" for name in columns]
    listed.append(f"{DIALECT.quote_identifier(GONE)} BOOLEAN NOT NULL")
    connection.run(f"RECREATE GLOBAL TEMPORARY TABLE {table} ({', '.join(listed)})")
    keys = ", ".join(DIALECT.quote_identifier(there[key.lower()].name) for key in delivery.keys)
    connection.run(f"CREATE INDEX {table}_key ON {table} ({keys})")
    return stage_of(connection.in_session(), table, delivery, stored_names(there))


def _put(
    connection: FirebirdConnection,
    table: str,
    delivery: Delivery,
    there: _TableColumns,
    with_marks: bool,  # noqa: FBT001 - passed by position, as a function of DdlWriter
) -> int:
    names = [there[name.lower()].name for name in delivery.column_names] + ([GONE] if with_marks else [])
    head = f"INSERT INTO {table} ({', '.join(map(DIALECT.quote_identifier, names))}) VALUES"
    where, count = f"{delivery.publish}@{delivery.label_text}", 0

    def convert(values: pa.Array, name: str, kind: str) -> list[Any]:
        return _convert_values(values, there[name], kind, where)

    for rows in _split_into_blocks(rows_of_slice(delivery, convert, with_marks=with_marks), len(names)):
        count += len(rows)
        kinds = [_parameter_type([row[at] for row in rows]) for at in range(len(names))]
        places = [[f"p{one}_{at}" for at in range(len(names))] for one in range(len(rows))]
        declared = ", ".join(f"{place} {kind} = ?" for each in places for place, kind in zip(each, kinds, strict=True))
        inserts = " ".join(f"{head} (:{', :'.join(each)});" for each in places)
        connection.run(f"EXECUTE BLOCK ({declared}) AS BEGIN {inserts} END", [one for row in rows for one in row])
    return count


def _merge(
    connection: FirebirdConnection, unit: Unit, delivery: Delivery, there: _TableColumns, staged: StagedSlice
) -> tuple[int, int]:
    _put(connection, staged.name, delivery, there, True)  # noqa: FBT003
    texts = [key for key in delivery.keys if there[key.lower()].kind == "text"]
    better = "a collation that distinguishes case, and no blanks at the end of texts"
    require_distinct_keys(connection.in_session(), unit, delivery, staged, texts, better)
    return merge(connection.in_session(), unit, delivery, staged)


def _mark_at(connection: FirebirdConnection, part: Unit) -> str:
    sql = "SELECT RDB$DESCRIPTION FROM RDB$RELATIONS WHERE RDB$RELATION_NAME = ?"
    row = connection.in_session().first_of(sql, (stored_name(part.path),))
    return str(row[0] or "") if row else ""


_WRITER = DdlWriter(
    session=FirebirdConnection.in_session,
    tables=lambda connection: FirebirdTables(connection.in_session(), connection),
    columns=_read_columns,
    transaction=FirebirdConnection.transaction,
    prepare_table=_prepare_table,
    stage=_stage,
    put=_put,
    merge=_merge,
    mark_at=_mark_at,
    privileges=PRIVILEGES,
)


@dataclass(frozen=True, slots=True)
class FirebirdDeliverer(AfterDdlDeliverer[FirebirdConnection, FirebirdColumn]):
    """Delivers to a Firebird database."""

    database: FirebirdDatabase

    @property
    def _destination(self) -> FirebirdDatabase:
        return self.database

    @property
    def _writer(self) -> DdlWriter[FirebirdConnection, FirebirdColumn]:
        return _WRITER

    def _take_claim(self, connection: FirebirdConnection, project: str, claim: int, where: str) -> None:
        del where
        connection.run(_MARK_CONNECTION, (_short_hash(project, claim),))

    def _end_other(self, where: str, project: str, claim: int) -> None:
        with self.database.open_for_writing(where) as connection:
            connection.run(_END_CONNECTION, (_short_hash(project, claim),))

    def _prepare(self, connection: FirebirdConnection, project: str, publish: str) -> None:
        from firebird.driver import DatabaseError

        if not self._has_record(connection):
            try:
                connection.run(_CREATE)
                connection.run(f"CREATE INDEX {DELIVERIES}_newest ON {DELIVERIES} (publish)")
            except DatabaseError:
                if not self._has_record(connection):  # else another runner has just created it
                    raise
        try:
            with connection.turn.cursor() as cursor:
                cursor.execute(_LOCK_PUBLISH, (project, publish, _short_hash(publish)))
        except DatabaseError as error:
            if _UNIQUE not in (error.gds_codes or ()):
                raise
            why = f"{self.database.name}: waited {self.database.timeout:g} seconds for another delivery of {publish}"
            raise lock_timeout_error(f"{publish} of {project}", why, by="runner") from error

    def _has_record(self, connection: FirebirdConnection) -> bool:
        sql = "SELECT 1 FROM RDB$RELATIONS WHERE RDB$RELATION_NAME = ?"
        return connection.in_session().first_of(sql, (DELIVERIES.upper(),)) is not None
