"""Checks SUBJECT columns, whose values identify persons: their types, and that those of one subject are comparable."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import StrEnum

from waterclock.dpl.resolve.unresolved_table import UnresolvedTable
from waterclock.dpl.syntax.source_text import Span
from waterclock.dpl.syntax.statements import ParsedColumnList
from waterclock.errors import WaterclockError
from waterclock.flow.checks import can_quarantine_rows
from waterclock.flow.flat_joins import plain_type


class SubjectType(StrEnum):
    """The kinds of types of SUBJECT columns. Their values have exactly one text form, by which a person is found."""

    TEXT = "text"
    INTEGER = "integer"


_REFUSED_WITH_TOKENS = {
    "CLOSE WHEN": "late rows are stored as they came, with the values",
    "MAX LATENESS": "late rows are stored as they came, with the values",
    "SHUFFLE": "the rows are joined with the tokens, which needs a shuffle",
}
_INTEGERS = frozenset({"TINYINT", "SMALLINT", "INT", "BIGINT"})
_TEXTS = frozenset({"STRING", "VARCHAR", "CHAR"})


def subject_type(declared: str) -> SubjectType | None:
    """Return the subject type, integer or text, of a declared column type; None if it cannot identify a person."""
    name = plain_type(declared).partition("(")[0]
    if name in _INTEGERS:
        return SubjectType.INTEGER
    return SubjectType.TEXT if name in _TEXTS else None


def subjects_with_tokens(drafts: Iterable[UnresolvedTable]) -> frozenset[str]:
    """Return the subjects of columns with TOKENS."""
    lists = (draft.statement.value("COLUMNS", ParsedColumnList) for draft in drafts)
    columns = (column.declared for found in lists if found is not None for column in found.columns)
    return frozenset(column.subject for column in columns if column.is_token and column.subject is not None)


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
            if column.declared.is_token:
                yield from _check_tokens(draft, column.name, column.declared.type, span)
            if column.declared.type is not None:
                yield from _check_type(draft.name, column.name, column.declared.type, subject, span, typed)


def _check_tokens(draft: UnresolvedTable, column: str, declared: str | None, span: Span) -> Iterator[WaterclockError]:
    """Yield an error if a column with TOKENS is no STRING, or if its table may store the values elsewhere."""
    if declared is None or plain_type(declared) != "STRING":
        yield span.refuse(
            "E342",
            f"{column} has {f'the type {declared}' if declared else 'no declared type'}, and TOKENS",
            why="a token is a text of 32 characters",
            fix=f"declare {column} STRING; a TRANSFORM casts a number, as in CAST({column} AS STRING)",
        )
    if can_quarantine_rows(draft.declared):
        yield span.refuse(
            "E342",
            f"{draft.name} has TOKENS, and quarantines rows",
            why="quarantined rows are stored as they came, with the values",
            fix="write ELSE DROP, HOLD or FAIL; or check the rows in a table that reads this one",
        )
    for word, why in _REFUSED_WITH_TOKENS.items():
        clause = draft.statement.clause(word)
        if clause is not None:
            named = clause.span.text if word == "SHUFFLE" else word
            yield clause.span.refuse(
                "E342",
                f"{draft.name} has TOKENS and {named}",
                why=why,
                fix=f"write {named} in a table that reads {draft.name}, or leave it out",
            )


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
