"""Releases held batches: finds them, asks, commits the sealed slices, and prints the result."""

from __future__ import annotations

from pathlib import Path

from waterclock.cli.actions.confirm import confirm
from waterclock.cli.exit_codes import ExitCode
from waterclock.cli.views.json import print_answer
from waterclock.cli.views.theme import console
from waterclock.engine.batch.lifecycle import run_group
from waterclock.engine.batch.releasing import group_to_release
from waterclock.engine.lease_renewal import Heartbeat
from waterclock.engine.run_opening import apply_flow, open_workplace
from waterclock.operations.formatting import count_words, local_range
from waterclock.operations.held_batches import select_held_labels
from waterclock.operations.project_opening import open_read_only
from waterclock.operations.required_reasons import need_reason_of_release
from waterclock.timelabel.label import label_of


def release_batches(
    folder: Path, env: str | None, which: str, why: str, now: str | None, *, yes: bool, is_json: bool
) -> int:
    """Release held batches, oldest first, up to the first that cannot be released. Return the exit code.

    Raises E440 if no batch is held, E756 if a held batch cannot be released any more, E903 for an empty reason.
    """
    need_reason_of_release(why)
    to = console(stderr=is_json)
    with open_read_only(folder, env, now) as at:
        name, labels = select_held_labels(at, which)
        project, instant, table = at.project, at.now, at.flow.tables[name]
        for label in labels:
            to.print(at.snapshot.of(name).troubles[label].error, soft_wrap=True, markup=False, highlight=False)
    words = local_range(labels[0], labels[-1], table.cadence)
    count = count_words(len(labels), "held batch", "held batches")
    confirm(f"Release {count} of {name} ({words}) as sealed?", yes=yes)
    shown: list[str] = []
    rows = 0
    with open_workplace(project) as work:
        apply_flow(work, instant)
        with Heartbeat(work):  # a commit or a delivery may take longer than a lease
            for label in labels:
                report = run_group(work, group_to_release(work, table, label, instant, why), instant)
                if report.error is not None:
                    raise report.error
                shown.append(label_of(label))
                rows += report.rows
    if is_json:
        from waterclock.json_models.decisions import ReleaseAnswer

        print_answer(ReleaseAnswer(table=name, released=shown, rows=rows, why=why))
    else:
        to.print(f"released: {count} of {name} ({words}), {count_words(rows, 'row')}: {why}", soft_wrap=True)
        to.print("the next run makes the batches that waited for it", soft_wrap=True)
    return ExitCode.DONE
