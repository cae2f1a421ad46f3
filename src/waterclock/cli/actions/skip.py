"""Skips batches, and records who skipped them and why."""

from __future__ import annotations

from pathlib import Path

from waterclock.cli.actions.confirm import confirm
from waterclock.cli.views.json import print_answer
from waterclock.cli.views.theme import console
from waterclock.engine.batch.given_up_batches import damaged_labels, give_up
from waterclock.engine.run_opening import apply_flow, open_workplace
from waterclock.operations.formatting import count_words, local_range
from waterclock.operations.project_opening import now_of, one_table, open_project
from waterclock.operations.required_reasons import need_reason
from waterclock.operations.skipping import find_other_windows, skip
from waterclock.planner.planning import Planner
from waterclock.selection import parse_labels


def skip_batches(
    folder: Path, env: str | None, which: tuple[str, str], why: str, now: str | None, *, yes: bool, is_json: bool
) -> None:
    """Show the selected batches, ask, and skip them. Done batches are skipped only if their slices are damaged.

    Raises E513 if no label is selected, E413 if one is done and not damaged, E903 for an empty reason.
    """
    need_reason(why)
    to = console(stderr=is_json)
    project = open_project(folder, env)
    name, labels = one_table(project.flow, which[0])
    table = project.flow.tables[name]
    with open_workplace(project) as work:
        at = now_of(now, project.flow, work.ledger)
        apply_flow(work, at)
        start = Planner(project.flow).starts(work.ledger.reads.snapshot(project.flow), at)[name]
        low, high = (labels or parse_labels(which[1])).limit_to(table, start, table.cadence.last_due(at))
        windows = list(table.cadence.windows(low, high))
        words = local_range(windows[0].start, windows[-1].start, table.cadence)
        lost = damaged_labels(work, table, [window.start for window in windows])
        rows = count_words(sum(piece.rows for piece in lost.values()), "row")
        if lost:
            to.print(
                f"{_count_batches(len(lost))} of {name} done before and damaged; skipping loses {rows}", soft_wrap=True
            )
        others = find_other_windows(project.flow, work.ledger, table, windows)
        for other, of_other in others.items():
            to.print(f"{_count_batches(len(of_other))} of {other}, which is made with it, too", soft_wrap=True)
        confirm(f"Skip {_count_batches(len(windows))} of {name} ({words})?", yes=yes)
        undamaged = [window for window in windows if window.start not in lost]
        collected_again = skip(work.ledger, table, undamaged, who=work.settings.who, why=why) if undamaged else ()
        if lost:
            give_up(work, table, list(lost), why=why)
        for other, of_other in others.items():
            skip(work.ledger, project.flow.tables[other], of_other, who=work.settings.who, why=why)
    if is_json:
        from waterclock.json_models.decisions import SkipAnswer

        skipped = [window.start for window in undamaged]
        starts = {other: [window.start for window in of_other] for other, of_other in others.items()}
        print_answer(SkipAnswer.build(table=name, skipped=skipped, given_up=list(lost), others=starts, why=why))
        return
    to.print(f"skipped: {_count_batches(len(windows))} of {name} ({words}): {why}", soft_wrap=True)
    if collected_again:
        words = local_range(min(collected_again), max(collected_again), table.cadence)
        to.print(f"the next run collects {words} again, for late rows within the skipped LOOKBACK", soft_wrap=True)
    if lost:
        to.print("the next run removes the damaged rows from the table, and its readers follow", soft_wrap=True)


def _count_batches(count: int) -> str:
    return count_words(count, "batch", "batches")
