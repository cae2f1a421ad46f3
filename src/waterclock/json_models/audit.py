"""The answers of `audit`: the history of a batch, or of the newest batches of a table."""

from __future__ import annotations

from waterclock.json_models.parts import Answer, AnswerPart, Instant, JsonValue, Label, Text, read_from
from waterclock.json_models.plan import WindowClosing


class AttemptInput(AnswerPart):
    """An input of an attempt."""

    table: str
    read: str
    """The reference in the query."""
    kind: str
    low: Instant | None
    high: Instant | None
    location: str
    version: int | None
    content: str | None


class AttemptResult(AnswerPart):
    """The result of a committed attempt."""

    version: int
    rows: int
    bytes: int
    digest: str | None
    slice_path: str
    measures: dict[str, JsonValue]
    timings: dict[str, float]
    """The duration of each step in seconds."""
    source: dict[str, JsonValue]
    """The details of the source, such as its files."""
    recorded_at: Instant


class BatchAttempt(AnswerPart):
    """An attempt at a batch."""

    claim: int
    status: str
    who: str
    runner: str
    run: str | None
    code: str
    """The fingerprint of the table's declaration."""
    flow: str
    """The fingerprint of the flow."""
    now: Instant
    claimed_at: Instant
    closed_at: Instant | None
    error: str | None
    inputs: list[AttemptInput]
    revision: AttemptResult | None
    """Null if the attempt did not commit."""


class BatchEvent(AnswerPart):
    """A recorded event of a batch."""

    at: Instant
    kind: str
    who: str | None
    claim: int | None
    data: dict[str, JsonValue]


class LinkedBatch(AnswerPart):
    """A batch upstream or downstream."""

    depth: int
    """The number of steps between the two."""
    table: str
    label: Label
    claim: int | None
    rows: int | None
    code: str | None
    is_replaced: bool
    """Upstream: its rows were replaced since. Downstream: it read rows that are replaced."""


class RecordedPause(AnswerPart):
    """When a table, or all tables, were paused or resumed."""

    at: Instant
    kind: str
    all: bool = read_from("is_of_all")
    who: str
    why: str


class HeldResult(AnswerPart):
    """A sealed result that waits for a release."""

    rows: int
    bytes: int
    folder: str
    measures: dict[str, JsonValue]


class BatchRecord(AnswerPart):
    """The content of a batch, and all attempts at it."""

    claim: int | None = read_from("cell.current_claim")
    """The claim whose rows are read."""
    rows: int | None = read_from("cell.rows")
    stands_from: Instant | None = read_from("cell.stands_from")
    """For a snapshot, the start of the oldest window that it stands for."""
    error: str | None = read_from("cell.error")
    """The newest error."""
    attempts: list[BatchAttempt]
    """The attempts, oldest first."""


class AuditAnswer(Answer):
    """JSON output of `audit TABLE@LABEL`: the history of a batch."""

    table: str
    """The table."""
    label: Label
    """The label."""
    start: Instant
    """The start of its window."""
    end: Instant
    """The end of its window."""
    status: Text
    """Its current status."""
    reason: str
    """The reason for the status, unless the status explains itself."""
    code_is_current: bool
    """Whether its rows were made by today's code."""
    claim: int | None
    """The claim whose rows are read."""
    rows: int | None
    """The number of its rows."""
    stands_from: Instant | None
    """For a snapshot, the start of the oldest window that it stands for."""
    error: str | None
    """The newest error."""
    attempts: list[BatchAttempt]
    """The attempts, oldest first."""
    events: list[BatchEvent]
    """The recorded events, oldest first."""
    made_from: list[LinkedBatch]
    """The batches upstream, nearest first."""
    went_into: list[LinkedBatch]
    """The batches downstream, nearest first."""
    pauses: list[RecordedPause]
    """When its table, or all tables, were paused and resumed, oldest first."""
    closing: WindowClosing | None
    """The closing of its books; null for a table without CLOSE WHEN."""
    held: HeldResult | None
    """The sealed result that waits for a release."""
    schemas: dict[str, int]
    """The numbers of the schema versions at its `source` and in its `table`."""


class ListedBatchHead(AnswerPart):
    """The label and the current status of a batch."""

    label: Label
    status: str | None


class ListedAudit(BatchRecord, ListedBatchHead):
    """A batch in the list of a table's batches."""


class AuditListAnswer(Answer):
    """JSON output of `audit TABLE`: the history of the table's newest batches."""

    table: str
    """The table."""
    batches: list[ListedAudit]
    """The batches, newest last."""
    pauses: list[RecordedPause]
    """When the table, or all tables, were paused and resumed, oldest first."""
