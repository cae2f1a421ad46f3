"""What the JSON of each page holds: the keys that scripts may rely on, with their types; from it comes /openapi.json.

Labels are `20130105050000`, instants `2013-01-05T05:00:00Z`, `words` and the like are for people and may change. Keys
may be added at any time: what is written here is there.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from waterclock.ui.answers_common import Answer, Batch, Note, OneError, Part, Piece, Told


class Row(Told):
    """A table in the grid."""

    table: str
    purpose: str
    state: str
    """The worst state of its batches."""
    is_fresh: bool
    fresh_to: str
    pieces: list[Piece]


class Layer(Told):
    """The tables of a schema in the grid."""

    schema_: str = Field(alias="schema")
    tables: int
    fresh: int
    worst: str
    rows: list[Row]


class Column(Told):
    """A column of the grid: the labels that it holds."""

    labels: str
    """As selections take them."""
    starts: str


class Took(Told):
    """How long the batches of a column took."""

    labels: str
    seconds: float


class Grid(Answer):
    """How the project stands, and each table as a ribbon over its labels."""

    title: list[Part]
    more: list[Part]
    counts: dict[str, int]
    """Labels shown, by state; those that are well are not counted."""
    tables: int
    by: str
    columns: list[Column]
    layers: list[Layer]
    took: list[Took]
    """Columns in which time was spent; none where too many labels are shown."""
    next_due: str | None


class Trouble(Batch):
    """Batches of a table that failed alike, by the newest of them."""

    reason: str
    count: int
    blocks: int
    """Batches that wait for these."""
    labels: str
    can_retry: bool
    can_release: bool
    """Whether a rule holds them back, and nothing that they had read has changed since."""


class Late(Told):
    """A table that is not fresh."""

    table: str
    state: str
    fresh_to: str


class Today(Answer):
    """What needs somebody, what is late, what runs."""

    alerts: list[dict[str, Any]]
    """Those that are not over: the loudest first, those that somebody knows of last."""
    title: list[Part]
    more: list[Part]
    needs: list[Trouble]
    late: list[Late]
    more_late: int
    running: list[Batch]


class AllErrors(Answer):
    """All that failed, is held or can never be made."""

    troubles: list[Trouble]
    more: int
    not_looked_at: int
    """Due batches that were left out, as there are too many."""


class Action(Told):
    """What can be done: it leads to a plan, with these parameters."""

    verb: str
    words: str
    t: str
    l: str  # noqa: E741 - the parameter's name


class OneBatch(Answer):
    """All that is known of a batch."""

    kind: Literal["one"]
    table: str
    label: str
    state: str
    status: str
    reason: str
    due: str
    way: list[dict[str, Any]]
    """Step by step to the batch that somebody must mend."""
    error: dict[str, Any] | None
    decided: list[dict[str, str]]
    """What people decided about it, the newest first."""
    notes: list[Note]
    """Of the rules that it does not keep."""
    holds_up: int
    record: dict[str, Any] | None
    """What is stored, as `waterclock audit --json` has it; null where nothing is."""
    actions: list[Action]


class ShownBatch(Batch):
    """A batch among those asked for."""

    reason: str
    rows: int | None


class Batches(Answer):
    """How some labels of some tables stand."""

    kind: Literal["several"]
    table: str | None
    labels: str
    of: int
    counts: dict[str, int]
    shown: list[ShownBatch]
    """Those that ask for a look, the newest first; else all, up to sixty."""
    actions: list[Action]


class Edge(Told):
    """That one reads another."""

    from_: str = Field(alias="from")
    to: str


class Lineage(Answer):
    """What reads what, laid out from left to right."""

    kind: Literal["tables", "schemas", "columns"]
    table: str
    title: list[Part]
    more: list[Part]
    nodes: list[dict[str, Any]]
    edges: list[Edge]
    rows: list[dict[str, Any]]
    """The same as an indented list."""


class Run(Told):
    """A run."""

    run: str
    command: str
    who: str
    started_at: str
    seconds: float | None
    outcome: str


class Runner(Told):
    """A process that makes batches."""

    runner: str
    who: str
    command: str
    is_alive: bool
    has_this_flow: bool
    holds: list[dict[str, Any]]


class Runs(Answer):
    """The newest runs, and who is at work."""

    runs: list[Run]
    runners: list[Runner]
    alive: int


class RunClaim(Told):
    """Batches of a table that a run took together."""

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


class OneRun(Answer, Run):
    """What a run made, when, and where its time went."""

    claims: list[RunClaim]
    is_cut: bool
    counts: dict[str, int]
    batches: int
    rows: int
    steps: list[dict[str, Any]]
    is_going_on: bool
    against: dict[str, Any] | None
    """Table by table beside another run; null where there is none."""
    waits: list[dict[str, str]]


class Step(Told):
    """The batches of a table in a plan."""

    step: int
    table: str
    asked: int
    count: int
    labels: list[str]
    seconds: float | None
    publishes: str


class Plan(Answer):
    """What would be done, batch by batch: a POST with its `digest` does it."""

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
    """Tables of which no batch was made yet, so nothing is known of their time."""
    command: str
    digest: str
    needs_reason: bool
    needs_runner: bool
    runners: int
    is_done: bool
    has_changed: bool


class Query(Answer):
    """What a query answered; what is wrong with it stands in `errors`."""

    sql: str
    as_of: str
    example: str
    errors: list[OneError]
    answer: dict[str, Any] | None
