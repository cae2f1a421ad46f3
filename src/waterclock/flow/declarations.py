"""What a user declares: the immutable description of a flow, the same from DPL and from Python."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from waterclock.flow.about import About
from waterclock.flow.awaits import Awaits
from waterclock.flow.choices import FOLDS, Action, Batching, Kind, Mode, OnRestate, ReadKind, Scope, TableType
from waterclock.flow.closings import Closes
from waterclock.flow.compatibility import Compatibility
from waterclock.flow.conditions import Condition
from waterclock.flow.endings import Ending
from waterclock.flow.folds import Keyed, Merge, Order, Temporal
from waterclock.flow.for_each import Each
from waterclock.flow.keys import KeyStays
from waterclock.flow.ladders import Ladder, Rung, Unread
from waterclock.flow.late_rows import LateRows
from waterclock.flow.lookbacks import Changed
from waterclock.flow.measures import Comparison, Measure, Offline
from waterclock.flow.published import MadeAs
from waterclock.flow.references import Reference
from waterclock.flow.schema_changes import OnSchemaChange
from waterclock.flow.steps import Step
from waterclock.flow.watermarks import Watermark
from waterclock.timelabel.cadence import Cadence
from waterclock.timelabel.duration import Duration
from waterclock.timelabel.window import Window

Value = str | int | float | bool | None


@dataclass(frozen=True, slots=True, order=True)
class Place:
    """Where something is written: a file relative to the project, with line and column counted from 1."""

    file: str
    line: int
    column: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"


@dataclass(frozen=True, slots=True)
class Rule:
    """An EXPECT: `expression` (Spark SQL) holds where it is TRUE; NULL is not TRUE.

    `variables` are the project's values that it names as `:name`, to be bound as a query's are. `action` is the first
    step of its ladder; `ladder` has all of them where there is a limit. `comparison`: of a rule of the batch that asks
    what was before it, what it asks. `of`: the table of which it is asked what the batch reads, before its query is;
    empty where it is asked of what the batch makes.
    """

    expression: str
    name: str
    scope: Scope
    action: Action
    place: Place = field(compare=False)
    variables: tuple[str, ...] = ()
    ladder: Ladder = ()
    comparison: Comparison | None = None
    of: str = ""

    @property
    def rungs(self) -> Ladder:
        """What happens where it does not hold, step by step."""
        return self.ladder or (Rung(self.action),)


@dataclass(frozen=True, slots=True)
class Column:
    """What is said of one column. `type` is Spark SQL text, None where it was not said.

    `else_of_...` say what happens where type, NOT NULL or KEY are broken; empty: the batch fails. `stays`: which row of
    a key does. `tells`: what the column tells of where a row came from ('file'), None where the rows bring it.
    `made_as`: what a PUBLISH sends under this name. `is_hidden`: it comes to who names it, and with no `*`.
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
    else_of_type: Ladder = ()
    else_of_null: Ladder = ()
    else_of_key: Ladder = ()
    ends: Ending | None = None
    stays: KeyStays | None = None
    tells: str | None = None
    made_as: MadeAs | None = None
    is_hidden: bool = False


@dataclass(frozen=True, slots=True)
class Columns:
    """A column list. Open (a final `*`, or no list at all) takes columns that are not named; closed leaves them out.

    `on_change`: what becomes of a collect whose source's columns change, `unread`: of lines that cannot be read.
    `left_out`: HIDDEN columns of its table that an open list of a PUBLISH does not name.
    """

    named: tuple[Column, ...] = ()
    is_open: bool = True
    on_change: OnSchemaChange | None = None
    unread: Unread | None = None
    left_out: tuple[str, ...] = ()

    @property
    def hidden(self) -> tuple[str, ...]:
        """Names of the HIDDEN columns, in the order written."""
        return tuple(column.name for column in self.named if column.is_hidden)

    @property
    def keys(self) -> tuple[str, ...]:
        """Names of the KEY columns, in the order written."""
        return tuple(column.name for column in self.named if column.is_key)

    @property
    def are_declared(self) -> bool:
        """True where the list is closed and gives every type: the columns are known before the first batch."""
        return bool(self.named) and not self.is_open and all(column.type for column in self.named)


@dataclass(frozen=True, slots=True)
class Secret:
    """A secret's name, never its value."""

    name: str


Options = Mapping[str, Value | Secret]


@dataclass(frozen=True, slots=True)
class Connection:
    """A named system. `options` are those of DPL overlaid with the environment's; secrets are still names."""

    name: str
    type: str
    options: Options
    about: About
    place: Place = field(compare=False)


@dataclass(frozen=True, slots=True)
class Unit:
    """One object of a connection: `path` ('public.orders', 'faa.flights', a glob) or a `query`."""

    connection: str
    path: str
    query: str | None
    options: Options
    place: Place = field(compare=False)

    def __str__(self) -> str:
        return f"{self.connection}.{self.path}" if self.path else self.connection


