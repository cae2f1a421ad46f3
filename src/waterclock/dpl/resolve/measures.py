"""Resolves MEASURE, and refuses measures that cannot be computed in the pass that writes a batch."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from waterclock.dpl.query.aggregates import grouped_calls
from waterclock.dpl.resolve.comparisons import find_uncountable_word, uses_history
from waterclock.dpl.resolve.literals import with_literals
from waterclock.dpl.resolve.rules import check_expression
from waterclock.dpl.syntax.aggregate_calls import has_aggregate
from waterclock.dpl.syntax.statements import Expression, ParsedMeasure, Statement, StatementKind
from waterclock.errors import WaterclockError
from waterclock.flow.declarations import Rule
from waterclock.flow.measures import PROFILED, ROWS, Measure, Offline
from waterclock.timelabel.period import Period

_STATISTICS = {
    "nulls": "the number of NULLs", "distinct": "the number of different values", "min": "the minimum",
    "max": "the maximum",
}  # fmt: skip


def measures_of(
    statement: Statement, rules: Iterable[Rule], variables: Mapping[str, Any], errors: list[WaterclockError]
) -> tuple[tuple[Measure, ...], bool, Offline | None]:
    """Return the measures of a table, whether its columns are profiled, and its offline measures, or None.

    Invalid measures are left out, and reported in `errors`: E293 for an expression that is not an aggregate, or cannot
    be computed while rows are written, E295 for a duplicate or reserved name, E390 for two periods of OFFLINE or for
    OFFLINE in a PUBLISH.
    """
    found: dict[str, tuple[Measure, bool]] = {}
    profiled: list[ParsedMeasure] = []
    parsed_measures: list[ParsedMeasure] = [
        declared for clause in statement.clauses if clause.word == "MEASURE" for declared in clause.value
    ]
    profiles_columns = any(declared.expression is None for declared in parsed_measures)
    compared = {of for rule in rules if rule.comparison is not None for of in rule.comparison.aggregates}
    for declared in parsed_measures:
        if declared.expression is None or declared.name is None:
            if profiled:
                errors.append(declared.span.refuse("E295", "PROFILE is written twice", fix="remove one"))
            profiled.append(declared)
            continue
        is_offline = declared.offline is not None
        problems = [*check_expression(declared.expression)]
        problems += _check_measure(declared.expression, statement.kind, is_offline=is_offline)
        if declared.name.lower() in found or declared.name.lower() == ROWS:
            is_twice = declared.name.lower() in found
            what = f"two measures are called {declared.name}" if is_twice else "rows is a reserved name for a measure"
            fix = "rename one of them" if is_twice else "remove it: the rows of every batch are counted anyway"
            problems.append(declared.span.refuse("E295", what, fix=fix))
        elif declared.name in compared and declared.name != declared.expression.text:
            why = f"a rule compares {declared.name} with earlier batches, and records it by that name"
            problems.append(_reserved_name_error(declared, why))
        elif profiles_columns and declared.name.lower().endswith(PROFILED):
            column, _, statistic = declared.name.rpartition(".")
            why = f"PROFILE stores {_STATISTICS[statistic.lower()]} of {column} under this name"
            problems.append(_reserved_name_error(declared, why))
        errors.extend(problems)
        if not problems:
            measure = Measure(declared.name, with_literals(declared.expression, variables))
            found[declared.name.lower()] = (measure, is_offline)
    period = _period(statement, parsed_measures, errors)
    offline = tuple(measure for measure, is_offline in found.values() if is_offline)
    is_profiled = {declared.offline is not None for declared in profiled[:1]}
    return (
        tuple(measure for measure, is_offline in found.values() if not is_offline),
        False in is_profiled,
        Offline(period, offline, True in is_profiled) if period is not None else None,
    )


def _reserved_name_error(declared: ParsedMeasure, why: str) -> WaterclockError:
    return declared.span.refuse(
        "E295", f"{declared.name} is a reserved name for a measure", why=why, fix="choose another name"
    )


def _period(statement: Statement, parsed_measures: list[ParsedMeasure], errors: list[WaterclockError]) -> Period | None:
    """Return the period of OFFLINE; None without OFFLINE, or if it is invalid, which is reported."""
    first = next((declared for declared in parsed_measures if declared.offline is not None), None)
    if first is None or first.offline_span is None:
        return None
    if statement.kind is StatementKind.PUBLISH:
        errors.append(
            first.offline_span.refuse(
                "E390",
                "a PUBLISH cannot have OFFLINE",
                why="a PUBLISH does not keep its rows, so they cannot be measured later",
                fix="write it in the table that is published, or leave OFFLINE out",
            )
        )
        return None
    for declared in parsed_measures:
        if declared.offline not in {None, first.offline} and declared.offline_span is not None:
            errors.append(
                declared.offline_span.refuse(
                    "E390",
                    f"a table has both OFFLINE {declared.offline} and OFFLINE {first.offline}",
                    why="one job computes all offline measures of a table",
                    fix=f"write OFFLINE {first.offline_span.text.partition(' ')[2]} in both",
                )
            )
            return None
    return first.offline


def _check_measure(expression: Expression, kind: StatementKind, *, is_offline: bool) -> list[WaterclockError]:
    if uses_history(expression):
        what = "a measure uses values of earlier batches"
        fix = "write it as a rule: EXPECT count(*) > 0.5 * last_good(count(*))"
    elif not has_aggregate(expression.tree):
        what, fix = f"{expression.text} is not an aggregate", "use an aggregate: sum(...), max(...)"
    elif sign := next((name for _, _, name, _ in grouped_calls(expression.text)), None):
        what, fix = f"{sign} is only for rules", f"write a rule: EXPECT {expression.text} >= 5"
    elif (sign := find_uncountable_word(expression.text)) is not None and not (is_offline and sign != "OVER"):
        fixes = {"DISTINCT": "use approx_count_distinct(...)", "FILTER": "use count_if(...) or sum(CASE WHEN ...)"}
        what = f"{sign} in {expression.text} cannot be computed while rows are written"
        fix = fixes.get(sign, "compute it in a table of its own: TRANSFORM ... AS SELECT ...")
        may_be_offline = sign != "OVER" and kind is not StatementKind.PUBLISH
        fix += "; or add OFFLINE 1 DAY, which computes it in a separate job" if may_be_offline else ""
    else:
        return []
    why = "a measure is computed while the rows of a batch are written, without a second pass"
    return [expression.span.refuse("E293", what, why=why, fix=fix)]
