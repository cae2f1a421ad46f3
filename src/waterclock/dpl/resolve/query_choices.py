"""Resolves the queries and conditions of transforms with WHEN, which have a query per range of labels."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from waterclock.dpl.query.splice import list_reads
from waterclock.dpl.query.type_families import Family
from waterclock.dpl.query.visible_columns import Names, Output, names_of
from waterclock.dpl.resolve.conditions import condition_of
from waterclock.dpl.resolve.unresolved_table import UnresolvedTable
from waterclock.dpl.resolve.views import queries_of
from waterclock.dpl.syntax.source_text import Span
from waterclock.dpl.syntax.statements import ParsedColumnList, ParsedQuery, ParsedWhen, Statement
from waterclock.errors import WaterclockError
from waterclock.flow.checked_references import checked_references
from waterclock.flow.declarations import Choice, Query
from waterclock.similar_names import did_you_mean


def resolve_choices(
    draft: UnresolvedTable, queries: Sequence[Query], variables: Mapping[str, Any], errors: list[WaterclockError]
) -> None:
    """Set the queries of a transform with WHEN and their conditions, in its cadence's time zone; report errors."""
    zone = draft.cadence.zone if draft.cadence else "UTC"
    whens = [clause.value for clause in draft.statement.clauses if isinstance(clause.value, ParsedWhen)]
    conditions = [condition_of(when.condition, variables, zone, errors) for when in whens]
    if not queries or None in conditions:
        return
    parents = [each.read for each in checked_references(draft.declared.columns)]
    draft.declared = replace(
        draft.declared,
        choices=tuple(
            Choice(condition, query, tuple(dict.fromkeys((*list_reads(query), *parents))))
            for condition, query in zip([*conditions, None], queries, strict=True)
        ),
    )
    named = {name for when in whens for name in when.condition.variables}
    draft.query_variables = tuple(sorted({*draft.query_variables, *named}))


def check_same_columns(
    statement: Statement,
    column_list: ParsedColumnList | None,
    spans: Sequence[Span],
    outputs: Sequence[Output],
    together: Callable[[Sequence[Output]], Output],
) -> Iterator[WaterclockError]:
    """Yield errors for queries of one table whose columns or types differ from those of the first query.

    `spans` and `outputs` are the positions and columns of all UNION ALL BY NAME branches of all queries, in order.
    `together` combines the columns of the branches of one query. `column_list` is the column list: if it is closed, it
    determines the columns, and columns with a declared type are cast.
    """
    queries = queries_of(statement)
    if len(queries) < 2:
        return
    made = []
    for query in queries:
        inside = [out for out, at in zip(outputs, spans, strict=True) if query.span.start <= at.start < query.span.end
                  and at.source is query.span.source]  # fmt: skip
        made.append(together(inside))
    listed = (
        None if column_list is None or column_list.is_open else names_of(column.name for column in column_list.columns)
    )
    typed = {column.name.lower() for column in (column_list.columns if column_list else ()) if column.declared.type}
    first = made[0]
    for query, output in zip(queries, made, strict=True):
        wanted = listed if listed is not None else first.names
        if wanted is not None and output.names is not None:
            missing = [
                *_check_missing_columns(statement.name, query, output.names, wanted, is_listed=listed is not None)
            ]
            if not missing and listed is None:
                missing = [*_check_missing_columns(statement.name, queries[0], wanted, output.names, is_listed=False)]
            yield from missing
        for name, family in output.families.items():
            known = first.families.get(name)
            here, there = _compared(family), _compared(known) if known is not None else None
            if there is not None and here is not there and name not in typed:
                yield query.span.refuse(
                    "E247",
                    f"{name} has another type in this query",
                    why=f"{_kind(here)} here, {_kind(there)} in the first query of {statement.name}",
                    fix=f"cast it, or declare its type: TRANSFORM {statement.name} ({name} TYPE, *)",
                )


def _check_missing_columns(
    name: str, query: ParsedQuery, has: Names, wanted: Names, *, is_listed: bool
) -> Iterator[WaterclockError]:
    for lower, column in wanted.items():
        if lower in has:
            continue
        near = did_you_mean(column, [each for low, each in has.items() if low not in wanted])
        where = f"the column list of {name} has it" if is_listed else "another query of it has it"
        yield query.span.refuse(
            "E247",
            f"this query of {name} has no column {column}",
            why=f"{where}, and all labels of a table have the same columns",
            fix=near or f"add NULL AS {column}",
        )


def _compared(family: Family) -> Family:
    """Return the family that must be the same in all queries: Spark unites a DOUBLE with other numbers."""
    return Family.OTHER if family in {Family.FLOATING, Family.NESTED} else family


def _kind(family: Family) -> str:
    return "neither a date nor a time" if family is Family.OTHER else f"the type {family}"
