"""Checks GRANT EDIT and GRANT APPROVE, which are rights in forms: tables that people edit."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from waterclock.dpl.resolve.row_conditions import UnsupportedConditionError, parse_row_condition
from waterclock.dpl.resolve.unresolved_table import UnresolvedTable
from waterclock.dpl.syntax.statements import Expression, ParsedGrantColumn, ParsedGrantTarget, Statement
from waterclock.errors import WaterclockError
from waterclock.flow.enums import Batching
from waterclock.flow.forms import fields_of
from waterclock.flow.grants import GrantRight
from waterclock.flow.row_conditions import RowCondition, find_unsuitable

_IN_FORMS = "it is checked for each row in the transaction that saves it, and not by Spark"


def is_form(draft: UnresolvedTable) -> bool:
    """Return whether a table collects a form."""
    source = draft.declared.source
    return source is not None and source.batching is Batching.AS_OF


def not_a_form_error(target: ParsedGrantTarget, right: str, forms: Sequence[str]) -> WaterclockError:
    """Build the error of a GRANT EDIT or APPROVE on a table that people do not edit."""
    return target.span.refuse(
        "E382",
        f"{target.text} is not a table that people edit",
        why=f"GRANT {right} is for tables that collect a form",
        fix=f"grant one of {', '.join(forms[:5])}" if forms else "collect it from a connection of type forms",
    )


def check_form_grant(
    statement: Statement, right: GrantRight, columns: Sequence[ParsedGrantColumn]
) -> Iterator[WaterclockError]:
    """Yield errors for parts that a GRANT EDIT or APPROVE cannot have: masks, and columns to approve."""
    masked = next((column for column in columns if column.mask is not None), None)
    clause = statement.clause("COLUMNS")
    if right is GrantRight.APPROVE and clause is not None:
        yield clause.span.refuse(
            "E382",
            "GRANT APPROVE has no columns",
            why="a proposal is approved or rejected as a whole",
            fix="leave the columns out",
        )
    elif masked is not None and masked.mask is not None:
        yield masked.mask.span.refuse(
            "E382",
            f"GRANT EDIT cannot mask {masked.name.text}",
            why="a person who edits a value sees it",
            fix="leave AS out",
        )


def resolve_row_condition(
    where: Expression,
    right: GrantRight,
    forms: Iterable[UnresolvedTable],
    variables: Mapping[str, Any],
    errors: list[WaterclockError],
) -> RowCondition | None:
    """Return a grant's condition as forms evaluate it; None if they cannot.

    That is an error of GRANT EDIT and GRANT APPROVE. A GRANT SELECT stays valid, and its people do not see the form.
    """
    try:
        condition = parse_row_condition(where, variables)
    except UnsupportedConditionError as error:
        if right is not GrantRight.SELECT:
            what = f"the condition of GRANT {right} cannot have {error.part}"
            errors.append(where.span.refuse("E382", what, why=_IN_FORMS, fix=error.fix))
        return None
    if right is not GrantRight.SELECT:
        for form in forms:
            fields = {field.name.lower(): field for field in fields_of(form.declared.columns.named)}
            for why, fix in find_unsuitable(condition, fields):
                what = f"the condition of GRANT {right} cannot be checked for {form.name}"
                errors.append(where.span.refuse("E382", what, why=why, fix=fix))
    return condition
