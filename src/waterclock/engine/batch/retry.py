"""Retries a group of batches after transient errors, and splits a group that failed as a whole."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from datetime import datetime

from tenacity import RetryCallState, Retrying, retry_if_result, stop_after_attempt, wait_exponential

from waterclock.engine.batch.adoption import split_by_adoption
from waterclock.engine.batch.expectations import HeldBackError
from waterclock.engine.batch.lifecycle import run_group
from waterclock.engine.newer_flow import refused_for_newer_flow
from waterclock.engine.run_context import RunContext
from waterclock.engine.run_listener import GroupReport
from waterclock.engine.spark.errors import lost_spark
from waterclock.errors import WaterclockError
from waterclock.planner.plan import Batch, Group

_LONGEST_WHY = 120


def run_group_with_retries(work: RunContext, group: Group, now: datetime) -> tuple[GroupReport, ...]:
    """Run a group with retries. Return one report, or one for each part if it was split.

    Transient errors are retried with growing waits. Permanent errors are not, nor is a batch whose JVM has ended. A
    group of several labels that fails is split into halves, and these again, until each bad label is alone and blocks
    no others. Labels that a rule holds are known, and are separated at once. So are labels that adopt earlier slices.
    At the end, a claim of the group is open only if its outcome is unknown. Raises E701 to E704 if Spark does not
    start, before anything is claimed.
    """
    work.sessions.root()
    return tuple(report for part in _split_adopted(work, group) for report in _make_in_parts(work, part, now))


def _split_adopted(work: RunContext, group: Group) -> list[Group]:
    """Separate the labels that adopt earlier slices. If that fails, the attempt reports the same error."""
    try:
        return split_by_adoption(work, group)
    except Exception:  # noqa: BLE001 - an attempt binds the same inputs, and its report has the error
        return [group]


def _make_in_parts(work: RunContext, group: Group, now: datetime) -> Iterator[GroupReport]:
    report = _run_with_retries(work, group, now)
    count = len(group.batches)
    if report.error is None or _is_final(report) or count == 1:
        yield report
        return
    parts, message = _split_group(group, report.error, in_order=work.flow.tables[group.table].is_in_label_order)
    work.listener.on_message(f"{group.table}: {message}")
    for batches in parts:
        yield from _make_in_parts(work, dataclasses.replace(group, batches=batches), now)


def _split_group(group: Group, error: WaterclockError, *, in_order: bool) -> tuple[list[tuple[Batch, ...]], str]:
    """Split a failed group: into halves, or into the labels that are not held and each held one. Also describe how.

    `in_order`: each label waits for earlier ones, so that only halves in order are possible.
    """
    batches, count = group.batches, len(group.batches)
    if isinstance(error, HeldBackError) and not in_order:
        held = [batch for batch in batches if batch.label in error.labels]
        others = tuple(batch for batch in batches if batch.label not in error.labels)
        if held:  # not past windows alone
            how = "one by one, after the others" if others else "one by one"
            parts = [*([others] if others else []), *((batch,) for batch in held)]
            return parts, f"{len(held)} of {count} labels are held; tried {how}"
    how = "one by one" if count == 2 else "in two parts"
    message = f"{count} labels failed together ({_format_cause(error)}); tried again {how}"
    return [batches[: count // 2], batches[count // 2 :]], message


def _run_with_retries(work: RunContext, group: Group, now: datetime) -> GroupReport:
    retrying = Retrying(
        retry=retry_if_result(_is_retryable),
        stop=stop_after_attempt(work.settings.attempts),
        wait=wait_exponential(multiplier=work.settings.retry_wait, max=60),
        before_sleep=lambda state: _report_retry(work, group, state),
        retry_error_callback=_last_report,
    )
    return refused_for_newer_flow(work, retrying(run_group, work, group, now))


def _is_final(report: GroupReport) -> bool:
    """Return whether a retry now is useless: another runner has the batch, or Spark has ended."""
    return report.is_of_other_runner or lost_spark(report.error)


def _is_retryable(report: GroupReport) -> bool:
    error = report.error
    return error is not None and error.transient and not _is_final(report)


def _report_retry(work: RunContext, group: Group, state: RetryCallState) -> None:
    report = _last_report(state)
    wait = state.next_action.sleep if state.next_action else 0.0
    if report.error is not None:
        work.listener.on_message(f"{group.table}: {_format_cause(report.error)}; tried again in {wait:.0f} s")


def _format_cause(error: WaterclockError) -> str:
    """Format an error and its cause for one line. A long cause is left out; the final report has it."""
    why = (error.why or "").partition("\n")[0]
    return f"{error.what}: {why}" if why and len(why) <= _LONGEST_WHY else error.what


def _last_report(state: RetryCallState) -> GroupReport:
    if state.outcome is None:
        raise AssertionError("a retry without an attempt")
    result: GroupReport = state.outcome.result()
    return result
