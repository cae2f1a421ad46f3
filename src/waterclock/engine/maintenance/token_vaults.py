"""Finds and removes files of the vaults of tokens that no kept version of them needs, as `maintain` does for tables.

Replaced files are kept for 30 days, like those of a table without KEEP VERSIONS. An erasure removes them at once.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from waterclock.engine.maintenance.maintain import CountAndBytes, TableMaintenance, is_rebuilding, retention_hours
from waterclock.engine.maintenance.unneeded_slices import USUALLY_KEPT
from waterclock.engine.run_context import RunContext
from waterclock.engine.spark.errors import to_error
from waterclock.storage.file_maintenance import unneeded_files, vacuum
from waterclock.storage.lake import VAULT, vault_folder, vault_subjects
from waterclock.storage.log.delta_log import table_exists
from waterclock.storage.log.identity import Identity

_VACUUMED = "vacuum of tokens"


def find_vault_maintenance(work: RunContext, now: datetime) -> Iterator[TableMaintenance]:
    """Yield the maintenance that each vault needs at `now`. Its name is that of its folder in the storage."""
    for subject in vault_subjects(work.lake.root):
        folder = vault_folder(work.lake.root, subject)
        found = TableMaintenance(f"{VAULT}/{subject}", is_busy=_is_busy(work))
        if table_exists(folder) and not found.is_busy:
            files = unneeded_files(folder, _hours(work, now))
            found.unneeded = CountAndBytes(len(files), sum(file.size for file in files))
        yield found


def maintain_vault(work: RunContext, found: TableMaintenance, now: datetime) -> None:
    """Remove the files in `found`, unless a batch has begun meanwhile. Updates `found`."""
    found.is_busy = found.is_busy or _is_busy(work)
    if found.is_busy or not found.unneeded.count:
        return
    folder = vault_folder(work.lake.root, found.table.removeprefix(f"{VAULT}/"))
    try:
        vacuum(folder, _hours(work, now), Identity(work.flow.project, "", _VACUUMED, (), "", 0, ""))
    except Exception as raised:  # noqa: BLE001 - a failed step does not stop the others
        found.failed.append(f"removing unneeded files: {to_error(raised, where=found.table).what}")


def _is_busy(work: RunContext) -> bool:
    """Return whether a batch is open, which may read an older version, or a rebuild of all tables runs."""
    return bool(work.ledger.claims.open()) or is_rebuilding(work)


def _hours(work: RunContext, now: datetime) -> int:
    return retention_hours(work, USUALLY_KEPT.subtract_from(now, "UTC"))
