"""Converts the cells of a scenario's tables to values of the columns' types, and reports cells that do not fit."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from waterclock.connectors.arrow_values import is_plain
from waterclock.errors import WaterclockError
from waterclock.flow.declarations import Table
from waterclock.flow.enums import Kind, Mode
from waterclock.flow.merge_settings import RECORD
from waterclock.similar_names import did_you_mean
from waterclock.specs.comparing import Values, find_duplicate_rows
from waterclock.specs.document import ExampleTable, TableCell
from waterclock.specs.script import Action, ExpectedStep, GivenStep, Script
from waterclock.specs.step_labels import named_windows
from waterclock.specs.values import plain_text, value_of
from waterclock.timelabel.label import TIMELABEL, label_of

if TYPE_CHECKING:
    from waterclock.specs.schemas import Extras, Schema

EFFECTIVE = RECORD[0]
_TYPED_NAME = re.compile(r"(?P<name>[^:]+?)\s*:\s*(?P<type>\w[\w<>(), :]*)")
_NESTED = re.compile(r"(array|map|struct)\s*<.*>")
_TYPES = "STRING INT BIGINT SMALLINT TINYINT DOUBLE FLOAT DECIMAL BOOLEAN DATE TIMESTAMP TIMESTAMP_NTZ BINARY".split()


@dataclass(frozen=True, slots=True)
class StepRows:
    """The rows below a step. Columns have the table's spelling, and include `timelabel` if it is named."""

    columns: tuple[str, ...]
    types: Mapping[str, str]
    rows: tuple[Values, ...]


@dataclass(frozen=True, slots=True)
class TypedScript:
    """A script, and the typed rows of its steps by index. `schemas` has the columns of each given table."""

    script: Script
    rows: Mapping[int, StepRows]
    schemas: Mapping[str, Schema]


def convert_rows(
    script: Script, schema_of: Callable[[str, Extras], Schema]
) -> tuple[TypedScript | None, tuple[WaterclockError, ...]]:
    """Convert the rows of every step to the types of its table. Return them and no errors, or None and all errors.

    Errors: E354 for an unknown or repeated column, E355 for a cell that is no value of its type, E358 for expected rows
    with the same key, E359 for an invalid type.
    """
    errors: list[WaterclockError] = []
    extras: dict[str, dict[str, str]] = {}
    for action in script.actions:
        if isinstance(action, GivenStep) and action.table.kind is Kind.COLLECT and action.meaning.step.grid is not None:
            for name, type_name in _undeclared_types(action.meaning.step.grid, action.table, errors):
                extras.setdefault(action.table.name, {})[name] = type_name
    if errors:
        return None, tuple(errors)
    rows: dict[int, StepRows] = {}
    for at, action in enumerate(script.actions):
        grid = action.meaning.step.grid
        if grid is not None:
            reader = _ValueReader(action, grid, schema_of(action.table.name, extras))
            rows[at] = reader.rows()
            errors.extend(reader.errors)
    if errors:
        return None, tuple(errors)
    return TypedScript(script, rows, {name: schema_of(name, extras) for name in script.given}), ()


def keys_of(action: ExpectedStep, columns: Sequence[str]) -> tuple[str, ...]:
    """Return the key columns by which expected rows are compared, or () if the step does not name all of them.

    A key of an APPEND table is unique within one label, so for several labels the label is part of the key.
    """
    table = action.table
    keys = (*table.keys, EFFECTIVE) if table.temporal else table.keys
    is_one = action.low is not None and action.high <= table.cadence.next(action.low)
    if keys and table.mode is Mode.APPEND and not (table.is_partitioned and is_one):
        keys = (*keys, TIMELABEL)
    there = {column.lower(): column for column in columns}
    found = [there[key.lower()] for key in keys if key.lower() in there]
    return tuple(found) if len(found) == len(keys) else ()


