"""The classes of parsed statements and clauses of DPL and of Python, before names are resolved."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum
from typing import Any, TypeVar

from waterclock.dpl.syntax.source_text import Span
from waterclock.flow.declarations import Column, Options, PythonFunction
from waterclock.flow.enums import Batching, Mode, OnRestate, WindowSignal
from waterclock.flow.key_options import KeyOptions
from waterclock.flow.rule_actions import RuleActions
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
    """A clause of a statement: its word (docs/reference/grammar.md), its parsed value, and its span."""

    word: str
    value: Any
    span: Span


@dataclass(frozen=True, slots=True)
class Statement:
    """A parsed statement with its name and clauses. Positional parts (FROM, COLUMNS, AS, ...) are clauses too.

    - `function`: the Python function that replaces the query or SQL expression.
    - `failed`: the words of the clauses that could not be parsed; `UNREAD` represents a clause that was not recognized.
    - `listed`: the column names of a column list that could not be parsed; None if they are unknown.
    """

    kind: StatementKind
    name: str
    span: Span
    clauses: tuple[Clause, ...] = ()
    function: PythonFunction | None = None
    failed: frozenset[str] = frozenset()
    listed: tuple[str, ...] | None = None

    def has_failed(self, word: str) -> bool:
        """Return whether a clause could not be parsed, or may be the one that was not recognized; both are reported."""
        return word in self.failed or UNREAD in self.failed

    def clause(self, word: str) -> Clause | None:
        """Return the clause with a word; None if the statement has none."""
        return next((clause for clause in self.clauses if clause.word == word), None)

    def value(self, word: str, kind: type[T]) -> T | None:
        """Return the value of the clause with a word, which must be of type `kind`; None if there is no such clause."""
        clause = self.clause(word)
        if clause is None:
            return None
        if not isinstance(clause.value, kind):
            raise TypeError(f"{word} holds {type(clause.value).__name__}, not {kind.__name__}")
        return clause.value


@dataclass(frozen=True, slots=True)
class Expression:
    """A Spark SQL expression in a clause: its span, syntax tree, tokens, and the names of its `:name` variables."""

    span: Span
    tree: Any = field(compare=False)
    tokens: Sequence[Any] = field(compare=False)
    variables: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """The expression as written, on one line and without comments."""
        return self.text_with({})

    def text_with(self, literals: Mapping[str, str]) -> str:
        """Return the expression with each `:name` replaced by its text in `literals`, if it has one."""
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
class ParsedRule:
    """A parsed EXPECT. `of` is the input table whose rows it checks; empty for a rule on the result."""

    expression: Expression
    name: str | None
    is_over_batch: bool
    otherwise: RuleActions
    is_over_table: bool = False
    of: str = ""
    of_span: Span | None = None


@dataclass(frozen=True, slots=True)
class ParsedMeasure:
    """A parsed measure; PROFILE has neither expression nor name. `offline` is the period of OFFLINE, or None."""

    expression: Expression | None
    name: str | None
    span: Span
    offline: Period | None = None
    offline_span: Span | None = None


@dataclass(frozen=True, slots=True)
class ParsedColumn:
    """A parsed column of a column list. `declared` contains the properties whose parsed value is final.

    `made_as` is the expression in AS, `metadata_field` its row metadata, and `key_options` the PAST and ORDER BY of its
    KEY.
    """

    span: Span
    declared: Column
    rules: tuple[ParsedRule, ...] = ()
    references_span: Span | None = None
    made_as: Expression | None = None
    made_as_span: Span | None = None
    retires: ParsedRetire | None = None
    key_options: ParsedKeyOptions | None = None
    metadata_field: ParsedRowMetadata | None = None
    hidden_span: Span | None = None
    subject_span: Span | None = None

    @property
    def name(self) -> str:
        """The column's name."""
        return self.declared.name


@dataclass(frozen=True, slots=True)
class ParsedKeyOptions:
    """The parsed PAST and ORDER BY of a KEY."""

    options: KeyOptions
    span: Span


@dataclass(frozen=True, slots=True)
class ParsedRowMetadata:
    """The metadata field that a column contains. `what` is `file` for `_source.file`, `_change.op` for `_change.op`."""

    what: str
    span: Span


@dataclass(frozen=True, slots=True)
class ParsedRetire:
    """The day of a RETIRE, as text."""

    text: str
    span: Span


@dataclass(frozen=True, slots=True)
class ParsedColumnList:
    """A parsed column list; an open one ends with `*`."""

    columns: tuple[ParsedColumn, ...]
    is_open: bool


@dataclass(frozen=True, slots=True)
class ParsedName:
    """A parsed name, with its span."""

    text: str
    span: Span


