"""The immutable data classes of a flow: tables, columns, rules, reads, queries and connections.

Statements in DPL and in Python have the same classes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from waterclock.flow.about import About
from waterclock.flow.apart import Apart, apart_of
from waterclock.flow.awaits import Awaits
from waterclock.flow.closings import Closes
from waterclock.flow.compatibility import Compatibility
from waterclock.flow.conditions import Condition
from waterclock.flow.enums import FOLDS, Action, Batching, Kind, Mode, OnRestate, ReadKind, Scope, TableType
from waterclock.flow.for_each import Each
from waterclock.flow.grants import Grant, GrantRight, group_by_table
from waterclock.flow.key_options import KeyOptions
from waterclock.flow.late_rows import LateRows
from waterclock.flow.lookback_changes import Changed
from waterclock.flow.measures import Measure, MeasureComparison, Offline
from waterclock.flow.merge_settings import Keyed, Merge, Order, Temporal
from waterclock.flow.published_columns import PublishedExpression
from waterclock.flow.references import Reference
from waterclock.flow.retired_columns import Ending
from waterclock.flow.row_order import Buckets
from waterclock.flow.rule_actions import RuleAction, RuleActions, UnparsedLines
from waterclock.flow.schema_changes import OnSchemaChange
from waterclock.flow.stateful_steps import StatefulStep
from waterclock.flow.watermarks import Watermark
from waterclock.timelabel.cadence import Cadence
from waterclock.timelabel.duration import Duration
from waterclock.timelabel.window import Window

Value = str | int | float | bool | None


@dataclass(frozen=True, slots=True, order=True)
class Place:
    """A position in a source file: a file relative to the project, with line and column counted from 1."""

    file: str
    line: int
    column: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"


@dataclass(frozen=True, slots=True)
class Rule:
    """An EXPECT: a row passes if `expression` (Spark SQL) is TRUE; NULL is not TRUE.

    - `variables`: the project's variables that the expression uses as `:name`.
    - `action`: the action if the rule is broken. `limited_actions`: all actions, in order, if the first has a limit.
    - `comparison`: the parts of a rule that compares the batch with earlier ones.
    - `of`: the input table whose rows are checked before the query runs; empty for rules on the rows that a batch
      makes.
    """

    expression: str
    name: str
    scope: Scope
    action: Action
    place: Place = field(compare=False)
    variables: tuple[str, ...] = ()
    limited_actions: RuleActions = ()
    comparison: MeasureComparison | None = None
    of: str = ""

    @property
    def actions(self) -> RuleActions:
        """The actions if the rule is broken, in order. Each except the last has a limit."""
        return self.limited_actions or (RuleAction(self.action),)


@dataclass(frozen=True, slots=True)
class Column:
    """The declaration of a column. `type` is Spark SQL, or None if it is not declared.

    - `else_of_type`, `else_of_null`, `else_of_key`: the actions if type, NOT NULL or KEY are violated; if empty, the
      batch fails.
    - `ending`: the date on which the column ends (RETIRE).
    - `key_options`: the rule for rows with the same key (KEY ... PAST, ORDER BY).
    - `metadata_field`: the metadata field that the column contains, such as 'file'; None for a column of the source.
    - `made_as`: the expression whose value a PUBLISH sends under this name.
    - `is_hidden`: queries read the column only by its name, not by `*`.
    - `subject`: the kind of persons, such as `customer`, that the column's values identify (SUBJECT).
    - `is_token`: the table stores a random token for each value (TOKENS).
    - `is_added`: APART adds the column. Its type follows from the clause, and is not part of the fingerprint.
    """

    name: str
    place: Place = field(compare=False)
    type: str | None = None
    is_key: bool = False
    is_not_null: bool = False
    rules: tuple[Rule, ...] = ()
    references: Reference | None = None
    comment: str | None = None
    tags: tuple[str, ...] = ()
    else_of_type: RuleActions = ()
    else_of_null: RuleActions = ()
    else_of_key: RuleActions = ()
    ending: Ending | None = None
    key_options: KeyOptions | None = None
    metadata_field: str | None = None
    made_as: PublishedExpression | None = None
    is_hidden: bool = False
    subject: str | None = None
    is_token: bool = False
    is_added: bool = False


@dataclass(frozen=True, slots=True)
class Columns:
    """A column list. `is_open`: the list ends with `*` or is missing, and includes columns that it does not name.

    `on_change`: the reaction of a collect to changed columns of its source. `unread`: its actions for lines that cannot
    be parsed. `left_out`: the HIDDEN columns that a PUBLISH with an open list does not send.
    """

    named: tuple[Column, ...] = ()
    is_open: bool = True
    on_change: OnSchemaChange | None = None
    unread: UnparsedLines | None = None
    left_out: tuple[str, ...] = ()

    @property
    def hidden_columns(self) -> tuple[str, ...]:
        """The names of the HIDDEN columns, in the declared order."""
        return tuple(column.name for column in self.named if column.is_hidden)

    @property
    def keys(self) -> tuple[str, ...]:
        """The names of the KEY columns, in the declared order."""
        return tuple(column.name for column in self.named if column.is_key)

    @property
    def are_declared(self) -> bool:
        """True if the list has no `*` and declares all types, so that the columns are known before the first batch."""
        return bool(self.named) and not self.is_open and all(column.type for column in self.named)


@dataclass(frozen=True, slots=True)
class Secret:
    """A reference to a secret by its name; it never contains the value."""

    name: str


Options = Mapping[str, Value | Secret]


@dataclass(frozen=True, slots=True)
class Connection:
    """A named system that is read or written.

    `options` are the options of its statement, overridden by those of the environment; secrets are references.
    """

    name: str
    type: str
    options: Options
    about: About
    place: Place = field(compare=False)


@dataclass(frozen=True, slots=True)
class Unit:
    """An object of a connection that is read or written, by a `path` ('public.orders', or a glob) or by a `query`."""

    connection: str
    path: str
    query: str | None
    options: Options
    place: Place = field(compare=False)

    def __str__(self) -> str:
        return f"{self.connection}.{self.path}" if self.path else self.connection


@dataclass(frozen=True, slots=True)
class Source:
    """The source of a COLLECT, and how rows are assigned to windows. Only BY DATA TIME has `lookback` and `changed`."""

    unit: Unit
    batching: Batching
    time_column: str | None = None
    lookback: Duration | None = None
    awaits: Awaits | None = None
    changed: Changed | None = None
    each: Each | None = None


@dataclass(frozen=True, slots=True)
class Read:
    """An input of a batch: a table and the kind of read (docs/explain/consistency.md).

    `span`: how far back PAST, UNTIL and KEY ... PAST read; None for all other reads.
    """

    table: str
    kind: ReadKind = ReadKind.PLAIN
    span: Duration | None = None

    def __str__(self) -> str:
        if self.kind is ReadKind.PLAIN:
            return self.table
        inside = f"{self.table}, '{self.span}'" if self.span else self.table
        return f"{self.kind.upper()}({inside})"


@dataclass(frozen=True, slots=True)
class FlatJoin:
    """A join of FLAT along a REFERENCES: `columns` of the child equal `parent_columns` of the parent.

    - `at`: the child's time column that selects the parent's version. None if the start of the child's version selects
      it, or if the parent is not TEMPORAL.
    - `role`: the suffix of the parent's columns in the result.
    - `left_out`: HIDDEN columns of the parent, which are not in the result.
    """

    parent: Flat
    columns: tuple[str, ...]
    parent_columns: tuple[str, ...]
    role: str | None = None
    at: str | None = None
    left_out: tuple[str, ...] = field(default=(), repr=False)


@dataclass(frozen=True, slots=True)
class Flat:
    """FLAT(u): a read of table u, joined with all tables that its REFERENCES name, and with their parents.

    `is_temporal`: u is TEMPORAL. `is_exact`: its versions are split whenever the version of a parent changes.
    """

    read: Read
    joins: tuple[FlatJoin, ...] = ()
    is_temporal: bool = False
    is_exact: bool = False

    @property
    def included_reads(self) -> tuple[Read, ...]:
        """The distinct reads of the table and of all its parents; the table is the first."""
        parents = (read for join in self.joins for read in join.parent.included_reads)
        return tuple(dict.fromkeys((self.read, *parents)))

    def __str__(self) -> str:
        exact = ", 'exact'" if self.is_exact else ""
        return f"FLAT({self.read.table}{exact})"


@dataclass(frozen=True, slots=True)
class TableReference:
    """A reference to a table or a view in a query's text, by character offsets.

    - `start:end`: the text to replace: a name, or a read function with its brackets.
    - `alias`: the table's name without schema, to insert at `alias_at` if the query gives the table no alias.
    - `read`, `flat`, `view`: exactly one of them is set.
    - `view_columns`: the columns in the view's column list; empty for all columns.
    - `shared`: the name of the view if it is SHARED.
    - `is_mark`: the reference is a call of WATERMARK, which is replaced by the value in the `_mark` table that it
      reads.
    - `left_out`: HIDDEN columns of the table, which are excluded.
    """

    start: int
    end: int
    alias: str | None
    alias_at: int
    read: Read | None = None
    flat: Flat | None = None
    view: Query | None = None
    view_columns: tuple[str, ...] = ()
    is_mark: bool = False
    shared: str | None = None
    left_out: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ValueReference:
    """A call in a query's text that is replaced by a value of the batch, such as WINDOW_START() or TIMELABEL()."""

    start: int
    end: int
    name: str


