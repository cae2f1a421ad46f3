"""Answers about time: deadlines, silent sources, lag, watermarks, offline measures and the logs that sources keep."""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator

from waterclock.json_models.parts import (
    AnswerPart,
    Instant,
    Label,
    RoundedSeconds,
    Seconds,
    Text,
    TextOrNull,
    read_from,
)


def _parse_part(value: Any) -> Any:
    return (json.loads(value) if value else None) if isinstance(value, str) else value


class WatermarkProgress(AnswerPart):
    """How far the rows of a table have advanced in data time."""

    watermark: Instant | None
    """Null before the first row."""
    slowest: Annotated[dict[str, Any] | None, BeforeValidator(_parse_part)]
    """The part that is furthest behind: its values of the columns of PER."""
    behind: Seconds | None
    """How far the newest row of that part is behind the end of the newest window, in seconds."""


class RootBatch(AnswerPart):
    """The most upstream batch for which a window waits, or whose rows are late."""

    table: str
    label: str = read_from("window.label")
    status: Text
    detail: str


class WindowDeadline(AnswerPart):
    """A window that missed its deadline, is near it, or takes long."""

    table: str
    label: str = read_from("window.label")
    end: Instant = read_from("window.end")
    by: Instant
    """The deadline."""
    situation: Annotated[Literal["missed", "near", "long"], BeforeValidator(str)]
    """`long`: the batch takes longer than its RUNTIME."""
    status: Text
    seconds: RoundedSeconds = read_from("left")
    """The usual duration of the remaining work, or the time that the batch took."""
    fresh_to: Instant | None
    """The end of the newest done window of the table."""
    by_watermark: WatermarkProgress | None = read_from("reached")
    """For a deadline BY WATERMARK."""
    cause: RootBatch = read_from("root")


class CollectSilence(AnswerPart):
    """A collect whose newest labels have been empty for unusually long."""

    table: str
    since: Label
    """The first of the empty labels."""
    labels: int
    """The number of empty labels."""
    expected: int
    """The number of these labels that usually have rows."""
    rows_to: Label
    """The newest label that has rows."""


class DoneAfter(AnswerPart):
    """The delays between the ends of the newest windows and their completion, in seconds."""

    labels: int
    p50: Seconds
    p95: Seconds
    max: Seconds = read_from("most")
    late: int | None
    """The number of these labels that were done after their DEADLINE."""


class LagOfTable(AnswerPart):
    """The lag of a table. Spans are in seconds."""

    table: str
    labels: int
    """The number of due and needed labels that are not done."""
    fresh_to: Instant | None
    """The end of the newest done window."""
    behind: Seconds | None
    """The time since `fresh_to`."""
    inputs_to: Instant | None
    """The instant up to which all inputs are done."""
    behind_inputs: Seconds | None = read_from("ahead")
    rows: int | None
    """The rows of the inputs from `fresh_to` on."""
    rows_are_more: bool = read_from("is_more")
    """Whether there are more rows than were counted."""
    done_after: DoneAfter | None = read_from("delays")
    by_watermark: WatermarkProgress | None = read_from("reached")
    """For a table with a WATERMARK."""


class MeasuredValue(AnswerPart):
    """The value of a measure."""

    value: str | None
    """The value as Spark wrote it."""
    type: str
    """Spark's name of its type."""


class MeasuredSpan(AnswerPart):
    """Labels that were measured together."""

    first: Label = read_from("low")
    until: Label = read_from("high")
    """The first label after the span."""
    labels: int
    measured: dict[str, MeasuredValue] = read_from("found")
    """The value of each measure."""


class OfflineStatus(AnswerPart):
    """The status of a table with MEASURE ... OFFLINE."""

    table: str
    every: str | None
    """The period of the measurement."""
    looked_at: Instant | None
    """The time of the newest measurement."""
    labels: int
    """The number of labels that the newest measurement covered."""
    seconds: float | None
    error: str | None
    """The error of the newest measurement."""
    next: Instant | None
    """The time of the next measurement; null if it is due at once."""
    is_due: bool
    waiting: int
    """The number of labels that wait to be measured."""
    spans: list[MeasuredSpan]
    """The newest span."""


