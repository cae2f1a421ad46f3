"""Makes the missing and stale batches that a query as of a tick reads, after the user has confirmed them."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

import typer
from rich.text import Text

from waterclock.batches.ledger_snapshot import FOLLOW
from waterclock.cli.actions.backfill import cost_words
from waterclock.cli.actions.confirm import confirm
from waterclock.cli.actions.run import RunOptions, run_and_report
from waterclock.cli.views.plan import print_plan
from waterclock.cli.views.theme import console
from waterclock.engine.query.query import list_queried_tables
from waterclock.engine.query.views import add_view_tables
from waterclock.engine.run_settings import RunSettings
from waterclock.operations.formatting import count_words
from waterclock.operations.project_opening import OpenedProject, open_read_only
from waterclock.planner.estimate import estimate
from waterclock.planner.open_windows import requested_open_labels
from waterclock.planner.prerequisites import Prerequisites, find_prerequisites, newest_tick
from waterclock.planner.query_ticks import read_tick
from waterclock.planner.request import PlanRequest
from waterclock.selection import Labels


def make_first(folder: Path, env: str | None, sql: str, tick: str, *, yes: bool) -> None:
    """Show the batches that a query needs and that are missing or stale, ask, and make them.

    Everything is printed on stderr, because stdout contains only the rows of the query. Exits with the run's code if a
    batch failed.
    """
    with open_read_only(folder, env, None) as at:
        asked = _confirm_run(at, list_queried_tables(at.flow, sql), tick, yes=yes)
        project = at.project
    if asked is not None and (code := run_and_report(project, asked)):
        raise typer.Exit(code)


def _confirm_run(at: OpenedProject, tables: Collection[str], tick: str, *, yes: bool) -> RunOptions | None:
    """Print the plan of the needed batches and ask. Return the options of their run, or None if none are needed."""
    if at.ledger is None or not tables:
        return None
    needed = _find_needed_batches(at, tables, tick)
    labels = {name: Labels.from_range(*span) for name, span in needed.spans.items()}
    asking = {(FOLLOW, name): of_table for name, of_table in needed.follow.items()}
    snapshot = at.ledger.reads.snapshot(at.flow, asking=asking | requested_open_labels(at.flow, needed.force))
    plan = at.planner.plan(snapshot, at.now, PlanRequest(only=labels, labels=labels, force=needed.force))
    count = len(plan.batches) + sum(plan.left_out.values())
    if not labels or not count:
        return None
    to = console(stderr=True)
    print_plan(to, plan, at.flow, at.zone, {})
    to.print()
    to.print(Text(f"estimate: {cost_words(estimate(plan, at.snapshot))}"))
    confirm(f"Make {count_words(count, 'batch', 'batches')}, then query?", yes=yes)
    for (verb, name), of_table in asking.items():
        at.ledger.decisions.request_restate(name, sorted(of_table), verb, who=RunSettings().who)
    return RunOptions(command="query", only=tuple(labels), labels=labels, force=needed.force, is_for_query=True)


def _find_needed_batches(at: OpenedProject, tables: Collection[str], text: str) -> Prerequisites:
    """Find the batches to make. Raises the errors of `read_tick`, and E521 for a future tick or one before any data."""
    ticks = at.planner.ticks(at.snapshot, at.now)
    if at.ledger is not None:
        ticks, tables = add_view_tables(at.flow, at.ledger, ticks, tables)
    tick = read_tick(text, at.flow, at.zone)
    if tick is None:
        tick = newest_tick(ticks, tables)
    else:
        ticks.find_missing_windows(tables, tick)
    return find_prerequisites(at.flow, ticks, tables, tick)
