"""Adds the companion tables `<table>_mark` that store watermarks, and checks WATERMARK clauses and functions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from waterclock.dpl.resolve.open_windows import upstream_of
from waterclock.dpl.resolve.unresolved_table import UnresolvedTable
from waterclock.dpl.syntax.parser import parse_text
from waterclock.dpl.syntax.source_text import SourceText, Span, find_name
from waterclock.dpl.syntax.statements import Clause, ParsedColumnList, ParsedWatermark, Statement, StatementKind
from waterclock.errors import WaterclockError
from waterclock.flow.declarations import Argument, PythonFunction, Query, Read, Value
from waterclock.flow.enums import ReadKind, TableType
from waterclock.flow.stateful_steps import AFTER, BEFORE, ROWS
from waterclock.flow.watermarks import COLUMNS, MARK, MEASURES, Watermark, mark_of, query_of
from waterclock.similar_names import did_you_mean

MARKS = "MARKS"
"""An internal clause that users cannot write. It marks a transform that stores the watermark of a table."""

AS_TIMESTAMP = frozenset({"TIMESTAMP", "TIMESTAMP_LTZ"})


def add_watermark_tables(
    statements: Sequence[Statement], variables: Mapping[str, Value], errors: list[WaterclockError]
) -> list[Statement]:
    """Return the statements of a project, with transforms added that store watermarks; report invalid WATERMARKs."""
    # the name of a PUBLISH is that of its table, and a `_mark` table may be published
    names = {each.name.lower(): each for each in statements if each.kind is not StatementKind.PUBLISH}
    marks: list[Statement] = []
    for statement in statements:
        watermark = statement.value("WATERMARK", ParsedWatermark)
        if watermark is None:
            continue
        wrong = [*_check_columns(statement, watermark), *_check_name(statement, names)]
        errors.extend(wrong)
        if not wrong:
            marks.append(_build_mark_table(statement, watermark, variables))
    return [*statements, *marks]


def watermark_of(watermark: ParsedWatermark) -> Watermark:
    """Return the watermark settings of a WATERMARK clause."""
    return Watermark(watermark.column, watermark.lateness, watermark.per)


def check_marks(
    drafts: Mapping[str, UnresolvedTable], spans: Mapping[tuple[str, Read], Span]
) -> Iterator[WaterclockError]:
    """Yield errors for transforms that use the watermark of a table that is not upstream of them."""
    for draft in drafts.values():
        used = {mark_read: None for query in _list_queries(draft) for mark_read in marks_in(query)}
        if not used or draft.is_incomplete:
            continue
        above = upstream_of(drafts, [read.table for read in draft.declared.reads if read not in used])
        for read in used:
            table = read.table.removesuffix(MARK)
            if table not in above:
                word = "WATERMARK" if read.kind is ReadKind.PREVIOUS else "NEXT_WATERMARK"
                yield spans.get((draft.name, read), draft.span).refuse(
                    "E257",
                    f"{draft.name} uses {word}({table}), but does not read {table}, directly or through other tables",
                    why="a watermark is the time up to which the rows of an input are complete",
                    fix=f"read {table}, or name a table that is read",
                )


def marks_of_step(function: PythonFunction, tables: Mapping[str, Statement]) -> list[Argument]:
    """Return the watermarks before and after the window as inputs of a stateful step; none without a WATERMARK."""
    rows = next((it.read.table for it in function.arguments if it.name == ROWS and it.read is not None), None)
    if function.step is None or rows is None or mark_of(rows) not in tables:
        return []
    mark = mark_of(rows)
    if tables[mark].clause(MARKS) is None:
        return []
    return [Argument(BEFORE, read=Read(mark, ReadKind.PREVIOUS)), Argument(AFTER, read=Read(mark))]


def _list_queries(draft: UnresolvedTable) -> list[Query]:
    arguments = draft.declared.function.arguments if draft.declared.function else ()
    return [query for query in (draft.declared.query, *(argument.query for argument in arguments)) if query is not None]


def marks_in(query: Query) -> Iterator[Read]:
    """Yield the reads of `_mark` tables in a query and its views."""
    for branch in query.branches:
        yield from marks_in(branch)
    for reference in query.tables:
        if reference.is_mark and reference.read is not None:
            yield reference.read
        if reference.view is not None:
            yield from marks_in(reference.view)


def _build_mark_table(statement: Statement, watermark: ParsedWatermark, variables: Mapping[str, Value]) -> Statement:
    query = query_of(statement.name, watermark_of(watermark))
    name = ".".join(f"`{part}`" for part in mark_of(statement.name).split("."))
    text = f"TRANSFORM {name} ({COLUMNS}) COMMENT 'How far {statement.name} has come' MEASURE {MEASURES} AS {query};"
    found, errors = parse_text(SourceText(f"the watermark of {statement.name}", text), variables=variables)
    if errors:
        raise AssertionError(f"the mark of {statement.name} cannot be read: {errors[0].what}")
    keeps = Clause(MARKS, watermark_of(watermark), statement.span)
    return replace(found[0], span=statement.span, clauses=(*found[0].clauses, keeps))


def _check_columns(statement: Statement, watermark: ParsedWatermark) -> Iterator[WaterclockError]:
    listed = statement.value("COLUMNS", ParsedColumnList)
    clause = statement.clause("WATERMARK")
    if clause is None:
        return
    known = {column.name.lower(): column for column in (listed.columns if listed else ())}
    for name in (watermark.column, *watermark.per):
        if listed is not None and not listed.is_open and name.lower() not in known:
            yield find_name(name, clause.span).refuse(
                "E255",
                f"{statement.name} has no column {name}",
                why=f"it has {', '.join(column.name for column in listed.columns)}",
                fix=did_you_mean(name, [column.name for column in listed.columns]) or f"add {name} to its columns",
            )
    time = known.get(watermark.column.lower())
    if time is not None and time.declared.type is not None and time.declared.type.upper() not in AS_TIMESTAMP:
        yield _not_timestamp_error(
            find_name(watermark.column, clause.span), statement.name, time.name, time.declared.type
        )
    if watermark.per and statement.value("TYPE OF TABLE", TableType) is not TableType.PARTITIONED:
        yield clause.span.refuse(
            "E255",
            f"{statement.name} is a regular table, and cannot have PER",
            why="a part is silent if a slice has no rows of it, and a regular table has no slices",
            fix=f"add PARTITIONED after {statement.name}, or leave PER out",
        )


def _not_timestamp_error(span: Span, table: str, column: str, written: str) -> WaterclockError:
    return span.refuse(
        "E255",
        f"{column} of {table} is {written}, not TIMESTAMP",
        why="a watermark is an instant, compared with the ends of windows",
        fix=f"declare it as {column} TIMESTAMP",
    )


def _check_name(statement: Statement, names: Mapping[str, Statement]) -> Iterable[WaterclockError]:
    other = names.get(mark_of(statement.name).lower())
    if other is not None:
        yield other.span.refuse(
            "E211",
            f"{other.name} is a reserved name",
            why=f"it stores the watermark of {statement.name}",
            fix="choose another name",
        )
