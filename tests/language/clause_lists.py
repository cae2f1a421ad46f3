"""Names of the lists of clauses in error texts, so that a new clause changes one test and not each case."""

from __future__ import annotations

import re
from collections.abc import Iterator

from waterclock.dpl.syntax.clause_table import ARGUMENTS, clause_words
from waterclock.dpl.syntax.statements import StatementKind

_LIST = re.compile(r"(?<=takes ).+$", re.MULTILINE)


def lists_of_clauses() -> Iterator[tuple[str, str]]:
    """Yield each list as an error text contains it, with its name."""
    for kind in StatementKind:
        yield ", ".join(clause_words(kind)), f"{{clauses of {kind.value}}}"
        yield ", ".join(ARGUMENTS[kind]), f"{{arguments of {kind.value}}}"


def with_names_of_lists(text: str) -> str:
    """Replace each whole list of a statement's clauses or arguments by its name."""
    names = dict(lists_of_clauses())
    return _LIST.sub(lambda found: names.get(found[0], found[0]), text)