@dataclass(frozen=True, slots=True)
class Source:
    """Where a COLLECT takes its rows and what puts them into windows. `lookback`, `changed`: for data time alone."""

    unit: Unit
    batching: Batching
    time_column: str | None = None
    lookback: Duration | None = None
    awaits: Awaits | None = None
    changed: Changed | None = None
    each: Each | None = None


@dataclass(frozen=True, slots=True)
class Read:
    """One reference to a table: what it means for a batch is in docs/explain/consistency.md.

    `span` is PAST's and UNTIL's, and that of a PREVIOUS by which a KEY looks back; None of all others.
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
    """A REFERENCES that FLAT follows: `columns` of the child are `parent_columns` of the parent.

    `at` is the child's time that chooses the parent's version: None where the child's own versions do, or where the
    parent is not temporal. `role` is the suffix of what the parent brings; what is `left_out` is HIDDEN there.
    """

    parent: Flat
    columns: tuple[str, ...]
    parent_columns: tuple[str, ...]
    role: str | None = None
    at: str | None = None
    left_out: tuple[str, ...] = field(default=(), repr=False)


@dataclass(frozen=True, slots=True)
class Flat:
    """FLAT(u): a read of u with all parents that it refers to, top to bottom.

    `is_temporal`: the table keeps versions. `is_exact`: its versions are split wherever a parent's change.
    """

    read: Read
    joins: tuple[FlatJoin, ...] = ()
    is_temporal: bool = False
    is_exact: bool = False

    @property
    def reads(self) -> tuple[Read, ...]:
        """All reads that it stands for, its own first, each once."""
        parents = (read for join in self.joins for read in join.parent.reads)
        return tuple(dict.fromkeys((self.read, *parents)))

    def __str__(self) -> str:
        exact = ", 'exact'" if self.is_exact else ""
        return f"FLAT({self.read.table}{exact})"


@dataclass(frozen=True, slots=True)
class TableReference:
    """A reference to a table or a view in a query's text, by character offsets.

    `start:end` is what is replaced (a name or a read function with its brackets). `alias` is the bare table name that
    must be given at offset `alias_at` where the user gave none. Exactly one of `read`, `flat` and `view` is set.
    `view_columns` is the view's allow-list; empty where it lets all columns through. `shared` names a SHARED view.
    `is_mark`: the greatest watermark of what is read stands in its place, a value. `left_out`: HIDDEN columns of it
    that do not come.
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
    """A batch's own value in a query's text: WINDOW_START(), WINDOW_END() or TIMELABEL()."""

    start: int
    end: int
    name: str


