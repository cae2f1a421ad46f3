"""Adds the tables that clauses declare besides their own: by APART, WATERMARK and CLOSE WHEN."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from waterclock.dpl.resolve.apart_clause import add_apart_tables
from waterclock.dpl.resolve.late_rows import add_late_row_tables
from waterclock.dpl.resolve.watermarks import add_watermark_tables
from waterclock.dpl.syntax.statements import Statement
from waterclock.errors import WaterclockError
from waterclock.flow.declarations import Value


def add_tables(
    statements: Sequence[Statement], variables: Mapping[str, Value], errors: list[WaterclockError]
) -> list[Statement]:
    """Return the statements with those of the added tables and views, which may need each other in this order."""
    for add in (add_apart_tables, add_watermark_tables, add_late_row_tables):
        statements = add(statements, variables, errors)
    return list(statements)
