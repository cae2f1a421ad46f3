"""Keeps up what engines outside read of a table after each commit: its symlink manifest, where it declares one."""

from __future__ import annotations

from waterclock.engine.spark.errors import to_error
from waterclock.engine.workplace import Workplace
from waterclock.flow.declarations import Table
from waterclock.storage import symlinks


def keep_manifest(work: Workplace, table: Table) -> None:
    """Bring the manifest of a table to its newest version. What fails is told: the batch is committed, and stands.

    The next commit makes up for it, or `maintain`.
    """
    if table.manifest is None:
        return
    try:
        symlinks.follow(work.folder(table))
    except Exception as raised:  # noqa: BLE001 - the rows are committed; a manifest that is behind is mended later
        said = to_error(raised, where=table.name).what
        work.listener.said(f"{table.name}: its symlink manifest is behind till the next commit or `maintain`: {said}")
