"""Which columns and types has each table? As declared, else as Spark finds them in the queries: no job runs.

A column of a source whose type is not declared is STRING, as in a file. So are the columns that are not declared at
all and that a query names of a source with an open list; a step may say another type behind the name, as `seats:INT`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from waterclock.engine.transform import rows_over
from waterclock.engine.workplace import Workplace
from waterclock.errors import WaterclockError
from waterclock.flow import Kind, Table
from waterclock.specs.named import named_columns
from waterclock.specs.script import TIMELABEL

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Types = Mapping[str, str]
Extras = Mapping[str, Types]
_ANY_TIME = datetime(2000, 1, 3, tzinfo=UTC)
_UNSAID = "string"


@dataclass(frozen=True, slots=True)
class Schema:
    """Columns with their types as Spark writes them, `timelabel` left out. `is_whole`: there are no others."""

    types: Types
    is_whole: bool = True


@dataclass(slots=True)
class Schemas:
    """The schemas of a flow's tables, each worked out once; `work` is opened on the flow as the user declared it."""

    work: Workplace
    _session: SparkSession | None = None
    _named: Mapping[str, tuple[str, ...]] | None = None
    _known: dict[tuple[str, str], Schema] = field(default_factory=dict)

    def of(self, name: str, extras: Extras) -> Schema:
        """Give a table's columns; `extras` are types that steps say of sources' columns, by table."""
        key = (name, repr(sorted((table, sorted(types.items())) for table, types in extras.items())))
        if key not in self._known:
            table = self.work.flow.tables[name]
            is_source = table.kind is Kind.COLLECT
            self._known[key] = self._collected(table, extras) if is_source else self._made(table, extras)
        return self._known[key]

    @property
    def spark(self) -> SparkSession:
        """The session in which queries are looked at."""
        if self._session is None:
            self._session = self.work.sessions.own()
        return self._session

    def _collected(self, table: Table, extras: Extras) -> Schema:
        if self._named is None:
            self._named = named_columns(self.work.flow)
        said = {column.name: column.type or _UNSAID for column in table.columns.named}
        said |= dict.fromkeys(self._named.get(table.name, ()), _UNSAID)
        spelled = {name.lower(): name for name in said}
        for name, type_name in extras.get(table.name, {}).items():
            said[spelled.get(name.lower(), name)] = type_name
        return Schema(self._as_spark_writes(said), is_whole=not table.columns.is_open)

    def _made(self, table: Table, extras: Extras) -> Schema:
        from pyspark.errors import PySparkException

        from waterclock.storage import conform

        window = table.cadence.window_of(_ANY_TIME)
        try:
            frames = {read: self._nothing(read.table, table, extras) for read in table.reads}
            rows = rows_over(self.work, self.spark, table, window, frames)
            shaped = conform(rows, table.columns, None, table=table.name)
        except (WaterclockError, PySparkException):
            # the run tells what is wrong with the query; until then what is declared is all that is known
            said = {column.name: column.type or _UNSAID for column in table.columns.named}
            return Schema(self._as_spark_writes(said), is_whole=not table.columns.is_open)
        return Schema({f.name: f.dataType.simpleString() for f in shaped.schema.fields if f.name != TIMELABEL})

    def _nothing(self, name: str, reader: Table, extras: Extras) -> DataFrame:
        """Give no rows with the columns of a table; what reads itself declares its own."""
        if name == reader.name:
            types: Types = {column.name: column.type or _UNSAID for column in reader.columns.named}
        else:
            types = self.of(name, extras).types
        columns = ", ".join(f"`{column}` {kind}" for column, kind in {**types, TIMELABEL: _UNSAID}.items())
        return self.spark.createDataFrame([], columns)

    def _as_spark_writes(self, types: Types) -> Types:
        if not types:
            return {}
        ddl = ", ".join(f"`{column}` {kind}" for column, kind in types.items())
        frame = self.spark.createDataFrame([], ddl)
        return {field.name: field.dataType.simpleString() for field in frame.schema.fields}
