"""Which batches does `skip` leave out, and who is told?"""

from __future__ import annotations

from pathlib import Path

from waterclock.cli.answers import print_json
from waterclock.cli.asking import confirm
from waterclock.cli.labels import count_words, local_range
from waterclock.cli.look import console
from waterclock.cli.opening import now_of, one_table, open_project
from waterclock.engine.settings import RunSettings
from waterclock.errors import WaterclockError
from waterclock.ledger import Ledger
from waterclock.planner import Planner, starts_to_write
from waterclock.selection import parse_labels
from waterclock.timelabel import label_of


def skipped(
    folder: Path, env: str | None, which: tuple[str, str], why: str, now: str | None, *, yes: bool, is_json: bool
) -> None:
    """Show which batches are meant, ask, and leave them out.

    Raises  E513 where no label is meant, E413 where one is done, E903 for an empty reason
    """
    if not why.strip():
        raise WaterclockError(
            "E903", "a reason is needed", why="it is all that a reader finds of the rows", fix="--why '…'"
        )
    to = console(stderr=is_json)
    project = open_project(folder, env)
    name, behind = one_table(project.flow, which[0])
    table = project.flow.tables[name]
    ledger = Ledger.open(project.ledger)
    try:
        at = now_of(now, project.flow, ledger)
        settings = RunSettings()
        ledger.apply(project.flow, who=settings.who, now=at, runner=settings.runner)
        ledger.set_starts(starts_to_write(project.flow, ledger.snapshot(project.flow), at), who=settings.who)
        snapshot = ledger.snapshot(project.flow)
        start = Planner(project.flow).starts(snapshot, at)[name]
        low, high = (behind or parse_labels(which[1])).within(table, start, table.cadence.last_due(at))
        windows = list(table.cadence.windows(low, high))
        words = local_range(windows[0].start, windows[-1].start, table.cadence)
        confirm(f"Leave {count_words(len(windows), 'batch', 'batches')} of {name} out ({words})?", yes=yes)
        ledger.record_skipped(name, windows, who=settings.who, why=why)
    finally:
        ledger.close()
    if is_json:
        print_json({"table": name, "skipped": [label_of(window.start) for window in windows], "why": why})
    else:
        to.print(
            f"left out: {count_words(len(windows), 'batch', 'batches')} of {name} ({words}): {why}", soft_wrap=True
        )
