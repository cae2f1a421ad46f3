"""Describes the columns of a database table or query, and queries that read some of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from waterclock.connectors.arrow_values import Times, arrow_type
from waterclock.connectors.column_matching import CollectedColumn, ColumnMatch, SourceColumn
from waterclock.connectors.sql.window_bounds import WindowFilter
from waterclock.connectors.windowing import NO_TIME
from waterclock.errors import WaterclockError
from waterclock.flow.declarations import Unit
from waterclock.timelabel.label import TIMELABEL

if TYPE_CHECKING:
    import pyarrow as pa

_Database = TypeVar("_Database")
_Wanted = TypeVar("_Wanted", bound="SqlRequestedColumn[Any]")
_Column = TypeVar("_Column", bound="SqlColumn")


@dataclass(frozen=True, slots=True)
class SqlColumn:
    """A column of a table or query. `kind` is its type as the database names it.

    `spark` is the column's Spark type, unless the statement declares one. If it is None, the column is STRING or, if
    `why` is set, a type must be declared for the reason `why`.
    """

    name: str
    kind: str
    spark: str | None
    why: str = ""

    @property
    def source_column(self) -> SourceColumn:
        """The column in the form that `column_matching.match` takes."""
        return SourceColumn(self.name, self.spark)

    @property
    def suggested_type(self) -> str:
        """The type that an error message suggests for the declaration."""
        return "STRING"


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpressionColumn(SqlColumn):
    """A column with two SQL expressions: `expression` reads its value, `text` its value as text (STRING)."""

    expression: str
    text: str

    @property
    def time_kind(self) -> str | None:
        """The kind of time of the column, as `WindowFilter` uses it; None for a column that is not a time."""
        return None


@dataclass(frozen=True, slots=True)
class SqlRequestedColumn(Generic[_Column]):
    """A column to read. `taken` has its name and type in the table, `column` its description in the database."""

    taken: CollectedColumn
    column: _Column


@dataclass(frozen=True, slots=True)
class SqlExtract(Generic[_Database, _Wanted]):
    """A query for rows of a table or query, which either this process or a Python worker of Spark runs.

    `source` is the table or query in SQL, `where` the name of the unit in error messages.
    """

    database: _Database
    where: str
    source: str
    wanted: tuple[_Wanted, ...]
    times: Times
    by_window: WindowFilter | None = None

    @property
    def fields(self) -> list[tuple[str, str]]:
        """The names and Spark types of the result: the wanted columns, and the label if rows are read by window."""
        fields = [(one.taken.name, one.taken.type) for one in self.wanted]
        return [*fields, (TIMELABEL, "STRING")] if self.by_window else fields


def arrow_schema_of(extract: SqlExtract[Any, Any]) -> pa.Schema:
    """Return the Arrow schema of the rows of an extract."""
    import pyarrow as pa

    return pa.schema([pa.field(name, arrow_type(kind)) for name, kind in extract.fields])


def count_missing_times(row: Sequence[int] | None) -> dict[str, int]:
    """Convert the first row of a query that counts rows without a data time to the form of `Collected.set_aside`."""
    missing = int(row[0]) if row else 0
    return {NO_TIME: missing} if missing else {}


def require_declared_types(matched: ColumnMatch, columns: Sequence[SqlColumn], unit: Unit) -> None:
    """Raise E815 if columns need a declared type and have none. The error lists all of them."""
    by_name = {column.name: column for column in columns}
    undeclared = [
        (taken, by_name[taken.source])
        for taken in matched.taken
        if not taken.is_typed and by_name[taken.source].spark is None and by_name[taken.source].why
    ]
    if not undeclared:
        return
    listed = ", ".join(f"{taken.name} {column.suggested_type}" for taken, column in undeclared)
    raise WaterclockError(
        "E815",
        f"{unit}: {', '.join(taken.source for taken, _ in undeclared)}"
        f" {'has a type' if len(undeclared) == 1 else 'have types'} that must be declared",
        where=str(unit),
        why="; ".join(dict.fromkeys(column.why for _, column in undeclared)),
        fix=f"declare the columns: ({listed}, *); STRING accepts any type, as its text",
    )


def no_time_error(name: str, kind: str, where: str, times: str, fix: str) -> WaterclockError:
    """Build the error for a column of BY DATA TIME that is not a time; `times` describes the types that are allowed."""
    return WaterclockError(
        "E815",
        f"{name} is of type {kind}, which is not a time",
        where=where,
        why=f"BY DATA TIME needs {times}",
        fix=fix,
    )
