"""Checks GRANT EDIT and GRANT APPROVE, which are rights in forms: tables that people edit."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from waterclock.dpl.resolve.unresolved_table import UnresolvedTable
from waterclock.dpl.syntax.statements import Expression, ParsedGrantColumn, ParsedGrantTarget, Statement
from waterclock.dpl.syntax.unsupported import unsupported_error
from waterclock.errors import WaterclockError
from waterclock.flow.enums import Batching
from waterclock.flow.grants import GrantRight


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
    """Yield errors for parts that a GRANT EDIT or APPROVE cannot have: masks, conditions, and columns to approve."""
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
    condition = statement.value("WHERE", Expression)
    if condition is not None:
        fix = "leave WHERE out, or make a form for each group of people"
        yield unsupported_error(f"WHERE of GRANT {right}", condition.span, fix=fix)
