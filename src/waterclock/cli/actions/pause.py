"""Pauses tables or the whole project, and resumes them."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from rich.text import Text

from waterclock.batches.ledger_snapshot import LedgerSnapshot
from waterclock.cli.views.json import print_answer
from waterclock.cli.views.theme import console
from waterclock.engine.run_opening import apply_flow, open_workplace
from waterclock.engine.run_settings import RunSettings
from waterclock.ledger.ledger_errors import no_pause
from waterclock.operations.formatting import count_words
from waterclock.operations.pauses import names_words, paused_by_name, select_paused_tables
from waterclock.operations.project_opening import open_project, open_read_only
from waterclock.operations.required_reasons import need_reason_of_pause


def pause_tables(folder: Path, env: str | None, selection: list[str] | None, why: str, *, is_json: bool) -> None:
    """Pause the selected tables, or all if none are selected: no new batch is claimed. Works before the first run too.

    Raises E430 if all of these are paused already, E903 for an empty reason, E510 to E514 as `selection.select`.
    """
    need_reason_of_pause(why)
    project = open_project(folder, env)
    names = select_paused_tables(project.flow, selection)
    with open_workplace(project) as work:
        decisions, who = work.ledger.decisions, work.settings.who
        if names is None:
            decisions.pause_all(who=who, why=why)
            new: tuple[str, ...] = ()
        else:
            if not {record.name for record in work.ledger.reads.tables()}.issuperset(names):
                apply_flow(work, work.real_now())
            new = decisions.pause_tables(names, who=who, why=why)
        snapshot = work.ledger.reads.snapshot(project.flow)
    already = [name for name in names or () if name not in new]
    if is_json:
        from waterclock.json_models.decisions import PauseAnswer

        print_answer(PauseAnswer(all=names is None, tables=list(new), already=already, why=why))
        return
    to = console()
    to.print(f"paused: {'all' if names is None else ', '.join(new)}: {why}", soft_wrap=True)
    if already:
        to.print(f"paused already, with an earlier reason: {', '.join(already)}", soft_wrap=True)
    if running := _count_running(snapshot, project.flow.tables if names is None else new):
        to.print(f"{count_words(running, 'running batch finishes', 'running batches finish')}")
    which = "" if names is None else f" {' '.join(selection or ())}"
    to.print(Text(f"`waterclock resume{which}` ends the pause", style="quiet"), soft_wrap=True)


def resume_tables(folder: Path, env: str | None, selection: list[str] | None, why: str, *, is_json: bool) -> None:
    """Resume the selected tables, or end the pause of all. Raises E430 if none is paused, and E510 to E514."""
    with open_read_only(folder, env, None) as at:
        names = select_paused_tables(at.flow, selection)
        if at.ledger is None:
            raise no_pause("nothing is paused", why="there is no ledger yet: nothing has run, and nothing was paused")
        who, old = RunSettings().who, tuple[str, ...]()
        if names is None:
            at.ledger.decisions.resume_all(who=who, why=why)
        else:
            old = at.ledger.decisions.resume_tables(names, who=who, why=why)
        snapshot, zone = at.ledger.reads.snapshot(at.flow), at.zone
    still = [name for name in (old if names else at.flow.tables) if snapshot.pause_of(name)]
    if is_json:
        from waterclock.json_models.decisions import ResumeAnswer

        print_answer(ResumeAnswer(all=names is None, tables=list(old), still_paused=still, why=why))
        return
    to = console()
    to.print(f"resumed: {'all' if names is None else ', '.join(old)}", soft_wrap=True)
    for line in paused_by_name(snapshot, still, zone):
        to.print(line, soft_wrap=True)
    if snapshot.paused is not None:
        text = f"{snapshot.paused.words(zone)}; no batch of {names_words(old)} runs until `waterclock resume`"
        to.print(text, soft_wrap=True)


def _count_running(snapshot: LedgerSnapshot, names: Collection[str]) -> int:
    return sum(len(claim.labels) for name in names for claim in snapshot.of(name).open_claims)
