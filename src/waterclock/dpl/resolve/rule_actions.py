"""Checks rules and their ELSE actions against each other, and against the mode and cadence of their table."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator

from waterclock.dpl.resolve.unresolved_table import UnresolvedTable
from waterclock.dpl.syntax.source_text import Span
from waterclock.dpl.syntax.statements import ParsedColumn, ParsedColumnList
from waterclock.dpl.syntax.unsupported import unsupported_error
from waterclock.errors import WaterclockError
from waterclock.flow.checks import MOST_CHECKS, checks_of, is_nested, loose_types, marks_rows
from waterclock.flow.enums import Action, Kind, Mode, Scope
from waterclock.flow.measures import ComparedSource
from waterclock.flow.seasonal_baseline import LEAST_IN_LEVEL, LEAST_MINUTES, LEAST_MINUTES_OF_TREND, MOST_DAYS


def check_rule_actions(drafts: Iterable[UnresolvedTable]) -> Iterator[WaterclockError]:
    """Yield errors for rules and ELSE actions that are not valid together, or not valid for their table."""
    for draft in drafts:
        column_list = draft.statement.value("COLUMNS", ParsedColumnList)
        columns = column_list.columns if column_list else ()
        yield from _check_duplicate_rules(columns)
        yield from _check_key(columns)
        yield from _check_time_column(draft, columns)
        yield from _check_fold(draft, columns)
        yield from _check_season(draft)
        if draft.declared.where is not None and any(rule.scope is Scope.TABLE for rule in draft.declared.rules):
            yield draft.at("EXPECT").refuse(
                "E386",
                f"{draft.name} has both OVER TABLE and REPLACE WHERE",
                why="rows outside of REPLACE WHERE were written by others, and are not known here",
                fix="write OVER BATCH, which checks all delivered rows, or remove REPLACE WHERE",
            )
        loose = loose_types(draft.declared)
        yield from (
            unsupported_error(
                f"an ELSE after {column.declared.type}", column.span, fix="quarantine rows by a rule on its fields"
            )
            for column in columns
            if column.declared.type and column.name.lower() in loose and is_nested(column.declared.type)
        )
        if not marks_rows(draft.declared):
            continue
        if draft.kind is Kind.PUBLISH and draft.declared.mode is Mode.MERGE:
            fix = "remove the rows in a TRANSFORM, and publish that"
            yield unsupported_error("a MERGE publish that removes rows", draft.at("EXPECT"), fix=fix)
        if len(found := checks_of(draft.declared)) > MOST_CHECKS:
            yield draft.span.refuse(
                "E275",
                f"{draft.name} has {len(found)} checks of a row",
                why=f"a table that quarantines or drops rows can have up to {MOST_CHECKS} checks",
                fix="combine rules by AND, or split them over two tables",
            )


def _check_season(draft: UnresolvedTable) -> Iterator[WaterclockError]:
    """Yield errors for usual() and trend() in tables whose windows are too short or too long for the comparison."""
    if draft.cadence is None:
        return
    compared = [value for rule in draft.declared.rules if rule.comparison for value in rule.comparison.values]
    asked = {value.source for value in compared}
    for source, minutes, of in (
        (ComparedSource.USUAL, LEAST_MINUTES, "usual() compares with two weeks"),
        (ComparedSource.TREND, LEAST_MINUTES_OF_TREND, "trend() compares weeks"),
    ):
        if source not in asked or draft.cadence.period.minutes >= minutes:
            continue
        yield draft.at("EXPECT").refuse(
            "E294",
            f"{source}() cannot be used with windows of {draft.cadence.period}",
            why=f"{of}, and there are too many windows below {minutes} MINUTES to read",
            fix="use last_good(), or write the rule in a TRANSFORM with longer windows",
        )
    least = math.ceil(LEAST_IN_LEVEL * draft.cadence.period.minutes / (24 * 60))
    if short := next(
        (value for value in compared if value.source is ComparedSource.TREND and value.days < least), None
    ):
        yield draft.at("EXPECT").refuse(
            "E294",
            f"{short} cannot be used with windows of {draft.cadence.period}",
            why=f"it compares the medians of {LEAST_IN_LEVEL} windows, which would overlap",
            fix=f"write trend({short.aggregate}, {least})" if least <= MOST_DAYS else "use usual() or last_good()",
        )


def _check_duplicate_rules(columns: Iterable[ParsedColumn]) -> Iterator[WaterclockError]:
    seen: set[str] = set()
    for column in columns:
        for rule in column.rules:
            name = rule.name or rule.expression.text
            if name in seen:
                yield rule.expression.span.refuse(
                    "E212", f"two rules are called {name}", fix="rename one of them: EXPECT (...) AS name"
                )
            seen.add(name)


def _check_key(columns: Iterable[ParsedColumn]) -> Iterator[WaterclockError]:
    declared = [
        (column.declared.else_of_key, column.span)
        for column in columns
        if column.declared.is_key and column.declared.else_of_key
    ]
    for actions, span in declared[1:]:
        if actions != declared[0][0]:
            yield span.refuse(
                "E274",
                "different ELSE actions for one key",
                why="all KEY columns together are the key of a row",
                fix="write ELSE after only one of them",
            )


def _check_time_column(draft: UnresolvedTable, columns: Iterable[ParsedColumn]) -> Iterator[WaterclockError]:
    """Yield an error for an ELSE after the type of the column that assigns rows to windows."""
    time = draft.declared.source.time_column if draft.declared.source else None
    for column in columns:
        if (
            time is not None
            and column.name.lower() == time.lower()
            and column.name.lower() in loose_types(draft.declared)
        ):
            yield _no_window(column.span, column.name)


def _check_fold(draft: UnresolvedTable, columns: Iterable[ParsedColumn]) -> Iterator[WaterclockError]:
    """Yield errors for ELSE WARN and ELSE HOLD that would admit rows without a key to a MERGE or TEMPORAL table."""
    keys = {key.lower() for key in draft.declared.fold.keys} if draft.declared.fold else set()
    for column in columns:
        first = next(
            (each[0].action for each in (column.declared.else_of_null, column.declared.else_of_key) if each), None
        )
        if column.name.lower() in keys and first in {Action.WARN, Action.HOLD}:
            yield column.span.refuse(
                "E276",
                f"{draft.name} cannot store a row without {column.name}",
                why=f"{draft.declared.mode.name} finds rows by it, and {first.name} would admit them",
                fix="write ELSE QUARANTINE or ELSE DROP, or no ELSE, which fails the batch",
            )


def _no_window(span: Span, name: str) -> WaterclockError:
    return span.refuse(
        "E276",
        f"rows without a valid {name} belong to no window",
        why="a row is quarantined with the batch of its window; rows without a time are only counted, with the batch",
        fix="remove the ELSE after its type",
    )
