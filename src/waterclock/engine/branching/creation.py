"""Creates branches. Nothing is written to the environment that a branch borrows from.

A branch starts with a copy of the other environment's ledger, in which each table has its absolute folder there. Its
file is written before anything else, so an interrupted creation can be repeated.
"""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

from waterclock.dpl.branch_settings import read_other_environments
from waterclock.dpl.config.branches import BRANCH_FILE, BRANCHES
from waterclock.dpl.project import Project
from waterclock.engine.branching.branch_places import (
    has_files_of_others,
    places_of,
    remove_contents,
    require_branch_name,
    require_empty_storage,
    require_no_linked_folder,
    require_own_storage,
)
from waterclock.engine.branching.branch_state import (
    BorrowedHead,
    BranchState,
    read_branch_state,
    write_branch_state,
)
from waterclock.engine.branching.deletion import remove_branch
from waterclock.engine.ledger_opening import ledger_url
from waterclock.engine.storage_access import reach_storage
from waterclock.errors import WaterclockError
from waterclock.faults import fault
from waterclock.files.filesystem import (
    entry_path,
    files_below,
    make_folder,
    remove_file,
    replace_text,
)
from waterclock.flow.enums import Kind
from waterclock.ledger.ledger import Ledger
from waterclock.ledger.store.locations import place_of
from waterclock.ledger.store.read_only import OlderSchema
from waterclock.storage.lake import Lake
from waterclock.storage.log.delta_log import table_exists
from waterclock.storage.log.table_heads import read_table_head

LEASE_DAYS = 7
"""The default lease: production keeps replaced files for at least so long (KEEP VERSIONS)."""
MOST_LEASE_DAYS = 36_500


def create_branch(project: Project, *, tick: datetime | None, now: datetime, days: int, who: str) -> BranchState:
    """Create a branch: copy the other environment's ledger as of one moment, and record what is borrowed.

    A killed creation starts over, and a failed one leaves nothing. `tick` defaults to the moment of the copy. Raises
    E412 if the other environment has no ledger, E402 if other code wrote it last, E471 if the branch exists, E476 for
    an unusable storage. Cost: a copy of the ledger's file, some 4 µs for each 4 kB, and a read of the newest log
    entries of each table. A ledger on a server is copied row by row, some 0.3 ms a batch.
    """
    base = project.base_project
    if base is None:
        raise WaterclockError(
            "E471",
            f"{project.env} is not a branch",
            where=f"[env.{project.env}]",
            why="the project file declares it without `from`",
            fix=f"give the branch another name: `waterclock branch create NAME --from {project.env}`",
        )
    known = read_branch_state(project)
    if known is not None and known.is_complete:
        raise WaterclockError(
            "E471",
            f"the branch {project.env} exists",
            where=project.storage,
            why=f"it was created on {known.created_at:%Y-%m-%d} from {known.base}",
            fix=f"`waterclock branch delete {project.env}` deletes it",
        )
    require_own_storage(project, read_other_environments(project.root, project.env), known)
    require_empty_storage(project)
    remove_contents(project)
    ends = now + timedelta(days=min(days, MOST_LEASE_DAYS))
    state = BranchState(project.env, base.env, tick or now, now, ends, places=places_of(project.base_projects))
    make_folder(entry_path(project.storage))
    try:
        write_branch_state(project, state)
        fault("branch begun")
        reach_storage(base)
        state = _copy_ledger(project, base, state, who)
        fault("branch ledger copied")
        place_of(ledger_url(project)).install_draft(now, replaces=False)
        fault("branch ledger installed")
        state = replace(state, is_complete=True)
        write_branch_state(project, state)
    except BaseException:
        with suppress(OSError, WaterclockError):  # the first error is the one to report
            remove_branch(project)
        raise
    fault("branch created")
    return state


def record_new_branch(root: Path, name: str, base: str) -> None:
    """Record the base of a branch that the project file does not declare. Raises E476 for an unusable name."""
    require_branch_name(name)
    require_no_linked_folder(root, name)
    folder = root / BRANCHES / name
    if has_files_of_others(folder):
        raise WaterclockError(
            "E476",
            f"{name} cannot use this storage as a branch",
            where=str(folder),
            why="it contains files, and deleting the branch would delete them",
            fix="use another name, or move these files",
        )
    make_folder(folder)
    replace_text(folder / BRANCH_FILE, json.dumps({"from": base}))
    fault("branch recorded")


def forget_new_branch(root: Path, name: str) -> None:
    """Remove the record of a branch that cannot be created, unless it has more than that."""
    if any(file.path != BRANCH_FILE for file in files_below(root / BRANCHES / name)):
        return
    remove_file(root / BRANCHES / name / BRANCH_FILE)
    for folder in (root / BRANCHES / name, root / BRANCHES):
        with suppress(OSError):  # it contains other files or branches
            folder.rmdir()


def _copy_ledger(project: Project, base: Project, state: BranchState, who: str) -> BranchState:
    """Copy the base's ledger into a draft of the branch's ledger. Return the state with what the branch borrows."""
    place = place_of(ledger_url(project))

    def copy(ledger: Ledger) -> BranchState:
        ledger.maintenance.require_not_moved()
        lake = Lake(base.storage, folders=ledger.declared.former().folders)
        url = place.empty_draft()
        is_copied = ledger.maintenance.copy_file(url)
        with Ledger.open(url) as draft:
            if not is_copied:
                draft.maintenance.load([ledger.maintenance.export_lines()])
            every = draft.reads.tables()
            records = [record for record in every if record.kind != Kind.PUBLISH]
            folders = {record.name: lake.folder(record.name) for record in records}
            draft.maintenance.start_branch(folders, who=who, base=base.env)
            fault("branch ledger read")
            declared = {record.name: draft.past.declared_code(record.name) for record in every}
            newest = {name: found for name, found in declared.items() if found is not None}
            heads = {record.name: record.head_version for record in records if record.head_version >= 0}
        return replace(
            state,
            codes={name: code for name, (code, _) in newest.items()},
            statements={name: statement for name, (_, statement) in newest.items()},
            heads={
                name: read_head(folders[name], version)
                for name, version in heads.items()
                if table_exists(folders[name])
            },
        )

    try:
        found = Ledger.query(ledger_url(base), copy)
    except OlderSchema as older:
        raise WaterclockError(
            "E402",
            f"the ledger of {base.env} was written by an older version",
            where=f"[env.{base.env}]",
            why=f"its schema is {older.found}, this version reads {older.known}",
            fix=f"`waterclock run --env {base.env}` with this version upgrades it",
        ) from older
    if found is None:
        raise WaterclockError(
            "E412",
            f"there is no ledger of {base.env} yet",
            where=f"[env.{base.env}]",
            why="nothing has run there",
            fix=f"`waterclock run --env {base.env}` makes the due batches",
        )
    return found


def read_head(folder: str, version: int) -> BorrowedHead:
    """Return a table's id and current columns, with the version that a branch reads."""
    found = read_table_head(folder)
    return BorrowedHead(version, found.identity, found.schema)
