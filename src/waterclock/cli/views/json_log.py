"""Writes the events of a run as lines of JSON for log collectors: one complete object per event."""

from __future__ import annotations

import json
import threading
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any, TextIO

from waterclock.engine.run_listener import GroupReport
from waterclock.engine.run_outcome import RunOutcome
from waterclock.operations.json import instant_text
from waterclock.planner.plan import Group


class JsonLog:
    """Writes one line per event: `at`, `level`, `event`, and the details of the event.

    Batches of a table that run together are a group. Its events are `started` and `finished` (table, labels, claim,
    rows, seconds, error), `warning`, and `elsewhere` if another runner makes the group. `ended` is the end of the run,
    `message` any other message.
    """

    def __init__(self, to: TextIO) -> None:
        self._to = to
        self._lock = threading.Lock()

    def on_group_start(self, group: Group) -> None:
        """Write that a group has started."""
        self._write_event("info", "started", **_describe_group(group))

    def on_group_finish(self, report: GroupReport) -> None:
        """Write the result of a group and its warnings."""
        about = _describe_group(report.group) | {"claim": report.claim, "seconds": round(report.seconds, 3)}
        if report.error is None:
            steps = {name: round(seconds, 3) for name, seconds in report.timings.items()}
            self._write_event("info", "finished", **about, rows=report.rows, steps=steps)
        elif report.is_of_other_runner:
            self._write_event("info", "elsewhere", **about, message=report.error.what)
        else:
            self._write_event("error", "finished", **about, error=report.error.to_dict())
        for warning in report.warnings:
            self._write_event(
                "warning", "warning", **_describe_group(report.group), claim=report.claim, message=warning
            )

    def on_message(self, message: str) -> None:
        """Write a message."""
        self._write_event("info", "message", message=message)

    def on_run_finish(self, outcome: RunOutcome, seconds: float) -> None:
        """Write the result of the run."""
        level = "info" if outcome.is_clean else "error"
        self._write_event(
            level, "ended", done=outcome.done, failed=len(outcome.failed), rows=outcome.rows, seconds=seconds
        )

    def _write_event(self, level: str, event: str, **about: Any) -> None:
        line = json.dumps({"at": instant_text(datetime.now(UTC)), "level": level, "event": event, **about}, default=str)
        with self._lock, suppress(OSError):  # if the reader closes the stream, the run continues
            self._to.write(line + "\n")
            self._to.flush()


def _describe_group(group: Group) -> dict[str, Any]:
    return {"table": group.table, "labels": [batch.window.label for batch in group.batches]}
