"""Derives the flow that a scenario runs: the project's own, with the rows of its steps as sources.

A given table becomes a collect whose source is the scenario; everything else is as declared. Two settings of time are
ignored, since a scenario defines its own time: each table starts at the first window that the scenario needs, and no
table waits for a DELAY.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from waterclock.batches.ledger_snapshot import LedgerSnapshot
from waterclock.flow.declarations import Column, Columns, Flow, Place, Query, Read, Source, Table, TableReference, Unit
from waterclock.flow.enums import Batching, Kind, Mode, ReadKind, TableType
from waterclock.flow.graph import order_of
from waterclock.flow.key_connections import KEYS
from waterclock.planner.planning import Planner
from waterclock.specs.schemas import Schema
from waterclock.specs.script import GivenStep, Script, ScriptRun
from waterclock.specs.typed_rows import TypedScript

CONNECTION = "spec"
_MOST_WINDOWS_TRIED = 3000  # the maximum number of earlier windows that are tried as a START
_FAR = datetime(9000, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class ScenarioFlow:
    """The flow that a scenario runs, and the flow that first writes the given rows of its tables.

    `seeds` maps each table that has given labels and also runs to the collect of its given rows. `seeding` is the same
    flow, but these tables read the given rows instead of running their queries.
    """

    flow: Flow
    seeding: Flow
    seeds: Mapping[str, str]


def derive(flow: Flow, typed: TypedScript) -> ScenarioFlow:
    """Derive the flow of a scenario. Raises E513 if a table runs at a label that it can never have."""
    script = typed.script
    seeds = {
        name: f"{name}__given"
        for name in sorted(script.given & script.runs)
        if flow.tables[name].kind is Kind.TRANSFORM
    }
    earliest = script.earliest
    for _ in range(_MOST_WINDOWS_TRIED):
        found = _derive_flow(flow, typed, seeds, earliest)
        late = _find_late_table(found.flow, script)
        if late is None:
            return found
        earliest = late.cadence.previous(late.cadence.floor(earliest))
    raise AssertionError(f"{late} never begins")


def _find_late_table(flow: Flow, script: Script) -> Table | None:
    """Return a table that would start only after a label at which the scenario runs it, or None."""
    starts = Planner(flow).starts(LedgerSnapshot(), _FAR)
    for action in script.actions:
        if isinstance(action, ScriptRun) and starts[action.table.name] > action.windows[0].start:
            return action.table
    return None


def _derive_flow(flow: Flow, typed: TypedScript, seeds: Mapping[str, str], earliest: datetime) -> ScenarioFlow:
    script = typed.script
    tables: dict[str, Table] = {}
    seeded: dict[str, Table] = {}
    for name in sorted(script.made | script.given):
        table = flow.tables[name]
        if name in seeds:
            first = min(label for label in _list_given_labels(script, name))
            hidden = _build_given_table(
                table, seeds[name], typed.schemas[name], table.cadence.floor(earliest), is_asked=False
            )
            tables[hidden.name] = replace(hidden, type=TableType.PARTITIONED, mode=Mode.APPEND, fold=None)
            tables[name] = _remove_delay(table, first)
            seeded[name] = replace(
                tables[name],
                closes=None,
                rules=(),
                input_rules=(),
                columns=_given_columns(table, typed.schemas[name], is_asked=False, has_keys=True),
                query=_select_all(hidden.name, table.place),
                choices=(),
                function=None,
                reads=(Read(hidden.name),),
            )
        elif name in script.given:
            is_asked = name in script.runs
            start = table.cadence.floor(earliest)
            tables[name] = _build_given_table(table, name, typed.schemas[name], start, is_asked=is_asked)
        else:
            # nothing determines the first window of a table that reads nothing, or only PREVIOUS
            is_bounded = any(read.kind is not ReadKind.PREVIOUS for read in table.reads)
            tables[name] = _remove_delay(table, None if is_bounded else table.cadence.floor(earliest))
    return ScenarioFlow(_build_flow(flow, tables, "given"), _build_flow(flow, tables | seeded, "seeding"), seeds)


def _list_given_labels(script: Script, name: str) -> list[datetime]:
    return [
        label
        for action in script.actions
        if isinstance(action, GivenStep) and action.table.name == name
        for label in action.labels
    ]


def _remove_delay(table: Table, start: datetime | None) -> Table:
    return replace(table, start=start, cadence=replace(table.cadence, delay=timedelta(0)))


def _build_given_table(table: Table, name: str, schema: Schema, start: datetime, *, is_asked: bool) -> Table:
    """Return a collect of a table's given rows. Rules apply if the table itself runs; otherwise any row is accepted."""
    return replace(
        _remove_delay(table, start),
        name=name,
        kind=Kind.COLLECT,
        columns=_given_columns(table, schema, is_asked=is_asked, has_keys=table.is_fold),
        rules=table.rules if is_asked else (),
        measures=table.measures if is_asked else (),
        input_rules=(),
        reads=(),
        source=Source(Unit(CONNECTION, name, None, {}, table.place), Batching.DATA_TIME),
        query=None,
        choices=(),
        function=None,
        closes=None,
        late_rows=None,
        open_of=None,
    )


def _given_columns(table: Table, schema: Schema, *, is_asked: bool, has_keys: bool) -> Columns:
    declared = {column.name.lower(): column for column in table.columns.named}
    named = []
    for name, type_name in schema.written.items():
        column = declared.get(name.lower(), Column(name, table.place))
        if is_asked:
            named.append(replace(column, type=type_name))
        else:
            is_key = column.is_key and has_keys
            named.append(Column(name, column.place, type=type_name, is_key=is_key))
    return Columns(tuple(named), is_open=False)


def _select_all(name: str, place: Place) -> Query:
    text = f"SELECT * FROM {name}"
    start = len(text) - len(name)
    alias = name.rpartition(".")[2]
    return Query(text, place, (TableReference(start, len(text), alias, len(text), read=Read(name)),))


def _build_flow(flow: Flow, tables: Mapping[str, Table], what: str) -> Flow:
    return replace(
        flow,
        tables={name: replace(table, offline=None) for name, table in tables.items()},
        connections={name: each for name, each in flow.connections.items() if each.type == KEYS},
        order=order_of(tables),
        fingerprint=f"{flow.fingerprint}-{what}",
    )
