"""Maps the types of PostgreSQL columns to Spark types, and refuses types without a counterpart.

If a column has such a type, the statement must declare a Spark type for it. STRING works for every column, as every
type has a text form.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from waterclock.connectors.postgres.dialect import source_of
from waterclock.connectors.sql.columns import SqlColumn
from waterclock.flow.declarations import Unit

if TYPE_CHECKING:
    from waterclock.connectors.postgres.database import Connection

_SIMPLE = {
    "bool": "BOOLEAN",
    "int2": "SMALLINT",
    "int4": "INT",
    "int8": "BIGINT",
    "oid": "BIGINT",
    "float4": "FLOAT",
    "float8": "DOUBLE",
    "bytea": "BINARY",
    "date": "DATE",
    "timestamp": "TIMESTAMP",
    "timestamptz": "TIMESTAMP",
}
# types that other systems represent as text
_TEXTS = frozenset(
    {
        *("text", "varchar", "bpchar", "char", "name", "citext", "json", "jsonb", "uuid", "xml", "time", "timetz"),
        *("inet", "cidr", "macaddr", "macaddr8", "ltree"),
    }
)
# without json and jsonb: in an array's JSON, such elements are not texts
_IN_ARRAYS = frozenset({"bool", "int2", "int4", "int8", "float4", "float8", *(_TEXTS - {"json", "jsonb"})})
_MOST_DIGITS = 38


@dataclass(frozen=True, slots=True, kw_only=True)
class PostgresColumn(SqlColumn):
    """A column of a table or query. `kind` is the name of its base type or, for an array, of its elements' type."""

    is_array: bool

    @property
    def type_name(self) -> str:
        """The name of the column's type for messages."""
        return f"{self.kind}[]" if self.is_array else self.kind

    @property
    def suggested_type(self) -> str:
        """The type that an error suggests to declare."""
        return "DECIMAL(20,6)" if self.type_name == "numeric" else "STRING"


def columns_of(connection: Connection, unit: Unit) -> list[PostgresColumn]:
    """Return the columns of a table or query, as the server describes them."""
    described = connection.execute(f"SELECT * FROM {source_of(unit)} LIMIT 0").description or []
    oids = [column.type_code for column in described]
    rows = connection.execute(
        "SELECT t.oid, t.typname, t.typtype, coalesce(e.typname, ''), coalesce(e.typtype, '')"
        " FROM pg_type AS t LEFT JOIN pg_type AS e ON e.oid = t.typelem AND t.typcategory = 'A' WHERE t.oid = ANY(%s)",
        (oids,),
    )
    types = {oid: (name, kind, of, of_kind) for oid, name, kind, of, of_kind in rows}
    return [_describe_column(each.name, types[each.type_code], each.precision, each.scale) for each in described]


def _describe_column(
    name: str, type_names: tuple[str, str, str, str], precision: int | None, scale: int | None
) -> PostgresColumn:
    type_name, kind, element, element_kind = type_names
    if element:
        of = "text" if element_kind == "e" else element
        spark = f"ARRAY<{_SIMPLE.get(of, 'STRING')}>" if of in _IN_ARRAYS else None
        return PostgresColumn(name, element, is_array=True, spark=spark, why=f"{element}[] has no counterpart in Spark")
    if kind == "e" or type_name in _TEXTS:
        return PostgresColumn(name, type_name, is_array=False, spark="STRING")
    if type_name == "numeric":
        return _describe_numeric(name, precision, scale)
    spark = _SIMPLE.get(type_name)
    return PostgresColumn(name, type_name, is_array=False, spark=spark, why=f"{type_name} has no counterpart in Spark")


def _describe_numeric(name: str, precision: int | None, scale: int | None) -> PostgresColumn:
    if precision is None:
        why = "numeric without a precision holds any number of digits, DECIMAL does not"
        return PostgresColumn(name, "numeric", is_array=False, spark=None, why=why)
    digits, after = precision, scale or 0
    if digits > _MOST_DIGITS or not 0 <= after <= digits:
        why = f"numeric({digits},{after}) is more than DECIMAL can hold"
        return PostgresColumn(name, "numeric", is_array=False, spark=None, why=why)
    return PostgresColumn(name, "numeric", is_array=False, spark=f"DECIMAL({digits},{after})")
