"""Makes the selected failed, held and skipped batches due again, and runs them with dependent batches."""

from __future__ import annotations

from pathlib import Path

from waterclock.cli.actions.run import RunOptions, run_and_report
from waterclock.cli.exit_codes import ExitCode
from waterclock.cli.views.json import print_answer
from waterclock.cli.views.theme import console
from waterclock.engine.run_opening import require_no_branch
from waterclock.engine.run_settings import RunSettings
from waterclock.operations.formatting import count_words
from waterclock.operations.pauses import waiting_request_lines
from waterclock.operations.project_opening import open_read_only
from waterclock.operations.proposals import Verb, decide, propose
from waterclock.permissions.users_and_roles import SignIn, owner
from waterclock.selection import Labels


def retry_batches(
    folder: Path,
    env: str | None,
    which: tuple[str | None, str | None],
    now: str | None,
    *,
    is_json: bool,
    is_run: bool,
    why: str = "",
) -> int:
    """Make failed, held and skipped batches due again, and run them with their dependents. Return the exit code."""
    to = console(stderr=is_json)
    selection, labels = which
    with open_read_only(folder, env, now) as at:
        require_no_branch(at.project)
        proposal = propose(at, Verb.RETRY, selection or "", labels)
        if proposal.count:
            decide(at, proposal, by=owner(RunSettings().who, SignIn.COMMAND), why=why)
        project, kept = at.project, waiting_request_lines(at.snapshot, proposal.all, at.zone)
    labels_of = {name: [window.label for window in windows] for name, windows in proposal.requested.items()}
    if not proposal.count or not is_run:
        if is_json:
            from waterclock.json_models.runs import RetryAnswer

            print_answer(RetryAnswer(cleared=labels_of))
        else:
            due = f"{count_words(proposal.count, 'batch', 'batches')} due again"
            to.print(due if proposal.count else "there are no failed batches")
        return ExitCode.DONE
    for name, texts in labels_of.items():
        to.print(f"due again: {name}@{', '.join(texts[:5])}{', …' if len(texts) > 5 else ''}", style="quiet")
    for line in kept:
        to.print(line, soft_wrap=True)
    spans = {name: Labels.from_range(windows[0].start, windows[-1].start) for name, windows in proposal.all.items()}
    return run_and_report(
        project, RunOptions(command="retry", only=tuple(sorted(spans)), labels=spans, now=now, is_json=is_json)
    )
