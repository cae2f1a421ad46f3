"""The answer of `status`: the grid of tables and labels, their problems, and how far tables are behind."""

from __future__ import annotations

from waterclock.json_models.parts import Answer, AnswerPart, Instant, OneError, Text
from waterclock.json_models.plan import MissingInput, PauseOfTables
from waterclock.json_models.watching import (
    CollectSilence,
    LagOfTable,
    LookBack,
    OfflineStatus,
    OpenBooksOfTable,
    OpenWindowsOfTable,
    ReceivedFiles,
    SourceLog,
    SourceWaiting,
    WindowDeadline,
)


class LedgerClock(AnswerPart):
    """The ledger's clock, if it is a second or more before the newest record."""

    shows: Instant
    last_recorded: Instant
    place: str


class StatusColumn(AnswerPart):
    """A column of the grid."""

    start: Instant
    label: str
    local: str


class StatusCell(AnswerPart):
    """The most severe state of the labels of a table in a column."""

    state: Text
    count: int
    """The number of labels in this state."""
    of: int
    """The number of labels in the column."""


class StatusRow(AnswerPart):
    """A table in the grid."""

    table: str
    cells: list[StatusCell | None]


class StatusAnswer(Answer):
    """The grid of tables and labels, and the problems that need a user."""

    env: str
    """The environment."""
    now: Instant
    """The instant of the status."""
    next_due: Instant | None
    """When a batch becomes due next."""
    due: dict[str, int]
    """The number of due batches by status."""
    behind: dict[str, list[str]]
    """By table, the older states whose inputs were restated since, and that no batch needs."""
    paused: dict[str, PauseOfTables]
    """By table, its own pause."""
    paused_all: PauseOfTables | None
    """The pause of all tables."""
    partial: dict[str, dict[str, list[MissingInput]]]
    """By table and label, the missing inputs of a done batch."""
    refused: dict[str, OneError]
    """By table whose declaration no longer fits its batches, the error E405."""
    looked: dict[str, LookBack]
    """By table with LOOKBACK ... CHANGED, its newest look-back."""
    received: dict[str, ReceivedFiles]
    """By table whose source a run seals, the files that were not collected yet."""
    kept_at_sources: list[SourceLog]
    """The logs that sources keep for collects BY CHANGES."""
    waits_for_source: list[SourceWaiting]
    """By table, the oldest ready window that its source had not reached when a run checked it."""
    open: dict[str, OpenBooksOfTable]
    """By table that closes books, its oldest due window that is open."""
    open_windows: dict[str, OpenWindowsOfTable]
    """By table that keeps its open windows."""
    deadlines: list[WindowDeadline]
    """The windows that missed their deadline or are near it, and batches that take long."""
    silent: list[CollectSilence]
    """The collects whose newest labels have been empty for unusually long."""
    offline: list[OfflineStatus]
    """The tables with MEASURE ... OFFLINE."""
    clock_back: LedgerClock | None
    """The ledger's clock, if it is a second or more before the newest record."""
    lag: list[LagOfTable] | None
    """With --lag: how far each table is behind."""
    by: str
    """The period of a column."""
    zone: str
    """The zone in which columns are cut."""
    columns: list[StatusColumn]
    """The columns, oldest first."""
    rows: list[StatusRow]
    """The tables."""
