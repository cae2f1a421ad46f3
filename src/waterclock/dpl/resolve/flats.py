"""Resolves each FLAT(table) in queries to the joins of the table with its parent tables."""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy

from waterclock.dpl.resolve.unresolved_table import UnresolvedTable
from waterclock.dpl.syntax.cursor import ensure_place
from waterclock.dpl.syntax.source_text import Span
from waterclock.dpl.syntax.statements import ParsedColumnList
from waterclock.errors import WaterclockError
from waterclock.flow.declarations import Flat
from waterclock.flow.flat_joins import flat_of


class FlatResolver:
    """Resolves and caches FLAT for tables that are being compiled."""

    def __init__(self, drafts: Mapping[str, UnresolvedTable], errors: list[WaterclockError]) -> None:
        self.drafts = drafts
        self.errors = errors
        self._found: dict[tuple[str, bool], tuple[Flat | None, list[WaterclockError]]] = {}

    def resolve(self, name: str, span: Span, *, is_exact: bool) -> Flat | None:
        """Return the joins of FLAT(name), which a query has at `span`; None if it is invalid, which is reported."""
        flat = self.find(name, is_exact=is_exact)
        self.errors.extend(self._locate_error(copy(error), span) for error in self._found[name, is_exact][1])
        return flat

    def find(self, name: str, *, is_exact: bool) -> Flat | None:
        """Return the joins of FLAT(name); None if it is invalid. Errors are not reported."""
        if name not in self.drafts:
            return None
        if (name, is_exact) not in self._found:
            errors: list[WaterclockError] = []
            declared = {each: draft.declared for each, draft in self.drafts.items()}
            self._found[name, is_exact] = flat_of(declared, name, errors, is_exact=is_exact), errors
        return self._found[name, is_exact][0]

    def _locate_error(self, error: WaterclockError, span: Span) -> WaterclockError:
        """Add the source line to an error at a column; give an error without a position that of the FLAT."""
        for draft in self.drafts.values() if error.where else ():
            column_list = draft.statement.value("COLUMNS", ParsedColumnList)
            for column in column_list.columns if column_list else ():
                if str(column.span.place) == error.where:
                    error.excerpt = column.span.source.excerpt(column.span.start, column.span.end)
                    return error
        return ensure_place(error, span)
