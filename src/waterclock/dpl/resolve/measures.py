"""What MEASURE counts of each batch: settled, and refused where no write's own pass could count it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from waterclock.dpl.resolve.comparisons import asks_history, not_counted
from waterclock.dpl.resolve.literals import with_literals
from waterclock.dpl.resolve.rules import check_expression, has_aggregate
from waterclock.dpl.syntax.statements import Expression, MeasureSaid, Statement
from waterclock.errors import WaterclockError
from waterclock.flow.measures import ROWS, Measure


def measures_of(
    statement: Statement, variables: Mapping[str, Any], errors: list[WaterclockError]
) -> tuple[tuple[Measure, ...], bool]:
    """Return the measures of a table, and whether its columns are profiled; those that are refused are left out.

    Adds  E293 for what is no aggregate or cannot be counted while rows are written, E295 for a name that is there twice
    """
    found: dict[str, Measure] = {}
    is_profiled = False
    saids: list[MeasureSaid] = [
        said for clause in statement.clauses if clause.word == "MEASURE" for said in clause.value
    ]
    for said in saids:
        if said.expression is None or said.name is None:
            if is_profiled:
                errors.append(said.span.refuse("E295", "PROFILE is said twice", fix="leave one out"))
            is_profiled = True
            continue
        problems = [*check_expression(said.expression), *_uncounted(said.expression)]
        if said.name.lower() in found or said.name.lower() == ROWS:
            fix = "give it another name" if said.name.lower() in found else "rows are counted of every batch anyway"
            what = f"two measures are called {said.name}" if said.name.lower() in found else "a measure called rows"
            problems.append(said.span.refuse("E295", what, fix=fix))
        errors.extend(problems)
        if not problems:
            found[said.name.lower()] = Measure(said.name, with_literals(said.expression, variables))
    return tuple(found.values()), is_profiled


def _uncounted(expression: Expression) -> list[WaterclockError]:
    if asks_history(expression):
        what, fix = "a measure asks what was before", "say it as a rule: EXPECT count(*) > 0.5 * last_good(count(*))"
    elif not has_aggregate(expression.tree):
        what, fix = f"{expression.text} is no aggregate", "say how the rows become one value: sum(...), max(...)"
    elif (sign := not_counted(expression.text)) is not None:
        fixes = {"DISTINCT": "approx_count_distinct(...) can", "FILTER": "count_if(...) or sum(CASE WHEN ...) can"}
        what = f"{sign} in {expression.text} cannot be counted while rows are written"
        fix = fixes.get(sign, "make it a table of its own: TRANSFORM ... AS SELECT ...")
    else:
        return []
    why = "a measure is counted of each batch while its rows are written: no second pass"
    return [expression.span.refuse("E293", what, why=why, fix=fix)]
