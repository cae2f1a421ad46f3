"""Finds the columns and types of each table: as declared, or as Spark infers them from the queries. No job runs.

A source's column without a declared type is STRING, as in a file. So is an undeclared column that a query reads from a
source with an open column list. A step may set another type after the name, as in `seats:INT`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from waterclock.engine.batch.window_rows import compute_rows
from waterclock.engine.run_context import RunContext
from waterclock.errors import WaterclockError
from waterclock.flow.declarations import Table
from waterclock.flow.enums import Kind
from waterclock.specs.named_columns import named_columns
from waterclock.storage.slices.row_filter import MISSING
from waterclock.timelabel.label import TIMELABEL

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

Types = Mapping[str, str]
Extras = Mapping[str, Types]
_ANY_TIME = datetime(2000, 1, 3, tzinfo=UTC)
_DEFAULT_TYPE = "string"


@dataclass(frozen=True, slots=True)
class Schema:
    """The columns of a table with Spark's types, without `timelabel`. `is_whole`: whether it has no other columns.

    `written`: the columns of the rows that a batch writes. A TEMPORAL table has versions computed from these.
    """

    types: Types
    is_whole: bool = True
    written: Types = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.written:
            object.__setattr__(self, "written", self.types)


@dataclass(slots=True)
class SpecSchemas:
    """The schemas of a flow's tables, each computed once; `work` is opened on the flow as the user declared it."""

    work: RunContext
    _session: SparkSession | None = None
    _named: Mapping[str, tuple[str, ...]] | None = None
    _known: dict[tuple[str, str], Schema] = field(default_factory=dict)

    def of(self, name: str, extras: Extras) -> Schema:
        """Return a table's columns; `extras` are types that steps set for sources' columns, by table."""
        key = (name, repr(sorted((table, sorted(types.items())) for table, types in extras.items())))
        if key not in self._known:
            table = self.work.flow.tables[name]
            is_source = table.kind is Kind.COLLECT
            self._known[key] = (
                self._build_collected_schema(table, extras) if is_source else self._build_made_schema(table, extras)
            )
        return self._known[key]

    @property
    def spark(self) -> SparkSession:
        """The session in which queries are analyzed."""
        if self._session is None:
            self._session = self.work.sessions.own()
        return self._session

    def _build_collected_schema(self, table: Table, extras: Extras) -> Schema:
        if self._named is None:
            self._named = named_columns(self.work.flow)
        types = {column.name: column.type or _DEFAULT_TYPE for column in table.columns.named}
        types |= dict.fromkeys(self._named.get(table.name, ()), _DEFAULT_TYPE)
        spelled = {name.lower(): name for name in types}
        for name, type_name in extras.get(table.name, {}).items():
            types[spelled.get(name.lower(), name)] = type_name
        return self._build_schema(table, self._spark_types(types), is_whole=not table.columns.is_open)

    def _build_made_schema(self, table: Table, extras: Extras) -> Schema:
        from pyspark.errors import PySparkException

        from waterclock.storage.slices.column_casts import conform

        window = table.cadence.window_of(_ANY_TIME)
        try:
            frames = {read: self._build_empty_frame(read.table, table, extras) for read in table.reads}
            rows = compute_rows(self.work, self.spark, table, window, frames)
            shaped = conform(rows, table.columns, None, table=table.name, may_rename=False)
        except (WaterclockError, PySparkException):
            # the run reports the query's error; until then only the declared columns are known
            types = {column.name: column.type or _DEFAULT_TYPE for column in table.columns.named}
            return self._build_schema(table, self._spark_types(types), is_whole=not table.columns.is_open)
        return self._build_schema(table, _column_types(shaped.schema), is_whole=True)

    def _build_schema(self, table: Table, written: Types, *, is_whole: bool) -> Schema:
        """Return the schema of a table whose batches write the columns `written`.

        `is_whole`: whether the table has no other columns.
        """
        from waterclock.storage.folds.table_columns import state_schema

        held = state_schema(self._empty_frame(written).schema, table)
        return Schema(_column_types(held), is_whole, written)

    def _build_empty_frame(self, name: str, reader: Table, extras: Extras) -> DataFrame:
        """Return an empty frame with the columns of a table. If it reads itself, only declared columns are known."""
        if name == reader.name:
            declared = {column.name: column.type or _DEFAULT_TYPE for column in reader.columns.named}
            types = self._build_schema(reader, self._spark_types(declared), is_whole=False).types
        else:
            types = self.of(name, extras).types
        return self._empty_frame({**types, TIMELABEL: _DEFAULT_TYPE})

    def _spark_types(self, types: Types) -> Types:
        return _column_types(self._empty_frame(types).schema) if types else {}

    def _empty_frame(self, types: Types) -> DataFrame:
        return self.spark.createDataFrame([], ", ".join(f"`{column}` {kind}" for column, kind in types.items()))


def _column_types(schema: StructType) -> Types:
    # the marks of missing columns in a UNION ALL BY NAME are not a column of the table
    left_out = {TIMELABEL, MISSING}
    return {each.name: each.dataType.simpleString() for each in schema.fields if each.name not in left_out}
