"""Parsed statements, before they are resolved: the same classes for DPL and Python."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum
from typing import Any, TypeVar

from waterclock.dpl.syntax.source_text import Span
from waterclock.flow.choices import Batching, Mode, Sign
from waterclock.flow.declarations import Column, Options, PythonFunction
from waterclock.flow.keys import KeyStays
from waterclock.flow.ladders import Ladder
from waterclock.timelabel.duration import Duration
from waterclock.timelabel.period import Period

T = TypeVar("T")
UNREAD = "?"


class StatementKind(StrEnum):
    """The seven kinds of statements."""

    CONNECTION = "CREATE CONNECTION"
    FUNCTION = "CREATE FUNCTION"
    VIEW = "CREATE VIEW"
    COLLECT = "COLLECT"
    TRANSFORM = "TRANSFORM"
    PUBLISH = "PUBLISH"
    GRANT = "GRANT"


@dataclass(frozen=True, slots=True)
class Clause:
    """One clause: its word as docs/reference/grammar.md names it, its value, and its place."""

    word: str
    value: Any
    span: Span


@dataclass(frozen=True, slots=True)
class Statement:
    """One statement: its name and its clauses; positional parts (FROM, COLUMNS, AS, ...) are clauses too.

    `function` is a Python function in place of a query or of a SQL body. `failed` are the words of the clauses that
    could not be read; `UNREAD` among them represents a clause of unknown words. `listed` are the names in a closed
    column list that has errors, or None if they are unknown.
    """

    kind: StatementKind
    name: str
    span: Span
    clauses: tuple[Clause, ...] = ()
    function: PythonFunction | None = None
    failed: frozenset[str] = frozenset()
    listed: tuple[str, ...] | None = None

    def has_failed(self, word: str) -> bool:
        """Return whether that clause failed to parse, or may have. The error is reported already, so no more is."""
        return word in self.failed or UNREAD in self.failed

    def clause(self, word: str) -> Clause | None:
        """Return the clause of that word, or None."""
        return next((clause for clause in self.clauses if clause.word == word), None)

    def value(self, word: str, kind: type[T]) -> T | None:
        """Return the value of the clause of that word, or None."""
        clause = self.clause(word)
        if clause is None:
            return None
        if not isinstance(clause.value, kind):
            raise TypeError(f"{word} holds {type(clause.value).__name__}, not {kind.__name__}")
        return clause.value


@dataclass(frozen=True, slots=True)
class Expression:
    """A piece of Spark SQL as it was written, with its syntax tree."""

    span: Span
    tree: Any = field(compare=False)
    tokens: Sequence[Any] = field(compare=False)
    variables: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """The expression as written, on one line and without comments."""
        return self.text_with({})

    def text_with(self, literals: Mapping[str, str]) -> str:
        """Return the expression with a literal in place of each `:name` that has one."""
        source, end = self.span.source.text, self.span.start
        parts: list[str] = []
        for index, token in enumerate(self.tokens):
            if token.start < end:  # a second token of one word, as in 7D, or the name of a variable
                continue
            parts.append(" " if parts and token.start > end else "")
            following = self.tokens[index + 1] if index + 1 < len(self.tokens) else None
            if token.text == ":" and following is not None and following.text in literals:
                parts.append(literals[following.text])
                end = following.end + 1
            else:
                end = token.end + 1
                parts.append(source[token.start : end])
        return "".join(parts)


@dataclass(frozen=True, slots=True)
class RuleSaid:
    """An EXPECT with its scope. `of` names the table whose rows it checks as they are read."""

    expression: Expression
    name: str | None
    is_over_batch: bool
    otherwise: Ladder
    is_over_table: bool = False
    of: str = ""
    of_span: Span | None = None


@dataclass(frozen=True, slots=True)
class MeasureSaid:
    """One measure; PROFILE has neither expression nor name. `offline` is the period of a job of its own."""

    expression: Expression | None
    name: str | None
    span: Span
    offline: Period | None = None
    offline_span: Span | None = None


@dataclass(frozen=True, slots=True)
class ColumnSaid:
    """One entry of a column list. `declared`: the parts that need no resolving. Others are kept with their place."""

    span: Span
    declared: Column
    rules: tuple[RuleSaid, ...] = ()
    references_span: Span | None = None
    made_as: Expression | None = None
    made_as_span: Span | None = None
    retires: RetireSaid | None = None
    stays: StaysSaid | None = None
    tells: TellsSaid | None = None
    hidden_span: Span | None = None

    @property
    def name(self) -> str:
        """The column's name."""
        return self.declared.name


