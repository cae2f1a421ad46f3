"""Prints where lineage events are sent, how many are pending, and the result of sending them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.text import Text

from waterclock.openlineage.sending import describe_rejected
from waterclock.operations.formatting import count_words

if TYPE_CHECKING:
    from rich.console import Console

    from waterclock.batches.run_events import OpenLineageState
    from waterclock.dpl.project import Project
    from waterclock.json_models.alerts import LineageSentAnswer, OpenLineageAnswer
    from waterclock.openlineage.sending import LineageSendResult


def print_shown(to: Console, project: Project, state: OpenLineageState) -> None:
    """Print the destination, the last sent event, the number of pending events and the last error."""
    sink = project.openlineage
    if not sink.is_declared:
        to.print('lineage events have no destination; write one in [openlineage], such as file = "lineage.jsonl"')
        return
    to.print(Text(f"{sink.display_name}, as {sink.namespace}"))
    if not sink.is_on:
        to.print(f"environment {project.env} sends none: set openlineage = true below [env.{project.env}]")
    if state.sent_at is not None:
        to.print(f"last sent {state.sent_at:%Y-%m-%d %H:%MZ}")
    to.print(_waiting_words(state.waiting))
    if state.error:
        at = "" if state.try_at is None else f"; tried again from {state.try_at:%H:%M:%SZ}"
        to.print(Text(f"the last attempt failed: {state.error}{at}"))
    if state.left_out:
        to.print(Text(describe_rejected(state.left_out, state.refusal)))


def shown_answer(project: Project, state: OpenLineageState) -> OpenLineageAnswer:
    """Build the JSON answer with the destination of events and the state of sending."""
    from waterclock.json_models.alerts import OpenLineageAnswer

    sink = project.openlineage
    return OpenLineageAnswer.build(
        state,
        env=project.env,
        is_on=sink.is_on,
        to=sink.display_name if sink.is_declared else None,
        namespace=sink.namespace,
    )


def print_sent(to: Console, sent: LineageSendResult, waiting: int) -> None:
    """Print how many events were sent, and why others were not."""
    if sent.is_busy:
        to.print("another runner is sending now")
    else:
        to.print(f"{count_words(sent.events, 'event')} sent")
    if sent.lost:
        to.print(Text(f"the next event was not delivered: {sent.lost}", style="fail"))
    if sent.left_out:
        to.print(f"{count_words(sent.left_out, 'event')} left out: `waterclock openlineage` shows why", style="warn")
    if waiting:
        to.print(_waiting_words(waiting))


def sent_answer(sent: LineageSendResult, waiting: int) -> LineageSentAnswer:
    """Build the JSON answer with the result of sending events."""
    from waterclock.json_models.alerts import LineageSentAnswer

    return LineageSentAnswer.build(
        sent=sent.events, error=sent.lost, waiting=waiting, is_busy=sent.is_busy, left_out=sent.left_out
    )


def _waiting_words(waiting: int) -> str:
    return f"{count_words(waiting, 'event is pending', 'events are pending')}" if waiting else "no event is pending"
