"""What the JSON of the pages of quality holds: rules, measures, deadlines, and how far tables are behind."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from waterclock.ui.answers_common import Answer, Note, Part, Piece, Told


class RuleCounts(Told):
    """How many of the newest batches of its table kept a rule."""

    kept: int
    warned: int
    refused: int
    """That failed for it, or that it holds back."""


class Rule(Told):
    """A rule over its newest batches."""

    table: str
    rule: str
    expression: str
    else_: str = Field(alias="else")
    state: str
    since: str
    said: str
    pieces: list[Piece]
    counts: RuleCounts
    note: Note | None


class Suggested(Told):
    """A rule for a table that declares none."""

    table: str
    rule: str
    text: str
    """What can be put into its declaration."""
    why: str


class NamedRule(Told):
    """A rule by its name."""

    table: str
    rule: str


class Quality(Answer):
    """Every rule, the broken ones first."""

    rules: list[Rule]
    newest: int
    broken: int
    newly_broken: list[NamedRule]
    newly_mended: list[NamedRule]
    tables: int
    without_rules: int
    suggested: list[Suggested]
    """Of up to twenty tables."""


class RuleOfTable(Rule):
    """A rule of a table, with the rows that did not keep it in its newest batches, as far as they were counted."""

    rows: int | None
    """That broke it; null where rows are not counted by rule."""
    taken: int | None
    """That it set aside or dropped: of several rules that a row broke, the first counts."""
    aside: str | None
    """The address of the query for those that are set aside."""


class Point(Told):
    """A measure of one batch, and what was usual by the batches before it."""

    label: str
    value: str | None
    """As Spark wrote it; null where it is NULL, was not counted, or no batch of the label is done."""
    low: float | None
    usual: float | None
    high: float | None
    """Where its rules put the bounds; null where they declare none, or too little is known."""


class Broken(Told):
    """That rules on a measure did not hold in a batch."""

    label: str
    state: Literal["warned", "failed", "held"]
    said: str
    address: str


class MeasureOverTime(Told):
    """A measure in the newest batches of its table."""

    name: str
    type: str
    rules: list[str]
    """Those that ask it."""
    points: list[Point]
    """The oldest first."""
    broken: list[Broken]
    """The newest first."""


class Profiled(Told):
    """What PROFILE counted of a column in the newest batch."""

    column: str
    nulls: str | None
    distinct: str | None
    least: str | None
    greatest: str | None
    null_shares: list[float | None]
    """By batch, the oldest first; null where it was not counted, or there are no rows."""


class WentAside(Told):
    """What became of the rows of a batch."""

    label: str
    input: str
    """The table of which these rows were read, before the query saw them; empty of those that the batch made."""
    came: int | None
    rows: int
    quarantined: int
    dropped: int
    address: str


class Cause(Told):
    """The batch most upstream for which windows wait."""

    table: str
    label: str
    status: str
    detail: str
    address: str


class ByWatermark(Told):
    """How far rows have come by their own time, with the newest window of which that is known."""

    watermark: str | None
    """None before the first row."""
    slowest: dict[str, Any] | None
    """The part that is furthest behind, by the columns behind PER."""
    behind: float | None
    """How far the newest row of that part is behind the window's end, in seconds."""


class Deadline(Told):
    """Windows of a table that stand alike to its DEADLINE or RUNTIME, for one cause."""

    table: str
    stands: Literal["missed", "near", "long"]
    label: str
    """The oldest of them."""
    last: str
    count: int
    by: str
    seconds: float
    """What is left of the oldest usually takes, or it took."""
    fresh_to: str | None
    by_watermark: ByWatermark | None
    """Of a deadline by the table's watermark."""
    cause: Cause
    address: str


class SilentCollect(Told):
    """A collect whose source brings nothing for unusually long."""

    table: str
    since: str
    labels: int
    expected: int
    rows_to: str
    address: str


class DoneAfter(Told):
    """How long after their windows the newest labels were done, in seconds."""

    labels: int
    p50: float
    p95: float
    max: float
    late: int | None
    """Of these, after DEADLINE."""


class TableLag(Told):
    """How far a table is behind; spans in seconds."""

    table: str
    labels: int
    fresh_to: str | None
    behind: float | None
    inputs_to: str | None
    behind_inputs: float | None
    rows: int | None
    rows_are_more: bool
    done_after: DoneAfter | None
    by_watermark: ByWatermark | None
    """Of a table with a WATERMARK."""


class InTime(Told):
    """What is late of some tables, near it or silent, and how far all of them are behind."""

    deadlines: list[Deadline]
    """Those that are missed first."""
    counts: dict[str, int]
    """Windows by how they stand, also of those that are not listed."""
    more_deadlines: int
    with_deadline: int
    """Tables that have one."""
    silent: list[SilentCollect]
    lags: list[TableLag]


class Lag(Answer, InTime):
    """Deadlines, silent sources, and how far each table is behind."""

    title: list[Part]


class TableQuality(Told):
    """The rules of a table, and what was measured of its newest batches."""

    newest: int
    rules: list[RuleOfTable]
    measures: list[MeasureOverTime]
    more_measures: int
    profile: list[Profiled]
    more_columns: int
    aside: list[WentAside]
    """The batches of which rows were set aside or dropped, the newest first."""
    in_time: InTime