class SourceLog(AnswerPart):
    """The log of changes that a source keeps for a collect BY CHANGES, as a run last saw it. Sizes are in bytes."""

    table: str
    connection: str
    name: str
    """The name at the source, such as that of a replication slot."""
    at: Instant | None
    """When a run last saw the log; null if no run did."""
    condition: Literal["safe", "losing", "lost", "gone"] | None = read_from("seen_condition")
    held: int = read_from("retained_bytes")
    behind: int = read_from("kept.behind")
    """The part that is not collected yet."""
    most: int | None = read_from("kept.most")
    """The server keeps no more than this; null if it has no limit."""
    limit: int
    """A larger log is reported."""
    is_needed: bool
    """False for a removed table, whose log `maintain` drops."""
    is_troubled: bool


class SourceWaiting(AnswerPart):
    """The oldest ready window of a table that its source had not reached when a run checked it."""

    table: str
    label: str
    at: Instant
    """When the run checked it."""


class ReceivedFiles(AnswerPart):
    """Files that were received and not collected yet."""

    files: int
    bytes: int = read_from("size")
    since: Instant | None
    is_open: bool
    """Whether a file is still written to."""


class LookBack(AnswerPart):
    """The newest look-back of a table with LOOKBACK ... CHANGED."""

    at: str
    changed: dict[str, str]
    """The past windows that had changed, by label, with the reason."""


class FirstWindowDue(AnswerPart):
    """The first window of a table."""

    label: str = read_from("window.label")
    local: str
    end: Instant = read_from("window.end")
    due: Instant
    """When its batch may run."""


class OpenBooksOfTable(AnswerPart):
    """The oldest due window of a table whose books are open."""

    label: str = read_from("first.window.label")
    windows: int = read_from("count")
    """The number of open windows."""
    reason: str = read_from("first.reason")
    looked: Instant | None = read_from("closing_of_oldest.looked")
    """The newest boundary at which the condition was checked."""
    behind: TextOrNull = read_from("closing_of_oldest.behind")
    """The data that the condition waits for."""
    is_stuck: bool
    """Whether a full window length has passed since the end of the window."""


class OpenWindowOfTable(AnswerPart):
    """An open window of a table with CONTINUOUS."""

    label: str
    rows: int | None
    """The number of its rows so far; null if they are not shown, or if there are none yet."""
    made: Instant | None
    """When its newest rows were written."""
    waits: str
    """What the window waits for."""
    hidden: TextOrNull
    """Why its rows are not shown: a rule holds its batch or would hold it, or it reads such a window."""
    is_held: bool
    """Whether its batch is held."""


class OutageOfTable(AnswerPart):
    """A source that cannot be read, or a query that fails, so that its table has no new rows in open windows."""

    table: str
    """The table that collects the source, or that the query computes."""
    since: Instant
    """The time of the first tick without its rows."""
    why: str


class LagOfPartition(AnswerPart):
    """The lag of a partition of a log, such as a topic."""

    partition: str
    committed: int
    """The end of the offsets that done batches have read."""
    end: int
    """The end of the log at the newest tick that read it."""
    offsets: int
    """The number of offsets between the two. There may be fewer records."""
    newest: Instant | None
    """The time of the newest record, as its producer or the broker set it; null if it is not known."""


class LagOfLog(AnswerPart):
    """The lag of a collect from a log, such as a topic, as the newest tick that read its end found it."""

    offsets: int
    """The number of offsets of all partitions that no done batch has read."""
    partitions: int
    """The number of partitions."""
    behind: int
    """The number of partitions with such offsets."""
    worst: list[LagOfPartition]
    """The twenty partitions with the most of them."""


class OpenWindowsOfTable(AnswerPart):
    """The open windows of a table that shows them."""

    windows: int
    """The number of open windows."""
    first: Label
    shown: Instant | None
    """The boundary, or the time of the tick, as of which the view shows them; null if it shows none yet."""
    tick: int | None
    """For a table with CONTINUOUS: the number of the newest tick."""
    rows: int | None
    """For a table with CONTINUOUS: the number of rows in its open windows."""
    age: Seconds | None
    """For a table with CONTINUOUS: the time since a run last read all its sources."""
    waits: TextOrNull
    """For a table with CONTINUOUS: what the oldest open window waits for."""
    labels: list[OpenWindowOfTable]
    """For a table with CONTINUOUS: its newest 1000 open windows, oldest first."""
    outages: list[OutageOfTable]
    """For a table with CONTINUOUS: those of itself and of the tables that it is made from."""
    log: LagOfLog | None
    """For a collect with CONTINUOUS from a log, once a tick has read its end."""
