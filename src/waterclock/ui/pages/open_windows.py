"""The open windows of tables with CONTINUOUS, as the grid, the page of lag and the page of a table show them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime, timedelta

from waterclock.flow.declarations import Table
from waterclock.flow.open_windows import tick_seconds
from waterclock.operations.display_states import State
from waterclock.operations.formatting import (
    count_words,
    instant_words,
    local_label,
    number_words,
    short_label,
    span_words,
)
from waterclock.operations.json import instant_text
from waterclock.operations.open_windows import OpenWindow, OpenWindows, lag_words, open_windows
from waterclock.operations.project_opening import OpenedProject
from waterclock.storage.commit.log_lag import LogLag
from waterclock.ui.page_query import Content, table_address

LIVE = "live"
"""The tab of a table's page that follows its open windows."""
_LATE_TICKS, _LATE_SECONDS = 3, 30  # without a check of the sources, after which ticks are late; a check is recorded
# every ten seconds
_MOST_LABELS = 50  # of a table on a page


def ticks_of(at: OpenedProject, names: Collection[str]) -> dict[str, Content]:
    """Return the open windows of tables with CONTINUOUS. Cost: as `windows_of_ticks` for each."""
    seconds = tick_seconds(at.flow)
    return {
        name: _describe_table(at.flow.tables[name], found, at.now, seconds)
        for name, found in open_windows(at, names).items()
    }


def _describe_table(table: Table, found: OpenWindows, now: datetime, seconds: float) -> Content:
    newest, hidden = found.labels[-1], found.hidden
    is_late = found.age is None or found.age > timedelta(seconds=max(_LATE_SECONDS, _LATE_TICKS * seconds))
    return {
        "table": found.table,
        "address": table_address(found.table, LIVE),
        "state": _state_of(hidden, is_late=is_late or bool(found.outages)),
        "part": _elapsed_tenths(newest, now),
        "short": _short_words(found, hidden, is_late=is_late),
        "words": found.words(),
        "windows": found.windows,
        "rows": found.rows,
        "tick": found.tick,
        "shown": instant_text(found.shown),
        "age": None if found.age is None else round(found.age.total_seconds(), 3),
        "age_words": "never" if found.age is None else f"{span_words(found.age)} ago",
        "hidden": len(hidden),
        "outages": [
            {"table": each.table, "since": instant_text(each.since), "why": each.why, "words": words}
            for each, words in zip(found.outages, found.outage_words(), strict=True)
        ],
        "labels": [_describe_window(table, each, now) for each in found.labels[-_MOST_LABELS:]],
        "more_labels": found.windows - min(len(found.labels), _MOST_LABELS),
        "log": None if found.log is None else _describe_log(table, found.log),
    }


def _describe_log(table: Table, lag: LogLag) -> Content:
    return {
        "words": lag_words(lag, table.cadence.zone),
        "offsets": lag.offsets,
        "partitions": lag.partitions,
        "behind": lag.behind,
        "worst": [
            {
                "partition": each.partition,
                "committed": each.committed,
                "end": each.end,
                "offsets": each.offsets,
                "newest": instant_text(each.newest),
                "newest_words": "" if each.newest is None else instant_words(each.newest, table.cadence.zone),
            }
            for each in lag.worst
        ],
        "more": max(0, lag.partitions - len(lag.worst)),
    }


def _state_of(hidden: Sequence[OpenWindow], *, is_late: bool) -> str:
    """Return the display state of open windows, "open" if they are filling."""
    if any(each.is_held for each in hidden):
        return str(State.HELD)
    if hidden:
        return str(State.BLOCKED)
    return "late" if is_late else "open"


def _short_words(found: OpenWindows, hidden: Sequence[OpenWindow], *, is_late: bool) -> str:
    """Format open windows for the grid: `3 120 rows · 4 s`, `1 of 2 hidden`, `no new rows for 5 min`."""
    if hidden:
        is_held = any(each.is_held for each in hidden)
        return f"{len(hidden)} of {number_words(found.windows)} {'held' if is_held else 'hidden'}"
    if found.outages:
        return "no new rows" if found.age is None else f"no new rows for {span_words(found.age)}"
    if found.age is None:
        return "no tick yet"
    if is_late:
        return f"no tick for {span_words(found.age)}"
    return f"{count_words(found.rows or 0, 'row')} · {span_words(found.age)}"


def _elapsed_tenths(newest: OpenWindow, now: datetime) -> int:
    """Return the elapsed part of the newest window, in tenths."""
    window = newest.window
    return max(0, min(10, int(10 * ((now - window.start) / (window.end - window.start)))))


def _describe_window(table: Table, each: OpenWindow, now: datetime) -> Content:
    made = None if each.made is None else max(now - each.made, timedelta(0))
    return {
        "label": each.label,
        "words": local_label(each.window.start, table.cadence),
        "short": short_label(each.window.start, table.cadence, now),
        "state": str(State.HELD if each.is_held else State.BLOCKED) if each.hidden else "open",
        "part": _elapsed_tenths(each, now),
        "rows": each.rows,
        "made": instant_text(each.made),
        "age": None if made is None else round(made.total_seconds(), 3),
        "age_words": "" if made is None else f"{span_words(made)} ago",
        "waits": each.waits,
        "hidden": each.hidden,
    }
