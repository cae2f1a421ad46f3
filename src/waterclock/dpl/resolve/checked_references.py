"""Resolves checked references (REFERENCES ... ELSE), and makes their parent tables inputs of the transforms."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from dataclasses import replace

from waterclock.dpl.resolve.table_options import keeps_open_windows
from waterclock.dpl.resolve.unresolved_table import UnresolvedTable
from waterclock.dpl.syntax.source_text import Span
from waterclock.dpl.syntax.statements import ParsedColumn, ParsedColumnList, ParsedOptions
from waterclock.dpl.syntax.unsupported import unsupported_error
from waterclock.errors import WaterclockError
from waterclock.flow.checked_references import CheckedReference, checked_references
from waterclock.flow.declarations import Columns, Read
from waterclock.flow.enums import Kind
from waterclock.flow.flat_joins import plain_type
from waterclock.flow.references import pair_with_keys


def add_parent_inputs(
    drafts: Mapping[str, UnresolvedTable], spans: MutableMapping[tuple[str, Read], Span]
) -> Iterator[WaterclockError]:
    """Add the parent tables of checked references to the inputs of transforms; yield errors in the references.

    The span of each added read is set in `spans`. Another check reports parents that are not declared.
    """
    for draft in drafts.values():
        for checked in checked_references(draft.declared.columns):
            parent = drafts.get(checked.table)
            if parent is None or parent.kind is Kind.PUBLISH:
                continue
            problems = list(_find_problems(draft, parent, checked))
            yield from problems
            if problems:
                continue
            draft.declared = replace(
                draft.declared,
                columns=_add_parent_columns(draft.declared.columns, checked, _parent_columns(checked, parent)),
            )
            if checked.read not in draft.declared.reads:
                draft.declared = replace(draft.declared, reads=(*draft.declared.reads, checked.read))
                spans[draft.name, checked.read] = reference_span(draft, checked.columns[0])


def _parent_columns(checked: CheckedReference, parent: UnresolvedTable) -> tuple[str, ...]:
    return checked.parent_columns or pair_with_keys(checked.columns, parent.declared.keys)


def _add_parent_columns(columns: Columns, checked: CheckedReference, theirs: Sequence[str]) -> Columns:
    """Return the column list with the parent's column, from `theirs`, set in each column of the reference."""
    by_name = dict(zip(checked.columns, theirs, strict=True))
    named = (
        replace(column, references=replace(column.references, columns=(by_name[column.name],)))
        if column.name in by_name and column.references is not None
        else column
        for column in columns.named
    )
    return replace(columns, named=tuple(named))


def reference_span(draft: UnresolvedTable, column: str) -> Span:
    """Return the span of a column's REFERENCES; if it is unknown, that of the column or of the table."""
    declaration = _find_declaration(draft, column)
    return (declaration.references_span or declaration.span) if declaration else draft.span


def _find_declaration(draft: UnresolvedTable, column: str) -> ParsedColumn | None:
    columns = draft.statement.value("COLUMNS", ParsedColumnList)
    return next((one for one in columns.columns if one.name == column), None) if columns else None


def _find_problems(
    draft: UnresolvedTable, parent: UnresolvedTable, checked: CheckedReference
) -> Iterator[WaterclockError]:
    span = reference_span(draft, checked.columns[0])
    if draft.kind is Kind.COLLECT:
        yield unsupported_error(
            "a checked REFERENCES of a COLLECT", span, fix="write it in a TRANSFORM that reads this table"
        )
        return
    references = [
        column.references for name in checked.columns for column in draft.declared.columns.named if column.name == name
    ]
    if parent.declared.temporal is not None or any(each is not None and each.at is not None for each in references):
        fix = "leave its ELSE out, or refer to a table with one row for each key"
        yield unsupported_error("a checked REFERENCES to versions", span, fix=fix)
        return
    if draft.statement.clause("PARTIAL AFTER") is not None:
        fix = "remove one of them: missing input would count as rows without a parent"
        yield unsupported_error("PARTIAL AFTER with a checked REFERENCES", draft.at("PARTIAL AFTER"), fix=fix)
    if keeps_open_windows(draft.statement.value("OPTIONS", ParsedOptions)):
        fix = "leave open_windows out, or ELSE"
        yield unsupported_error("open_windows with a checked REFERENCES", span, fix=fix)
    yield from _check_actions(draft, checked)
    yield from _check_columns(draft, parent, checked, span)


def _check_actions(draft: UnresolvedTable, checked: CheckedReference) -> Iterator[WaterclockError]:
    for column in draft.declared.columns.named:
        own = column.references.otherwise if column.references and column.name in checked.columns else ()
        if own and own != checked.actions:
            yield reference_span(draft, column.name).refuse(
                "E282",
                f"different ELSE actions for one reference to {checked.table}",
                why=f"{' and '.join(checked.columns)} are one reference to one parent",
                fix="write ELSE after only one of them, or give each a ROLE",
            )


def _check_columns(
    draft: UnresolvedTable, parent: UnresolvedTable, checked: CheckedReference, span: Span
) -> Iterator[WaterclockError]:
    theirs = _parent_columns(checked, parent)
    columns = ", ".join(checked.columns)
    if not theirs:
        yield span.refuse(
            "E281",
            f"{parent.name} has no key",
            why=f"a row of {draft.name} finds its parent by the parent's key",
            fix=f"mark it in {parent.name}, as in (id KEY, *), or name its columns: REFERENCES {parent.name} (id)",
        )
        return
    if len(theirs) != len(checked.columns):
        yield span.refuse(
            "E281",
            f"{columns} of {draft.name} cannot refer to ({', '.join(theirs)}) of {parent.name}",
            why=f"{_format_count(len(checked.columns))} to {_format_count(len(theirs))}",
            fix=f"refer to {parent.name} by as many columns, or name its columns; give each of two parents a ROLE",
        )
        return
    for name, their in zip(checked.columns, theirs, strict=True):
        own, other = _column_type(draft, name), _column_type(parent, their)
        if own and other and plain_type(own) != plain_type(other):
            yield reference_span(draft, name).refuse(
                "E283",
                f"{name} is of type {own}, and {their} of {parent.name} of type {other}",
                why="Spark would convert one to the other without a warning",
                fix="declare the same type for both, and cast where the columns are made",
            )


def _column_type(draft: UnresolvedTable, column: str) -> str | None:
    return next((each.type for each in draft.declared.columns.named if each.name.lower() == column.lower()), None)


def _format_count(number: int) -> str:
    return "one column" if number == 1 else f"{number} columns"
