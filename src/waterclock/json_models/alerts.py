"""The answers of `alerts` and `openlineage`: problems and lineage that are sent to other systems."""

from __future__ import annotations

from waterclock.json_models.parts import Answer, AnswerPart, Instant, SortedTexts, Text, TextOrNull, read_from


class SentTimes(AnswerPart):
    """When an alert was sent to a target."""

    first: Instant
    last: Instant
    times: int


class Acknowledgement(AnswerPart):
    """The user who acknowledged an alert, and the reason."""

    at: Instant
    by: str = read_from("who")
    why: str


class OpenAlert(AnswerPart):
    """An open alert."""

    number: int
    kind: str
    severity: str
    code: str | None
    what: str
    why: str | None
    fix: str | None
    batches: dict[str, list[str]]
    """The affected labels of each table."""
    blocks: dict[str, int]
    """The number of waiting batches of each table."""
    line: str
    """A summary of the alert in one line."""
    opened: Instant
    acknowledged: Acknowledgement | None
    sent: dict[str, SentTimes]
    """When the alert was sent to each target."""


class PendingMessage(AnswerPart):
    """A message that is to be sent."""

    target: str
    at: Instant
    attempts: int
    error: TextOrNull
    title: str = read_from("body.title")


class AlertTarget(AnswerPart):
    """A target of messages."""

    name: str
    kind: Text


class RuleForTargets(AnswerPart):
    """A rule that selects the alerts for targets."""

    name: str
    severity: Text
    """The lowest severity that it selects."""
    to: list[str] = read_from("targets")
    """The targets."""
    tables: SortedTexts


class AlertsAnswer(Answer):
    """JSON output of `alerts`: the open alerts, and the messages that are to be sent."""

    env: str
    """The environment."""
    is_on: bool
    """Whether the environment sends alerts."""
    open: list[OpenAlert]
    """The open alerts."""
    waiting: list[PendingMessage]
    """The messages that are to be sent."""
    targets: list[AlertTarget]
    """The targets."""
    rules: list[RuleForTargets]
    """The rules."""


class TestedTarget(AnswerPart):
    """A target, and the error if a test message did not reach it."""

    name: str = read_from("target.name")
    kind: Text = read_from("target.kind")
    error: TextOrNull


class AlertsTestAnswer(Answer):
    """JSON output of `alerts test`: whether each target was reached."""

    ok: bool
    """Whether all targets were reached."""
    targets: list[TestedTarget]
    """The targets."""


class AcknowledgedAnswer(Answer):
    """JSON output of `alerts acknowledge`: the acknowledged alerts."""

    acknowledged: list[int]
    """The numbers of the alerts."""


class LostMessage(AnswerPart):
    """A message that was not delivered."""

    target: str
    why: str


class AlertsSentAnswer(Answer):
    """JSON output of `alerts send`: the sent messages."""

    sent: int
    """The number of messages that were sent."""
    lost: list[LostMessage]
    """The messages that were not delivered."""
    waiting: int
    """The number of messages that are to be sent."""


class OpenLineageAnswer(Answer):
    """JSON output of `openlineage`: where lineage events are sent, and the state of sending."""

    env: str
    """The environment."""
    is_on: bool
    """Whether the environment sends events."""
    to: str | None
    """The address or file of the events."""
    namespace: TextOrNull
    """The namespace of all jobs and tables."""
    waiting: int
    """The number of events that wait."""
    sent_at: Instant | None
    """When the last event was sent."""
    error: TextOrNull
    """The error of the last attempt."""
    left_out: int
    """The number of refused events."""
    refusal: TextOrNull
    """The last refused event, and the reason."""


class LineageSentAnswer(Answer):
    """JSON output of `openlineage send`: the sent lineage events."""

    sent: int
    """The number of events that arrived."""
    error: TextOrNull
    """Why the next event did not arrive."""
    waiting: int
    """The number of events that wait."""
    is_busy: bool
    """Whether another runner is sending now."""
    left_out: int
    """The number of events that were refused in this sending."""