@dataclass(frozen=True, slots=True)
class Query:
    """A query as the user wrote it, with the parts of its text that are replaced when it runs.

    `branches`: the queries that UNION ALL BY NAME combines, in order; the query itself then has no references. `stars`:
    the offsets after each `*`, with texts to insert there that exclude HIDDEN columns.
    """

    text: str
    place: Place = field(compare=False)
    tables: tuple[TableReference, ...] = ()
    values: tuple[ValueReference, ...] = ()
    variables: tuple[str, ...] = ()
    branches: tuple[Query, ...] = ()
    stars: tuple[tuple[int, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Argument:
    """A parameter of a Python transform: an input (`read`, `flat` or `query`), a project variable, or the window.

    `query`: the query of a view. `with_hidden`: the rows include HIDDEN columns; otherwise `left_out` are the HIDDEN
    columns to exclude.
    """

    name: str
    read: Read | None = None
    flat: Flat | None = None
    variable: str | None = None
    is_window: bool = False
    query: Query | None = None
    with_hidden: bool = False
    left_out: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PythonFunction:
    """A Python function of a transform, loaded by file and name at run time. `source` is its text, for display.

    `fingerprint` identifies the syntax trees of the function and of the project's modules that it imports; `shapes` are
    the texts of these trees. `step` is set for a function of `wc.stateful`.
    """

    file: str
    name: str
    arguments: tuple[Argument, ...]
    source: str
    place: Place = field(compare=False)
    fingerprint: str = ""
    step: StatefulStep | None = None
    shapes: tuple[str, ...] = field(default=(), compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Function:
    """A CREATE FUNCTION: a SQL expression or a Python UDF that queries can call by its name."""

    name: str
    parameters: tuple[tuple[str, str], ...]
    returns: str
    body: str | None
    python: PythonFunction | None
    place: Place = field(compare=False)


@dataclass(frozen=True, slots=True)
class View:
    """A CREATE VIEW: a named query. In other queries, its name is replaced by the query."""

    name: str
    columns: Columns
    query: Query
    about: About
    place: Place = field(compare=False)


@dataclass(frozen=True, slots=True)
class Choice:
    """One of the queries of a table with WHEN. A window uses the first query whose condition is true.

    `condition` is None for the query after ELSE, which is the last. `reads` are the inputs of the query, in order.
    """

    condition: Condition | None
    query: Query
    reads: tuple[Read, ...]

    def __str__(self) -> str:
        return f"WHEN {self.condition.text}" if self.condition else "ELSE"


@dataclass(frozen=True, slots=True, kw_only=True)
class TableDeclaration(Keyed):
    """The clauses of a table's statement, with all defaults resolved.

    A publish has the name of its destination (`ops.delays`) and one plain read.
    - `start`: None if it follows from the inputs, or if the first run records it (arrivals, snapshots).
    - `keep_versions`: None means 30 days. `manifest`: the format of a manifest for other engines.
    - `sort_by`: the columns by which the rows of each stored file are ordered. They are no part of the content.
    - `continuous`: the time between two reads of the table's open windows (CONTINUOUS); None: windows are made once
      they are over.
    - `cluster_by`: the columns by whose values the rows of a label are split into files, and ordered in each.
    - `partition_by`: the column of whose values each file of a label has one; none or one.
    - `bucket_by`: the columns by whose hash the rows of a label are split into files, for joins without a shuffle.
    - `is_unshuffled`: SHUFFLE NONE: a batch whose query moves rows between tasks is refused.
    - `restate_at_most`: if more labels may be made again because inputs changed, all wait for a user; None: no limit.
    - `partial_after`: the longest time after a window that a batch waits for missing inputs; None for no limit.
    - `deadline`: the time after a window until its batch must be done or, if `is_by_watermark`, until the table's
      watermark must have passed the window's end. `runtime`: the longest time that a batch may take.
    - `closes`: the condition that closes a window's books and ends its UNTIL reads; None: they end after their span.
    - `choices`: the queries of a table with WHEN. `reads` then has the inputs of all queries, `query` all as branches.
    - `compatible`: the guarantee for readers with older or newer versions of the columns.
    - `marks`: for a companion table that stores a watermark, the WATERMARK clause of its table; else None.
    - `apart`: APART: the columns that are stored in the companion table `<table>_apart` instead.
    - `late_rows`: for a companion table that stores late rows, its settings; else None.
    - `rules`: rules on the rows that a batch makes. `input_rules`: rules on the rows that it reads.
    - `measures`: values computed for each batch in the pass that writes it; `is_profiled`: also a profile of each
      column. `offline`: values that a separate job computes. The fingerprint does not cover these.
    """

    name: str
    kind: Kind
    type: TableType
    mode: Mode = Mode.REPLACE
    place: Place = field(compare=False)
    start: datetime | None = None
    columns: Columns = Columns()
    fold: Merge | Temporal | None = None
    rules: tuple[Rule, ...] = ()
    input_rules: tuple[Rule, ...] = ()
    retain: Duration | None = None
    keep_versions: Duration | None = None
    manifest: str | None = None
    sort_by: tuple[str, ...] = ()
    cluster_by: tuple[str, ...] = ()
    partition_by: tuple[str, ...] = ()
    bucket_by: Buckets | None = None
    is_unshuffled: bool = False
    continuous: Duration | None = None
    pool: str = "default"
    is_sequential: bool = False
    on_restate: OnRestate = OnRestate.RECOMPUTE
    restate_at_most: int | None = None
    partial_after: Duration | None = None
    deadline: Duration | None = None
    is_by_watermark: bool = False
    runtime: Duration | None = None
    closes: Closes | None = None
    compatible: Compatibility | None = None
    about: About = field(default_factory=About)
    reads: tuple[Read, ...] = ()
    source: Source | None = None
    query: Query | None = None
    choices: tuple[Choice, ...] = ()
    function: PythonFunction | None = None
    destination: Unit | None = None
    marks: Watermark | None = None
    late_rows: LateRows | None = None
    apart: Apart | None = None
    where: Condition | None = None
    order: Order | None = None
    measures: tuple[Measure, ...] = ()
    is_profiled: bool = False
    offline: Offline | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Table(TableDeclaration):
    """A collect, transform or publish of a compiled flow.

    - `open_of`: for a companion table with open windows, the table to which the windows belong; else None.
    - `fingerprint`: identifies the code. It covers the query without comments and spacing, or the syntax trees of the
      function and its imports, and the declarations of columns and rules.
    - `was`: its former name. `code_before`: the fingerprint with the former names of renamed inputs, if it differs.
    """

    cadence: Cadence
    open_of: str | None = None
    was: str | None = None
    fingerprint: str = ""
    code_before: str = ""

    def choice_of(self, window: Window) -> Choice | None:
        """Return the query that applies to a window, or None for a table without WHEN."""
        return next((it for it in self.choices if it.condition is None or it.condition.is_true_for(window)), None)

    def reads_for_window(self, window: Window) -> tuple[Read, ...]:
        """Return the tables that the batch of a window reads, each with the kind of read."""
        choice = self.choice_of(window)
        return self.reads if choice is None else choice.reads

    def with_choice(self, choice: Choice | None) -> Table:
        """Return the table with `choice` as its only query; the table unchanged if `choice` is None."""
        return self if choice is None else replace(self, reads=choice.reads, query=choice.query, choices=())

    @property
    def is_snapshot(self) -> bool:
        """True for a collect without BY, which can only read the current content of its source."""
        return self.source is not None and self.source.batching is Batching.SNAPSHOT

    @property
    def each(self) -> Each | None:
        """The FOR EACH of a collect that sends a request for each row of another table; None for all other tables."""
        return None if self.source is None else self.source.each

    @property
    def file_order(self) -> tuple[str, ...]:
        """The columns by which the rows of each stored file are ordered: those of `file_clauses`, each once."""
        return tuple(dict.fromkeys(name for _, names in self.file_clauses for name in names))

    @property
    def file_clauses(self) -> tuple[tuple[str, tuple[str, ...]], ...]:
        """The clauses that arrange the rows of each stored file, in their order, with their columns."""
        buckets = self.bucket_by.columns if self.bucket_by else ()
        return (
            ("BUCKET BY", buckets), ("CLUSTER BY", self.cluster_by), ("PARTITION BY", self.partition_by),
            ("SORT BY", self.sort_by),
        )  # fmt: skip

    @property
    def is_fold(self) -> bool:
        """True if the table combines the slices of all labels by key (MERGE, TEMPORAL)."""
        return self.mode in FOLDS

    @property
    def is_partitioned(self) -> bool:
        """True if the table is PARTITIONED: its labels are read and restated separately."""
        return self.type is TableType.PARTITIONED

    @property
    def is_delivered_by_label(self) -> bool:
        """True for a publish whose destination contains rows of many labels: of a PARTITIONED table, or by APPEND."""
        return self.kind is Kind.PUBLISH and (self.is_partitioned or self.mode is Mode.APPEND)

    @property
    def expressions(self) -> tuple[str, ...]:
        """The Spark SQL expressions outside of the query: rules, measures, DELETE WHEN, and columns computed by AS."""
        rules = (*self.rules, *(rule for column in self.columns.named for rule in column.rules), *self.input_rules)
        gone = self.fold.delete_when if self.fold else None
        measured = (it.expression for it in (*self.measures, *(self.offline.measures if self.offline else ())))
        named = self.columns.named
        made = [column.made_as.expression for column in named if column.made_as]
        made += [column.ending.made_as for column in named if column.ending and column.ending.made_as]
        return (*(rule.expression for rule in rules), *measured, *([gone] if gone else []), *made)

    @property
    def reads_itself(self) -> bool:
        """True if the table reads earlier labels of itself, by PREVIOUS."""
        return any(read.table == self.name for read in self.reads)

    @property
    def is_in_label_order(self) -> bool:
        """True if the batches of the table run one after the other, in the order of their labels."""
        return self.is_fold or self.is_sequential or self.reads_itself


@dataclass(frozen=True, slots=True, kw_only=True)
class Flow:
    """All checked declarations of a project: all inputs exist, defaults are resolved, and there are no invalid cycles.

    `fingerprint` identifies the whole flow. `order` lists the table names, inputs first. `grants_by_table` maps each
    table that a GRANT SELECT names to these grants, in the order declared, and `form_grants_by_table` each form to its
    grants to EDIT and to APPROVE. A grant on a table with APART also closes the table of its persons.
    """

    project: str
    tables: Mapping[str, Table]
    views: Mapping[str, View] = field(default_factory=dict)
    functions: Mapping[str, Function] = field(default_factory=dict)
    connections: Mapping[str, Connection] = field(default_factory=dict)
    variables: Mapping[str, Any] = field(default_factory=dict)
    pools: Mapping[str, int] = field(default_factory=dict)
    order: tuple[str, ...] = ()
    fingerprint: str = ""
    grants: tuple[Grant, ...] = ()
    grants_by_table: Mapping[str, tuple[Grant, ...]] = field(init=False, compare=False, repr=False)
    form_grants_by_table: Mapping[str, tuple[Grant, ...]] = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        readers = [grant for grant in self.grants if grant.right is GrantRight.SELECT]
        editors = [grant for grant in self.grants if grant.right is not GrantRight.SELECT]
        granted = group_by_table(readers)
        closed = {apart_of(name): () for name in granted if name in self.tables and self.tables[name].apart is not None}
        object.__setattr__(self, "grants_by_table", {**closed, **granted})
        object.__setattr__(self, "form_grants_by_table", group_by_table(editors))
