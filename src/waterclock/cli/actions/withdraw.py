"""Cancels requests that no runner has started."""

from __future__ import annotations

from pathlib import Path

from waterclock.cli.views.json import print_answer
from waterclock.cli.views.theme import console
from waterclock.engine.run_opening import require_no_branch
from waterclock.engine.run_settings import RunSettings
from waterclock.operations.formatting import count_words, label_range
from waterclock.operations.project_opening import open_read_only
from waterclock.operations.proposals import Verb, decide, propose
from waterclock.operations.withdrawing import no_request_error
from waterclock.permissions.users_and_roles import SignIn, owner

_MOST_NAMED = 5


def run_withdraw(folder: Path, env: str | None, which: tuple[str, str | None], *, why: str, is_json: bool) -> None:
    """Cancel requests, and print them. Raises E428 if no request is selected, E510 to E514 as `selection.select`."""
    with open_read_only(folder, env, None) as at:
        require_no_branch(at.project)
        proposal = propose(at, Verb.WITHDRAW, *which)
        if not proposal.count:
            raise no_request_error(at, *which)
        decide(at, proposal, by=owner(RunSettings().who, SignIn.COMMAND), why=why)
    if is_json:
        labels = {name: [window.label for window in windows] for name, windows in proposal.requested.items()}
        from waterclock.json_models.decisions import WithdrawAnswer

        print_answer(WithdrawAnswer(withdrawn=labels, why=why))
        return
    to = console()
    for name, windows in list(proposal.requested.items())[:_MOST_NAMED]:
        count = count_words(len(windows), "batch", "batches")
        to.print(
            f"no longer requested: {count} of {name} ({label_range(windows[0].start, windows[-1].start)})",
            soft_wrap=True,
        )
    if (more := len(proposal.requested) - _MOST_NAMED) > 0:
        to.print(f"no longer requested: batches of {count_words(more, 'other table')}")
