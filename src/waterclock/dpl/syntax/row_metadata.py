"""Parses metadata fields of rows in column lists: the origin of a row (`_source.file`) or its change (`_change.op`)."""

from __future__ import annotations

from sqlglot import exp

from waterclock.dpl.syntax.statements import Expression, ParsedRowMetadata
from waterclock.flow.changes import CHANGE, format_change_mark
from waterclock.flow.changes import TYPES as OF_CHANGES
from waterclock.flow.origins import SOURCE, TYPES
from waterclock.similar_names import did_you_mean


def parse_row_metadata(expression: Expression) -> ParsedRowMetadata | None:
    """Return the metadata field that `_source.…` or `_change.…` names; None for any other expression.

    Raises E297 for an unknown `_source.…`, and E328 for an unknown `_change.…`.
    """
    tree = expression.tree
    parts = [part.name for part in tree.parts] if isinstance(tree, exp.Column) else []
    if len(parts) != 2 or parts[0].lower() not in {SOURCE, CHANGE}:
        return None
    what = parts[1].lower()
    if parts[0].lower() == CHANGE:
        return _parse_change_field(what, expression)
    if what not in TYPES:
        raise expression.span.refuse(
            "E297",
            f"{SOURCE}.{parts[1]} does not exist",
            why=f"the fields of a row's source are {', '.join(f'{SOURCE}.{each}' for each in TYPES)}",
            fix=did_you_mean(what, TYPES, otherwise="write one of them, or a column of the source"),
        )
    return ParsedRowMetadata(what, expression.span)


def _parse_change_field(what: str, expression: Expression) -> ParsedRowMetadata:
    if what not in OF_CHANGES:
        raise expression.span.refuse(
            "E328",
            f"{CHANGE}.{what} does not exist",
            why=f"the fields of a change are {', '.join(f'{CHANGE}.{each}' for each in OF_CHANGES)}",
            fix=did_you_mean(what, OF_CHANGES, otherwise="write one of them, or a column of the source"),
        )
    return ParsedRowMetadata(format_change_mark(what), expression.span)
