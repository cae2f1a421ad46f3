"""The source that a scenario is: what its steps give, handed to the engine as any source hands over its windows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

from waterclock.connectors.interface import Collected, Collector, WindowRequest
from waterclock.connectors.values import Times, column, is_plain
from waterclock.engine.connections import Connections
from waterclock.flow.choices import Mode
from waterclock.flow.declarations import Columns, Table, Unit
from waterclock.secrets import Secrets
from waterclock.specs.comparing import Values
from waterclock.specs.script import Give
from waterclock.specs.steps import Does
from waterclock.specs.typed_rows import Rows
from waterclock.timelabel.label import TIMELABEL, label_of

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

    from waterclock.errors import WaterclockError

GivenRow = Mapping[str, Any]


@dataclass(slots=True)
class GivenRows:
    """What the steps so far give, by table and label, and what of it was read. A `WindowCollector`.

    A label of an APPEND or MERGE table that no step names brings no rows; a REPLACE table holds there what it held
    before.
    """

    modes: Mapping[str, Mode]
    rows: dict[str, dict[datetime, tuple[GivenRow, ...]]] = field(default_factory=dict)
    read: dict[tuple[str, datetime], tuple[GivenRow, ...]] = field(default_factory=dict)

    def give(self, name: str, action: Give, rows: Rows | None) -> None:
        """Take the rows of a step."""
        of_table = self.rows.setdefault(name, {})
        for label, lines in action.labels.items():
            new = tuple(_named(rows, rows.rows[at]) for at in lines) if rows is not None else ()
            is_more = action.meaning.does is Does.ALSO
            of_table[label] = (*self.at(name, label), *new) if is_more else new

    def at(self, name: str, label: datetime) -> tuple[GivenRow, ...]:
        """Return the rows of a label."""
        of_table = self.rows.get(name, {})
        if self.modes[name] is not Mode.REPLACE:
            return of_table.get(label, ())
        newest = max((each for each in of_table if each <= label), default=None)
        return () if newest is None else of_table[newest]

    def changed(self, name: str) -> tuple[datetime, ...]:
        """Return the labels of a table that were read and hold other rows now."""
        return tuple(
            sorted(label for (of, label), rows in self.read.items() if of == name and rows != self.at(of, label))
        )

    # what the engine asks

    def clock(self, unit: Unit) -> datetime | None:  # noqa: ARG002 - as the engine asks
        """Return no clock: what is given is complete."""
        return None

    def schema(self, unit: Unit) -> Mapping[str, str] | None:  # noqa: ARG002 - as the engine asks
        """Return nothing: the columns of what is given are declared."""
        return None

    def explain(self, unit: Unit, columns: Columns, error: BaseException) -> WaterclockError | None:  # noqa: ARG002
        """Return nothing: no error is this source's own."""
        return None

    def read_windows(
        self,
        spark: SparkSession,
        unit: Unit,
        request: WindowRequest,
        columns: Columns,
        zone: str,  # noqa: ARG002 - as the engine asks
    ) -> Collected:
        """Return the rows of the windows, each with its label."""
        labelled: list[tuple[str, GivenRow]] = []
        for window in request.windows:
            rows = self.read[unit.path, window.start] = self.at(unit.path, window.start)
            labelled += [(label_of(window.start), row) for row in rows]
        types = {each.name: each.type or "string" for each in columns.named}
        return Collected(_frame(spark, types, labelled))


class SpecConnections(Connections):
    """Connections of a scenario: whatever is asked for is what its steps give, and nothing is delivered anywhere."""

    def __init__(self, root: Path, given: GivenRows, secrets: Secrets) -> None:
        super().__init__(root, root, {}, secrets)
        self._given = given

    def collector(self, name: str) -> Collector:  # noqa: ARG002 - there is one source
        """Return the scenario."""
        return self._given

    def opened(self, unit: Unit) -> Unit:
        """Return the unit, which holds no secrets."""
        return replace(unit)


def given_rows(tables: Mapping[str, Table]) -> GivenRows:
    """Make the source of a flow's tables."""
    return GivenRows({name: table.mode for name, table in tables.items()})


def _named(rows: Rows, values: Values) -> GivenRow:
    return {name: value for name, value in zip(rows.columns, values, strict=True) if name != TIMELABEL}


def _frame(spark: SparkSession, types: Mapping[str, str], rows: list[tuple[str, GivenRow]]) -> DataFrame:
    """Make a frame; nested values are brought as JSON, which Spark reads in their type."""
    import json

    import pyarrow as pa

    arrays = [pa.array([label for label, _ in rows], type=pa.string())]
    selected = [TIMELABEL]
    for name, type_name in types.items():
        values = [row.get(name) for _, row in rows]
        if is_plain(type_name):
            arrays.append(column(values, type_name, Times()))
            selected.append(f"CAST(`{name}` AS {type_name}) AS `{name}`")
        else:
            texts = [None if value is None else json.dumps(value) for value in values]
            arrays.append(pa.array(texts, type=pa.string()))
            selected.append(f"from_json(`{name}`, '{type_name}') AS `{name}`")
    table = pa.Table.from_arrays(arrays, names=[TIMELABEL, *types])
    return spark.createDataFrame(table).selectExpr(*selected)
