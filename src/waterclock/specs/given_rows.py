"""Provides the rows in a scenario's steps to the engine, as the source of all given tables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

from waterclock.connectors.arrow_values import Times, column, is_plain
from waterclock.connectors.interface import Collected, Collector, WindowRequest
from waterclock.engine.connections import Connections
from waterclock.flow.declarations import Columns, Table, Unit
from waterclock.flow.enums import Mode
from waterclock.secrets.reader import Secrets
from waterclock.specs.comparing import Values
from waterclock.specs.script import GivenStep
from waterclock.specs.steps import StepAction
from waterclock.specs.typed_rows import StepRows
from waterclock.specs.values import json_text
from waterclock.timelabel.label import TIMELABEL, label_of

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

    from waterclock.errors import WaterclockError

GivenRow = Mapping[str, Any]


@dataclass(slots=True)
class GivenRows:
    """The source rows of a scenario, by table and label: those of the executed Given steps, and those already read.

    Implements `WindowCollector`. A label without a step has no rows in an APPEND or MERGE table. In a REPLACE table, it
    has the rows of the newest label before it.
    """

    modes: Mapping[str, Mode]
    rows: dict[str, dict[datetime, tuple[GivenRow, ...]]] = field(default_factory=dict)
    read: dict[tuple[str, datetime], tuple[GivenRow, ...]] = field(default_factory=dict)

    def give(self, name: str, action: GivenStep, rows: StepRows | None) -> None:
        """Add the rows of a Given step to a table, or replace those of its labels."""
        of_table = self.rows.setdefault(name, {})
        for label, lines in action.labels.items():
            new = tuple(_build_given_row(rows, rows.rows[at]) for at in lines) if rows is not None else ()
            is_more = action.meaning.does is StepAction.ALSO
            of_table[label] = (*self.at(name, label), *new) if is_more else new

    def at(self, name: str, label: datetime) -> tuple[GivenRow, ...]:
        """Return the rows of a table at a label."""
        of_table = self.rows.get(name, {})
        if self.modes[name] is not Mode.REPLACE:
            return of_table.get(label, ())
        newest = max((each for each in of_table if each <= label), default=None)
        return () if newest is None else of_table[newest]

    def find_changed_labels(self, name: str) -> tuple[datetime, ...]:
        """Return the labels of a table that were read and have other rows now."""
        return tuple(
            sorted(label for (of, label), rows in self.read.items() if of == name and rows != self.at(of, label))
        )

    # The collector's interface

    def clock(self, unit: Unit) -> datetime | None:  # noqa: ARG002 - the engine's interface
        """Return None: there is no clock, because given rows are always complete."""
        return None

    def schema(self, unit: Unit) -> Mapping[str, str] | None:  # noqa: ARG002 - the engine's interface
        """Return None: the columns of given rows are declared."""
        return None

    def explain(self, unit: Unit, columns: Columns, error: BaseException) -> WaterclockError | None:  # noqa: ARG002
        """Return None: this source causes no errors of its own."""
        return None

    def read_windows(
        self,
        spark: SparkSession,
        unit: Unit,
        request: WindowRequest,
        columns: Columns,
        zone: str,  # noqa: ARG002 - the engine's interface
    ) -> Collected:
        """Return the rows of the windows, each with its label."""
        labelled: list[tuple[str, GivenRow]] = []
        for window in request.windows:
            rows = self.read[unit.path, window.start] = self.at(unit.path, window.start)
            labelled += [(label_of(window.start), row) for row in rows]
        types = {each.name: each.type or "string" for each in columns.named}
        return Collected(_frame(spark, types, labelled))


class SpecConnections(Connections):
    """Connections of a scenario: every source is the rows of its steps, and nothing is delivered."""

    def __init__(self, root: Path, given: GivenRows, secrets: Secrets) -> None:
        super().__init__(root, root, {}, secrets)
        self._given = given

    def collector(self, name: str) -> Collector:  # noqa: ARG002 - there is only one source
        """Return the given rows, which are the only source."""
        return self._given

    def resolve_unit(self, unit: Unit) -> Unit:
        """Return the unit unchanged, as it contains no secrets."""
        return replace(unit)


def build_source(tables: Mapping[str, Table]) -> GivenRows:
    """Build a source without rows for the tables of a flow."""
    return GivenRows({name: table.mode for name, table in tables.items()})


def _build_given_row(rows: StepRows, values: Values) -> GivenRow:
    return {name: value for name, value in zip(rows.columns, values, strict=True) if name != TIMELABEL}


def _frame(spark: SparkSession, types: Mapping[str, str], rows: list[tuple[str, GivenRow]]) -> DataFrame:
    """Build a frame from pairs of label and row. Nested values are passed as JSON, which Spark parses in their type."""
    import pyarrow as pa

    arrays = [pa.array([label for label, _ in rows], type=pa.string())]
    selected = [TIMELABEL]
    for name, type_name in types.items():
        values = [row.get(name) for _, row in rows]
        if is_plain(type_name):
            arrays.append(column(values, type_name, Times()))
            selected.append(f"CAST(`{name}` AS {type_name}) AS `{name}`")
        else:
            texts = [None if value is None else json_text(value) for value in values]
            arrays.append(pa.array(texts, type=pa.string()))
            selected.append(f"from_json(`{name}`, '{type_name}') AS `{name}`")
    table = pa.Table.from_arrays(arrays, names=[TIMELABEL, *types])
    return spark.createDataFrame(table).selectExpr(*selected)
