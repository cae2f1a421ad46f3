"""The JSON of each page: the keys that scripts may rely on, with their types. /openapi.json is made from it.

Labels are `20130105050000`, instants `2013-01-05T05:00:00Z`. `words` and similar keys are for people and may change.
Keys may be added at any time; the keys listed here are always present.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from waterclock.json_models.audit import BatchRecord
from waterclock.json_models.page_parts import BatchEntry, Note, PageAnswer, PagePart, Part, Piece, TicksOfTable
from waterclock.json_models.parts import OneError
from waterclock.json_models.tables import QueryResultPart


class GridTable(PagePart):
    """A row of the grid: one table."""

    table: str
    purpose: str
    state: str
    """The most severe state of its batches."""
    is_fresh: bool
    fresh_to: str
    pieces: list[Piece]


class Layer(PagePart):
    """The tables of a schema in the grid."""

    schema_: str = Field(alias="schema")
    tables: int
    fresh: int
    worst: str
    rows: list[GridTable]


class GridColumn(PagePart):
    """A column of the grid and its labels."""

    labels: str
    """In the syntax of selections."""
    starts: str


class Took(PagePart):
    """The duration of a column's batches."""

    labels: str
    seconds: float


class GridPage(PageAnswer):
    """The state of the project, and the grid: a row for each table with the states of its labels."""

    title: list[Part]
    more: list[Part]
    counts: dict[str, int]
    """The number of shown labels in each state that needs attention."""
    tables: int
    by: str
    columns: list[GridColumn]
    layers: list[Layer]
    took: list[Took]
    """Only columns with a duration; empty if too many labels are shown."""
    next_due: str | None
    ticks: dict[str, TicksOfTable]
    """The open windows of each shown table that has CONTINUOUS."""


class Trouble(BatchEntry):
    """Failed, held or expired batches of a table with the same cause, represented by the newest."""

    reason: str
    count: int
    blocks: int
    """The number of batches that wait for these."""
    labels: str
    can_retry: bool
    can_release: bool
    """Whether a rule holds them back, and none of their inputs has changed since."""


class Late(PagePart):
    """A table that is not fresh."""

    table: str
    state: str
    fresh_to: str


class Today(PageAnswer):
    """Problems that need a user, late tables and running batches."""

    alerts: list[dict[str, Any]]
    """The open alerts: the most severe first, acknowledged ones last."""
    title: list[Part]
    more: list[Part]
    needs: list[Trouble]
    late: list[Late]
    more_late: int
    running: list[BatchEntry]


class AllErrors(PageAnswer):
    """All batches that failed, are held or can never be made."""

    troubles: list[Trouble]
    more: int
    not_looked_at: int
    """The number of due batches that were left out because there are too many."""


class ActionEntry(PagePart):
    """An action that leads to a plan, with its parameters."""

    verb: str
    words: str
    t: str
    l: str  # noqa: E741 - the parameter's name


class OneBatch(PageAnswer):
    """The details of a batch."""

    kind: Literal["one"]
    table: str
    label: str
    state: str
    status: str
    reason: str
    due: str
    way: list[dict[str, Any]]
    """The steps from this batch to the one that a user must fix."""
    error: dict[str, Any] | None
    decided: list[dict[str, str]]
    """The decisions of users about the batch, newest first."""
    notes: list[Note]
    """The notes on the rules that the batch breaks."""
    holds_up: int
    record: BatchRecord | None
    """The stored record, as in `waterclock audit --json`; null if nothing is stored."""
    actions: list[ActionEntry]


class ShownBatch(BatchEntry):
    """A batch in the requested selection."""

    reason: str
    rows: int | None


class Batches(PageAnswer):
    """The states of the selected labels of some tables."""

    kind: Literal["several"]
    table: str | None
    labels: str
    of: int
    counts: dict[str, int]
    shown: list[ShownBatch]
    """The labels that need attention, newest first; if there are none, all labels, up to sixty."""
    actions: list[ActionEntry]


class Edge(PagePart):
    """An edge from a table to one that reads it."""

    from_: str = Field(alias="from")
    to: str


class Lineage(PageAnswer):
    """The tables and their inputs, laid out from left to right."""

    kind: Literal["tables", "schemas", "columns"]
    table: str
    title: list[Part]
    more: list[Part]
    nodes: list[dict[str, Any]]
    edges: list[Edge]
    rows: list[dict[str, Any]]
    """The same tables or columns as an indented list."""


class Run(PagePart):
    """A run."""

    run: str
    command: str
    who: str
    started_at: str
    seconds: float | None
    outcome: str


class RunnerEntry(PagePart):
    """A process that makes batches."""

    runner: str
    who: str
    command: str
    is_alive: bool
    has_this_flow: bool
    holds: list[dict[str, Any]]


class Runs(PageAnswer):
    """The newest runs, and the runners."""

    runs: list[Run]
    runners: list[RunnerEntry]
    alive: int


class RunClaimEntry(PagePart):
    """Batches of a table that a run claimed together."""

    claim: int
    table: str
    labels: str
    count: int
    status: str
    rows: int | None
    claimed_at: str
    seconds: float
    steps: dict[str, float]
    error: str


class OneRun(PageAnswer, Run):
    """A run: its batches, their times, and its duration by step."""

    claims: list[RunClaimEntry]
    is_cut: bool
    counts: dict[str, int]
    batches: int
    rows: int
    steps: list[dict[str, Any]]
    is_going_on: bool
    against: dict[str, Any] | None
    """The comparison with another run, table by table; null if there is none."""
    waits: list[dict[str, str]]


class Step(PagePart):
    """The batches of a table in a plan."""

    step: int
    table: str
    requested: int
    count: int
    labels: list[str]
    seconds: float | None
    publishes: str


class PlanPage(PageAnswer):
    """A proposed action, batch by batch. A POST with its `digest` carries it out."""

    verb: str
    selection: str
    labels: str
    title: str
    count: int
    total: int
    may_differ: bool
    steps: list[Step]
    seconds: float
    unknown: list[str]
    """The tables whose time is unknown because no batch was made yet."""
    command: str
    digest: str
    needs_reason: bool
    needs_runner: bool
    runners: int
    is_done: bool
    has_changed: bool


class QueryPage(PageAnswer):
    """The answer to a query; its errors are in `errors`."""

    sql: str
    as_of: str
    example: str
    errors: list[OneError]
    answer: QueryResultPart | None
