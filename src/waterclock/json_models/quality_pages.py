"""The JSON of the quality pages: rules, measures, deadlines and lag."""

from __future__ import annotations

from typing import Literal

from pydantic import ConfigDict, Field

from waterclock.json_models.page_parts import Note, PageAnswer, PagePart, Part, Piece, TicksOfTable
from waterclock.json_models.timeliness import CollectSilence, LagOfTable, WatermarkProgress


class RuleCounts(PagePart):
    """The results of a rule in the newest batches of its table."""

    kept: int
    warned: int
    refused: int
    """The batches that failed because of the rule, or that it holds back."""


class RuleEntry(PagePart):
    """A rule and its results in the newest batches of its table."""

    table: str
    rule: str
    expression: str
    else_: str = Field(alias="else")
    state: str
    since: str
    message: str
    pieces: list[Piece]
    counts: RuleCounts
    note: Note | None


class Suggested(PagePart):
    """A suggested rule for a table that declares none."""

    table: str
    rule: str
    text: str
    """The text to put into the table's declaration."""
    why: str


class NamedRule(PagePart):
    """A rule by its name."""

    table: str
    rule: str


class Quality(PageAnswer):
    """Every rule, broken ones first."""

    rules: list[RuleEntry]
    newest: int
    broken: int
    newly_broken: list[NamedRule]
    newly_mended: list[NamedRule]
    tables: int
    without_rules: int
    suggested: list[Suggested]
    """For up to twenty tables."""


class RuleOfTable(RuleEntry):
    """A rule of a table, with the rows that broke it in its newest batches, as far as they were counted."""

    rows: int | None
    """The rows that broke it; null if rows are not counted by rule."""
    taken: int | None
    """The rows that it quarantined or dropped. A row that broke several rules counts for the first one."""
    aside: str | None
    """The address of a query for the quarantined rows."""


class Point(PagePart):
    """A measure of one batch, and its usual value computed from earlier batches."""

    label: str
    value: str | None
    """The value as Spark wrote it; null if it is NULL, was not counted, or no batch of the label is done."""
    low: float | None
    usual: float | None
    high: float | None
    """The upper bound of its rules. `low`, `usual` and `high` are null without such rules or without enough history."""


class Broken(PagePart):
    """A batch in which rules on a measure failed."""

    label: str
    state: Literal["warned", "failed", "held"]
    message: str
    address: str


class MeasureOverTime(PagePart):
    """A measure in the newest batches of its table."""

    name: str
    type: str
    rules: list[str]
    """The rules that use it."""
    points: list[Point]
    """Oldest first."""
    broken: list[Broken]
    """Newest first."""


class Profiled(PagePart):
    """The counts of PROFILE for a column in the newest batch."""

    column: str
    nulls: str | None
    distinct: str | None
    least: str | None
    greatest: str | None
    null_shares: list[float | None]
    """The share of nulls in each batch, oldest first; null if it was not counted, or if there are no rows."""


class WentAside(PagePart):
    """The quarantined and dropped rows of a batch."""

    label: str
    input: str
    """The input table of the rows, if its rules removed them before the query; empty for rows that the batch made."""
    came: int | None
    rows: int
    quarantined: int
    dropped: int
    address: str


class LagCause(PagePart):
    """The most upstream batch that windows wait for."""

    table: str
    label: str
    status: str
    detail: str
    address: str


class Deadline(PagePart):
    """Windows of a table in the same situation with regard to its DEADLINE or RUNTIME, with the same cause."""

    table: str
    situation: Literal["missed", "near", "long"]
    label: str
    """The oldest of the windows."""
    last: str
    count: int
    by: str
    seconds: float
    """The usual duration of the oldest window's remaining work, or how long it took."""
    fresh_to: str | None
    by_watermark: WatermarkProgress | None
    """For a deadline BY WATERMARK."""
    cause: LagCause
    address: str


class SilentCollect(CollectSilence, PagePart):
    """A collect whose source has delivered nothing for unusually long."""

    model_config = ConfigDict(extra="ignore")

    address: str


class TableLag(LagOfTable, PagePart):
    """The lag of a table. Spans are in seconds."""

    model_config = ConfigDict(extra="ignore")

    address: str


class InTime(PagePart):
    """The late, nearly late and silent tables, and the lag of all tables."""

    deadlines: list[Deadline]
    """Missed deadlines first."""
    counts: dict[str, int]
    """Windows by situation, including those that are not listed."""
    more_deadlines: int
    with_deadline: int
    """The number of tables with a deadline."""
    silent: list[SilentCollect]
    lags: list[TableLag]


class LagPage(PageAnswer, InTime):
    """Deadlines, silent sources, and the lag of each table."""

    title: list[Part]
    ticks: dict[str, TicksOfTable]
    """The open windows of each table that has CONTINUOUS."""


class TableQuality(PagePart):
    """The rules of a table, and the measures of its newest batches."""

    newest: int
    rules: list[RuleOfTable]
    measures: list[MeasureOverTime]
    more_measures: int
    profile: list[Profiled]
    more_columns: int
    aside: list[WentAside]
    """The batches with quarantined or dropped rows, newest first."""
    in_time: InTime
