"""Resolves OPTIONS (open_windows 'kept'), which adds a companion table with the windows that are not closed yet.

The companion table has the same query. It is a REPLACE table, whose batches run at the boundaries of the UNTIL inputs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta

from waterclock.dpl.resolve.fingerprints import digest
from waterclock.dpl.resolve.table_options import OPEN_WINDOWS, keeps_open_windows
from waterclock.dpl.resolve.unresolved_table import UnresolvedTable
from waterclock.dpl.syntax.source_text import Span
from waterclock.dpl.syntax.statements import ParsedOptions, Statement, StatementKind
from waterclock.errors import WaterclockError
from waterclock.flow.about import About
from waterclock.flow.declarations import Column, Columns, Table
from waterclock.flow.enums import Kind, Mode, OnRestate, ReadKind, Scope, TableType
from waterclock.flow.open_windows import IS_CLOSED, WINDOW_LABEL, open_table_of, view_of

_RELATIONS = frozenset({StatementKind.COLLECT, StatementKind.TRANSFORM, StatementKind.VIEW})


def check_open_windows(
    drafts: Mapping[str, UnresolvedTable], statements: Iterable[Statement]
) -> Iterator[WaterclockError]:
    """Yield errors for the option open_windows in tables without CLOSE WHEN, or whose windows need closed windows."""
    names = {each.name.lower(): each for each in statements if each.kind in _RELATIONS}
    for draft in drafts.values():
        if not _keeps_open_windows(draft):
            continue
        span = draft.statement.value("OPTIONS", ParsedOptions).spans[OPEN_WINDOWS]  # type: ignore[union-attr] # it has the option
        if draft.statement.clause("CLOSE WHEN") is None:
            yield span.refuse(
                "E268",
                f"{draft.name} has no open windows",
                why="each of its batches makes a window once, when all of its inputs exist",
                fix="add CLOSE WHEN, or leave the option out",
            )
            continue
        yield from _check_inputs(draft, drafts, span)
        yield from _check_column_names(draft, span)
        taken = names.get(open_table_of(draft.name).lower())
        if taken is not None:
            yield taken.span.refuse(
                "E211",
                f"{taken.name} is a reserved name",
                why=f"it contains the open windows of {draft.name}",
                fix="choose another name",
            )


def with_open_windows(tables: Mapping[str, Table], drafts: Mapping[str, UnresolvedTable]) -> dict[str, Table]:
    """Return the tables of a flow, with the companion tables for open windows added."""
    found = dict(tables)
    for name, draft in drafts.items():
        if _keeps_open_windows(draft) and name in tables and tables[name].closes is not None:
            companion = _companion_table(tables[name], tables)
            found[companion.name] = companion
    return found


def query_only_reason(name: str, tables: Mapping[str, Statement]) -> str | None:
    """Return the reason why only ad hoc queries can read this companion table or view; None for any other name."""
    for table, statement in tables.items():
        is_kept = keeps_open_windows(statement.value("OPTIONS", ParsedOptions))
        has_open = is_kept or statement.clause("CONTINUOUS") is not None
        if name == open_table_of(table) and has_open:
            return f"it contains the open windows of {table}"
        if name == view_of(table) and statement.value("TYPE OF TABLE", TableType) is TableType.PARTITIONED:
            return f"it shows {table}, with its open windows" if has_open else f"it shows {table}"
    return None


def _keeps_open_windows(draft: UnresolvedTable) -> bool:
    return draft.kind is Kind.TRANSFORM and keeps_open_windows(draft.statement.value("OPTIONS", ParsedOptions))


def _companion_table(table: Table, tables: Mapping[str, Table]) -> Table:
    cadences = [tables[read.table].cadence for read in table.reads if read.kind is ReadKind.UNTIL]
    label = Column(WINDOW_LABEL, table.place, "STRING", bool(table.columns.keys), is_not_null=True)
    # a rule of a whole window is checked once the window is complete
    named = (*table.columns.named, label)
    return replace(
        table,
        name=open_table_of(table.name),
        type=TableType.REGULAR,
        mode=Mode.REPLACE,
        cadence=replace(cadences[0], delay=max((each.delay for each in cadences), default=timedelta(0))),
        start=None,
        columns=Columns(named, table.columns.is_open),
        rules=tuple(rule for rule in table.rules if rule.scope is Scope.ROW),
        measures=(),
        is_profiled=False,
        offline=None,
        retain=None,
        manifest=None,
        sort_by=(),
        cluster_by=(),
        partition_by=(),
        bucket_by=None,
        is_unshuffled=False,
        continuous=None,
        is_sequential=False,
        on_restate=OnRestate.RECOMPUTE,
        restate_at_most=None,
        partial_after=None,
        deadline=None,
        is_by_watermark=False,
        runtime=None,
        closes=None,
        marks=None,
        late_rows=None,
        open_of=table.name,
        about=About(table.about.owner, table.about.tags, f"The open windows of {table.name}"),
        was=open_table_of(table.was) if table.was else None,
        fingerprint=digest(("open windows", table.fingerprint)),
        code_before=digest(("open windows", table.code_before)) if table.code_before else "",
    )


def _check_inputs(
    draft: UnresolvedTable, drafts: Mapping[str, UnresolvedTable], span: Span
) -> Iterator[WaterclockError]:
    """Yield errors for inputs that do not exist before earlier windows of the table are closed."""
    if draft.declared.function is not None and draft.declared.function.step is not None:
        yield span.refuse(
            "E268",
            f"windows of {draft.name} depend on the previous state, and cannot be computed while they are open",
            why="the previous state exists once all earlier windows are closed",
            fix="leave the option out",
        )
    for read in draft.declared.reads:
        if draft.name in upstream_of(drafts, [read.table]):
            yield span.refuse(
                "E268",
                f"windows of {draft.name} read {read}, and cannot be computed while they are open",
                why="each is computed from the window before it, once that is closed"
                if read.table == draft.name
                else f"{read.table} is computed from closed windows of {draft.name}",
                fix=f"leave the option out, or compute the columns without {read} in another table",
            )


def upstream_of(drafts: Mapping[str, UnresolvedTable], names: Sequence[str]) -> set[str]:
    """Return the given tables, and all tables that they read, directly or indirectly."""
    found: set[str] = set()
    to_do = list(names)
    while to_do:
        name = to_do.pop()
        if name in drafts and name not in found:
            found.add(name)
            to_do += [read.table for read in drafts[name].declared.reads]
    return found


def _check_column_names(draft: UnresolvedTable, span: Span) -> Iterator[WaterclockError]:
    for column in draft.declared.columns.named:
        if column.name.lower() in {WINDOW_LABEL, IS_CLOSED}:
            place = "the table of its open windows" if column.name.lower() == WINDOW_LABEL else f"{draft.name}_view"
            yield span.refuse(
                "E268",
                f"{draft.name} has a column {column.name}",
                why=f"{place} has one of that name",
                fix="rename it, or leave the option out",
            )
