"""Creates or alters the destination table in a PostgreSQL database, and refuses tables with rows that others wrote.

The first delivery creates the destination, with a unique index on its keys or an index on `timelabel`. Missing columns
are added. An existing column keeps its type, so the server may parse a text into a uuid, an enum or a json. New columns
have these types: whole numbers, REAL, DOUBLE PRECISION, NUMERIC(p,s), BOOLEAN, DATE, TIMESTAMPTZ for instants,
TIMESTAMP for times without a zone, BYTEA, arrays of these, JSONB for deeper nesting, and TEXT.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from waterclock.connectors.delivering import Delivery
from waterclock.connectors.postgres.dialect import DIALECT, quote_identifier, session_in, table_of
from waterclock.connectors.postgres.stored_columns import PostgresDestinationColumn, read_stored_columns
from waterclock.connectors.sql.cascades import ForeignKey, require_no_cascades
from waterclock.connectors.sql.destination import (
    DestinationIndex,
    add_columns,
    create_table,
    require_own_rows,
    require_short_names,
    stored_names,
    wanted_columns,
    wanted_index,
)
from waterclock.connectors.sql.destination_errors import ambiguous_columns_error
from waterclock.connectors.sql.replace_where import replaced_rows
from waterclock.flow.declarations import Unit
from waterclock.timelabel.label import TIMELABEL

if TYPE_CHECKING:
    from waterclock.connectors.postgres.database import Connection

_LONGEST_NAME = 63  # bytes
_RULES = {"c": "CASCADE", "n": "SET NULL", "d": "SET DEFAULT"}
_NAMES = (
    "(SELECT array_agg(quote_ident(a.attname) ORDER BY k.place) FROM unnest({0}) WITH ORDINALITY AS k (attnum, place)"
    " JOIN pg_attribute AS a ON a.attrelid = {1} AND a.attnum = k.attnum)"
)
_CASCADES = (
    f"SELECT c.conrelid::regclass::text, c.confdeltype::text, {_NAMES.format('c.conkey', 'c.conrelid')},"
    f" {_NAMES.format('c.confkey', 'c.confrelid')} FROM pg_constraint AS c WHERE c.contype = 'f'"
    " AND c.confrelid = to_regclass(%s) AND c.confdeltype IN ('c', 'n', 'd') AND c.conrelid <> c.confrelid"
)


def prepare_table(
    connection: Connection, unit: Unit, delivery: Delivery, *, is_ours: bool
) -> Mapping[str, PostgresDestinationColumn]:
    """Create or alter the destination for a delivery's columns. Return its columns by lower-case name.

    Raises E813 for names that are too long or differ only by case; E820 for a table with rows of other owners, or to
    which other tables refer.
    """
    why = f"PostgreSQL names have up to {_LONGEST_NAME} bytes"
    require_short_names(unit, delivery, _LONGEST_NAME, why, is_in_bytes=True)
    session, wanted = session_in(connection), wanted_columns(delivery, DIALECT)
    known = read_stored_columns(connection, unit)
    if not known:
        create_table(session, unit, wanted)
    else:
        require_own_rows(session, unit, delivery, stored_names(known), is_ours=is_ours)
        _require_unambiguous_names(unit, delivery, [known[name.lower()] for name in wanted if name.lower() in known])
        add_columns(session, unit, wanted, known)
        if not delivery.is_by_label or TIMELABEL in known:
            _require_no_cascades(connection, unit, delivery, known)
    if index := wanted_index(delivery):
        spelt = tuple(stored_names(known).get(name.lower(), name) for name in index.columns)
        _create_index(connection, unit, replace(index, columns=spelt))
    return read_stored_columns(connection, unit)


def _require_unambiguous_names(unit: Unit, delivery: Delivery, columns: Sequence[PostgresDestinationColumn]) -> None:
    for column in columns:
        if column.alike:
            raise ambiguous_columns_error(unit, delivery, column.alike, column.name)


def _require_no_cascades(
    connection: Connection, unit: Unit, delivery: Delivery, there: Mapping[str, PostgresDestinationColumn]
) -> None:
    found = connection.execute(_CASCADES, (table_of(unit),)).fetchall()
    references = [
        ForeignKey(
            table, table.replace("%", "%%"), _RULES[rule], *(_escape_percents(names) for names in (own, referred))
        )
        for table, rule, own, referred in found
    ]
    rows = replaced_rows("SELECT *", unit, delivery, DIALECT, stored_names(there))
    fix = "make the constraint ON DELETE NO ACTION DEFERRABLE INITIALLY DEFERRED"
    require_no_cascades(unit, delivery, references, rows, session_in(connection).first_of, fix)


def _escape_percents(names: Sequence[str]) -> tuple[str, ...]:
    return tuple(name.replace("%", "%%") for name in names)


def _create_index(connection: Connection, unit: Unit, wanted: DestinationIndex) -> None:
    """Create the wanted index, unless an existing index serves the same purpose."""
    rows = connection.execute(
        "SELECT i.indisunique, array_agg(a.attname::text ORDER BY k.place) FROM pg_index AS i"
        " CROSS JOIN LATERAL unnest(i.indkey::int2[]) WITH ORDINALITY AS k (attnum, place)"
        " LEFT JOIN pg_attribute AS a ON a.attrelid = i.indrelid AND a.attnum = k.attnum"
        " WHERE i.indrelid = to_regclass(%s) AND i.indisvalid AND i.indimmediate"
        " AND i.indpred IS NULL AND i.indexprs IS NULL AND k.place <= i.indnkeyatts"
        " GROUP BY i.indexrelid, i.indisunique",
        (table_of(unit),),
    ).fetchall()
    if any(wanted.is_served_by(members, is_unique=unique) for unique, members in rows):
        return
    listed = ", ".join(map(quote_identifier, wanted.columns))
    connection.execute(f"CREATE {'UNIQUE ' if wanted.is_unique else ''}INDEX ON {table_of(unit)} ({listed})")
