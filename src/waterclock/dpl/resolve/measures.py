"""Resolves MEASURE, and refuses measures that cannot be computed in the pass that writes a batch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from waterclock.dpl.resolve.comparisons import asks_history, find_uncountable_word
from waterclock.dpl.resolve.literals import with_literals
from waterclock.dpl.resolve.rules import check_expression, has_aggregate
from waterclock.dpl.syntax.statements import Expression, MeasureSaid, Statement, StatementKind
from waterclock.errors import WaterclockError
from waterclock.flow.measures import ROWS, Measure, Offline
from waterclock.timelabel.period import Period


def measures_of(
    statement: Statement, variables: Mapping[str, Any], errors: list[WaterclockError]
) -> tuple[tuple[Measure, ...], bool, Offline | None]:
    """Return the measures of a table, whether its columns are profiled, and the offline measures.

    Refused measures are left out.
    Adds  E293 for an expression that is no aggregate or cannot be computed while rows are written, E295 for a duplicate
          name, E390 for two cadences of OFFLINE, and for OFFLINE of a PUBLISH
    """
    found: dict[str, tuple[Measure, bool]] = {}
    profiled: list[MeasureSaid] = []
    saids: list[MeasureSaid] = [
        said for clause in statement.clauses if clause.word == "MEASURE" for said in clause.value
    ]
    for said in saids:
        if said.expression is None or said.name is None:
            if profiled:
                errors.append(said.span.refuse("E295", "PROFILE is said twice", fix="leave one out"))
            profiled.append(said)
            continue
        is_offline = said.offline is not None
        problems = [*check_expression(said.expression), *_check_measure(said.expression, is_offline=is_offline)]
        if said.name.lower() in found or said.name.lower() == ROWS:
            fix = "give it another name" if said.name.lower() in found else "rows are counted of every batch anyway"
            what = f"two measures are called {said.name}" if said.name.lower() in found else "a measure called rows"
            problems.append(said.span.refuse("E295", what, fix=fix))
        errors.extend(problems)
        if not problems:
            measure = Measure(said.name, with_literals(said.expression, variables))
            found[said.name.lower()] = (measure, is_offline)
    period = _period(statement, saids, errors)
    offline = tuple(measure for measure, is_offline in found.values() if is_offline)
    is_profiled = {said.offline is not None for said in profiled[:1]}
    return (
        tuple(measure for measure, is_offline in found.values() if not is_offline),
        False in is_profiled,
        Offline(period, offline, True in is_profiled) if period is not None else None,
    )


def _period(statement: Statement, saids: list[MeasureSaid], errors: list[WaterclockError]) -> Period | None:
    """Return the period of offline measures; None if there are none, or if they are refused."""
    first = next((said for said in saids if said.offline is not None), None)
    if first is None or first.offline_span is None:
        return None
    if statement.kind is StatementKind.PUBLISH:
        errors.append(
            first.offline_span.refuse(
                "E390",
                "OFFLINE of a PUBLISH",
                why="what is staged for a destination goes once newer labels are delivered",
                fix="say it of the table that is published, or leave OFFLINE out",
            )
        )
        return None
    for said in saids:
        if said.offline not in {None, first.offline} and said.offline_span is not None:
            errors.append(
                said.offline_span.refuse(
                    "E390",
                    f"OFFLINE {said.offline} beside OFFLINE {first.offline}",
                    why="one job counts all that is offline of a table",
                    fix=f"say OFFLINE {first.offline_span.text.partition(' ')[2]} of both",
                )
            )
            return None
    return first.offline


def _check_measure(expression: Expression, *, is_offline: bool) -> list[WaterclockError]:
    if asks_history(expression):
        what, fix = "a measure asks what was before", "say it as a rule: EXPECT count(*) > 0.5 * last_good(count(*))"
    elif not has_aggregate(expression.tree):
        what, fix = f"{expression.text} is no aggregate", "say how the rows become one value: sum(...), max(...)"
    elif (sign := find_uncountable_word(expression.text)) is not None and not (is_offline and sign != "OVER"):
        fixes = {"DISTINCT": "approx_count_distinct(...) can", "FILTER": "count_if(...) or sum(CASE WHEN ...) can"}
        what = f"{sign} in {expression.text} cannot be counted while rows are written"
        fix = fixes.get(sign, "make it a table of its own: TRANSFORM ... AS SELECT ...")
        fix += "" if sign == "OVER" else "; a job of its own counts it as it is: OFFLINE 1 DAY"
    else:
        return []
    why = "a measure is counted of each batch while its rows are written: no second pass"
    return [expression.span.refuse("E293", what, why=why, fix=fix)]
