"""Opens the resources of a run: ledger, lake, Spark sessions and connections of one project and environment."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from functools import partial

from waterclock.batches.ledger_snapshot import BEGINNING
from waterclock.dpl.project import Project
from waterclock.dpl.statement_texts import statement_texts
from waterclock.engine.branching.base_checks import require_borrowed_tables
from waterclock.engine.branching.branch_state import BranchState, require_branch
from waterclock.engine.collect.source_clocks import SourceClocks
from waterclock.engine.connections import connections_of
from waterclock.engine.earlier_starts import find_shortened_reads
from waterclock.engine.ledger_export import export_ledger, list_exports
from waterclock.engine.ledger_opening import lake_of, open_ledger, open_or_create_ledger
from waterclock.engine.run_context import RunContext
from waterclock.engine.run_listener import Listener
from waterclock.engine.run_settings import RunSettings
from waterclock.engine.spark.session import Sessions
from waterclock.engine.spark.settings import settings_of
from waterclock.engine.storage_access import reach_storage
from waterclock.errors import WaterclockError
from waterclock.files.filesystem import entry_path, make_folder
from waterclock.files.object_stores import is_remote
from waterclock.flow.declarations import Table
from waterclock.ledger.ledger import Ledger
from waterclock.planner.first_windows import has_own_start, starts_to_write
from waterclock.storage.lake import readable_by_queries, require_put_if_absent

_checked_storages: set[str] = set()


@contextmanager
def open_workplace(  # noqa: PLR0913 - all but one are given by name
    project: Project,
    *,
    settings: RunSettings | None = None,
    listener: Listener | None = None,
    sessions: Sessions | None = None,
    ledger: Ledger | None = None,
    is_question: bool = False,
    lasts: bool = False,
    tables: Collection[str] | None = None,
    is_branch_run: bool = False,
) -> Iterator[RunContext]:
    """Open a project's resources as a context manager, and close them at the end.

    Creates the storage folder and the ledger on the first run. A query (`is_question`) gets a ledger in memory instead.
    `sessions` given by the caller are left open. `ledger` is one that is being rebuilt. No JVM is started here; if the
    caller `lasts`, a JVM that starts later is set up to run for days. `tables` are those whose batches are made, by
    default all: Spark gets the credentials of their buckets, and a query those of the storage alone. A branch allows
    queries, and with `is_branch_run` the run that makes its own tables.

    Raises E470 for a branch that was not created, E472 if the command is not available in one, E475 if a borrowed table
    has changed, E421 if the ledger is missing from a storage that has tables, E422 if it is damaged.
    """
    state = _require_branch(project, is_allowed=is_question or is_branch_run) if project.bases else None
    reach_storage(project)
    ledger = (
        ledger or open_ledger(project) or (Ledger.open("sqlite://") if is_question else open_or_create_ledger(project))
    )
    if not is_question:
        for folder in (entry_path(project.storage), project.work_folder):
            make_folder(folder)
    if listener is not None:
        ledger.report_to(listener.on_message)
    own = sessions or (
        sessions_of_queries(project)
        if is_question
        else Sessions(work_folder=project.work_folder / "spark", settings=settings_of(project, tables), lasts=lasts)
    )
    try:
        lake = lake_of(project, ledger)
        if state is not None:
            pending = {was: now for now, was in ledger.declared.pending_renames().items()}
            renamed = {**ledger.declared.former().tables, **pending}
            require_borrowed_tables(state, {name: lake.location(renamed.get(name, name)) for name in state.heads})
        yield RunContext(
            project,
            ledger,
            lake,
            own,
            connections_of(project),
            settings or RunSettings(),
            listener or Listener(),
        )
    finally:
        ledger.close()
        if sessions is None:
            own.close()


def require_no_branch(project: Project) -> None:
    """Raise E472 if the project's environment is a branch, where few commands are available."""
    if project.bases:
        _require_branch(project, is_allowed=False)


def _require_branch(project: Project, *, is_allowed: bool) -> BranchState:
    """Return the state of a branch, and make the storages reachable that it borrows from."""
    state = require_branch(project)
    if not is_allowed:
        raise WaterclockError(
            "E472",
            f"{project.env} is a branch of {state.base}, where this command is not available",
            where=f"[env.{project.env}]",
            why="a branch only reads the tables of the other environment, and makes those whose code was changed",
            fix=f"use --env {state.base}; in the branch, use run, query, diff, plan and promote",
        )
    for base in project.base_projects:
        reach_storage(base)
    return state


def sessions_of_queries(project: Project, also: Project | None = None) -> Sessions:
    """Return sessions whose local Spark is confined to the storage's table folders (see `spark.confined_jvm`).

    With `also`, it can read the table folders of this other environment's storage, too. A branch can read those that it
    borrows from.
    """
    both = (project, *project.base_projects, *(() if also is None else (also, *also.base_projects)))
    storages = [each.storage for each in both if not is_remote(each.storage)]
    readable = [folder for storage in storages for folder in readable_by_queries(storage)]
    # separate from the folder of runs, whose processes import and read the files there
    folder = project.work_folder / "queries" / "files"
    return Sessions(work_folder=folder, settings=settings_of(project, (), also=also), readable=readable)


def apply_flow(work: RunContext, now: datetime) -> None:
    """Apply this project's flow, so that its batches may be claimed, and record the START of tables that declare none.

    Tests, once per process, that the storage can create a file only if it does not exist: claims rely on it.

    Raises:
        WaterclockError: E318 for an impossible rename, E602 if the storage has no conditional creation of files, E603
            if it cannot be written.
    """
    if work.lake.root not in _checked_storages:
        require_put_if_absent(work.lake.root)
        _checked_storages.add(work.lake.root)
    work.ledger.declared.apply(
        work.flow,
        who=work.settings.who,
        now=now,
        runner=work.settings.runner,
        statements=partial(statement_texts, work.flow, work.project.sources),
        reading_back=partial(_find_shortened_reads, work, now),
    )
    _follow_renames(work)
    undeclared = [table.name for table in work.flow.tables.values() if has_own_start(table) and not table.start]
    if undeclared:
        snapshot = work.ledger.reads.snapshot(work.flow, tables=undeclared)
        starts = starts_to_write(work.flow, snapshot, now, partial(_clock_of, SourceClocks(work, now)))
        work.ledger.declared.set_starts(starts, who=work.settings.who)


def _find_shortened_reads(work: RunContext, now: datetime) -> Mapping[str, Collection[datetime]]:
    work.ledger.declared.apply_pending_renames(work.flow)  # a renamed table is found by the names in the new flow
    return find_shortened_reads(work.ledger, work.flow, now)


def _follow_renames(work: RunContext) -> None:
    """Map renamed tables to their folders, and export the ledger if the exports still have the old names.

    Only the ledger knows the folder of a renamed table, so the export must not wait for `maintain`.
    """
    work.former = work.ledger.declared.former()
    work.lake = replace(work.lake, folders=work.former.folders)
    if not work.former.tables:
        return
    for name in {*work.former.tables, *work.former.tables.values()}:  # a new table may have taken an old name
        work.forget_schemas(name)
    moment = work.ledger.maintenance.moment()
    if not any(moment.continues(head) for _, head in list_exports(work.lake.root)):
        export_ledger(work.ledger, work.lake.root)


def _clock_of(clocks: SourceClocks, table: Table) -> datetime | None:
    """Return the time that a source has reached, or None if it reports none or fails. The run reports failures."""
    try:
        clock = clocks.clock_of(table)
    except Exception:  # noqa: BLE001 - its own batches report any error of the source
        return None
    return None if clock == BEGINNING else clock
