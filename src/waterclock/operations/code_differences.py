"""Describes how the code of a table differs between two declarations: by clause, without comments and spacing."""

from __future__ import annotations

from collections.abc import Mapping

from waterclock.dpl.syntax.parser import parse_text
from waterclock.dpl.syntax.source_text import SourceText
from waterclock.flow.declarations import Value

_PARTS = {"AS": "query", "COLUMNS": "columns", "EXPECT": "rules", "WHEN": "query"}
_ELSEWHERE = "a view, function, variable or input that it uses"
_PYTHON = "Python code"


def describe_change(before: str, after: str, variables: Mapping[str, Value]) -> tuple[str, ...]:
    """Return the parts of a changed statement: `query`, `columns`, `rules`, or the words of other clauses.

    If none differs, the change is in something that the statement uses. Statements in Python are not taken apart.
    """
    old, new = _read_clauses(before, variables), _read_clauses(after, variables)
    if old is None or new is None:
        return (_PYTHON,)
    words = [*new, *(word for word in old if word not in new)]
    found = [_PARTS.get(word, word) for word in words if old.get(word) != new.get(word)]
    return tuple(dict.fromkeys(found)) or (_ELSEWHERE,)


def _read_clauses(text: str, variables: Mapping[str, Value]) -> dict[str, list[str]] | None:
    """Map the word of each clause of a statement to its texts. None if the text is no statement of the language."""
    statements, errors = parse_text(SourceText("statement", text), variables=variables)
    if errors or not statements:
        return None
    found: dict[str, list[str]] = {}
    for clause in statements[0].clauses:
        found.setdefault(clause.word, []).append(" ".join(clause.span.text.split()))
    return found
