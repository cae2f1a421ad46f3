"""Clears the failed batches that `retry` names, and runs what follows."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from pathlib import Path

from waterclock.cli.actions.run import Asked, carry_out
from waterclock.cli.views.json import print_json
from waterclock.cli.views.theme import console
from waterclock.engine.run_settings import RunSettings
from waterclock.operations.opening import reading
from waterclock.operations.retrying import blocked_by, plan_of_readers, troubled
from waterclock.operations.words import count_words
from waterclock.selection import Labels
from waterclock.timelabel.label import label_of


def retried(
    folder: Path,
    env: str | None,
    which: tuple[str | None, str | None],
    now: str | None,
    *,
    is_json: bool,
    is_run: bool,
    why: str = "",
) -> int:
    """Clear what failed, run it with what it blocked, and give the exit code."""
    to = console(stderr=is_json)
    with reading(folder, env, now) as at:
        cleared = troubled(at, *which)
        freed = blocked_by(plan_of_readers(at, cleared), cleared)
        if at.ledger is not None:
            for name, found in cleared.items():
                at.ledger.decisions.retry(name, sorted(found), who=RunSettings().who, why=why)
        project = at.project
    told = {name: [label_of(label) for label in sorted(found)] for name, found in cleared.items()}
    if not cleared or not is_run:
        if is_json:
            print_json({"cleared": told})
        else:
            count = sum(len(found) for found in cleared.values())
            to.print(f"{count_words(count, 'batch', 'batches')} due again" if count else "nothing failed there")
        return 0
    for name, texts in told.items():
        to.print(f"due again: {name}@{', '.join(texts[:5])}{', …' if len(texts) > 5 else ''}", style="quiet")
    both = {name: cleared.get(name, frozenset()) | freed.get(name, frozenset()) for name in {*cleared, *freed}}
    return carry_out(
        project,
        Asked(command="retry", only=tuple(sorted(both)), labels=_ranges(both), now=now, is_json=is_json),
    )


def _ranges(found: Mapping[str, frozenset[datetime]]) -> dict[str, Labels]:
    return {name: Labels.between(min(labels), max(labels)) for name, labels in found.items()}
