"""Updates a table's symlink manifest, by which other query engines read it, after each commit."""

from __future__ import annotations

from waterclock.engine.run_context import RunContext
from waterclock.engine.spark.errors import to_error
from waterclock.flow.declarations import Table
from waterclock.storage import symlink_manifests


def update_symlink_manifest(work: RunContext, table: Table) -> None:
    """Update the symlink manifest of a table that declares one. A failure is only reported: the next commit retries."""
    if table.manifest is None:
        return
    try:
        symlink_manifests.write_newest_manifests(work.folder(table))
    except Exception as raised:  # noqa: BLE001 - the rows are committed; the manifest is updated later
        cause = to_error(raised, where=table.name).what
        work.listener.on_message(
            f"{table.name}: its symlink manifest is out of date until the next commit or `waterclock maintain`: {cause}"
        )
