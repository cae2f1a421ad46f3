"""Checks the reads of tables: windows must fit and be retained, and durations must have an effect."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from functools import lru_cache

from waterclock.dpl.resolve.ineffective_durations import (
    check_idle_bounds,
    idle_key_error,
    reaches_no_earlier_window,
    several_windows,
)
from waterclock.dpl.resolve.unresolved_table import UnresolvedTable
from waterclock.dpl.syntax.source_text import Span
from waterclock.errors import WaterclockError
from waterclock.flow.declarations import Read
from waterclock.flow.enums import Kind, Mode, ReadKind, TableType
from waterclock.timelabel.cadence import Cadence
from waterclock.timelabel.duration import Duration, elapsed_text
from waterclock.timelabel.fitting import consists_of_windows, nearest_fitting_cadence
from waterclock.timelabel.period import Period, TimeUnit

_SAMPLE = datetime(2024, 1, 1, tzinfo=UTC)
_DAYS = 800
_QUOTE = "'"
_SLICES = frozenset({ReadKind.PLAIN, ReadKind.PAST, ReadKind.UNTIL, ReadKind.PREVIOUS})


def check_reads(
    drafts: Mapping[str, UnresolvedTable], spans: Mapping[tuple[str, Read], Span]
) -> Iterator[WaterclockError]:
    """Yield errors for reads that violate the rules in docs/explain/consistency.md; `spans` has their positions."""
    for draft in drafts.values():
        for read in draft.declared.reads:
            other = drafts.get(read.table)
            if other is None:
                continue
            span = spans.get((draft.name, read), draft.span)
            error = _check_read(draft, read, other, span)
            if error is not None:
                yield error
    yield from check_idle_bounds(drafts.values())


def _check_read(draft: UnresolvedTable, read: Read, other: UnresolvedTable, span: Span) -> WaterclockError | None:
    if draft.declared.apart is not None and read.kind is ReadKind.LATEST:
        return _latest_error(draft, read, span)
    is_delivered = (
        draft.kind is Kind.PUBLISH and draft.declared.mode is Mode.APPEND
    )  # an APPEND delivers label by label, also from a regular table
    if other.declared.type is TableType.REGULAR and not is_delivered:
        return _regular_table_error(read, span) if read.span is not None else None
    own, cadence = draft.cadence, other.cadence
    if own is None or cadence is None or read.kind not in _SLICES:
        return None
    if not consists_of_windows(own, cadence):
        return _cadence_error(draft, own, read, cadence, span)
    if read.span is not None:
        return _check_span(own, read, read.span, other, cadence, span)
    return _window_retain_error(draft, own, read, other.declared.retain, span) if other.declared.retain else None


def _latest_error(draft: UnresolvedTable, read: Read, span: Span) -> WaterclockError:
    return span.refuse(
        "E341",
        f"{draft.name} has APART, and reads {read}",
        why="each of its two batches would choose a tick of its own, and their rows could not be joined",
        fix=f"read {read} in another TRANSFORM, and read that here",
    )


def _regular_table_error(read: Read, span: Span) -> WaterclockError:
    return span.refuse(
        "E216",
        f"{read.kind.upper()} cannot read {read.table}, a regular table",
        why="a regular table has no slices, only one state at each tick",
        fix=f"write {read.table} for its state, or PREVIOUS({read.table}) for the one before",
    )


def _cadence_error(draft: UnresolvedTable, own: Cadence, read: Read, other: Cadence, span: Span) -> WaterclockError:
    near = nearest_fitting_cadence(own, other)
    zone = f" ZONE '{near.zone}'" if near.zone != own.zone else ""
    other_reads = f", or read HISTORY({read.table}) or LATEST({read.table})" if draft.kind is Kind.TRANSFORM else ""
    return span.refuse(
        "E122",
        f"a window of {draft.name} does not cover whole windows of {read.table}",
        why=f"{draft.name} is {_words(own)}, {read.table} is {_words(other)}",
        fix=f"write EVERY {near.period}{zone}{other_reads}",
    )


def _words(cadence: Cadence) -> str:
    return str(Cadence(cadence.period, zone=cadence.zone))


def _check_span(
    own: Cadence, read: Read, back: Duration, other: UnresolvedTable, cadence: Cadence, span: Span
) -> WaterclockError | None:
    is_idle = read.kind is ReadKind.PREVIOUS and reaches_no_earlier_window(back, own)
    if not span_fits(own, cadence, back):
        fitting = several_windows(cadence, 2) if is_idle else fitting_span(back, cadence)
        return span.refuse(
            "E122",
            f"{back} {'after a window' if read.kind is ReadKind.UNTIL else 'back'} is not a boundary of {read.table}",
            why=f"{read.table} is {_words(cadence)}",
            fix=f"write {fitting.strip(_QUOTE).upper() if read.kind is ReadKind.PREVIOUS else fitting}",
        )
    if is_idle:
        return idle_key_error(span, back, own)
    if read.kind is ReadKind.UNTIL:
        return _until_retain_error(own, read, back, other.declared.retain, span) if other.declared.retain else None
    if other.declared.retain is not None and _reaches_beyond(back, other.declared.retain, own.zone):
        return span.refuse(
            "E123",
            f"PAST reaches {back} back, and {read.table} keeps {other.declared.retain}",
            why="a dropped window must not be read as if it were empty",
            fix=f"write RETAIN {back} where {read.table} is made, or a shorter PAST",
        )
    return None


def _until_retain_error(
    own: Cadence, read: Read, late: Duration, retain: Duration, span: Span
) -> WaterclockError | None:
    for window in (own.window_of(_SAMPLE + timedelta(days=91 * quarter)) for quarter in range(8)):
        low, high = late.subtract_from(window.start, own.zone), late.add_to(window.end, own.zone)
        if retain.subtract_from(high, own.zone) > low:
            return span.refuse(
                "E123",
                f"{read} reads {late} before and after windows of {own.period}, and {read.table} keeps {retain}",
                why="a dropped window must not be read as if it were empty",
                fix=f"write a longer RETAIN in {read.table}",
            )
    return None


def _window_retain_error(
    draft: UnresolvedTable, own: Cadence, read: Read, retain: Duration, span: Span
) -> WaterclockError | None:
    window = own.window_of(_SAMPLE)
    if retain.subtract_from(window.end, own.zone) <= window.start:
        return None
    return span.refuse(
        "E123",
        f"{draft.name} reads windows of {own.period}, and {read.table} keeps {retain}",
        why="a dropped window must not be read as if it were empty",
        fix=f"write a longer RETAIN in {read.table}",
    )


def _reaches_beyond(back: Duration, retain: Duration, zone: str) -> bool:
    ticks = (_SAMPLE + timedelta(days=91 * quarter) for quarter in range(8))
    return any(back.subtract_from(tick, zone) < retain.subtract_from(tick, zone) for tick in ticks)


def fitting_span(back: Duration, cadence: Cadence) -> str:
    """Return the shortest duration of whole windows that covers `back`, as a quoted string such as `'3 days'`."""
    period = cadence.period
    if period.unit is not TimeUnit.MINUTE:
        length = {TimeUnit.DAY: 1, TimeUnit.WEEK: 7, TimeUnit.MONTH: 30, TimeUnit.QUARTER: 91, TimeUnit.YEAR: 365}[
            period.unit
        ]
        count = max(1, -(-_approximate_length(back) // timedelta(days=length)))
        return f"'{count} {period.unit.lower()}{'s' if count > 1 else ''}'"
    step = timedelta(minutes=period.count)
    return f"'{elapsed_text(-(-_approximate_length(back) // step) * step).lower()}'"


def _approximate_length(back: Duration) -> timedelta:
    return _SAMPLE - back.subtract_from(_SAMPLE, "UTC")


@lru_cache(maxsize=4096)
def span_fits(own: Cadence, read: Cadence, back: Duration) -> bool:
    """Return whether the time `back` before each boundary of the reader's cadence `own` is a boundary of `read`.

    `read` is the cadence of the table that it reads. Elapsed times over windows of minutes are checked by division.
    Others are checked at the boundaries of two years, which include every kind of day that the current zones have.
    """
    if read.period.unit is TimeUnit.MINUTE and back.unit in {"SECOND", "MINUTE", "HOUR"}:
        return back.to_timedelta() % timedelta(minutes=read.period.count) == timedelta(0)
    probe = own
    if own.period.unit is TimeUnit.MINUTE:
        probe = Cadence(Period(TimeUnit.DAY), zone=own.zone)
    tick = probe.ceil(_SAMPLE)
    end = _SAMPLE + timedelta(days=_DAYS)
    while tick < end:
        if not read.is_boundary(back.subtract_from(own.ceil(tick), own.zone)):
            return False
        tick = probe.next(tick)
    return True
