"""Defines the SQL dialects of databases: quoting, literals, types of columns and other differences."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from waterclock.flow.declarations import Unit

_SYNONYMS = {
    "byte": "tinyint",
    "short": "smallint",
    "integer": "int",
    "long": "bigint",
    "real": "float",
    "timestamp_ltz": "timestamp",
}
_DECIMAL = re.compile(r"(?:decimal|dec|numeric)(?:\(\s*(\d+)\s*(?:,\s*(\d+)\s*)?\))?")
_NESTED = ("array", "struct", "map", "variant")
_USUAL_TYPES = {
    **{name: name.upper() for name in ("tinyint", "smallint", "bigint", "float", "double", "boolean", "date")},
    "int": "INTEGER",
    "binary": "BLOB",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class SqlDialect:
    """The SQL dialect of a database.

    - `sign` is the quote character of names. Within a name it is doubled.
    - `place` is the placeholder of a value. If it is `%s`, percent signs in a statement with values are doubled.
    - `as_text` converts a column to a text that is compared as in Spark; `{}` stands for its name.
    - `as_record_text` converts a column of labels to the collation of the record of deliveries.
    - `bind` converts a value of a condition to one that the driver takes.
    - `null` is the NULL of a type in a view, and `label` a label as a text; `{}` stands for the type or the label.
    - `limit` limits the rows of a query; `{}` stands for their number.
    - `local` is the literal of a time, and `micros` a time in microseconds since 1970; `{}` stands for the time.
    - `modulo` is the remainder of a division, and `fingerprint` an aggregate of times that changes if one of them
      changes.
    - `escapes_backslashes`: a backslash in a text is written twice.
    - `is_folded`: a name in lower case means the stored name in upper case, as in SQLAlchemy.
    - `types` maps Spark types to column types, where they differ from those of most databases. `nested` is the column
      type of nested values, `text` that of labels, and `other` that of all other values. `decimal` returns the type for
      a precision and a scale.
    """

    types: Mapping[str, str]
    nested: str
    other: str
    text: str
    as_text: str
    sign: str = '"'
    place: str = "?"
    as_record_text: str = "{}"
    bind: Callable[[Any], Any] = lambda value: value
    null: str = "NULL"
    label: str = "'{}'"
    limit: str = "LIMIT {}"
    local: str = "'{}'"
    micros: str = "{}"
    modulo: str = "({} % {})"
    fingerprint: str = "SUM({})"
    escapes_backslashes: bool = False
    is_folded: bool = False
    decimal: Callable[[int, int], str] = "DECIMAL({},{})".format

    def quote_identifier(self, name: str) -> str:
        """Return a name as a quoted SQL identifier, whatever characters it contains."""
        if self.is_folded and name == name.lower():
            name = name.upper()
        return self.sign + name.replace(self.sign, self.sign * 2) + self.sign

    def quote_text(self, text: str) -> str:
        """Return a text as an SQL literal, for statements that take no values, such as those that create a view."""
        escaped = text.replace("\\", "\\\\") if self.escapes_backslashes else text
        return "'" + escaped.replace("'", "''") + "'"

    def escape(self, sql: str) -> str:
        """Escape percent signs in SQL of a statement with values, for drivers whose placeholder is `%s`."""
        return sql.replace("%", "%%") if self.place == "%s" else sql

    def table_of(self, unit: Unit) -> str:
        """Return the unit's table as a quoted SQL identifier, with its schema if the path has one."""
        return ".".join(self.quote_identifier(part) for part in unit.path.split("."))

    def source_of(self, unit: Unit) -> str:
        """Return the SQL after FROM: the unit's table, or its query in parentheses."""
        if unit.query is None:
            return self.table_of(unit)
        return f"({unit.query.strip().rstrip(';')}\n) AS waterclock_query"

    def sql_type(self, spark_type: str) -> str:
        """Return the column type in which values of a Spark type are stored."""
        kind = spark_type.strip().lower()
        if decimal := _DECIMAL.fullmatch(kind):
            return self.decimal(int(decimal[1] or 10), int(decimal[2] or 0))
        kind = _SYNONYMS.get(kind, kind)
        usual = _USUAL_TYPES.get(kind, self.nested if kind.startswith(_NESTED) else self.other)
        return self.types.get(kind, usual)
