"""Models of the JSON that all pages share. Pages may return more keys than their models declare, for display."""

from __future__ import annotations

from typing import Literal

from pydantic import ConfigDict, Field

from waterclock.json_models.parts import AnswerPart, OneError


class PagePart(AnswerPart):
    """Base class of the JSON objects in responses of pages. Additional keys are ignored."""

    model_config = ConfigDict(extra="ignore")


class PageAnswer(PagePart):
    """The complete answer of a page."""

    version: int
    """Raised if a key is removed or changes its meaning."""


class Errors(PageAnswer):
    """The errors of the request or of the project."""

    errors: list[OneError] = Field(min_length=1)


class Part(PagePart):
    """A part of a sentence, with the state that it is about."""

    text: str
    mark: str | None


class Piece(PagePart):
    """Adjacent columns of a table's row in the grid that have the same state."""

    column: int
    columns: int
    state: str


class BatchEntry(PagePart):
    """A batch in a list."""

    table: str
    label: str
    words: str
    state: str
    address: str


class TicksOfLabel(PagePart):
    """An open window of a table with CONTINUOUS."""

    label: str
    state: Literal["open", "blocked", "held"]
    rows: int | None
    """The number of its rows so far; null if they are not shown, or if there are none yet."""
    made: str | None
    """When its newest rows were written."""
    waits: str
    """What the window waits for."""
    hidden: str
    """Why its rows are not shown: a rule holds its batch or would hold it, or it reads such a window; or ""."""


class TicksOfPartition(PagePart):
    """The lag of a partition of a log."""

    partition: str
    committed: int
    """The end of the offsets that done batches have read."""
    end: int
    """The end of the log at the newest tick that read it."""
    offsets: int
    newest: str | None
    """The time of the newest record."""


class TicksOfLog(PagePart):
    """The lag of a collect from a log, such as a topic."""

    offsets: int
    """The number of offsets of all partitions that no done batch has read."""
    partitions: int
    behind: int
    """The number of partitions with such offsets."""
    worst: list[TicksOfPartition]
    """The twenty partitions with the most of them."""


class TicksOfTable(PagePart):
    """The open windows of a table with CONTINUOUS."""

    table: str
    address: str
    state: Literal["open", "late", "blocked", "held"]
    """`late`: no run has read the sources for at least three ticks and thirty seconds."""
    windows: int
    """The number of open windows."""
    rows: int | None
    tick: int | None
    shown: str | None
    """When the newest tick was made."""
    age: float | None
    """The seconds since a run last read the sources."""
    hidden: int
    """The number of open windows whose rows are not shown."""
    labels: list[TicksOfLabel]
    """The newest fifty open windows, oldest first."""
    log: TicksOfLog | None
    """For a collect from a log, once a tick has read its end."""


class Note(PagePart):
    """A user's note on a rule."""

    rule: str
    text: str
    who: str
    at: str
