"""The answer of `plan`: the batches that are due, and the reasons why they wait."""

from __future__ import annotations

from waterclock.json_models.parts import (
    Answer,
    AnswerPart,
    InstantToSecond,
    OneError,
    TextOrNull,
    only_if_set,
    read_from,
)
from waterclock.json_models.timeliness import (
    FirstWindowDue,
    LookBack,
    OfflineStatus,
    ReceivedFiles,
    SourceLog,
    SourceWaiting,
    WindowDeadline,
)


class PauseOfTables(AnswerPart):
    """A pause: no new batch is claimed."""

    since: InstantToSecond = read_from("at")
    by: str = read_from("who")
    """The user who paused."""
    why: str


class MissingInput(AnswerPart):
    """A missing input of a batch: the windows of a table from `low` to `high`."""

    table: str
    low: InstantToSecond
    high: InstantToSecond


class PlannedRead(AnswerPart):
    """An input of a batch."""

    table: str
    read: str
    """The reference in the query."""
    scope: str
    """`slices`: the rows from `low` to `high`. `state`: the table as of `high`."""
    low: str
    high: str


class PlannedCause(AnswerPart):
    """A batch that blocks another one, or for which it waits."""

    table: str
    label: str
    status: str
    detail: str


class WindowClosing(AnswerPart):
    """The state of a window's books (CLOSE WHEN): when they were closed, or why they are open."""

    tick: InstantToSecond | None
    """The boundary at which the books were closed; null while they are open."""
    looked: InstantToSecond | None
    """The newest boundary at which the condition was not TRUE."""
    at: InstantToSecond | None
    """When the condition was checked, or the window closed."""
    first: InstantToSecond | None
    """The original tick, before late rows opened the window again."""
    reason: str | None
    """`condition`, `by hand`, `partial` or `late rows`; of an open window `not checked` if the last check failed."""
    behind: TextOrNull
    """The data that the condition waited for."""
    who: TextOrNull
    why: TextOrNull
    """The reason given for closing by hand, or the code of the error of the last check."""


class PlannedBatch(AnswerPart):
    """A due batch."""

    table: str
    label: str
    end: str
    """The end of its window."""
    status: str
    reason: str
    is_revision: bool
    """Whether the batch was done before and is made again."""
    verb: str | None
    """How a user requested the revision: `recompute`, `recollect` or `skip`."""
    choice: str | None
    """The query that makes the batch, `WHEN ...` or `ELSE`, if its table has several."""
    stands_from: str | None
    """For a snapshot, the start of the oldest window that it stands for."""
    reads: list[PlannedRead]
    causes: list[PlannedCause]
    missing: list[MissingInput]
    """The missing inputs of a batch that stopped waiting for them (PARTIAL AFTER)."""
    is_over_limit: bool
    """Whether it is held because more labels would be made again than a limit allows."""
    closing: WindowClosing | None = only_if_set()
    """For a table with CLOSE WHEN."""
    open_windows: list[str] | None = only_if_set()
    """The labels of the open windows that the batch makes."""
    local: str


class ClaimGroup(AnswerPart):
    """Batches of a table that may be claimed together."""

    table: str
    labels: list[str]


class HeldLabels(AnswerPart):
    """Labels of a table that are not made again because they exceed a limit, until a user decides."""

    labels: list[str]
    """The labels that may be made again."""
    changed: int
    """The number of labels whose inputs are restated already."""
    limit: int
    total: int
    """The number of labels that count towards the limit."""
    is_of_run: bool
    """Whether the limit is that of `run --at-most`, and not that of the table (ON RESTATE)."""


class HeldRestatement(HeldLabels):
    """Labels that are not made again because they exceed a limit, and the cost of making them."""

    rows: int
    """The number of rows that the labels have now."""
    seconds: float | None
    """The estimated seconds of work; null if no batch of the table was made yet."""
    following: dict[str, int]
    """The number of batches of other tables that may have to be made again after them."""
    following_seconds: float | None
    """The estimated seconds of work for these; null if it is not known."""


class QueryCount(AnswerPart):
    """The smallest and the largest number of Spark queries that make the batches of a table."""

    least: int
    most: int


class PlanAnswer(Answer):
    """JSON output of `plan`: the batches that are due, and the reasons why they wait."""

    env: str
    """The environment."""
    summary: dict[str, int]
    """The number of due batches, in all and by status, and of older states that are behind."""
    now: str
    """The instant of the plan."""
    next_due: str | None
    """When a batch becomes due next."""
    batches: list[PlannedBatch]
    """The due batches, upstream first and oldest first."""
    groups: list[ClaimGroup]
    """The batches that may be claimed now, in order."""
    left_out: dict[str, int]
    """The number of due batches of each table that later runs make."""
    older_code: dict[str, int]
    """The number of done labels of each table that ran under older code."""
    reported: dict[str, list[str]]
    """The done labels of each table whose inputs were restated since (ON RESTATE REPORT)."""
    following: dict[str, int]
    """The number of done batches of each table that are made again if rows of their inputs differ."""
    behind: dict[str, list[str]]
    """The older states of each table whose inputs were restated since, and that no batch needs."""
    queries: dict[str, QueryCount]
    """The number of queries for the ready, waiting and left out batches of each table."""
    paused: dict[str, PauseOfTables]
    """The pause of each table that is paused by name."""
    paused_all: PauseOfTables | None
    """The pause of all tables."""
    partial: dict[str, dict[str, list[MissingInput]]]
    """The missing inputs of done batches, by table and label."""
    refused: dict[str, OneError]
    """The error E405 of each table whose declaration no longer fits its batches."""
    held_restatements: dict[str, HeldRestatement]
    """The labels of each table that are not made again because they exceed a limit (ON RESTATE)."""
    not_needed: dict[str, int]
    """The number of due labels of each table that no table reads."""
    stood_for: dict[str, int]
    """The number of labels of each table for which a later snapshot stands."""
    not_begun: dict[str, FirstWindowDue]
    """The first window of each table without a due window."""
    shared: dict[str, list[str]]
    """The tables with a due label for which each SHARED view is read once."""
    lookbacks: dict[str, LookBack]
    """The newest look-back of each table with LOOKBACK ... CHANGED."""
    received: dict[str, ReceivedFiles]
    """The received files of each table that are not collected yet."""
    kept_at_sources: list[SourceLog]
    """The change logs that sources keep for collects BY CHANGES."""
    deadlines: list[WindowDeadline]
    """The windows that missed their deadline or are near it, and batches that take long."""
    offline: list[OfflineStatus]
    """The tables with MEASURE ... OFFLINE."""
    renames: dict[str, str]
    """The current name of each table that the next run renames."""
    waits_for_source: list[SourceWaiting]
    """The oldest ready window of each table whose source had not reached it when a run checked."""
