"""Checks SUBJECT columns, whose values identify persons: their types, and that those of one subject are comparable."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import StrEnum

from waterclock.dpl.resolve.unresolved_table import UnresolvedTable
from waterclock.dpl.syntax.source_text import Span
from waterclock.dpl.syntax.statements import ParsedColumnList
from waterclock.errors import WaterclockError
from waterclock.flow.flat_joins import plain_type


class SubjectType(StrEnum):
    """The kinds of types of SUBJECT columns. Their values have exactly one text form, by which a person is found."""

    TEXT = "text"
    INTEGER = "integer"


_INTEGERS = frozenset({"TINYINT", "SMALLINT", "INT", "BIGINT"})
_TEXTS = frozenset({"STRING", "VARCHAR", "CHAR"})


def subject_type(declared: str) -> SubjectType | None:
    """Return the subject type, integer or text, of a declared column type; None if it cannot identify a person."""
    name = plain_type(declared).partition("(")[0]
    if name in _INTEGERS:
        return SubjectType.INTEGER
    return SubjectType.TEXT if name in _TEXTS else None


def check_subjects(drafts: Iterable[UnresolvedTable]) -> Iterator[WaterclockError]:
    """Yield errors for SUBJECT columns that are not text or integer, or differ from other columns of the subject."""
    first: dict[str, tuple[str, str]] = {}
    typed: dict[str, tuple[SubjectType, str]] = {}
    for draft in drafts:
        column_list = draft.statement.value("COLUMNS", ParsedColumnList)
        for column in column_list.columns if column_list else ():
            subject, span = column.declared.subject, column.subject_span
            if subject is None or span is None:
                continue
            named, at = first.setdefault(subject.lower(), (subject, f"{draft.name}.{column.name}"))
            if named != subject:
                yield span.refuse(
                    "E340",
                    f"subject {subject} is spelled {named} in {at}",
                    why="names of subjects that differ by case only would be one person with two names",
                    fix=f"write SUBJECT {named}",
                )
            if column.declared.type is not None:
                yield from _check_type(draft.name, column.name, column.declared.type, subject, span, typed)


def _check_type(
    table: str, column: str, declared: str, subject: str, span: Span, typed: dict[str, tuple[SubjectType, str]]
) -> Iterator[WaterclockError]:
    kind = subject_type(declared)
    if kind is None:
        yield span.refuse(
            "E340",
            f"{column} has the type {declared}, which cannot be a SUBJECT",
            why="a person is looked up by this value in all tables; only STRING and integer types compare exactly",
            fix="declare STRING or BIGINT, or put SUBJECT on another column",
        )
        return
    known, at = typed.setdefault(subject.lower(), (kind, f"{table}.{column}"))
    if known is not kind:
        yield span.refuse(
            "E340",
            f"{column} has the type {declared}, but {at} of the same subject has the type {known}",
            why="the text '042' and the number 42 would be two persons, and one of them would be missed",
            fix=f"declare both as text or both as integers, or name another subject than {subject}",
        )
