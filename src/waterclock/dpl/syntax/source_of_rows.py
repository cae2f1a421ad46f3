"""Reads what a column tells of where a row came from: `file AS (_source.file)`."""

from __future__ import annotations

from sqlglot import exp

from waterclock.dpl.syntax.not_yet import not_yet
from waterclock.dpl.syntax.statements import Expression, TellsSaid
from waterclock.errors import did_you_mean
from waterclock.flow.origins import LATER, SOURCE, TYPES


def tells_of(expression: Expression) -> TellsSaid | None:
    """Return what `_source.…` names; None of any other expression.

    Raises  E208 for what sources of later releases tell, E297 for what none does
    """
    tree = expression.tree
    parts = [part.name for part in tree.parts] if isinstance(tree, exp.Column) else []
    if len(parts) != 2 or parts[0].lower() != SOURCE:
        return None
    what = parts[1].lower()
    if what in LATER:
        raise not_yet(f"{SOURCE}.{what}", expression.span)
    if what not in TYPES:
        raise expression.span.refuse(
            "E297",
            f"no source tells {SOURCE}.{parts[1]}",
            why=f"of where a row came from can be told: {', '.join(f'{SOURCE}.{each}' for each in TYPES)}",
            fix=did_you_mean(what, TYPES),
        )
    return TellsSaid(what, expression.span)