def _undeclared_types(grid: ExampleTable, table: Table, errors: list[WaterclockError]) -> Iterator[tuple[str, str]]:
    """Yield each column of a source without a declared type, with the type that the step sets, or else STRING."""
    declared = {column.name.lower(): column for column in table.columns.named}
    for cell in grid.header:
        typed = _TYPED_NAME.fullmatch(cell.text)
        name, type_name = (typed["name"], typed["type"].lower()) if typed else (cell.text, "string")
        known = declared.get(name.lower())
        if known is None and (name.lower() == TIMELABEL or not table.columns.is_open):
            continue
        if typed and known is not None and known.type is not None:
            errors.append(
                WaterclockError(
                    "E359",
                    f"the type of {known.name} is declared",
                    where=str(cell.place),
                    why=f"{table.name}.{known.name} is {known.type.upper()}, at {known.place}",
                    fix=f"write {known.name}",
                )
            )
        elif typed and not (is_plain(type_name) or _NESTED.fullmatch(type_name)):
            near = did_you_mean(typed["type"].upper(), _TYPES, otherwise=f"write one of {', '.join(_TYPES)}")
            errors.append(WaterclockError("E359", f"{typed['type']} is not a type", where=str(cell.place), fix=near))
        elif known is None or known.type is None:
            yield (known.name if known else name), type_name


@dataclass(slots=True)
class _ValueReader:
    """Converts the table of rows below one step."""

    action: Action
    grid: ExampleTable
    schema: Schema
    errors: list[WaterclockError] = field(default_factory=list)

    @property
    def types(self) -> Mapping[str, str]:
        """The columns that the step can name: those of a batch's rows, or those of the table."""
        return self.schema.written if isinstance(self.action, GivenStep) else self.schema.types

    def rows(self) -> StepRows:
        columns = tuple(self._resolve_columns())
        if self.errors:
            return StepRows(columns, {}, ())
        types = {name: self.types.get(name, "string") for name in columns}
        values = tuple(
            tuple(self._convert_cell(cell, name, types[name]) for cell, name in zip(row, columns, strict=True))
            for row in self.grid.rows
        )
        if isinstance(self.action, ExpectedStep) and not self.errors:
            self._check_keys(self.action, columns, values)
        return StepRows(columns, types, values)

    def _resolve_columns(self) -> Iterator[str]:
        known = {name.lower(): name for name in (*self.types, TIMELABEL)}
        seen: set[str] = set()
        for cell in self.grid.header:
            typed = _TYPED_NAME.fullmatch(cell.text)
            name = typed["name"] if typed else cell.text
            if name.lower() in seen:
                self._add_error(cell, f"{name} occurs twice", "name each column once")
            elif name.lower() not in known and not self._may_be_new(name):
                listed = ", ".join(self.types)
                self._add_error(
                    cell,
                    f"{self.action.table.name} has no column {name}" if name else "a column without a name",
                    did_you_mean(name, known.values()) or "name one of them",
                    f"it has {listed}" if listed else "its columns are not known",
                )
            seen.add(name.lower())
            yield known.get(name.lower(), name)

    def _may_be_new(self, name: str) -> bool:
        """Return whether a step may name an unknown column: if the columns of its table could not be inferred."""
        return bool(name) and not self.schema.is_whole and self.action.table.kind is not Kind.COLLECT

    def _convert_cell(self, cell: TableCell, name: str, type_name: str) -> object:
        try:
            return self._parse_label(cell) if name == TIMELABEL else value_of(cell, name, type_name)
        except WaterclockError as error:
            self.errors.append(error.at(str(cell.place)))
            return None

    def _parse_label(self, cell: TableCell) -> str | None:
        """Parse a label as commands do. Return it as the fourteen digits that the column contains, to compare them."""
        text = plain_text(cell)
        if text is None:
            return None
        return label_of(named_windows(text, self.action.table)[-1].start)

    def _check_keys(self, action: ExpectedStep, columns: Sequence[str], values: Sequence[Values]) -> None:
        keys = keys_of(action, columns)
        places = [columns.index(key) for key in keys]
        for at, first in find_duplicate_rows(values, places) if keys else ():
            row, before = self.grid.rows[at], self.grid.rows[first]
            key = ", ".join(f"{name} {row[place].text}" for name, place in zip(keys, places, strict=True))
            self.errors.append(
                WaterclockError(
                    "E358",
                    f"two rows of {key} are expected",
                    where=str(row[places[0]].place),
                    why=f"{action.table.name} has KEY ({', '.join(keys)}); the other row is at {before[0].place}",
                    fix="remove one of them: a key has one row",
                )
            )

    def _add_error(self, cell: TableCell, what: str, fix: str, why: str | None = None) -> None:
        self.errors.append(WaterclockError("E354", what, where=str(cell.place), why=why, fix=fix))
