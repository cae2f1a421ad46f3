"""Removes what still contains rows of persons once the current slices have none: older slices, versions and states."""

from __future__ import annotations

from datetime import timedelta

from waterclock.engine.erasing.search import TableSearch, stored_slices
from waterclock.engine.erasing.slices import hold_table
from waterclock.engine.maintenance.second_set import PLACE
from waterclock.engine.run_context import RunContext
from waterclock.engine.shared_rows import FOLDER as VIEWS
from waterclock.faults import fault
from waterclock.files.filesystem import entry_path, folders_in, remove_folder
from waterclock.flow.declarations import Table
from waterclock.flow.enums import Kind
from waterclock.storage.log.delta_log import table_exists
from waterclock.storage.log.purging import purge_files, purge_log
from waterclock.storage.slices.inventory import list_slice_folders, remove

# a file that no commit names may belong to a commit that is being prepared
_UNKNOWN_FILES_KEPT = timedelta(days=1)


def purge_table(work: RunContext, table: Table, found: TableSearch) -> dict[str, int]:
    """Remove the older slices of a table with rows of persons, its old versions and recomputed states.

    Incomplete files of claims that have ended are removed, too. Return how many of each were removed.
    """
    folder = work.folder(table)
    with hold_table(work, table):
        # a batch may have ended, or its rows may have been held, between the search and the pause
        needed = {piece.slice_path for piece in stored_slices(work, table)}
        held = set(work.ledger.reads.held_labels(table.name).items())
        older = [leaf for leaf in found.older if leaf.path not in needed and (leaf.label, leaf.claim) not in held]
        for leaf in older:
            remove(folder, leaf)
        fault("erase.slices_purged")
        ended = work.ledger.maintenance.known_claims(table.name)
        left = [leaf for leaf in list_slice_folders(folder) if not leaf.is_sealed and leaf.claim in ended]
        for leaf in left:
            remove(folder, leaf)
        removed = {"older slices": len(older), "rows in older slices": found.older_rows, "incomplete": len(left)}
        if table.kind is Kind.PUBLISH or not table_exists(folder):
            return removed
        files, unknown = purge_files(folder, work.real_now() - _UNKNOWN_FILES_KEPT)
        fault("erase.files_purged")
        commits = purge_log(folder, known=work.ledger.reads.table(table.name).head_version)
        fault("erase.log_purged")
        remove_folder(entry_path(work.lake.history(table.name)))
    return removed | {"files of old versions": files, "files of unknown commits": unknown, "files of the log": commits}


def purge_storage(work: RunContext) -> dict[str, int]:
    """Remove the rows of SHARED views of runners that are gone, and the files of a killed rebuild."""
    root = entry_path(work.lake.root)
    before = len(folders_in(root / VIEWS))
    work.shared.clear()
    rebuilt = len(folders_in(root / PLACE))
    remove_folder(root / PLACE)
    return {"folders of views": before - len(folders_in(root / VIEWS)), "folders of rebuilds": rebuilt}
