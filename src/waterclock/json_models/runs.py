"""The answers of `run` and the commands that make batches again, and of `runners`."""

from __future__ import annotations

from waterclock.json_models.parts import Answer, AnswerPart, Instant, Label, OneError
from waterclock.json_models.plan import HeldLabels, PauseOfTables


class FailedGroup(AnswerPart):
    """Batches of a table that failed together."""

    table: str
    kind: str
    """`collect`, `transform` or `publish`."""
    labels: list[str]
    claim: int | None
    error: OneError | None


class SourceHeldBatch(AnswerPart):
    """A due batch whose source has not reached the end of its window."""

    table: str
    label: str
    end: Instant
    """The end of its window."""
    clock: Instant | None
    """The clock of the source."""
    awaits: str | None
    """The condition of AWAIT."""


class RunAnswer(Answer):
    """JSON output of `run`: the result of a run."""

    now: Instant
    """The instant for which the run started: the time, or that of --now."""
    until: Instant | None
    """The instant up to which it ran (--until)."""
    done: int
    """The number of done batches."""
    rows: int
    """The number of their rows."""
    seconds: float
    """The duration."""
    stopped: bool
    """Whether a user stopped the run."""
    failed: list[FailedGroup]
    """The batches that failed."""
    unsettled: list[OneError]
    """The errors of claims that other runners left and that cannot be resolved yet."""
    away: OneError | None
    """The error of an object store that did not answer while the run looked for more batches."""
    left: dict[str, int]
    """The number of remaining due batches by status."""
    paused: dict[str, PauseOfTables] | None
    """The pause of each table that is paused by name."""
    paused_all: PauseOfTables | None
    """The pause of all tables."""
    held_restatements: dict[str, HeldLabels]
    """The labels of each table that are not made again because they exceed a limit."""
    held_by_source: list[SourceHeldBatch]
    """The due batches that wait for their source."""
    next_due: Instant | None
    """When a batch becomes due next."""


class CostOfTable(AnswerPart):
    """The estimated cost of the batches of a table."""

    batches: int
    seconds: float | None
    """Null if no batch was made yet."""


class CostEstimate(AnswerPart):
    """The estimated cost of batches; seconds of total work, much of which runs in parallel."""

    batches: int
    seconds: float
    unknown: list[str]
    """The tables that have never run."""
    tables: dict[str, CostOfTable]


class RippleAnswer(Answer):
    """JSON output of `recompute --no-run`: the batches to make again, and those that may follow."""

    verb: str
    """The verb of the request."""
    requested: dict[str, list[str]]
    """The labels of each table that are made again."""
    following: dict[str, list[str]]
    """The labels of each table that are made again, too, if rows differ."""
    estimate: CostEstimate
    """The estimated cost, if all are made."""


class HeldAgainAnswer(Answer):
    """JSON output of `recompute --no-run` for held batches: the batches to make again."""

    verb: str
    """The verb of the request."""
    requested: dict[str, list[str]]
    """The labels of each table that are made again."""


class RetryAnswer(Answer):
    """JSON output of `retry --no-run`, or if there is nothing to retry: the batches that are due again."""

    cleared: dict[str, list[str]]
    """The labels of each table that are due again."""


class RunnerClaims(AnswerPart):
    """Batches that a runner has claimed."""

    claim: int
    table: str
    labels: list[Label]
    since: Instant
    lease_until: Instant


class RunnerPart(AnswerPart):
    """A process that makes batches."""

    runner: str
    who: str
    command: str | None
    since: Instant
    seen: Instant | None
    """When it last renewed its leases."""
    is_gone: bool
    has_applied_flow: bool
    """Whether it works with the applied flow; else it claims no batches."""
    holds: list[RunnerClaims]


class RunnersAnswer(Answer):
    """JSON output of `runners`: the runners of a project."""

    now: Instant | None
    """The instant by the ledger's clock; null without a ledger."""
    runners: list[RunnerPart]
    """The runners, oldest first."""
