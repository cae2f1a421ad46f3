"""Resolves CONTINUOUS: the tables whose open windows are read, and computed, every few seconds.

A collect declares the time between two reads. A transform is computed whenever the collects that it reads are, directly
or through other transforms, so it has their shortest time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from waterclock.dpl.resolve.open_window_publishes import check_open_window_publishes
from waterclock.dpl.resolve.open_windows import upstream_of
from waterclock.dpl.resolve.unresolved_flow import UnresolvedFlow, upstream_first
from waterclock.dpl.resolve.unresolved_table import UnresolvedTable
from waterclock.dpl.syntax.statements import StatementKind
from waterclock.dpl.syntax.unsupported import unsupported_error
from waterclock.errors import WaterclockError
from waterclock.flow.checked_references import checked_references
from waterclock.flow.checks import is_key_past_read
from waterclock.flow.declarations import TableDeclaration
from waterclock.flow.enums import Kind, Mode, ReadKind, TableType
from waterclock.flow.flats import flats_of
from waterclock.flow.open_windows import IS_CLOSED, open_table_of, view_of
from waterclock.timelabel.cadence import Cadence
from waterclock.timelabel.duration import Duration

_WORD = "CONTINUOUS"
_LEAST = timedelta(seconds=1)
_SOME_INSTANT = datetime(2024, 2, 1, tzinfo=UTC)  # for the length of a window
_OPEN_READS = frozenset({ReadKind.PLAIN, ReadKind.PAST})


def resolve_continuous(flow: UnresolvedFlow) -> Iterator[WaterclockError]:
    """Resolve the time of each table with CONTINUOUS, and yield errors for tables that cannot have open windows.

    Publishes that cannot show them are reported, too.
    """
    drafts = flow.drafts
    relations = {
        each.name.lower(): each
        for each in flow.statements
        if each.kind in {StatementKind.COLLECT, StatementKind.TRANSFORM, StatementKind.VIEW}
    }
    for draft in upstream_first(drafts):
        if draft.statement.clause(_WORD) is None:
            continue
        errors = list(_check_collect(flow, draft) if draft.kind is Kind.COLLECT else _check_transform(draft, drafts))
        errors += _check_any(draft, drafts)
        for name in (open_table_of(draft.name), view_of(draft.name)):
            if (taken := relations.get(name.lower())) is not None:
                errors.append(
                    taken.span.refuse(
                        "E211",
                        f"{taken.name} is a reserved name",
                        why=f"it contains the open windows of {draft.name}",
                        fix="choose another name",
                    )
                )
        yield from errors
        draft.declared = replace(draft.declared, continuous=_time_of(draft, drafts))
    yield from check_open_window_publishes(flow)


def _time_of(draft: UnresolvedTable, drafts: Mapping[str, UnresolvedTable]) -> Duration | None:
    own = draft.statement.value(_WORD, Duration) if draft.kind is Kind.COLLECT else None
    times = [own] if own is not None else _continuous_reads(draft, drafts)
    return min(times, key=Duration.to_timedelta, default=None)


def _continuous_reads(draft: UnresolvedTable, drafts: Mapping[str, UnresolvedTable]) -> list[Duration]:
    """Return the times of the tables with open windows that a transform reads."""
    found = [
        drafts[read.table].declared.continuous
        for read in draft.declared.reads
        if read.kind in _OPEN_READS and read.table in drafts
    ]
    return [each for each in found if each is not None]


def _check_collect(flow: UnresolvedFlow, draft: UnresolvedTable) -> Iterator[WaterclockError]:
    """Yield errors for a collect whose source cannot be read before a window is over."""
    whole, declared = draft.at(_WORD), draft.declared
    every, source = draft.statement.value(_WORD, Duration), declared.source
    if every is not None and every.to_timedelta() < _LEAST:
        yield whole.refuse(
            "E389", f"{_WORD} {every} is less than a second",
            why="each read of the source takes a part of a second",
            fix=f"write {_WORD} 1 SECOND or more",
        )  # fmt: skip
    if every is not None and draft.cadence is not None and every.to_timedelta() >= _length(draft.cadence):
        yield whole.refuse(
            "E389", f"{_WORD} {every} is no shorter than the window",
            why=f"{draft.name} has windows {draft.cadence.period}, which are read when they are over",
            fix=f"write a shorter time, or leave {_WORD} out",
        )  # fmt: skip
    if source is None:
        return
    capabilities = flow.systems.capabilities_of(source.unit)
    if source.each is not None:
        yield unsupported_error(f"{_WORD} with FOR EACH", whole)
    elif capabilities is not None and source.batching not in capabilities.reads_open_windows:
        able = [
            f"{kind} BY {batching.upper()}"
            for kind, each in sorted(flow.systems.capabilities.items())
            for batching in sorted(each.reads_open_windows)
        ]
        yield unsupported_error(
            f"{_WORD} from {capabilities.type} BY {source.batching.upper()}",
            whole,
            fix=f"leave it out; it is available for {', '.join(able)}",
        )
    if source.awaits is not None:
        yield unsupported_error(f"{_WORD} with AWAIT", whole)


def _check_transform(draft: UnresolvedTable, drafts: Mapping[str, UnresolvedTable]) -> Iterator[WaterclockError]:
    """Yield errors for a transform whose windows need more than the rows so far."""
    whole, declared = draft.at(_WORD), draft.declared
    if draft.statement.clause("CLOSE WHEN") is not None:
        yield whole.refuse(
            "E389", f"{draft.name} has {_WORD} and CLOSE WHEN",
            why="its windows stay open after they are over, until their books are closed",
            fix="leave it out, and write OPTIONS (open_windows 'kept'), which makes them at each boundary",
        )  # fmt: skip
        return
    if not _continuous_reads(draft, drafts) and not _has_unknown_reads(draft, drafts):
        known = sorted(name for name, each in drafts.items() if each.declared.continuous is not None)
        yield whole.refuse(
            "E389", f"{draft.name} reads no table with {_WORD}",
            why=f"such tables: {', '.join(known)}" if known else "no COLLECT of the flow has it",
            fix=f"add {_WORD} 10 SECONDS to the COLLECT that it reads, or leave it out",
        )  # fmt: skip
    if declared.function is not None and declared.function.step is not None:
        yield unsupported_error(f"{_WORD} with wc.stateful", whole)
    if _has_flat(declared):
        yield unsupported_error(f"{_WORD} with FLAT", whole)
    for read in declared.reads:
        if read.kind not in _OPEN_READS and not is_key_past_read(read):
            yield unsupported_error(f"{_WORD} with {read.kind.upper()}({read.table})", whole)
        elif read.table in drafts and drafts[read.table].declared.marks is not None:
            yield unsupported_error(f"{_WORD} with WATERMARK()", whole)
    if checked_references(declared.columns):
        yield unsupported_error(f"{_WORD} with REFERENCES ... ELSE", whole)


def _has_unknown_reads(draft: UnresolvedTable, drafts: Mapping[str, UnresolvedTable]) -> bool:
    """Return whether an input is unknown, or has a CONTINUOUS that could not be parsed. These are reported there."""
    upstream = [drafts[name] for name in upstream_of(drafts, [draft.name])]
    return any(each.is_incomplete or each.statement.has_failed(_WORD) for each in upstream)


def _check_any(draft: UnresolvedTable, drafts: Mapping[str, UnresolvedTable]) -> Iterator[WaterclockError]:
    whole, declared = draft.at(_WORD), draft.declared
    if declared.type is not TableType.PARTITIONED or declared.mode is not Mode.APPEND:
        yield unsupported_error(f"{_WORD} of a regular table", whole, fix="write PARTITIONED, or leave it out")
    if any(is_key_past_read(read) for read in declared.reads):
        yield unsupported_error(f"{_WORD} with KEY ... PAST", whole)
    persons = [name for name in sorted({draft.name, *upstream_of(drafts, [draft.name])}) if _has_subject(drafts[name])]
    if persons:
        yield unsupported_error(
            f"{_WORD} of rows of persons (SUBJECT in {persons[0]})",
            whole,
            fix="leave it out: `erase` does not search the rows of open windows",
        )
    for column in declared.columns.named:
        if column.name.lower() == IS_CLOSED:
            yield whole.refuse(
                "E389", f"{draft.name} has a column {column.name}",
                why=f"{view_of(draft.name)} has one of that name, whether the window is closed",
                fix=f"rename the column, or leave {_WORD} out",
            )  # fmt: skip


def _has_flat(declared: TableDeclaration) -> bool:
    arguments = declared.function.arguments if declared.function is not None else ()
    queries = [declared.query, *(each.query for each in arguments)]
    return any(each.flat for each in arguments) or any(flats_of(query) for query in queries if query is not None)


def _has_subject(draft: UnresolvedTable) -> bool:
    return any(column.subject is not None for column in draft.declared.columns.named)


def _length(cadence: Cadence) -> timedelta:
    window = cadence.window_of(_SOME_INSTANT)
    return window.end - window.start