@dataclass(frozen=True, slots=True)
class StaysSaid:
    """The parts of a KEY that choose its rows: how far back a key is compared, and which of its rows stays."""

    stays: KeyStays
    span: Span


@dataclass(frozen=True, slots=True)
class TellsSaid:
    """The value of a row's origin that a column contains: `file` for `_source.file`."""

    what: str
    span: Span


@dataclass(frozen=True, slots=True)
class RetireSaid:
    """The day of a RETIRE, as written."""

    text: str
    span: Span


@dataclass(frozen=True, slots=True)
class ColumnsSaid:
    """A column list in brackets."""

    columns: tuple[ColumnSaid, ...]
    is_open: bool


@dataclass(frozen=True, slots=True)
class UnitSaid:
    """`connection.path` or `connection QUERY 'text'`."""

    connection: str
    path: str
    query: str | None
    span: Span


@dataclass(frozen=True, slots=True)
class OptionsSaid:
    """OPTIONS (...), with the place of each name."""

    values: Options
    spans: Mapping[str, Span]


@dataclass(frozen=True, slots=True)
class EachSaid:
    """FOR EACH and the table whose rows each cause one request."""

    table: str
    span: Span


@dataclass(frozen=True, slots=True)
class WasSaid:
    """WAS and the former name of a table."""

    table: str
    span: Span


@dataclass(frozen=True, slots=True)
class AwaitSaid:
    """AWAIT: the kind of sign, a marker's name or a query, and the longest wait."""

    sign: Sign
    text: str
    within: Duration | None
    span: Span


@dataclass(frozen=True, slots=True)
class ChangedSaid:
    """CHANGED, or CHANGED BY a column."""

    column: str | None
    span: Span


@dataclass(frozen=True, slots=True)
class WatermarkSaid:
    """WATERMARK column lateness PER (columns)."""

    column: str
    lateness: timedelta
    per: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class DeadlineSaid:
    """DEADLINE duration BY WATERMARK."""

    after: Duration
    is_by_watermark: bool = False


@dataclass(frozen=True, slots=True)
class BatchedSaid:
    """BY DATA TIME t LOOKBACK d CHANGED BY m, BY ARRIVAL TIME, or BY CHANGES."""

    batching: Batching
    time_column: str | None = None
    lookback: Duration | None = None
    changed: ChangedSaid | None = None


@dataclass(frozen=True, slots=True)
class TemporalSaid:
    """The parts of TEMPORAL other than keys, order and deletes; `spans` are the places of the parts, by their words.

    `are_all_values` is NULLS VALUE without names, `are_all_missing` NULLS MISSING.
    """

    at: str | None = None
    track: tuple[str, ...] = ()
    values: tuple[str, ...] = ()
    are_all_values: bool = False
    are_all_missing: bool = False
    fills_back: bool = True
    spans: Mapping[str, Span] = field(default_factory=dict, compare=False)


@dataclass(frozen=True, slots=True)
class ModeSaid:
    """APPEND, REPLACE, or MERGE and TEMPORAL with their sub-clauses; `keys` is empty without ON.

    `where` is the condition of REPLACE WHERE, `per` the columns of PER after APPEND ORDER BY.
    """

    mode: Mode
    keys: tuple[str, ...] = ()
    order_by: tuple[str, ...] = ()
    delete_when: Expression | None = None
    temporal: TemporalSaid | None = None
    where: Expression | None = None
    per: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class QuerySaid:
    """A query's tokens (sqlglot's), with offsets into the whole text of `span.source`."""

    span: Span
    tokens: Sequence[Any] = field(compare=False)


@dataclass(frozen=True, slots=True)
class WhenSaid:
    """WHEN condition AS query, one for each condition; the query of the ELSE is the statement's own."""

    condition: Expression
    query: QuerySaid


@dataclass(frozen=True, slots=True)
class FunctionSaid:
    """The parameters (name, type), the type and the SQL body of a CREATE FUNCTION."""

    parameters: tuple[tuple[str, str], ...]
    returns: str
    body: Expression | None
