"""The quality of one table: its rules with the rows that broke them, its measures over time, and its lateness."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from waterclock.batches.audit_records import BatchState, MeasuredBatch, RuleNote
from waterclock.batches.records import INPUTS_FOUND, QUARANTINED
from waterclock.flow.checks import Check, checks_of, input_checks
from waterclock.flow.declarations import Table
from waterclock.flow.enums import Action
from waterclock.operations.display_states import State
from waterclock.operations.formatting import count_words, number_words, short_label
from waterclock.operations.measure_series import (
    ColumnProfile,
    MeasurePoint,
    MeasureSeries,
    count_labels_needed,
    profile_of,
    series_of,
)
from waterclock.operations.project_opening import OpenedProject
from waterclock.operations.rule_results import RuleResults, filter_evaluated_batches, rules_in, worst_first
from waterclock.timelabel.label import label_of
from waterclock.ui.page_query import Content, batch_address, quarantine_address
from waterclock.ui.pages.lag import lag_content, title_of
from waterclock.ui.pages.quality import NEWEST, rule_content

_MOST_MEASURES = 24
_MOST_COLUMNS = 60
_LONGEST = 24  # characters of a value
_HEIGHT = 70
_MARGIN = 6


def table_quality(at: OpenedProject, table: Table) -> Content:
    """Return a table's rules and measures over its newest batches, the quarantined rows, and its lateness.

    Cost: three queries of the ledger about its newest batches, and those of `lag_content`. If rules use the usual
    value, the labels needed for it are read too, at most 4,560; each such measure takes 0.15 s for hourly windows.
    """
    cells: Sequence[BatchState] = ()
    counted: Sequence[MeasuredBatch] = ()
    notes: Mapping[tuple[str, str], RuleNote] = {}
    if at.ledger is not None and (cells := filter_evaluated_batches(at.ledger.past.newest(table.name, NEWEST))):
        counted = at.ledger.past.newest_counted(table.name, count_labels_needed(table, cells[-1].label, NEWEST))
        notes = at.ledger.past.rule_notes([table.name])
    labels = [cell.label for cell in cells]
    shown = [each for each in counted if each.label >= labels[0]] if labels else []
    warnings = {each.label: tuple(map(str, each.measures.get("warnings", ()))) for each in shown}
    rules = worst_first(rules_in(table, cells, warnings, notes))
    series = series_of(table, counted, labels)
    states = {cell.label: str(cell.status) for cell in cells}
    words = {label: short_label(label, table.cadence, at.now) for label in labels}
    profile = profile_of(shown, labels)
    late = lag_content(at, [table])
    return {
        "newest": NEWEST,
        "sentence": [*_summarize_rules(rules, len(labels)), *title_of(late, is_empty_where_well=True)],
        "rules": [_describe_rule(at, table, rule, shown) for rule in rules],
        "measures": [_describe_measure(table, each, rules, states, words) for each in series[:_MOST_MEASURES]],
        "more_measures": max(0, len(series) - _MOST_MEASURES),
        "profile": [_describe_profile(each) for each in profile[:_MOST_COLUMNS]],
        "more_columns": max(0, len(profile) - _MOST_COLUMNS),
        "aside": [row for each in reversed(shown) for row in _list_removed_rows(table, each, words[each.label])],
        "in_time": late,
    }


def _summarize_rules(rules: Sequence[RuleResults], batches: int) -> list[Content]:
    """Return a sentence about how many rules of the table fail, or that all pass."""
    if not rules:
        return [{"text": "No rule is declared. ", "mark": None}]
    if not batches:
        return [{"text": f"{count_words(len(rules), 'rule')}, not checked for any batch yet. ", "mark": None}]
    broken = [rule for rule in rules if rule.is_broken]
    if not broken:
        every = "Its rule holds. " if len(rules) == 1 else f"All {number_words(len(rules))} rules hold. "
        return [{"text": every, "mark": None}]
    verb = "does" if len(broken) == 1 else "do"
    mark = State.FAILED if any(rule.is_refusing for rule in broken) else State.WARNED
    return [
        {"text": count_words(len(broken), "rule"), "mark": str(mark)},
        {"text": f" of {number_words(len(rules))} {verb} not hold. ", "mark": None},
    ]


def _describe_rule(at: OpenedProject, table: Table, rule: RuleResults, shown: Iterable[MeasuredBatch]) -> Content:
    """Return a rule for the page, with the number of rows that broke it, if they are counted by rule."""
    check = next(
        (each for each in (*input_checks(table.input_rules), *checks_of(table)) if each.name == rule.rule), None
    )
    of = next((each.of for each in table.input_rules if each.name == rule.rule), "")
    measured = [each.measures.get(INPUTS_FOUND, {}).get(of, {}) if of else each.measures for each in shown]
    counted = [measures for measures in measured if "broken" in measures]
    row_action = None if check is None else check.row_action
    return rule_content(at, rule) | {
        "rows": sum(int(each["broken"].get(rule.rule, 0)) for each in counted) if check and counted else None,
        "taken": sum(int(each.get("first", {}).get(rule.rule, 0)) for each in counted)
        if row_action and counted
        else None,
        "takes": "" if row_action is None else _ACTION_WORDS[row_action],
        "aside": _quarantine_page(table, check),
    }


_ACTION_WORDS = {Action.QUARANTINE: "quarantined", Action.DROP: "dropped"}


def _quarantine_page(table: Table, check: Check | None) -> str | None:
    if check is None or check.row_action is not Action.QUARANTINE:
        return None
    return quarantine_address(table.name, check.name)


def _list_removed_rows(table: Table, each: MeasuredBatch, words: str) -> Iterator[Content]:
    """Yield the numbers of rows that rules removed: from each input before the query, then from the batch itself."""
    for name, counts in each.measures.get(INPUTS_FOUND, {}).items():
        if counts[QUARANTINED] or counts["dropped"]:
            seen = counts["in"] - counts[QUARANTINED] - counts["dropped"]
            yield _describe_removed_rows(table, each.label, words, counts, seen) | {"input": name}
    if each.measures.get(QUARANTINED) or each.measures.get("dropped"):
        yield _describe_removed_rows(table, each.label, words, each.measures, each.rows)


def _describe_removed_rows(table: Table, label: datetime, words: str, counts: Mapping[str, Any], rows: int) -> Content:
    received = counts.get("in")
    return {
        "label": label_of(label),
        "words": words,
        "input": "",
        "came": None if received is None else int(received),
        "rows": rows,
        "quarantined": int(counts.get(QUARANTINED) or 0),
        "dropped": int(counts.get("dropped") or 0),
        "address": batch_address(table.name, label_of(label)),
    }


def _describe_profile(each: ColumnProfile) -> Content:
    newest = {name: None if value is None else value[:_LONGEST] for name, value in each.newest.items()}
    return {
        "column": each.column,
        "nulls": newest.get("nulls"),
        "distinct": newest.get("distinct"),
        "least": newest.get("min"),
        "greatest": newest.get("max"),
        "null_shares": [None if share is None else round(share, 6) for share in each.null_shares],
    }


def _describe_measure(
    table: Table,
    series: MeasureSeries,
    rules: Iterable[RuleResults],
    states: Mapping[datetime, str],
    words: Mapping[datetime, str],
) -> Content:
    broken = _list_broken_batches(table, [rule for rule in rules if rule.rule in series.rules], states, words)
    marks = {each["label"]: each["state"] for each in broken}
    newest = series.newest
    return {
        "name": series.name,
        "type": series.type,
        "rules": list(series.rules),
        "newest": "" if newest is None else _newest_words(newest, words[newest.label]),
        "description": _describe_series(series, words, len(broken)),
        "points": [_describe_point(point, words[point.label]) for point in series.points],
        "broken": broken,
        "drawn": _build_drawing(series.points, marks),
        "first": words[series.points[0].label] if series.points else "",
        "last": words[series.points[-1].label] if series.points else "",
    }


def _list_broken_batches(
    table: Table, rules: Sequence[RuleResults], states: Mapping[datetime, str], words: Mapping[datetime, str]
) -> list[Content]:
    """Return the batches in which rules failed, newest first, with the messages of the rules."""
    messages: dict[datetime, list[str]] = {}
    for rule in rules:
        for answer in rule.answers:
            if answer.state in {State.WARNED, State.FAILED}:
                messages.setdefault(answer.label, []).append(answer.message)
    return [
        {
            "label": label_of(label),
            "words": words[label],
            "state": states[label] if states[label] in {"failed", "held"} else "warned",
            "message": "; ".join(dict.fromkeys(messages[label])),
            "address": batch_address(table.name, label_of(label)),
        }
        for label in sorted(messages, reverse=True)
    ]


def _describe_point(point: MeasurePoint, words: str) -> Content:
    return {
        "label": label_of(point.label),
        "words": words,
        "value": point.value,
        "low": point.low,
        "usual": point.usual,
        "high": point.high,
        "usual_words": _usual_words(point),
    }


def _newest_words(point: MeasurePoint, words: str) -> str:
    usual = _usual_words(point)
    return f"{(point.value or '')[:_LONGEST]} at {words}{f', usual {usual}' if usual else ''}"


def _usual_words(point: MeasurePoint) -> str:
    """Format the bounds of the usual range, or the usual value if there are none."""
    if point.low is not None and point.high is not None:
        return f"{point.low:.6g} to {point.high:.6g}"
    if point.low is not None:
        return f"{point.low:.6g} and more"
    if point.high is not None:
        return f"up to {point.high:.6g}"
    return "" if point.usual is None else f"{point.usual:.6g}"


def _describe_series(series: MeasureSeries, words: Mapping[datetime, str], broken: int) -> str:
    """Return a sentence that describes the drawing of a measure, for readers who do not see it."""
    if not series.points:
        return f"{series.name}: nothing yet"
    spans = f"{words[series.points[0].label]} to {words[series.points[-1].label]}"
    newest = series.newest
    now = "" if newest is None else f", newest {_newest_words(newest, words[newest.label])}"
    marks = f"; a rule on it did not hold in {count_words(broken, 'batch', 'batches')}" if broken else ""
    return f"{series.name} of {count_words(len(series.points), 'batch', 'batches')}, {spans}{now}{marks}"


def _build_drawing(points: Sequence[MeasurePoint], marks: Mapping[str, str]) -> Content | None:
    """Return the coordinates of a drawing's parts, ten units wide per label, or None without any number.

    Bounds far from the values are cut off. A failed or held batch is marked over the whole height, because readers see
    no value of it.
    """
    values = [point.number for point in points if point.number is not None]
    if not values:
        return None
    bounds = [it for point in points for it in (point.low, point.usual, point.high) if it is not None]
    reach = (max(values) - min(values)) or abs(values[0]) or 1.0
    low = max(min([*values, *bounds]), min(values) - reach)
    high = min(max([*values, *bounds]), max(values) + reach)
    place = _build_scale(low, high)
    bands, marked, lines, ticks = [], [], [], []
    for index, point in enumerate(points):
        x, mark = index * 10, marks.get(label_of(point.label), "")
        if point.low is not None or point.high is not None:
            top = 0.0 if point.high is None else place(point.high)
            under = float(_HEIGHT) if point.low is None else place(point.low)
            bands.append({"x": x, "y": top, "height": round(max(under - top, 1), 1)})
        if point.usual is not None:
            lines.append({"x": x, "y": place(point.usual)})
        if point.number is not None:
            ticks.append({"x": x, "y": place(point.number), "state": mark or "ok"})
        if mark in {"failed", "held"} or (mark and point.number is None):
            marked.append({"x": x, "state": mark})
    return {
        "width": max(len(points), 30) * 10,
        "bands": bands,
        "marked": marked,
        "usual": lines,
        "ticks": ticks,
        "low": f"{low:.6g}",
        "high": f"{high:.6g}",
    }


def _build_scale(low: float, high: float) -> Callable[[float], float]:
    """Return a function that maps a value to its distance from the top of the drawing."""
    span = high - low

    def place(value: float) -> float:
        share = min(max((high - value) / span, 0.0), 1.0) if 0 < span < math.inf else 0.5
        return round(_MARGIN + share * (_HEIGHT - 2 * _MARGIN), 1)

    return place
