"""Refuses durations that are too short to have an effect, such as a LOOKBACK that reaches no earlier window."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from functools import lru_cache

from waterclock.dpl.resolve.unresolved_table import UnresolvedTable
from waterclock.dpl.syntax.source_text import Span
from waterclock.errors import WaterclockError
from waterclock.timelabel.cadence import Cadence
from waterclock.timelabel.duration import Duration, elapsed_text
from waterclock.timelabel.period import TimeUnit
from waterclock.timelabel.window import Window

_DAYS = 800  # two years, which include each kind of day, month and year that lasts longer than others
_SAMPLES = tuple(datetime(2024, 1, 1, tzinfo=UTC) + timedelta(days=91 * quarter) for quarter in range(8))


def check_idle_bounds(drafts: Iterable[UnresolvedTable]) -> Iterator[WaterclockError]:
    """Yield errors (E124) for MAX LATENESS, LOOKBACK, PARTIAL AFTER and RETAIN that are too short."""
    for draft in drafts:
        lateness = draft.statement.value("MAX LATENESS", Duration)
        if lateness is not None and not lateness.amount:
            yield draft.at("MAX LATENESS").refuse(
                "E124",
                f"MAX LATENESS {lateness} reopens no window",
                why="a late row is late by more than zero",
                fix="write MAX LATENESS 1 DAY, or leave it out",
            )
        if draft.cadence is not None:
            yield from _check_lookback(draft, draft.cadence)
            yield from _check_partial_after(draft, draft.cadence)
            yield from _check_retain(draft, draft.cadence)


def reaches_no_earlier_window(back: Duration, cadence: Cadence) -> bool:
    """Return whether a duration, counted back from a window's end, never reaches an earlier window."""
    windows = map(cadence.window_of, _SAMPLES)
    return all(back.subtract_from(window.end, cadence.zone) >= window.start for window in windows)


def several_windows(cadence: Cadence, count: int) -> str:
    """Return the length of `count` windows as a duration in DPL, such as `2 HOURS` or `3 MONTHS`."""
    period = cadence.period
    if period.unit is TimeUnit.MINUTE:
        return elapsed_text(count * timedelta(minutes=period.count))
    return f"{count} {period.unit}{'S' if count > 1 else ''}"


def idle_key_error(key: Span, back: Duration, cadence: Cadence) -> WaterclockError:
    """Build the error for a KEY whose PAST reaches no earlier window."""
    return key.refuse(
        "E124",
        f"KEY PAST {back} reaches no earlier window",
        why=f"it is counted from a window's end, and a window lasts {several_windows(cadence, 1)}",
        fix=f"write PAST {several_windows(cadence, 2)} for the window before, or leave PAST out",
    )


def _check_lookback(draft: UnresolvedTable, cadence: Cadence) -> Iterator[WaterclockError]:
    lookback = draft.declared.source.lookback if draft.declared.source is not None else None
    if lookback is None:
        return
    if draft.declared.fold is not None:
        is_idle = not lookback.amount  # a MERGE reads single late rows
    else:
        is_idle = all(_reaches_none(lookback, cadence, cadence.window_of(sample)) for sample in _SAMPLES)
    if is_idle:
        yield draft.at("BY").refuse(
            "E124",
            f"LOOKBACK {lookback} reaches no earlier window",
            why="a late row is late by more than zero"
            if draft.declared.fold is not None
            else f"whole windows are read again, and a window lasts {several_windows(cadence, 1)}",
            fix=f"write LOOKBACK {several_windows(cadence, 1)} or more, or leave it out",
        )


def _reaches_none(lookback: Duration, cadence: Cadence, window: Window) -> bool:
    return cadence.ceil(lookback.subtract_from(window.start, cadence.zone)) >= window.start


def _check_partial_after(draft: UnresolvedTable, cadence: Cadence) -> Iterator[WaterclockError]:
    after = draft.statement.value("PARTIAL AFTER", Duration)
    if after is None:
        return
    window = cadence.window_of(_SAMPLES[0])
    if after.add_to(window.end, cadence.zone) < window.end + cadence.delay:
        yield draft.at("PARTIAL AFTER").refuse(
            "E124",
            f"PARTIAL AFTER {after} is over before a window of {draft.name} is due",
            why=f"its DELAY makes it due {elapsed_text(cadence.delay)} after its end, so PARTIAL AFTER adds no wait",
            fix=f"make PARTIAL AFTER longer than {elapsed_text(cadence.delay)}, or DELAY shorter",
        )


def _check_retain(draft: UnresolvedTable, cadence: Cadence) -> Iterator[WaterclockError]:
    retain = draft.declared.retain
    if retain is not None and not _keeps_whole_windows(retain, Cadence(cadence.period, zone=cadence.zone)):
        yield draft.at("RETAIN").refuse(
            "E124",
            f"RETAIN {retain} does not keep whole windows of {draft.name}",
            why=f"it is counted from a window's end, and a window lasts {several_windows(cadence, 1)}: "
            "readers would find the table empty",
            fix=f"write RETAIN {several_windows(cadence, 1)} or more",
        )


@lru_cache(maxsize=1024)
def _keeps_whole_windows(retain: Duration, cadence: Cadence) -> bool:
    """Return whether a table with this RETAIN always contains at least its newest window."""
    at, end = _SAMPLES[0], _SAMPLES[0] + timedelta(days=_DAYS)
    while at < end:
        window = cadence.window_of(at)
        if retain.subtract_from(window.end, cadence.zone) > window.start:
            return False
        at = max(window.end, at + timedelta(days=1))
    return True
