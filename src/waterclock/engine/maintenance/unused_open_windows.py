"""Finds and removes tables of open windows that no table of the flow has: after a rename, or without CONTINUOUS."""

from __future__ import annotations

from waterclock.engine.maintenance.maintain import CountAndBytes, TableMaintenance
from waterclock.engine.run_context import RunContext
from waterclock.files.filesystem import entry_path, files_below, folders_in
from waterclock.flow.open_windows import OPEN, continuous_tables, open_table_of
from waterclock.storage.commit.speed_tables import is_open_windows_table, remove_open_windows

_TABLES = "tables"


def find_unused_open_windows(work: RunContext) -> list[TableMaintenance]:
    """Find folders `spd_<table>` that ticks of this project made, and that neither a table nor its ticks use now.

    Return none while another flow is applied, as its ticks may use them. Cost: a listing of the tables' folders, and a
    small file for each folder that is found.
    """
    applied = work.ledger.declared.applied_flow()
    if applied is None or applied.fingerprint != work.flow.fingerprint:
        return []
    lake, flow = work.lake, work.flow
    known = {record.name for record in work.ledger.reads.tables()}
    names = {*flow.tables, *known, *(open_table_of(table.name) for table in continuous_tables(flow))}
    used = {lake.folder(name) for name in names}
    found = []
    tables = entry_path(lake.root, _TABLES)
    for schema in sorted(folders_in(tables)):
        for name in sorted(each for each in folders_in(tables / schema) if each.startswith(OPEN)):
            folder = f"{lake.root.rstrip('/')}/{_TABLES}/{schema}/{name}"
            if folder not in used and is_open_windows_table(folder, flow.project):
                sizes = [file.size for file in files_below(entry_path(folder))]
                unneeded = CountAndBytes(len(sizes), sum(sizes))
                found.append(TableMaintenance(f"{schema}.{name}", unneeded=unneeded))
    return found


def remove_unused_open_windows(work: RunContext, found: TableMaintenance) -> None:
    """Remove a folder that `find_unused_open_windows` found, unless a flow that uses it was applied since."""
    if any(each.table == found.table for each in find_unused_open_windows(work)):
        schema, _, name = found.table.partition(".")
        remove_open_windows(f"{work.lake.root.rstrip('/')}/{_TABLES}/{schema}/{name}")
