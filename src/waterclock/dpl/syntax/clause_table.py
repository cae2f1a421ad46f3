"""Lists all clauses: the words they begin with, the statements that accept them, and the clauses of later releases."""

from __future__ import annotations

from dataclasses import dataclass

from waterclock.dpl.syntax.cursor import Cursor
from waterclock.dpl.syntax.statements import StatementKind

C, T, P = StatementKind.COLLECT, StatementKind.TRANSFORM, StatementKind.PUBLISH
V, X = StatementKind.VIEW, StatementKind.CONNECTION
_TABLES = frozenset({C, T, P})
_MADE = frozenset({C, T})
_ALL = frozenset({C, T, P, V, X})


@dataclass(frozen=True, slots=True)
class ClauseWord:
    """A clause: its word, the words it begins with, the statements that accept it.

    If it `is_later`, or the statement is one of `later`, it is refused by its name.
    """

    word: str
    starts: tuple[tuple[str, ...], ...]
    kinds: frozenset[StatementKind]
    is_later: bool = False
    adds_up: bool = False
    later: frozenset[StatementKind] = frozenset()

    def is_for_later(self, kind: StatementKind) -> bool:
        """Return whether only a later release accepts the clause in such a statement."""
        return self.is_later or kind in self.later


def _clause(
    word: str,
    kinds: frozenset[StatementKind],
    *starts: str,
    is_later: bool = False,
    adds_up: bool = False,
    later: frozenset[StatementKind] = frozenset(),
) -> ClauseWord:
    begins = tuple(tuple(start.split()) for start in starts or (word,))
    return ClauseWord(word, begins, kinds, is_later=is_later, adds_up=adds_up, later=later)


CLAUSES: tuple[ClauseWord, ...] = (
    _clause("SHARED", frozenset({V})),
    _clause("FOR EACH", frozenset({C})),
    _clause("EVERY", _TABLES),
    _clause("SCHEDULE", _TABLES),
    _clause("DELAY", _TABLES),
    _clause("ZONE", _TABLES),
    _clause("START", _TABLES),
    _clause("BY", frozenset({C}), "BY DATA", "BY ARRIVAL", "BY CHANGES"),
    _clause("AWAIT", frozenset({C})),
    _clause("MODE", _TABLES, "APPEND", "REPLACE", "MERGE", "TEMPORAL"),
    _clause("EXPECT", _TABLES, adds_up=True),
    _clause("MEASURE", _TABLES, adds_up=True),
    _clause("SEQUENTIAL", _TABLES),
    _clause("POOL", _TABLES),
    _clause("ON RESTATE", _TABLES),
    _clause("DEADLINE", _TABLES),
    _clause("RUNTIME", _TABLES),
    _clause("ON SCHEMA CHANGE", frozenset({C})),
    _clause("PARTIAL AFTER", frozenset({T})),
    _clause("CLOSE WHEN", frozenset({T})),
    _clause("MAX LATENESS", frozenset({T})),
    _clause("COMPATIBLE", _MADE),
    _clause("WATERMARK", _MADE),
    _clause("RETAIN", _MADE),
    _clause("KEEP VERSIONS", _MADE),
    _clause("WAS", _MADE),
    _clause("OWNER", _ALL),
    _clause("TAGS", _ALL),
    _clause("COMMENT", _ALL),
    _clause("WHEN", frozenset({T})),
    _clause("CONTINUOUS", _MADE, is_later=True),
    _clause("PARTITION BY", _MADE, is_later=True),
    _clause("CLUSTER BY", _MADE, is_later=True),
    _clause("SORT BY", _MADE, is_later=True),
    _clause("BUCKET BY", _MADE, is_later=True),
    _clause("SHUFFLE", frozenset({T}), is_later=True),
)
BY_WORD = {clause.word: clause for clause in CLAUSES}
TEXT_CLAUSES = frozenset({"SCHEDULE", "ZONE", "START", "OWNER", "COMMENT"})
FLAG_CLAUSES = frozenset({"SEQUENTIAL", "SHARED"})
_HABITS = frozenset({"CONSTRAINT", "TARGET_LAG", "LOCATION", "TBLPROPERTIES", "USING"})
_FIRST_WORDS: dict[str, list[tuple[tuple[str, ...], ClauseWord]]] = {}
for _known in CLAUSES:
    for _start in _known.starts:
        _FIRST_WORDS.setdefault(_start[0], []).append((_start, _known))


def clause_at(cursor: Cursor, ahead: int = 0) -> tuple[ClauseWord, int] | None:
    """Return the clause that begins `ahead` words after the cursor, with the number of words that name it."""
    word = cursor.peek(ahead)
    if word.kind != "word":
        return None
    for start, clause in _FIRST_WORDS.get(word.upper, ()):
        if all(cursor.peek(ahead + at).upper == upper for at, upper in enumerate(start)):
            return clause, len(start)
    return None


def begins_clause(cursor: Cursor, ahead: int) -> bool:
    """Return whether a clause begins `ahead` words after the cursor; known clauses of other tools count as well."""
    if clause_at(cursor, ahead) is not None:
        return True
    upper = cursor.peek(ahead).upper
    if upper == "ON":
        return cursor.peek(ahead + 1).upper == "VIOLATION"
    return cursor.peek(ahead).kind == "word" and upper in _HABITS


def clause_words(kind: StatementKind) -> list[str]:
    """List the clauses that a statement accepts in this release, with each mode by its own name."""
    words = [clause.word for clause in CLAUSES if kind in clause.kinds and not clause.is_later]
    modes = ["APPEND", "REPLACE", "MERGE", *(["TEMPORAL"] if kind in _MADE else [])] if "MODE" in words else []
    return [word for word in words if word != "MODE"] + modes
