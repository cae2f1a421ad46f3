"""The answer of `status`: the grid of tables and labels, problems, and lag."""

from __future__ import annotations

from waterclock.json_models.parts import Answer, AnswerPart, Instant, OneError, Text
from waterclock.json_models.plan import HeldRestatement, MissingInput, PauseOfTables
from waterclock.json_models.timeliness import (
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
    """JSON output of `status`: the grid of tables and labels, and the problems that need a user."""

    env: str
    """The environment."""
    now: Instant
    """The instant of the status."""
    next_due: Instant | None
    """When a batch becomes due next."""
    due: dict[str, int]
    """The number of due batches by status."""
    behind: dict[str, list[str]]
    """The older states of each table whose inputs were restated since, and that no batch needs."""
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
    lookbacks: dict[str, LookBack]
    """The newest look-back of each table with LOOKBACK ... CHANGED."""
    received: dict[str, ReceivedFiles]
    """The received files of each table that are not collected yet."""
    kept_at_sources: list[SourceLog]
    """The change logs that sources keep for collects BY CHANGES."""
    waits_for_source: list[SourceWaiting]
    """The oldest ready window of each table whose source had not reached it when a run checked."""
    open: dict[str, OpenBooksOfTable]
    """The oldest due window that is open, of each table that closes books."""
    open_windows: dict[str, OpenWindowsOfTable]
    """The open windows of each table that keeps them."""
    deadlines: list[WindowDeadline]
    """The windows that missed their deadline or are near it, and batches that take long."""
    silent: list[CollectSilence]
    """The collects whose newest labels have been empty for unusually long."""
    offline: list[OfflineStatus]
    """The tables with MEASURE ... OFFLINE."""
    clock_back: LedgerClock | None
    """The ledger's clock, if it is a second or more before the newest record."""
    lag: list[LagOfTable] | None
    """With --lag: the lag of each table."""
    by: str
    """The period of a column."""
    zone: str
    """The time zone in which columns start and end."""
    columns: list[StatusColumn]
    """The columns, oldest first."""
    rows: list[StatusRow]
    """The tables."""