@dataclass(frozen=True, slots=True)
class Query:
    """A query as the user wrote it, with all that must be put in place of its references. Never regenerated.

    `branches` are the queries between its UNION ALL BY NAME, in their order, with offsets into their own texts; the
    query has no references of its own then. `stars`: what is put in at offsets behind a `*`, so that it does not bring
    HIDDEN columns that are named beside it.
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
    """A parameter of a Python transform: a read (plain or FLAT), a variable of the project, or the window.

    Where the read names a view, `query` is the query to run in its place, and `read` is None. `with_hidden`: the rows
    come with their HIDDEN columns; `left_out` are those that they come without.
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
    """A Python transform: found by file and name at run time; `source` is for people.

    `fingerprint` names its syntax tree and those of the project's modules that it imports, which are its `shapes`.
    `step`: it keeps a state.
    """

    file: str
    name: str
    arguments: tuple[Argument, ...]
    source: str
    place: Place = field(compare=False)
    fingerprint: str = ""
    step: Step | None = None
    shapes: tuple[str, ...] = field(default=(), compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Function:
    """A CREATE FUNCTION: a SQL expression or a Python UDF that queries may call by name."""

    name: str
    parameters: tuple[tuple[str, str], ...]
    returns: str
    body: str | None
    python: PythonFunction | None
    place: Place = field(compare=False)


@dataclass(frozen=True, slots=True)
class View:
    """A named query that is put in place of its name; where it `is_shared`, its rows are made once for all readers."""

    name: str
    columns: Columns
    query: Query
    about: About
    place: Place = field(compare=False)
    is_shared: bool = False


@dataclass(frozen=True, slots=True)
class Choice:
    """One of the queries of which a window's own is chosen: the first of which the condition holds, else the ELSE.

    `condition` is None of the ELSE, which comes last. `reads` are those of the query, in its order.
    """

    condition: Condition | None
    query: Query
    reads: tuple[Read, ...]

    def __str__(self) -> str:
        return f"WHEN {self.condition.text}" if self.condition else "ELSE"


@dataclass(frozen=True, slots=True, kw_only=True)
class Table(Keyed):
    """Whatever has batches: a collect, a transform or a publish, with every default settled.

    A publish is named as its unit (`ops.delays`) and has one plain read. `start` is None where it is to be derived, or
    written down by the first run (arrivals, snapshots). `keep_versions` None: for 30 days. `manifest`: kept for others.
    `partial_after`: how long after a window a batch waits for all it reads; None: until all is settled.
    `deadline`: how long after a window its batch is to be done, or its watermark to have passed the window's end
    (`is_by_watermark`); `runtime`: how long a batch may take at most.
    `closes`: when the books of a window are closed, up to which UNTIL reads; None: as long behind it as UNTIL says.
    `open_of`: the table whose open windows it holds, of one that is made beside that.
    `choices` are the queries between which windows choose; `reads` are those of all, `query` has all as its branches.
    `compatible`: what is promised to those that read by older or newer versions of its columns.
    `marks`: the watermark that the table keeps, of the one whose windows it reads. `late_rows`: whose it keeps.
    `rules` are asked of what a batch makes, `input_rules` of what it reads.
    `measures`: what is counted of each batch in the pass that writes it, `is_profiled`: of each column, too; `offline`:
    what a job of its own counts. The code is the same with and without them. `fingerprint` names it: the syntax tree of
    the query, or of the function and its imports, and what is said of columns and rules, but no comments or spacing.
    `was`: the name that it had before; `code_before`: what named its code when tables had the names they had before,
    where that is another.
    """

    name: str
    kind: Kind
    type: TableType
    mode: Mode
    cadence: Cadence
    place: Place = field(compare=False)
    start: datetime | None = None
    columns: Columns = Columns()
    fold: Merge | Temporal | None = None
    rules: tuple[Rule, ...] = ()
    input_rules: tuple[Rule, ...] = ()
    retain: Duration | None = None
    keep_versions: Duration | None = None
    manifest: str | None = None
    pool: str = "default"
    is_sequential: bool = False
    on_restate: OnRestate = OnRestate.RECOMPUTE
    partial_after: Duration | None = None
    deadline: Duration | None = None
    is_by_watermark: bool = False
    runtime: Duration | None = None
    closes: Closes | None = None
    open_of: str | None = None
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
    where: Condition | None = None
    order: Order | None = None
    measures: tuple[Measure, ...] = ()
    is_profiled: bool = False
    offline: Offline | None = None
    was: str | None = None
    fingerprint: str = ""
    code_before: str = ""

    def choice_of(self, window: Window) -> Choice | None:
        """Return which of its queries makes a window; None where there is one for all."""
        return next((it for it in self.choices if it.condition is None or it.condition.holds(window)), None)

    def reads_of(self, window: Window) -> tuple[Read, ...]:
        """Return the references that the batch of a window reads."""
        choice = self.choice_of(window)
        return self.reads if choice is None else choice.reads

    def made_by(self, choice: Choice | None) -> Table:
        """Return the table as if one of its queries made all windows."""
        return self if choice is None else replace(self, reads=choice.reads, query=choice.query, choices=())

    @property
    def is_snapshot(self) -> bool:
        """True of a REPLACE collect without a BY: it can only take what its source holds now."""
        return self.source is not None and self.source.batching is Batching.SNAPSHOT

    @property
    def each(self) -> Each | None:
        """Of which table's rows a collect asks its source, one by one (FOR EACH); None of all others."""
        return None if self.source is None else self.source.each

    @property
    def is_fold(self) -> bool:
        """True where the table's state is made of the slices of all labels so far, key by key."""
        return self.mode in FOLDS

    @property
    def is_partitioned(self) -> bool:
        """True where labels are independent slices."""
        return self.type is TableType.PARTITIONED

    @property
    def is_delivered_by_label(self) -> bool:
        """True of a publish whose destination keeps rows of many labels: from a PARTITIONED table, or by APPEND."""
        return self.kind is Kind.PUBLISH and (self.is_partitioned or self.mode is Mode.APPEND)

    @property
    def expressions(self) -> tuple[str, ...]:
        """The Spark SQL of the header: rules, measures, which winners of a MERGE are gone, what a PUBLISH makes."""
        rules = (*self.rules, *(rule for column in self.columns.named for rule in column.rules), *self.input_rules)
        gone = self.fold.delete_when if self.fold else None
        measured = (it.expression for it in (*self.measures, *(self.offline.measures if self.offline else ())))
        made = (column.made_as.expression for column in self.columns.named if column.made_as)
        return (*(rule.expression for rule in rules), *measured, *([gone] if gone else []), *made)

    @property
    def reads_itself(self) -> bool:
        """True where the query reads PREVIOUS of its own table."""
        return any(read.table == self.name for read in self.reads)

    @property
    def in_label_order(self) -> bool:
        """True where a label is made only after all labels before it."""
        return self.is_fold or self.is_sequential or self.reads_itself


@dataclass(frozen=True, slots=True, kw_only=True)
class Flow:
    """All that a project declares, checked: every read names a table, every default is settled, no cycle is illegal.

    `fingerprint` names the whole flow; `applied` claims compare it. `order` lists table names upstream first.
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
