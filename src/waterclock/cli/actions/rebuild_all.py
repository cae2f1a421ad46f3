"""Shows the batches and the cost of a rebuild of all tables, asks, and runs it."""

from __future__ import annotations

import shutil
from pathlib import Path

from rich.text import Text

from waterclock.cli.actions.backfill import cost_words
from waterclock.cli.actions.confirm import confirm
from waterclock.cli.views.json import print_answer
from waterclock.cli.views.progress import Progress
from waterclock.cli.views.theme import console
from waterclock.engine.maintenance.rebuild_all import (
    RebuildAllResult,
    RebuildForecast,
    finish_killed_rebuild,
    forecast_rebuild,
    rebuild_all,
)
from waterclock.engine.run_opening import apply_flow, open_workplace
from waterclock.files.object_stores import is_remote
from waterclock.operations.formatting import bytes_words, count_words
from waterclock.operations.project_opening import open_project, zone_of


def run_rebuild_all(folder: Path, env: str | None, *, yes: bool, is_json: bool) -> None:
    """Show the cost, ask, rebuild every table, and apply the flow. Raises the errors of `rebuild_all`."""
    project = open_project(folder, env)
    to = console(stderr=is_json)
    progress = Progress(project.flow, zone_of(project.flow), to, is_quiet=is_json and not to.is_terminal)
    with open_workplace(project, listener=progress) as work:
        now = work.real_now()
        moved = finish_killed_rebuild(work)
        if moved:
            found = RebuildAllResult(moved, carried_on=True)
        else:
            forecast = forecast_rebuild(work, now)
            if not forecast.cost.batches and not forecast.cut.redeclared_collects:
                _report_rebuild(RebuildAllResult(()), is_json=is_json)
                return
            for line in _format_forecast(project.storage, forecast):
                to.print(Text(line), soft_wrap=True)
            confirm(
                f"Rebuild {count_words(len(forecast.cost.tables), 'table')}, and block all runs until then?", yes=yes
            )
            with progress.display():
                found = rebuild_all(work, now)
        apply_flow(work, now)
    _report_rebuild(found, is_json=is_json)


def _format_forecast(storage: str, forecast: RebuildForecast) -> list[str]:
    lines = [
        f"{name}: " + "; ".join(f"{what} {old or 'none'} → {new or 'none'}" for what, old, new in differs)
        for name, differs in forecast.cut.differing.items()
    ]
    lines += [f"{name}: {count_words(cost.batches, 'batch', 'batches')}" for name, cost in forecast.cost.tables.items()]
    room = "" if is_remote(storage) else f"; {bytes_words(shutil.disk_usage(storage).free)} are free"
    lines.append(f"estimate: {cost_words(forecast.cost)}; the new tables need {bytes_words(forecast.bytes)}{room}")
    return lines


def _report_rebuild(found: RebuildAllResult, *, is_json: bool) -> None:
    if is_json:
        from waterclock.json_models.maintenance import RebuildAllAnswer

        print_answer(RebuildAllAnswer.build(tables=[{"table": name} for name in found.tables], all=found))
        return
    out = console()
    if not found.tables:
        out.print("nothing to rebuild: nothing was collected yet")
    elif found.carried_on:
        out.print(f"moved in: {count_words(len(found.tables), 'table')} that a killed rebuild had made", soft_wrap=True)
    else:
        made = f"{count_words(found.batches, 'batch', 'batches')} of {count_words(found.rows, 'row')}"
        why = "as they are before START, or RETAIN has dropped their inputs"
        kept = f"; {count_words(found.kept, 'label')} stay, {why}" if found.kept else ""
        out.print(f"rebuilt and moved in: {count_words(len(found.tables), 'table')}, {made}{kept}", soft_wrap=True)
