"""Resolves the table of a FOR EACH as an input of its collect, and checks the columns that requests use."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableMapping
from dataclasses import replace

from waterclock.dpl.resolve.unresolved_table import UnresolvedTable
from waterclock.dpl.resolve.views import unknown_table_error
from waterclock.dpl.syntax.source_text import Span
from waterclock.dpl.syntax.statements import ParsedForEach, ParsedOptions, Statement
from waterclock.errors import WaterclockError
from waterclock.flow.declarations import Read
from waterclock.flow.enums import Kind
from waterclock.similar_names import did_you_mean
from waterclock.timelabel.label import TIMELABEL


def add_for_each_inputs(
    drafts: Mapping[str, UnresolvedTable],
    tables: Mapping[str, Statement],
    views: Mapping[str, Statement],
    spans: MutableMapping[tuple[str, Read], Span],
) -> Iterator[WaterclockError]:
    """Make the FOR EACH table of each collect its input, with the span in `spans`; yield errors for invalid tables."""
    for draft in drafts.values():
        for_each = draft.statement.value("FOR EACH", ParsedForEach)
        if draft.kind is not Kind.COLLECT or for_each is None:
            continue
        if for_each.table in views:
            what, why = (
                f"{for_each.table} is a view, and has no batches",
                "answers are stored for each batch of a table",
            )
            fix = f"write TRANSFORM {for_each.table} AS ..., or name the table that it reads"
            yield for_each.span.refuse("E213", what, why=why, fix=fix)
        elif for_each.table not in tables:
            yield unknown_table_error(for_each.table, for_each.span, tables, tables)
        else:
            draft.declared = replace(draft.declared, reads=(Read(for_each.table),))
            spans[draft.name, draft.declared.reads[0]] = for_each.span
            continue
        draft.is_incomplete = True


def check_parameters(draft: UnresolvedTable, columns: Mapping[str, str] | None) -> Iterator[WaterclockError]:
    """Yield errors for columns in requests that the FOR EACH table does not have; `columns` is None if unknown."""
    each = draft.declared.source.each if draft.declared.source is not None else None
    if each is None or columns is None:
        return
    for name in each.parameters:
        if name.lower() not in {*columns, TIMELABEL}:
            yield place_of(draft, name).refuse(
                "E392",
                f"{each.table} has no column {name}",
                why=f"it has {', '.join(columns.values())}",
                fix=did_you_mean(name, columns.values(), otherwise=f"name a column of {each.table} in braces"),
            )


def place_of(draft: UnresolvedTable, name: str) -> Span:
    """Return the span of the option that contains the column in braces, `{name}`; that of FOR EACH if none does."""
    options = draft.statement.value("OPTIONS", ParsedOptions)
    for option, value in options.values.items() if options is not None else ():
        if f"{{{name}}}" in str(value):
            return options.spans[option] if options is not None else draft.span
    return draft.at("FOR EACH")
