"""Adds the companion tables for late rows: a transform for each input that a table with CLOSE WHEN reads UNTIL."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from sqlglot import exp

from waterclock.dpl.query.references import find_in_branches
from waterclock.dpl.query.visible_columns import Output
from waterclock.dpl.resolve.hidden import list_hidden_columns
from waterclock.dpl.resolve.views import queries_of
from waterclock.dpl.syntax.parser import parse_text
from waterclock.dpl.syntax.source_text import SourceText
from waterclock.dpl.syntax.statements import (
    Clause,
    Expression,
    ParsedRestate,
    ParsedWatermark,
    Statement,
    StatementKind,
)
from waterclock.errors import WaterclockError
from waterclock.flow.declarations import Read, Value
from waterclock.flow.enums import OnRestate, ReadKind
from waterclock.flow.late_rows import REASON, LateRows, late_of
from waterclock.spark_sql import quote_name
from waterclock.timelabel.duration import Duration

KEEPS_LATE = "LATE ROWS"
"""An internal clause that users cannot write. It marks a transform that stores the late rows of a table."""

_SOME_DAY = datetime(2024, 1, 1, tzinfo=UTC)
_CLOSES, _MAX_LATENESS = "CLOSE WHEN", "MAX LATENESS"


def add_late_row_tables(
    statements: Sequence[Statement], variables: Mapping[str, Value], errors: list[WaterclockError]
) -> list[Statement]:
    """Return the statements of a project, with transforms added that store the late rows of tables with CLOSE WHEN.

    There is one for each input that is read UNTIL and whose time column is known: from a watermark() in the condition,
    or from the input's WATERMARK.
    """
    # the name of a PUBLISH is that of its table
    names = {each.name.lower(): each for each in statements if each.kind is not StatementKind.PUBLISH}
    kept: list[Statement] = []
    for statement in statements:
        within = statement.value(_MAX_LATENESS, Duration)
        if statement.clause(_CLOSES) is None or statement.kind is not StatementKind.TRANSFORM:
            errors.extend(_check_max_lateness(statement))
            continue
        # if a table is read twice, the read that reaches further back determines which rows are too early
        farthest = sorted(_list_until_reads(statement, names), key=lambda read: _length(read.span))
        reads = list({read.table: read for read in farthest}.values())
        columns = {read: _find_time_column(statement, read, names, is_only=len(reads) == 1) for read in reads}
        errors.extend(_check_time_columns(statement, within, columns))
        for read, column in columns.items():
            if column is not None and read.span is not None and not statement.failed:
                own = (
                    late_of(statement.name)
                    if len(reads) == 1
                    else f"{late_of(statement.name)}_{_bare_name(read.table)}"
                )
                late_rows = LateRows(statement.name, column, read.span, within)
                if own.lower() not in names:
                    hidden = list_hidden_columns(names.get(read.table.lower()))
                    kept.append(_build_late_rows(statement, read, own, late_rows, hidden, variables))
                elif len(reads) > 1:  # names with the suffix _late are refused by the rules of names
                    errors.append(_reserved_name_error(names[own.lower()], statement))
    return [*statements, *kept]


def _list_until_reads(statement: Statement, names: Mapping[str, Statement]) -> Iterator[Read]:
    """Yield the UNTIL reads of a statement and of the views that it reads."""
    if statement.function is not None:
        for argument in statement.function.arguments:
            if argument.read is not None and argument.read.kind is ReadKind.UNTIL:
                yield argument.read
            elif argument.read is not None:
                yield from _list_until_reads_of_view(argument.read.table, names)
    for query in queries_of(statement):
        for table in find_in_branches(query).tables:
            if table.kind is ReadKind.UNTIL:
                yield Read(table.name, table.kind, table.duration)
            else:
                yield from _list_until_reads_of_view(table.name, names)


def _list_until_reads_of_view(name: str, names: Mapping[str, Statement]) -> Iterator[Read]:
    view = names.get(name.lower())
    if view is not None and view.kind is StatementKind.VIEW:
        yield from _list_until_reads(view, {key: value for key, value in names.items() if value is not view})


def _find_time_column(statement: Statement, read: Read, names: Mapping[str, Statement], *, is_only: bool) -> str | None:
    """Return the time column that assigns rows of `read` to windows; None if none is declared."""
    expression = statement.value(_CLOSES, Expression)
    for call in expression.tree.find_all(exp.Anonymous) if expression is not None else ():
        column = call.expressions[0] if call.name.upper() == "WATERMARK" and call.expressions else None
        if isinstance(column, exp.Column):
            path = ".".join(part.name for part in column.parts[:-1]).lower()
            if (is_only and not path) or path in {read.table.lower(), _bare_name(read.table).lower()}:
                return str(column.name)
    declared = names[read.table.lower()].value("WATERMARK", ParsedWatermark) if read.table.lower() in names else None
    return declared.column if declared is not None else None


def _build_late_rows(
    statement: Statement,
    read: Read,
    own: str,
    late_rows: LateRows,
    hidden: Sequence[str],
    variables: Mapping[str, Value],
) -> Statement:
    name, of = (".".join(map(quote_name, table.split("."))) for table in (own, read.table))
    columns = f"({', '.join(f'{quote_name(column)} HIDDEN' for column in hidden)}, *) " if hidden else ""
    named = "".join(f"{quote_name(column)}, " for column in hidden)
    # the query returns all rows; the batch filters late ones by the times at which windows were closed
    text = (
        f"TRANSFORM {name} PARTITIONED {columns}"
        f"COMMENT 'Rows that came too late, or too early, for {statement.name}' "
        f"AS SELECT {named}*, CAST(NULL AS STRING) AS {REASON} FROM {of};"
    )
    found, errors = parse_text(SourceText(f"the late rows of {statement.name}", text), variables=variables)
    if errors:
        raise AssertionError(f"the late rows of {statement.name} cannot be read: {errors[0].what}")
    return replace(
        found[0], span=statement.span, clauses=(*found[0].clauses, Clause(KEEPS_LATE, late_rows, statement.span))
    )


def _bare_name(table: str) -> str:
    return table.rsplit(".", 1)[-1]


def _check_max_lateness(statement: Statement) -> Iterator[WaterclockError]:
    clause = statement.clause(_MAX_LATENESS)
    if clause is not None:
        yield clause.span.refuse(
            "E370",
            f"{statement.name} has MAX LATENESS, but no CLOSE WHEN",
            why="MAX LATENESS limits how long late rows reopen closed windows; open windows run again anyway",
            fix="add CLOSE WHEN, as in CLOSE WHEN watermark(at) >= WINDOW_END(), or leave MAX LATENESS out",
        )


def _check_time_columns(
    statement: Statement, within: Duration | None, columns: Mapping[Read, str | None]
) -> Iterator[WaterclockError]:
    clause = statement.clause(_MAX_LATENESS)
    if within is None or clause is None:
        return
    for read in (read for read, column in columns.items() if column is None):
        yield clause.span.refuse(
            "E371",
            f"{read.table} has no WATERMARK, so late rows cannot be recognized",
            why="late rows are found by the time column of the watermark",
            fix=f"add WATERMARK at 0 MINUTES to {read.table}, or use watermark(at) in CLOSE WHEN",
        )
    restate = statement.value("ON RESTATE", ParsedRestate)
    if restate is not None and restate.reaction is OnRestate.REPORT:
        yield clause.span.refuse(
            "E371",
            f"late rows cannot reopen windows of {statement.name}",
            why="ON RESTATE REPORT only reports changes, and runs no batch",
            fix="remove ON RESTATE REPORT or MAX LATENESS",
        )


def check_reason_column(
    statement: Statement, late_rows: LateRows, read: str, output: Output
) -> Iterator[WaterclockError]:
    """Yield an error if `read`, the input of late rows, has a column with the name of the one that is added to them."""
    if sum(entry.name.lower() == REASON for entry in output.entries) > 1:
        yield statement.span.refuse(
            "E212",
            f"{read} has a column {REASON}",
            why=f"{statement.name} contains its late rows for {late_rows.of}, with the reason in a column of that name",
            fix=f"give the column of {read} another name",
        )


def _reserved_name_error(other: Statement, statement: Statement) -> WaterclockError:
    return other.span.refuse(
        "E211",
        f"{other.name} is a reserved name",
        why=f"it contains the late rows of {statement.name}",
        fix="choose another name",
    )


def _length(span: Duration | None) -> timedelta:
    return timedelta() if span is None else span.add_to(_SOME_DAY, "UTC") - _SOME_DAY
