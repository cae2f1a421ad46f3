"""Makes changed tables the branch's own: each starts with the rows that it has in the base, by links to its files."""

from __future__ import annotations

from waterclock.batches.former_names import folder_of, is_borrowed
from waterclock.engine.branching.branch_state import BranchState
from waterclock.engine.branching.table_changes import TableChanges
from waterclock.errors import WaterclockError
from waterclock.faults import fault
from waterclock.ledger.ledger import Ledger
from waterclock.storage.lake import Lake
from waterclock.storage.log.delta_log import find_log_fault, table_exists
from waterclock.storage.log.open_tables import forget_open_table
from waterclock.storage.mirrored_tables import mirror_table


def take_own_tables(ledger: Ledger, lake: Lake, state: BranchState, changes: TableChanges, *, who: str) -> Lake:
    """Make the changed tables of a branch its own. Return the storage with their folders.

    A table whose mirroring was interrupted is mirrored again. Raises E475 if the base lost its log, or made it anew.
    """
    records = {record.name: record for record in ledger.reads.tables()}
    for name in changes.own:
        record = records.get(name)
        if record is None or not is_borrowed(record.location):
            continue
        folder = f"{lake.root.rstrip('/')}/{folder_of(name)}"
        version, is_made = record.head_version, record.head_version >= 0 and table_exists(record.location)
        is_gone = is_made and find_log_fault(record.location, version) is not None
        if is_gone or (is_made and not mirror_table(record.location, folder, version, ledger.reads.unknown_claims)):
            raise WaterclockError(
                "E475",
                f"{state.base} no longer has the version of {name} that the branch {state.name} borrows",
                where=record.location,
                why=f"its log has no version {version}" + (", or one that was made anew" if is_gone else ""),
                fix=f"`waterclock branch delete {state.name}`, then create it again",
            )
        fault("branch table mirrored")
        forget_open_table(folder)
        ledger.maintenance.own_tables({name: folder_of(name)}, who=who)
        fault("branch table taken")
    return Lake(lake.root, folders=ledger.declared.former().folders)