@dataclass(frozen=True, slots=True)
class ParsedGrantColumn:
    """A column of a GRANT; `mask` is the expression in its AS, None if its values are granted unmasked."""

    name: ParsedName
    mask: Expression | None = None


@dataclass(frozen=True, slots=True)
class ParsedGrantColumns:
    """The columns of a GRANT. `is_open`: the list ends with `*`, which means all columns except those in `excepted`."""

    columns: tuple[ParsedGrantColumn, ...]
    is_open: bool
    excepted: tuple[ParsedName, ...] = ()


@dataclass(frozen=True, slots=True)
class ParsedGrantTarget:
    """The tables of a GRANT: `schema.name`, `schema.*` or `*`."""

    text: str
    span: Span


@dataclass(frozen=True, slots=True)
class ParsedUnit:
    """A parsed unit: `connection.path` or `connection QUERY 'text'`."""

    connection: str
    path: str
    query: str | None
    span: Span


@dataclass(frozen=True, slots=True)
class ParsedOptions:
    """A parsed OPTIONS (...), with the span of each name."""

    values: Options
    spans: Mapping[str, Span]


@dataclass(frozen=True, slots=True)
class ParsedForEach:
    """A parsed FOR EACH: the table for whose rows the collect sends requests."""

    table: str
    span: Span


@dataclass(frozen=True, slots=True)
class ParsedWas:
    """A parsed WAS: the former name of a renamed table."""

    table: str
    span: Span


@dataclass(frozen=True, slots=True)
class ParsedAwait:
    """A parsed AWAIT: its kind, the marker's name or the query, and the longest wait (None: no limit)."""

    sign: WindowSignal
    text: str
    within: Duration | None
    span: Span


@dataclass(frozen=True, slots=True)
class ParsedChanged:
    """A parsed CHANGED, or CHANGED BY column."""

    column: str | None
    span: Span


@dataclass(frozen=True, slots=True)
class ParsedWatermark:
    """A parsed WATERMARK column lateness PER (columns)."""

    column: str
    lateness: timedelta
    per: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ParsedApart:
    """A parsed APART (columns) KEYS connection FOR duration. `retain` is None if the columns are kept for ever."""

    columns: tuple[ParsedName, ...]
    keys: ParsedName | None = None
    retain: Duration | None = None


@dataclass(frozen=True, slots=True)
class ParsedDeadline:
    """A parsed DEADLINE duration, with or without BY WATERMARK."""

    after: Duration
    is_by_watermark: bool = False


@dataclass(frozen=True, slots=True)
class ParsedRestate:
    """A parsed ON RESTATE: the reaction to changed inputs, and the limit of AT MOST n LABELS ELSE HOLD, if any."""

    reaction: OnRestate
    at_most: int | None = None


@dataclass(frozen=True, slots=True)
class ParsedBatching:
    """A parsed BY: DATA TIME t LOOKBACK d CHANGED BY m, ARRIVAL TIME, or CHANGES."""

    batching: Batching
    time_column: str | None = None
    lookback: Duration | None = None
    changed: ParsedChanged | None = None


@dataclass(frozen=True, slots=True)
class ParsedTemporal:
    """The parsed sub-clauses of TEMPORAL, except its keys, ORDER BY and DELETE WHEN.

    `are_all_values`: NULLS VALUE without names. `are_all_missing`: NULLS MISSING. `fills_back`: without FILL FORWARD.
    `spans` maps the words of each sub-clause to its span.
    """

    at: str | None = None
    track: tuple[str, ...] = ()
    values: tuple[str, ...] = ()
    are_all_values: bool = False
    are_all_missing: bool = False
    fills_back: bool = True
    spans: Mapping[str, Span] = field(default_factory=dict, compare=False)


@dataclass(frozen=True, slots=True)
class ParsedMode:
    """A parsed mode, APPEND, REPLACE, MERGE or TEMPORAL, with its sub-clauses; `keys` is empty without ON.

    `where` is the condition of REPLACE WHERE, `per` the columns of PER after APPEND ORDER BY.
    """

    mode: Mode
    keys: tuple[str, ...] = ()
    order_by: tuple[str, ...] = ()
    delete_when: Expression | None = None
    temporal: ParsedTemporal | None = None
    where: Expression | None = None
    per: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ParsedQuery:
    """A query as sqlglot tokens, with offsets in the whole text of `span.source`."""

    span: Span
    tokens: Sequence[Any] = field(compare=False)


@dataclass(frozen=True, slots=True)
class ParsedWhen:
    """A parsed `WHEN condition AS query`. The query of the ELSE is the statement's clause AS."""

    condition: Expression
    query: ParsedQuery


@dataclass(frozen=True, slots=True)
class ParsedFunction:
    """The parsed parameters (name, type), return type and SQL body of a CREATE FUNCTION."""

    parameters: tuple[tuple[str, str], ...]
    returns: str
    body: Expression | None
