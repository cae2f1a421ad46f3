"""Runs, newest first, and who is at work now."""

from __future__ import annotations

from waterclock.batches.audit_trail import Run, RunnerSeen
from waterclock.operations.json import instant_text
from waterclock.operations.opening import Reading
from waterclock.operations.words import instant_words, seconds_words
from waterclock.timelabel.label import label_of
from waterclock.ui.asking import Asked, Told, batch_address

_MOST = 100


def runs(at: Reading, _: Asked) -> Told:
    """Return the newest runs, and the runners. Cost: three questions to the ledger."""
    if at.ledger is None:
        return {"runs": [], "runners": [], "alive": 0}
    runners = [runner_told(at, runner) for runner in at.ledger.runners.all()]
    return {
        "runs": [_run(at, run) for run in at.ledger.past.runs(_MOST)],
        "runners": runners,
        "alive": sum(each["is_alive"] for each in runners),
    }


def runner_told(at: Reading, runner: RunnerSeen) -> Told:
    """Tell of one runner: whether it is at work, and what it holds."""
    return {
        "runner": runner.runner,
        "who": runner.who,
        "command": runner.command,
        "since": instant_words(runner.started_at, at.zone),
        "is_alive": at.ledger is not None and runner.alive_until >= at.ledger.now(),
        "has_this_flow": runner.flow == at.flow.fingerprint,
        "holds": [
            {
                "table": held.table,
                "labels": [label_of(label) for label in held.labels[:20]],
                "count": len(held.labels),
                "since": instant_words(held.since, at.zone),
                "address": batch_address(held.table, label_of(held.labels[0])) if held.labels else "",
            }
            for held in runner.held
        ],
    }


def _run(at: Reading, run: Run) -> Told:
    took = None if run.ended_at is None else (run.ended_at - run.started_at).total_seconds()
    return {
        "run": run.run,
        "command": run.command,
        "who": run.who,
        "for": instant_words(run.now, at.zone),
        "started": instant_words(run.started_at, at.zone),
        "started_at": instant_text(run.started_at),
        "seconds": took,
        "took": "" if took is None else seconds_words(took),
        "outcome": run.outcome or "not ended",
    }
