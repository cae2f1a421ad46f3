"""The page of late and nearly late windows, silent sources, and the lag of each table."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from waterclock.flow.declarations import Table
from waterclock.flow.open_windows import continuous_tables
from waterclock.operations.deadline_words import group_due_windows, remaining_time_words, situation_words
from waterclock.operations.deadlines import (
    NO_DEADLINES,
    DeadlineState,
    DeadlineWindow,
    deadlines,
    tables_with_deadlines,
)
from waterclock.operations.display_states import State
from waterclock.operations.formatting import count_words, number_words, page_time, short_label, span_words
from waterclock.operations.json import instant_text
from waterclock.operations.lag import Lag, lags
from waterclock.operations.open_windows import open_windows
from waterclock.operations.project_opening import OpenedProject
from waterclock.operations.silent_sources import Silence, find_silent_collects, silence_words
from waterclock.timelabel.label import label_of
from waterclock.ui.page_query import Content, PageQuery, batch_address, table_address
from waterclock.ui.pages.open_windows import ticks_of
from waterclock.ui.pages.quality import tabs

_MOST = 100
_STATES = {DeadlineState.MISSED: State.FAILED, DeadlineState.NEAR: State.WARNED, DeadlineState.LONG: State.WARNED}
_RANK = {DeadlineState.MISSED: 0, DeadlineState.NEAR: 1, DeadlineState.LONG: 2}
_VERBS = {
    DeadlineState.MISSED: "missed its deadline",
    DeadlineState.NEAR: "is near its deadline",
    DeadlineState.LONG: "takes long",
}
_NONE = "–"


def lag(at: OpenedProject, parameters: PageQuery) -> Content:
    """Return the content of the page for the selected tables. `lag_content` states the cost."""
    tables, _ = parameters.tables(at)
    found = lag_content(at, tables)
    return {"title": title_of(found), "tabs": tabs("Lag", parameters), **found}


def describe_ticks(at: OpenedProject, parameters: PageQuery) -> Content:
    """Return the open windows of the selected tables that have CONTINUOUS, by table.

    Cost: as `windows_of_ticks` for each; nothing is read if the project has no CONTINUOUS.
    """
    ticking = {table.name for table in continuous_tables(at.flow)}
    if not ticking:
        return {"ticks": {}}
    tables, _ = parameters.tables(at)
    return {"ticks": ticks_of(at, [table.name for table in tables if table.name in ticking])}


def lag_content(at: OpenedProject, tables: Sequence[Table]) -> Content:
    """Return missed and near deadlines, slow batches, silent collects, and the lag of each table.

    Cost: two plans of these tables (and of their inputs), and up to six queries of the ledger. Each reads a fixed
    number of a table's newest labels, however long its history is.
    """
    names = [table.name for table in tables]
    due = deadlines(at, names) if at.ledger is not None else NO_DEADLINES
    groups = sorted(group_due_windows(due.found), key=lambda alike: _RANK[alike[0].situation])
    return {
        "deadlines": [_describe_deadline(at, alike) for alike in groups[:_MOST]],
        "counts": {
            str(situation): sum(each.situation is situation for each in due.found) for situation in DeadlineState
        },
        "more_deadlines": max(0, len(groups) - _MOST),
        "with_deadline": len(tables_with_deadlines(at.flow, names)),
        "silent": [_describe_silence(at, each) for each in find_silent_collects(at, names).found],
        "lags": [_describe_lag(at, each) for each in lags(at, names)],
        "open": [
            {"table": name, "address": table_address(name), "words": each.words()}
            for name, each in open_windows(at, [each for each in names if not at.flow.tables[each].continuous]).items()
        ],
    }


def title_of(found: Content, *, is_empty_where_well: bool = False) -> list[Content]:
    """Summarize in a sentence what is late, missed deadlines first.

    With `is_empty_where_well`, for the page of a single table, lag is ignored, and nothing is returned if all is well.
    """
    of, silent = found["counts"], len(found["silent"])
    behind = 0 if is_empty_where_well else sum(1 for each in found["lags"] if each["is_behind"])
    counted = [
        (
            of[DeadlineState.MISSED],
            "window has missed its deadline",
            "windows have missed their deadlines",
            State.FAILED,
        ),
        (of[DeadlineState.NEAR], "window is near its deadline", "windows are near their deadlines", State.WARNED),
        (of[DeadlineState.LONG], "batch takes long", "batches take long", State.WARNED),
        (silent, "source is silent", "sources are silent", State.WARNED),
        (behind, "table is behind", "tables are behind", State.WARNED),
    ]
    parts: list[Content] = []
    for count, one, many, state in counted:
        if count:
            between = [{"text": ", ", "mark": None}] if parts else []
            parts += [*between, {"text": count_words(count, one, many), "mark": str(state)}]
    if not parts and is_empty_where_well:
        return []
    if not parts:
        has = "No deadline is missed or near" if found["with_deadline"] else "No table has a deadline"
        return [{"text": f"{has}, no source is silent, and no table is behind.", "mark": None}]
    return [*parts, {"text": ".", "mark": None}]


def _describe_deadline(at: OpenedProject, alike: Sequence[DeadlineWindow]) -> Content:
    first, last = alike[0], alike[-1]
    cadence = at.flow.tables[first.table].cadence
    label, newest = first.window.label, last.window.label
    words = short_label(first.window.start, cadence, at.now)
    root = first.root
    return {
        "table": first.table,
        "situation": str(first.situation),
        "look": str(_STATES[first.situation]),
        "verb": _VERBS[first.situation],
        "label": label,
        "last": newest,
        "count": len(alike),
        "words": words if len(alike) == 1 else f"{words} to {short_label(last.window.start, cadence, at.now)}",
        "by": instant_text(first.by),
        "seconds": round(first.left.total_seconds(), 3),
        "description": situation_words(alike, at.flow, remaining_time_words(first)),
        "fresh_to": instant_text(first.fresh_to),
        "by_watermark": None if first.reached is None else first.reached.to_json(),
        "cause": {
            "table": root.table,
            "label": root.window.label,
            "words": short_label(root.window.start, at.flow.tables[root.table].cadence, at.now),
            "status": str(root.status),
            "detail": root.detail,
            "address": batch_address(root.table, root.window.label),
            "is_itself": (root.table, root.window) == (first.table, first.window),
        },
        "address": batch_address(first.table, label if len(alike) == 1 else f"{label}..{newest}"),
    }


def _describe_silence(at: OpenedProject, each: Silence) -> Content:
    first, last = label_of(each.since), label_of(each.last)
    return {
        **each.to_json(),
        "description": silence_words(each, at.flow),
        "address": batch_address(each.table, first if first == last else f"{first}..{last}"),
    }


def _describe_lag(at: OpenedProject, each: Lag) -> Content:
    """Return the lag of a table, as values and in words, with a dash for unknown values."""
    delays = each.delays
    spans = (None, None, None) if delays is None else (delays.p50, delays.p95, delays.most)
    late = None if delays is None or delays.late is None else delays.late
    zone = at.flow.tables[each.table].cadence.zone
    return {
        **each.to_json(),
        "address": table_address(each.table, "quality"),
        "words": {
            "fresh_to": _NONE if each.fresh_to is None else page_time(each.fresh_to, zone),
            "behind": _span_text(each.behind),
            "inputs": _span_text(each.ahead),
            "labels": number_words(each.labels),
            "rows": _NONE if each.rows is None else f"{number_words(each.rows)}{'+' if each.is_more else ''}",
            "p50": _span_text(spans[0]),
            "p95": _span_text(spans[1]),
            "max": _span_text(spans[2]),
            "late": _NONE if late is None or delays is None else f"{late} of {delays.labels}",
        },
        "is_late": bool(late),
        "is_behind": each.late is not None,
        "came": each.reached_words,
    }


def _span_text(span: timedelta | None) -> str:
    return _NONE if span is None else span_words(span)
